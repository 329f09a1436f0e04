#!/usr/bin/env python3
"""Which module of a crate imports which? Fails on circles beyond parent and child.

    docs/tools/imports.py --check                every crate, against CIRCLES below
    docs/tools/imports.py CRATE [FOLDER] [--dot] the graph of its modules, or of those of a folder

Idea: a folder of modules has an order, in which each module imports only from those below. Within
every module its direct children are compared, each with everything inside it: `abm` imports
`policy` if any file of `abm/` imports any of `policy/`. Between a module and its children imports
may go both ways. A name that a module re-exports belongs to the module that defines it, so `use
crate::ChunkId` is an import of `ids`. Tests are left out: they may import anything.

Not here: dependencies between crates (.ci/pure), methods called on a value from another module.
IMPORTS-1: no crate has a circle outside of CIRCLES. A new circle is broken by moving what both
sides need below them, or by splitting a module in two; CIRCLES lists only circles that have yet to
be broken.
"""

import argparse
import re
import sys
from pathlib import Path

# Circles that must go, by crate: (the module that contains them, the modules that take part).
CIRCLES = {
    "pg": [
        ("(root)", "casts dialect functions numbers operators output"),
        ("output", "cell nested"),
    ],
}

TOKEN = re.compile(r"""
    //[^\n]* | /\*.*?\*/                                 # comments
  | b?r(?P<hashes>\#*)".*?"(?P=hashes) | b?"(?:\\.|[^"\\])*" | b?'(?:\\.[^']*|[^'\\])'  # literals
  | [A-Za-z_]\w* | :: | \S
""", re.X | re.S)


class Module:
    """A file, or the part of one between the braces of `mod`."""

    def __init__(self, path):
        self.path = path  # Names from the root on, without the root.
        self.children = {}
        self.reexports = {}  # Name: path of the item that it stands for.
        self.globs = []
        self.items = set()
        self.imports = []  # Paths, as lists of names from the root on.

    def name(self):
        return "::".join(self.path) or "(root)"


def crates(root):
    """The src folders of all crates, by crate name."""
    folders = [*root.glob("crates/*"), *root.glob("lab/*")]
    return {at.name: at / "src" for at in sorted(folders) if (at / "Cargo.toml").exists()}


def load(src):
    """All modules of a crate, by path."""
    main = next((src / name for name in ("lib.rs", "main.rs") if (src / name).exists()), None)
    modules = {}
    if main:
        read(main, src, Module(()), modules)
    return modules


def read(file, folder, module, modules):
    """Reads a module from a file; `folder` has the files of its child modules."""
    tokens = [m.group() for m in TOKEN.finditer(file.read_text(encoding="utf-8"))]
    tokens = [t for t in tokens if not t.startswith(("//", "/*"))]
    parse(tokens, folder, module, modules)


def parse(tokens, folder, module, modules):
    modules[module.path] = module
    at, depth, tests = 0, 0, False
    while at < len(tokens):
        token = tokens[at]
        if token == "#" and tokens[at + 1:at + 2] in (["["], ["!"]):
            start = at + (1 if tokens[at + 1] == "[" else 2)
            end = closing(tokens, start)
            tests = tests or tokens[start:end + 1] == ["[", "cfg", "(", "test", ")", "]"]
            at = end + 1
            continue
        if tests and token not in ("pub",):
            at, tests = item_end(tokens, at), False
            continue
        if token == "mod" and depth == 0 and tokens[at + 2:at + 3] in ([";"], ["{"]):
            name = tokens[at + 1]
            child = Module((*module.path, name))
            module.children[name] = child
            if tokens[at + 2] == ";":
                inside = folder / name
                file = folder / f"{name}.rs" if (folder / f"{name}.rs").exists() else inside / "mod.rs"
                if file.exists():
                    read(file, inside, child, modules)
                at += 3
            else:
                end = closing(tokens, at + 2)
                parse(tokens[at + 3:end], folder / name, child, modules)
                at = end + 1
            continue
        if token == "use" and (at == 0 or tokens[at - 1] in (";", "}", "{", "]", ")", "pub")):
            end = tokens.index(";", at)
            public = depth == 0 and at > 0 and tokens[at - 1] in ("pub", ")")
            for path, name in leaves(tokens[at + 1:end]):
                path = absolute(path, module)
                if path is None:
                    continue
                module.imports.append(path)
                if name == "*":
                    module.globs.append(path)
                elif public or depth == 0:
                    module.reexports[name] = path
            at = end + 1
            continue
        if token in ("crate", "super") and tokens[at + 1:at + 2] == ["::"] and tokens[at - 1:at] != ["::"]:
            path, at = [token], at + 1
            while tokens[at:at + 1] == ["::"] and re.match(r"[A-Za-z_]", tokens[at + 1]):
                path.append(tokens[at + 1])
                at += 2
            path = absolute(path, module)
            if path:
                module.imports.append(path)
            continue
        if depth == 0 and token in ("struct", "enum", "fn", "trait", "type", "const", "static", "union"):
            module.items.add(tokens[at + 1])
        depth += (token in "{([") - (token in "})]")
        at += 1


def closing(tokens, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] in "{([") - (tokens[end] in "})]")
        if depth == 0:
            return end
    return len(tokens)


def item_end(tokens, at):
    """The index after the item that begins at `at`: after its semicolon or braces."""
    while at < len(tokens):
        if tokens[at] == ";":
            return at + 1
        if tokens[at] in "([{":
            brace = tokens[at] == "{"
            at = closing(tokens, at)
            if brace and tokens[at + 1:at + 2] != [";"]:
                return at + 1
        at += 1
    return at


def leaves(tokens):
    """(path, imported name) of each import of a tree."""
    prefix, at = [], 0
    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            end, start = closing(tokens, at), at + 1
            depth = 0
            for i in range(start, end + 1):
                if i == end or tokens[i] == "," and depth == 0:
                    if tokens[start:i]:
                        for path, name in leaves(tokens[start:i]):
                            yield prefix + path, name if path else prefix[-1]
                    start = i + 1
                else:
                    depth += (tokens[i] == "{") - (tokens[i] == "}")
            return
        if token == "as":
            yield prefix, tokens[at + 1]
            return
        if token == "*":
            yield prefix, "*"
            return
        if token == "self" and prefix == [] and len(tokens) == 1:
            yield [], ""
            return
        if token != "::":
            prefix.append(token)
        at += 1
    if prefix:
        yield prefix, prefix[-1]


def absolute(path, module):
    """The path from the root; None if it is in another crate."""
    here = list(module.path)
    if path[:1] == ["crate"]:
        return path[1:]
    if path[:1] == ["self"]:
        return here + path[1:]
    if path[:1] == ["super"]:
        while path[:1] == ["super"]:
            here, path = here[:-1], path[1:]
        return here + path
    # In a module that declares it, a module's name stands for itself.
    return here + path if path and path[0] in module.children else None


def owner(path, modules, seen=frozenset()):
    """The module that defines the item named by a path."""
    at = ()
    for n, name in enumerate(path):
        module = modules[at]
        if name in module.children:
            at = (*at, name)
            continue
        if name not in module.items and (at, name) not in seen:
            seen = seen | {(at, name)}
            if name in module.reexports:
                return owner(module.reexports[name] + list(path[n + 1:]), modules, seen)
            for glob in module.globs:
                found = owner(glob + list(path[n:]), modules, seen)
                if name in modules[found].items | set(modules[found].reexports):
                    return found
        return at
    return at


def arrows(modules):
    """(module, module) of each import, except imports of a module from itself."""
    found = set()
    for path, module in modules.items():
        found |= {(path, owner(target, modules)) for target in module.imports}
    return {(a, b) for a, b in found if a != b}


def inside(path, modules, found):
    """The children of a module: {name: names that it imports}."""
    graph = {name: set() for name in modules[path].children}
    depth = len(path)
    for a, b in found:
        below = a[:depth] == path and b[:depth] == path and len(a) > depth and len(b) > depth
        if below and a[depth] != b[depth] and a[depth] in graph and b[depth] in graph:
            graph[a[depth]].add(b[depth])
    return graph


def circles(graph):
    """The strongly connected sets of modules (Tarjan)."""
    index, low, stack, done = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                done.append(tuple(sorted(circle)))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(done)


def all_circles(modules):
    """(module, modules that take part) of every circle of a crate."""
    found = arrows(modules)
    return [(modules[path].name(), circle) for path in sorted(modules)
            for circle in circles(inside(path, modules, found))]


def compare(crate, found, allowed):
    """A line for each circle that is not in the list, and for each of the list that does not exist."""
    for at, circle in found:
        if (at, circle) not in allowed:
            yield f"{crate}: a circle in {at}: {' '.join(circle)}"
    for at, circle in allowed:
        if (at, circle) not in found:
            yield f"{crate}: no such circle in {at} any more, take it off CIRCLES: {' '.join(circle)}"


def check(root):
    allowed = {crate: [(at, tuple(sorted(who.split()))) for at, who in of] for crate, of in CIRCLES.items()}
    bad = [line for crate, src in crates(root).items()
           for line in compare(crate, all_circles(load(src)), allowed.get(crate, []))]
    bad += [f"{crate}: there is no such crate" for crate in allowed if crate not in crates(root)]
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


def draw(modules, path, dot):
    graph = inside(path, modules, arrows(modules))
    if dot:
        edges = [f'  "{a}" -> "{b}";' for a in sorted(graph) for b in sorted(graph[a])]
        return "\n".join(["digraph {", *(f'  "{a}";' for a in sorted(graph)), *edges, "}"])
    width = max(map(len, graph), default=0)
    return "\n".join(f"{a:{width}} -> {', '.join(sorted(graph[a])) or '(none)'}" for a in sorted(graph))


def main(root):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crate", nargs="?", help="a folder of crates/ or lab/")
    parser.add_argument("folder", nargs="?", default="", help="a module of it, as a/b")
    parser.add_argument("--dot", action="store_true", help="for Graphviz")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check(root)
    known = crates(root)
    if options.crate not in known:
        parser.error(f"which crate? One of {', '.join(known)}")
    modules = load(known[options.crate])
    path = tuple(name for name in options.folder.strip("/").split("/") if name)
    if path not in modules:
        parser.error(f"{options.crate} has no module {options.folder}")
    print(draw(modules, path, options.dot))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent.parent))
