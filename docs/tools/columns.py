#!/usr/bin/env python3
"""Does every line of prose end by column 100? Names file and line of each that does not.

    docs/tools/columns.py            all Markdown files and templates, and comments in Rust

Not here: tables, marks and code between fences, which cannot be wrapped, and the targets of links,
which do not count. Code in Rust is rustfmt's.
"""

import re
import subprocess
import sys
from pathlib import Path

WIDTH = 100
COMMENT = re.compile(r"^\s*//[/!]?(?!/)")
TRAILING = re.compile(r"[;,{})\]]\s+//(?![/!])")
TARGET = re.compile(r"\]\([^)\s]*\)|https?://\S+")


def main(root):
    bad = 0
    for name in subprocess.check_output(["git", "ls-files"], cwd=root, text=True).splitlines():
        finder = long_prose if name.endswith((".md", ".md.in")) else long_comments if name.endswith(".rs") else None
        if finder is None or not (root / name).exists():
            continue
        for line, width in finder((root / name).read_text(encoding="utf-8")):
            print(f"{name}:{line}: {width} columns, {WIDTH} at most")
            bad = 1
    return bad


def long_prose(text):
    """(line, columns) of each line that is too long."""
    fenced = False
    for at, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(("|", "<!--")) and columns(line) > WIDTH:
            yield at, columns(line)


def long_comments(text):
    """(line, columns) of each comment that is too long, also after code."""
    fenced = False
    for at, line in enumerate(text.splitlines(), 1):
        mark = COMMENT.match(line)
        if not mark:
            fenced = False
            if TRAILING.search(line) and columns(line) > WIDTH:
                yield at, columns(line)
            continue
        body = line[mark.end():].strip()
        if body.startswith("```"):
            fenced = not fenced
        elif not fenced and not body.startswith("|") and columns(line) > WIDTH:
            yield at, columns(line)


def columns(line):
    """Columns that count: the target of a link does not."""
    return len(TARGET.sub("]", line)) if len(line) > WIDTH else len(line)


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent.parent))
