#!/usr/bin/env python3
"""Is every invariant that is cited by number defined somewhere?

    docs/tools/invariants.py --check             prints file and line of each citation without a definition
    docs/tools/invariants.py                     lists all invariants, with the place that defines them

An invariant has its owner's prefix and a number: ABM-I1, FRAG-I5. It is defined once: in bold in a
page of docs/design (`**ABM-I1** a segment ...`), or, for what concerns one file alone, at the beginning of a
line of that file's header (`//! LOG-I1: what is ...`, in Python a line of the docstring). Where a page defines
a number, headers repeat it for the reader: the page is the definition.

Not covered yet: numbers without a prefix (I3, L1) outside of the folders in COVERED. These are the
smooth scan (docs/design/smooth.md), storage, engine, server, the pages about them, and docs/tools.
Shared numbers there are the core's (I1 to I8 are ABM-I1 to ABM-I8), or belong to a file, whose
header defines them.
INVARIANTS-1: a number is defined in one place. INVARIANTS-2: a citation has a definition.
INVARIANTS-3: in the folders of COVERED every number has a prefix.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

NUMBER = re.compile(r"(?<![\w-])([A-Z]{2,})-([A-Z]?\d+)(?![\w-])")
BARE = re.compile(r"(?<![\w-])[IL]\d{1,2}(?![\w-])")
# Words that look like the number of an invariant but are not: standards, scale factors,
# instruction sets.
OTHERS = {"AVX", "CRC", "CVE", "FS", "ISO", "MD", "RFC", "SF", "SHA", "UTC", "UTF"}
COVERED = ("crates/core/", "lab/sim/", "lab/study/", "docs/design/abm.md", "docs/design/chaos.md",
           "docs/design/simulator.md")
NOT_YET = ("crates/core/src/smooth/", "crates/core/src/parallelism/", "crates/core/tests/smooth.rs")
SEARCHED = (".rs", ".py", ".md", ".sh")
# History, and the made-up numbers of a tool's tests, neither define nor cite.
LEFT_OUT = ("docs/decisions/", "docs/results/", "docs/tools/test_", "CHANGELOG.md")


def main(root, check):
    texts = {name: (root / name).read_text(encoding="utf-8") for name in files(root)}
    places, wrong = definitions(texts)
    if not check:
        for number in sorted(places, key=order):
            print(f"{number:16} {places[number]}")
        return 0
    wrong += list(undefined(texts, places)) + list(bare(texts))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def files(root):
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True)
    return [name for name in listed.splitlines()
            if name.endswith(SEARCHED) and not name.startswith(LEFT_OUT) and (root / name).is_file()]


def definitions(texts):
    """({number: file}, a line for each that has two)."""
    pages, headers = defaultdict(list), defaultdict(list)
    for name, text in texts.items():
        if name.startswith("docs/design/"):
            for found in re.finditer(r"\*\*([A-Z]{2,}-[A-Z]?\d+)\*\*", text):
                pages[found[1]].append(name)
        else:
            for number in header_numbers(name, text):
                headers[number].append(name)
    wrong = [f"{number} is defined twice: {' '.join(names)}" for number, names in pages.items() if len(names) > 1]
    wrong += [f"{number} is defined in several headers and in no page: {' '.join(names)}"
              for number, names in headers.items() if len(names) > 1 and number not in pages]
    return {number: names[0] for number, names in {**headers, **pages}.items()}, wrong


def header_numbers(name, text):
    """The numbers that sentences of a file's header begin with."""
    if name.endswith(".rs"):
        lines = []
        for line in text.splitlines():
            if not line.startswith("//!"):
                break
            lines.append(line[3:].strip())
    elif name.endswith(".py"):
        found = re.match(r'(?:#![^\n]*\n)?"""(.*?)"""', text, re.S)
        lines = found[1].splitlines() if found else []
    else:
        return
    for line in lines:
        for found in re.finditer(r"(?:^|[.;] )([A-Z]{2,}-[A-Z]?\d+)(?=[: ])", line):
            if found[1].split("-")[0] not in OTHERS:
                yield found[1]


def undefined(texts, places):
    for name, text in texts.items():
        for at, line in enumerate(text.splitlines(), 1):
            for found in NUMBER.finditer(line):
                if found[1] not in OTHERS and found[0] not in places:
                    yield f"{name}:{at}: {found[0]} is defined nowhere"


def bare(texts):
    for name, text in texts.items():
        if not name.startswith(COVERED) or name.startswith(NOT_YET):
            continue
        for at, line in enumerate(text.splitlines(), 1):
            for found in BARE.finditer(line):
                yield f"{name}:{at}: {found[0]} has no owner's prefix"


def order(number):
    prefix, _, rest = number.partition("-")
    return prefix, rest.rstrip("0123456789"), int(re.search(r"\d+", rest)[0])


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent.parent, "--check" in sys.argv[1:]))
