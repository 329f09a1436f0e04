#!/usr/bin/env python3
"""Does every relative link in the documents lead somewhere, to a heading too?

Not here: links to other hosts, which need a network.
"""

import re
import subprocess
import sys
from pathlib import Path

from pages import anchor

LINK = re.compile(r"\]\(([^)\s]+)\)")
ELSEWHERE = ("http://", "https://", "mailto:")


def main(root):
    names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, text=True)
    bad = [wrong for name in names.splitlines() for wrong in broken(root, root / name)]
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


def broken(root, page):
    """A line for each link of the page that leads nowhere."""
    text = page.read_text(encoding="utf-8")
    for at, line in enumerate(prose(text), 1):
        for link in LINK.findall(line):
            if link.startswith(ELSEWHERE):
                continue
            path, _, heading = link.partition("#")
            target = (page.parent / path) if path else page
            if not target.exists():
                yield f"{page.relative_to(root)}:{at}: {link} is not there"
            elif heading and heading not in headings(target.read_text(encoding="utf-8")):
                yield f"{page.relative_to(root)}:{at}: {link}: no such heading"


def headings(text):
    return {anchor(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()))
            for line in prose(text) if line.startswith("#")}


def prose(text):
    """The lines, those between fences empty."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            line = ""
        yield "" if fenced else line


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent.parent))
