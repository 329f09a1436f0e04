#!/usr/bin/env python3
"""Does Coscan answer a few hundred stored statements as PostgreSQL 15 did?

    stored.py check --coscan PROGRAM                       needs Python's standard library only
    stored.py make --coscan PROGRAM [--postgres-at HOST:PORT:DATABASE] [--statements N] [--seed S]

`make` draws statements, keeps those that add a function, operator or clause, and writes them with
PostgreSQL's answers to stored/statements.json, and the tables to stored/tables. A statement that
Coscan answers differently is stored as `open`: `check` reports it without failing, and `check
--close` removes the mark from those that Coscan answers correctly.

S1: `check` fails if a statement that is not open differs.
"""

import argparse
import json
import os
import random
import shutil
import sys

import asking
import data
import servers
import tree
import wire
from generator import queries

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
TABLES, STATEMENTS = os.path.join(HERE, "tables"), os.path.join(HERE, "statements.json")
SCALE, TEXT_MAX, ROWS_MAX, ANSWER_BYTES_MAX, DRAWN_MAX = 0.2, 500, 12, 600, 40_000
SETTINGS = ("coscan.small_table_bytes = 0",)


# ---------------------------------------------------------------- as JSON


def written(one, reference, state):
    """A statement with PostgreSQL's answer."""
    return {
        "sql": one.text,
        **(
            {"parameters": [[hexed(p.value), p.form, p.oid] for p in one.parameters]}
            if one.parameters is not None
            else {}
        ),
        **{
            name: value
            for name, value in (
                ("binary", bool(one.result_format)),
                ("ordered", one.ordered),
                ("loose", one.loose),
                ("open", state),
            )
            if value
        },
        "types": [oid for _, oid, _ in reference.columns],
        "rows": [
            [hexed(cell) if one.result_format else cell if cell is None else cell.decode() for cell in row]
            for row in reference.rows
        ],
    }


def hexed(value):
    return None if value is None else value.hex()


def read(entry):
    """The statement to send, and PostgreSQL's answer."""
    form = wire.BINARY if entry.get("binary") else wire.TEXT
    parameters = entry.get("parameters")
    if parameters is not None:
        parameters = [
            wire.Parameter(None if value is None else bytes.fromhex(value), kind, oid)
            for value, kind, oid in parameters
        ]
    answer = wire.Answer()
    answer.columns = [("", oid, form) for oid in entry["types"]]
    answer.rows = [
        tuple(cell if cell is None else bytes.fromhex(cell) if form else cell.encode() for cell in row)
        for row in entry["rows"]
    ]
    return asking.Sent(entry["sql"], parameters, bool(entry.get("ordered")), bool(entry.get("loose")), form), answer


# ---------------------------------------------------------------- verbs


def answer_of(session, one):
    try:
        return asking.ask(session, one)
    except wire.Lost as lost:
        return lost


def opened(server):
    session = server.session(asking.COSCAN_TIMEOUT_S)
    for setting in SETTINGS:
        session.ask(f"set {setting}")
    return session


def check(options):
    with open(STATEMENTS, encoding="utf-8") as file:
        entries = json.load(file)
    names = sorted(os.listdir(TABLES))
    server = servers.coscan(options.coscan, TABLES, names, log=False)
    failed, still, closed = 0, 0, 0
    try:
        session = opened(server)
        for entry in entries:
            one, reference = read(entry)
            tested = answer_of(session, one)
            found = asking.compare(one, reference, tested)
            if isinstance(tested, wire.Lost):
                session = opened(server)
            still += bool(found and entry.get("open"))
            if not found and entry.get("open"):
                closed += 1
                entry.pop("open")
            if found and not entry.get("open"):
                failed += 1
                print(
                    f"{one.text}\n    is       {found.tested}\n    expected {found.reference}\n    ({found.kind}: {found.detail})"
                )
    finally:
        server.stop()
    if options.close:
        write(entries)
    print(
        f"{len(entries)} stored statements: {failed} differ; {still} of those stored as open still differ, {closed} do not"
    )
    return failed == 0


def write(entries):
    with open(STATEMENTS, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]\n")


def make(options):
    tables = data.tables(options.seed, SCALE)
    shutil.rmtree(TABLES, ignore_errors=True)
    data.write(TABLES, tables)
    reference = servers.addressed(options.postgres_at) if options.postgres_at else servers.postgres()
    tested = None
    try:
        session = reference.session()
        data.load(session, tables)
        tested = servers.coscan(options.coscan, TABLES, [table.name for table in tables], log=False)
        entries = drawn(options, tables, session, asking.Encoder(reference.session()), tested)
    finally:
        reference.stop()
        if tested:
            tested.stop()
    write(entries)
    print(f"{len(entries)} statements, {sum(1 for entry in entries if entry.get('open'))} open")
    return True


def drawn(options, tables, session, encoder, server):
    """Statements that each add something to the coverage."""
    draw = random.Random(options.seed)
    generator = queries.Generator(draw, tables)
    covered, entries, tested = set(), [], opened(server)
    session.ask(f"set statement_timeout = {asking.POSTGRES_TIMEOUT_MS}")
    for _ in range(DRAWN_MAX):
        statement = generator.statement()
        new = tree.tags(statement.root) - covered
        if not new:
            continue
        statement.again = False
        one = asking.sent(statement, encoder, draw.choice([wire.TEXT, wire.TEXT, wire.BINARY]))
        reference = asking.ask(session, one)
        size = sum(len(cell or b"") for row in reference.rows for cell in row)
        if (
            reference.failed
            or len(one.text) > TEXT_MAX
            or not 0 < len(reference.rows) <= ROWS_MAX
            or size > ANSWER_BYTES_MAX
        ):
            continue
        answer = answer_of(tested, one)
        if isinstance(answer, wire.Lost):
            tested = opened(server)
        found = asking.compare(one, reference, answer)
        if found and draw.random() > options.open_share:
            continue
        covered |= new
        entries.append(written(one, reference, found.kind if found else ""))
        if len(entries) >= options.statements:
            break
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["check", "make"])
    parser.add_argument("--coscan", required=True)
    parser.add_argument("--close", action="store_true", help="of `check`: remove the mark `open` from statements answered correctly")
    parser.add_argument("--postgres-at")
    parser.add_argument("--statements", type=int, default=400)
    parser.add_argument("--seed", type=int, default=45)
    parser.add_argument(
        "--open-share",
        type=float,
        default=0.1,
        help="this share of the statements that Coscan answers differently is stored as open",
    )
    options = parser.parse_args()
    sys.exit(not {"check": check, "make": make}[options.verb](options))


if __name__ == "__main__":
    main()
