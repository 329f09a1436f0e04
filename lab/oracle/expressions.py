#!/usr/bin/env python3
"""Does a server give the listed answers to a list of statements?

    expressions.py [FILE] (--coscan PROGRAM | --at HOST:PORT:DATABASE) [--differences-max N] [--quiet]

FILE (expressions.tsv) has a kind, a statement, and PostgreSQL's answer: rows separated by `; `,
columns by ` | `, or `error SQLSTATE message`. Prints the differences; the exit status is 1 if
there are more than N (0).

E1: texts are equal, except that a numeric may have other trailing zeros.
"""

import argparse
import decimal
import os
import shutil
import sys
import tempfile

import cells
import servers
import wire

HERE = os.path.dirname(os.path.abspath(__file__))


def entries(path):
    """(kind, statement, expected) of each line after the heading."""
    with open(path, encoding="utf-8") as file:
        next(file)
        return [tuple(line.rstrip("\n").split("\t")) for line in file if line.strip()]


def rendered(answer):
    """An answer in the list's format."""
    if answer.failed:
        return f"error {answer.state} {answer.message}"
    return "; ".join(
        " | ".join("NULL" if cell is None else cell.decode(errors="replace") for cell in row) for row in answer.rows
    )


def alike(expected, answer):
    """E1."""
    have = rendered(answer)
    if have == expected:
        return True
    if answer.failed or expected.startswith("error ") or cells.NUMERIC not in [oid for _, oid, _ in answer.columns]:
        return False
    rows = [[[number(cell) for cell in row.split(" | ")] for row in text.split("; ")] for text in (expected, have)]
    return rows[0] == rows[1]


def number(cell):
    try:
        return decimal.Decimal(cell)
    except decimal.InvalidOperation:
        return cell


def differences(session, listed):
    """(kind, statement, expected, answer) of each that differs; a lost session is a difference too."""
    for kind, statement, expected in listed:
        try:
            answer = session.ask(statement)
        except wire.Lost as lost:
            yield kind, statement, expected, f"lost: {lost}"
            return
        if not alike(expected, answer):
            yield kind, statement, expected, rendered(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", default=os.path.join(HERE, "expressions.tsv"))
    parser.add_argument("--coscan", help="the program to start")
    parser.add_argument("--at", help="a running server")
    parser.add_argument("--differences-max", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="print the counts only")
    options = parser.parse_args()
    listed = entries(options.file)
    folder = tempfile.mkdtemp(prefix="oracle-expressions")
    server = servers.addressed(options.at) if options.at else servers.coscan(options.coscan, folder, [])
    try:
        found = list(differences(server.session(), listed))
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for kind, statement, expected, have in [] if options.quiet else found:
        print(f"{kind}\t{statement}\n    is       {have}\n    expected {expected}")
    print(f"{len(found)} of {len(listed)} statements differ, {options.differences_max} may")
    sys.exit(len(found) > options.differences_max)


if __name__ == "__main__":
    main()
