"""Shrinks a statement that shows a difference to a minimal one that still shows it.

Greedy: takes the first smaller tree that still shows the difference and starts over, until no
candidate does, or `TRIES_MAX` or `SECONDS_MAX` are spent. Candidates that are not valid SQL fail
in both systems, and so drop out.
R1: a statement never grows: `cost` falls with each step.
R2: a total order stays total: nothing below a frozen node is replaced, wherever else it occurs.
"""

import dataclasses
import time

import tree
from generator import pools

TRIES_MAX = 600
SECONDS_MAX = 40  # per reduction: a statement that hangs is then shown as it is
SIMPLE = {
    "bool": "true",
    "text": "a",
    "bytea": "\\x61",
    "date": "2024-01-01",
    "time": "12:00:00",
    "timestamp": "2024-01-01 12:00:00",
    "timestamptz": "2024-01-01 12:00:00+00",
    "interval": "1 day",
    "numeric": "1.5",
    "int4[]": "{1}",
    "text[]": "{a}",
}


def reduce(root, shows, tries_max=TRIES_MAX):
    """The smallest tree found for which `shows(tree)` holds, as it does for `root`."""
    tries, until = 0, time.monotonic() + SECONDS_MAX
    progress = True
    while progress:
        progress = False
        for candidate in candidates(root):
            if cost(candidate) >= cost(root):
                continue
            tries += 1
            if tries > tries_max or time.monotonic() > until:
                return root
            if shows(candidate):
                root, progress = candidate, True
                break
    return root


def cost(root):
    """The number of nodes, then the plainness of the literals, then the length of the text."""
    weight = 0
    for node in root.walk():
        weight += 10
        weight += {"column": 8, "query": 5, "setop": 5}.get(node.kind, 0)
        if node.kind == "literal":
            weight += 0 if node.form == "plain" else 3 if node.form == "cast" else 6
            weight += (
                0
                if node.value is not None and node.value == SIMPLE.get(node.type, "1")
                else 1 if node.value is None else 2
            )
        if node.tail:
            weight += (
                5
                + bool(node.tail.turn)
                + 5 * bool(node.tail.limit)
                + 5 * bool(node.tail.offset)
                + len("".join(node.tail.suffixes)) / 10
            )
    return weight + len(tree.text(root)) / 1000


def candidates(root):
    """Smaller trees, the largest reductions first."""
    nodes = list(root.walk())
    if root.kind == "query" and root.parts[1].kind == "setop":
        yield from (
            root.with_parts((root.parts[0], unwrapped(side), *root.parts[2:]))
            for side in (root.parts[1].parts[0], root.parts[1].parts[2])
        )
    yield from plain_parameters(root, nodes)
    yield from hoisted(root, nodes)
    kept = {id(inner) for node in nodes if node.kind == "frozen" for inner in node.walk()}
    for node in nodes:
        for replacement in smaller(node) if id(node) not in kept else ():
            yield tree.substitute(root, node, replacement)


def unwrapped(side):
    return side.nodes()[0] if side.kind == "fixed" else side


def plain_parameters(root, nodes):
    """The statement with all parameters as literals, which shows whether they matter."""
    made = root
    for node in nodes:
        if node.kind == "literal" and node.form not in ("plain", "cast"):
            made = tree.substitute(made, node, dataclasses.replace(node, form="cast"))
    if made is not root:
        yield made


def smaller(node):
    if node.kind == "option":
        yield tree.EMPTY
    elif node.kind == "list":
        yield from shorter(node)
    elif node.kind == "query":
        yield from plainer_tail(node)
        if node.parts[0] is not tree.EMPTY:
            yield node.with_parts((tree.EMPTY, *node.parts[1:]))
        yield from (inner for inner in below(node) if inner.kind == "query" and tree.width(inner) == tree.width(node))
    elif node.kind == "setop":
        yield from (unwrapped(side) for side in (node.parts[0], node.parts[2]))
        yield from narrower(node)
    elif node.kind in ("expr", "column", "literal"):
        yield from simpler(node)


def below(node):
    found = node.walk()
    next(found)
    return found


def shorter(node):
    count = len(node.parts)
    if count > 3:
        half = count // 2
        yield node.with_parts(node.parts[:half])
        yield node.with_parts(node.parts[half:])
    for number in range(count):
        if count - 1 >= node.least:
            yield node.with_parts(node.parts[:number] + node.parts[number + 1 :])


def plainer_tail(node):
    if node.tail is None:
        return
    yield dataclasses.replace(node, tail=None)
    for change in ({"limit": ""}, {"offset": ""}, {"suffixes": ("",)}, {"turn": 0}):
        changed = dataclasses.replace(node.tail, **change)
        if changed != node.tail:
            yield dataclasses.replace(node, tail=changed)


def narrower(setop):
    """The set operation without its n-th column."""
    for number in range(tree.width(setop) if tree.width(setop) > 1 else 0):
        yield without_column(setop, number)


def without_column(node, number):
    if node.kind == "setop":
        return node.with_parts(
            (without_column(node.parts[0], number), node.parts[1], without_column(node.parts[2], number))
        )
    if node.kind == "select":
        items = next(part for part in node.nodes() if part.kind == "list")
        kept = items.with_parts(items.parts[:number] + items.parts[number + 1 :])
        return node.with_parts([kept if part is items else part for part in node.parts])
    return node.with_parts(
        [without_column(part, number) if isinstance(part, tree.Node) else part for part in node.parts]
    )


def simpler(node):
    """Replacements of the same type: a literal, a column, an expression from below."""
    plain = SIMPLE.get(node.type, "1")
    if node.kind != "literal" and node.type in (*SIMPLE, *pools.TAME):
        yield tree.literal(node.type, plain if node.type in SIMPLE else pools.TAME[node.type][0])
    if node.kind == "expr":
        yield from (
            inner for inner in below(node) if inner.type == node.type and inner.kind in ("expr", "column", "literal")
        )
        yield tree.literal(node.type, None, "cast")
    if node.kind == "literal":
        for form in ("plain", "cast"):
            if node.form != form:
                yield dataclasses.replace(node, form=form)
        for value in (plain, pools.TAME.get(node.type, ["1"])[0]):
            if node.value != value:
                yield dataclasses.replace(node, value=value)
                yield dataclasses.replace(node, value=value, form="plain")


def hoisted(root, nodes):
    """The statement as one expression of its own: SELECT of a subexpression, or a subquery alone."""
    for node in nodes:
        if node.kind == "query" and node is not root:
            yield node
        if node.kind == "expr" and not any(inner.kind == "column" for inner in node.walk()):
            select = tree.Node("select", ("SELECT ", tree.listed([tree.fixed(node)])))
            yield tree.Node("query", (tree.EMPTY, select))
