"""Where is each change of the code made, and how are all of them in one copy of the tree?

Idea: a change replaces one expression of a file. In the copy of the tree a number in the
environment chooses the expression, so that one build has all changes of a list and a run has one of
them, or none.
Not here: which claims a change makes fail (mutate_study.py, mutate_bench.py).

A list is a file of changes (lab/study/mutations/changes.toml, lab/bench/mutations/changes.toml). A
change's number is its place in the list, from 1. A program that was built from another list refuses
the number, because it would make another change or none.
An expression must be evaluated at run time: not a constant's value, a pattern or a type.
The program of a copy says with --version of which commit the tree was.
MUTATE-1: a change applies at exactly one place, and changes that overlap replace the same
expression.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pages

ROOT = pages.DOCS.parent
# Where the copies and their target folders are.
FOLDER = Path(os.environ.get("COSCAN_MUTANTS", Path.home() / ".cache/coscan/mutants"))
# Where a change's expression begins and ends.
MARKS = re.compile("«(.*?)»", re.DOTALL)
# The crates with changes, by folder, and how each names the crate with `is_mutant`.
CORE = "crates/core/"
SWITCH = {CORE: "crate", **dict.fromkeys(("crates/storage/", "crates/engine/", "lab/sim/", "lab/study/", "lab/bench/"), "coscan_core")}
SWITCH_CODE = """
/// Whether this change is made.
#[doc(hidden)]
pub fn is_mutant(number: u32) -> bool {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || {
        let text = std::env::var("COSCAN_MUTANT").unwrap_or_default();
        let of_list = text.strip_prefix("LIST:").map(str::parse::<u32>);
        match of_list {
            Some(Ok(chosen)) => chosen,
            _ if text.is_empty() => 0,
            _ => panic!("this program has the changes LIST and does not know {text:?}"),
        }
    };
    *NUMBER.get_or_init(chosen) == number
}
"""
# What makes the program of a copy say its commit.
VERSION_FILE, VERSION = "crates/cli/src/main.rs", "#[command(version, "
VERSION_CODE = '#[command(version, long_version = concat!(env!("CARGO_PKG_VERSION"), "\\ncommit COMMIT"), '
SAYS_COMMIT = re.compile(r"^commit (\S+)$", re.MULTILINE)
# The files that a program is made from; a difference from the commit is said.
SOURCES = ("*.rs", "*.toml", "Cargo.lock")


def title(change):
    """The change in a line: the name of its file, and its words."""
    return f"{Path(change['file']).name}: {change['says']}"


def read_changes(root, file, needed, known):
    """The changes of a list; each must have the keys `needed`, and may have those of `known`."""
    changes = tomllib.loads((root / file).read_text(encoding="utf-8"))["change"]
    for change in changes:
        if set(change) - known or needed - set(change):
            raise SystemExit(f"{file}: the keys of {change.get('says')} are {sorted(change)}; known are {sorted(known)}")
    return changes


def misplaced(changes, root, file):
    """A line for each change that does not apply at exactly one place."""
    titles = [title(change) for change in changes]
    yield from (f"{file}: two changes are called {one}" for one in sorted({one for one in titles if titles.count(one) > 1}))
    for change in changes:
        if len(MARKS.findall(change["from"])) != 1:
            yield f"MUTATE-1: {title(change)} must mark one expression of `from` with « and »"
            continue
        path = root / change["file"]
        times = path.read_text(encoding="utf-8").count(unmarked(change)) if path.exists() else 0
        if times != 1:
            yield f"MUTATE-1: {title(change)} applies at {times} places: mend {file}, and run docs/tools/mutate.py '{change['says']}'"


def unmarked(change):
    return MARKS.sub(r"\1", change["from"])


def list_name(changes):
    """A name of the list that another list does not have."""
    text = repr([(change["file"], change["from"], change["to"]) for change in changes])
    return "mutants-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def environment(changes, number):
    """The environment in which a program of these changes has one of them; 0: none."""
    return {**os.environ, "COSCAN_MUTANT": f"{list_name(changes)}:{number}"}


def switched(name, code, changes):
    """A file's code in which a number in the environment chooses the expressions of the changes."""
    crate = next(call for folder, call in SWITCH.items() if name.startswith(folder))
    places = {}
    for number, change in enumerate(changes, 1):
        if change["file"] == name:
            start = code.index(unmarked(change)) + change["from"].index("«")
            end = start + len(MARKS.search(change["from"]).group(1))
            places.setdefault((start, end), []).append((number, change["to"]))
    last = len(code)
    for (start, end), ways in sorted(places.items(), reverse=True):
        if end > last:
            raise SystemExit(f"MUTATE-1: changes of {name} overlap at {code[start:end]!r}")
        chosen = "".join(f"if {crate}::is_mutant({number}) {{ {to} }} else " for number, to in ways)
        code = f"{code[:start]}({chosen}{{ {code[start:end]} }}){code[end:]}"
        last = start
    return code + (SWITCH_CODE.replace("LIST", list_name(changes)) if name == f"{CORE}src/lib.rs" else "")


def tree_commit():
    """The commit of the tree; `-dirty` is added if sources differ from it."""
    git = lambda *words: subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()
    return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", *SOURCES) else "")


def versioned(code, commit):
    """The code of `VERSION_FILE` with which the program says its commit."""
    if code.count(VERSION) != 1:
        raise SystemExit(f"{VERSION_FILE} has not {VERSION!r} once: mend VERSION in docs/tools/mutations.py")
    return code.replace(VERSION, VERSION_CODE.replace("COMMIT", commit))


def said_commit(program):
    """The commit that a program says it is of; None if it says none."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = SAYS_COMMIT.search(said.stdout)
    return found and found.group(1)


def copy_tree(to, changes):
    """Makes `to` a copy of the tree that has all changes."""
    outside = sorted({change["file"] for change in changes if not change["file"].startswith(tuple(SWITCH))})
    if outside:
        raise SystemExit(f"no crate of SWITCH in docs/tools/mutations.py has {', '.join(outside)}")
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
    wanted, commit = {name for name in listed if (ROOT / name).is_file()}, tree_commit()
    for name in {str(path.relative_to(to)) for path in to.rglob("*") if path.is_file()} - wanted:
        (to / name).unlink()
    for name in wanted:
        content, copy = (ROOT / name).read_bytes(), to / name
        if name.endswith(".rs") and name.startswith(tuple(SWITCH)):
            content = switched(name, content.decode(), changes).encode()
        if name == VERSION_FILE:
            content = versioned(content.decode(), commit).encode()
        # A file that is alike keeps its time, so that cargo does not build it again.
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            shutil.copymode(ROOT / name, copy)


def build(tree, target, command, **more):
    """Runs cargo in a copy. `more` is added to the environment."""
    inside = {**os.environ, "CARGO_TARGET_DIR": str(target), **more}
    built = subprocess.run(command, cwd=tree, env=inside, stderr=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise SystemExit(built.stderr)
