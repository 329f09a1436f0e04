#!/usr/bin/env python3
"""What does each of many sessions get, and when?

    sessions.py --dsn DSN --statements FILE --sessions 32 --seconds 600 --seed 1 --out FILE

Idea: a thread for each session asks statement after statement, in an order of its own, and
compares every answer with the one that one process gave (`answers_of`). It is a process of its
own (`Clients`), because the one that starts and kills workers must not have threads beside it
(workers.py).
The statements' file has for each name `sql` and `rows`, null where an answer is not compared; the
records go to `--out`, a list of
`{session, name, start, end, rows, error, sqlstate, closed, wrong}`. Times are the system's
monotonic clock, which other processes read too; `rows` are those that came before the end or the
error.

CL4: values are compared as the server's own text. Rows are compared as multisets: exactly, or with
     compare.py's tolerance for numbers where the statement has an avg.
CL5: every session is recorded: one that still waits `HANG_S` after the end has a record without
     `end`.
Not here: which failures are allowed (kills.py).
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import report
import shared
import arena
import compare

try:
    import psycopg
    from psycopg.types.string import TextLoader
    Failure = psycopg.Error
except ImportError:  # the tests need no driver, figure.py refuses to run without one
    psycopg, Failure = None, OSError

HANG_S = 120.0  # beyond it a query hangs
END_S = 30.0  # from the sessions' own limit until they are killed
PAUSE_S = 0.5  # after a connection that failed
AVERAGE = re.compile(r"\bavg\s*\(", re.IGNORECASE)


# ---------------------------------------------------------------- answers

def connect(dsn):
    """A connection whose values are the server's text (CL4), and that prepares no statement."""
    connection = psycopg.connect(dsn, autocommit=True, connect_timeout=10,
                                 prepare_threshold=None)
    for kind in psycopg.adapters.types:
        connection.adapters.register_loader(kind.oid, TextLoader)
    return connection


def in_order(rows):
    """The rows of an answer, in an order that does not depend on the server."""
    return sorted((list(row) for row in rows),
                  key=lambda row: [(value is not None, value or "") for value in row])


def ask(connection, sql, rows=None):
    """The rows of a statement in order. `rows` gets each as it comes, also before an error."""
    rows = [] if rows is None else rows
    with connection.cursor() as cursor:
        for row in cursor.stream(sql):
            rows.append(row)
    return in_order(rows)


def answers_of(dsn, texts):
    """Name -> {sql, rows}: what this server answers."""
    with connect(dsn) as connection:
        return {name: {"sql": sql, "rows": ask(connection, sql)} for name, sql in texts.items()}


def difference(sql, expected, rows):
    """The first difference of an answer; None if there is none (CL4)."""
    if AVERAGE.search(sql):
        return compare.rows_differ(expected, rows)
    if len(expected) != len(rows):
        return f"{len(rows)} rows instead of {len(expected)}"
    for right, row in zip(expected, rows):
        if right != row:
            return f"{row} instead of {right}"
    return None


# ---------------------------------------------------------------- sessions

class Session(threading.Thread):
    """One client. `record` is the statement that it asks now, `done` are those before."""

    def __init__(self, number, args, statements):
        super().__init__(daemon=True)
        self.number, self.dsn, self.statements = number, args.dsn, statements
        self.draw = random.Random(f"{args.seed}/{number}")
        self.ended = args.ended
        self.record, self.done, self.connection = None, [], None

    def run(self):
        while True:
            names = sorted(self.statements)
            self.draw.shuffle(names)
            for name in names:
                if self.ended.is_set():
                    return
                self.turn(name)

    def turn(self, name):
        record = {"session": self.number, "name": name, "start": time.monotonic(), "rows": 0,
                  "error": None, "sqlstate": None, "closed": False, "wrong": None}
        self.record, rows, statement = record, [], self.statements[name]
        try:
            if self.connection is None:
                self.connection = connect(self.dsn)
            found = ask(self.connection, statement["sql"], rows)
            if statement["rows"] is not None:
                record["wrong"] = difference(statement["sql"], statement["rows"], found)
        except Exception as error:  # whatever the driver raises is what a client gets
            record["error"] = f"{type(error).__name__}: {error}".strip()
            record["sqlstate"] = getattr(error, "sqlstate", None)
        record["closed"] = self.connection is None or self.connection.closed
        record.update(rows=len(rows), end=time.monotonic())
        self.done.append(record)
        self.record = None
        if record["closed"]:
            self.connection = None
            time.sleep(PAUSE_S)

    def records(self):
        """CL5."""
        waits = self.record
        return self.done + ([dict(waits)] if waits else [])


def run(args, statements):
    """Runs the sessions for `args.seconds`, or until SIGINT."""
    args.ended = threading.Event()
    sessions = [Session(number, args, statements) for number in range(args.sessions)]
    for session in sessions:
        session.start()
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(args.seconds)
    args.ended.set()
    deadline = time.monotonic() + HANG_S
    for session in sessions:
        session.join(max(0.0, deadline - time.monotonic()))
    return [record for session in sessions for record in session.records()]


# ---------------------------------------------------------------- beside the lab

class Clients:
    """Sessions in a process beside the lab's. A context manager, which ends them."""

    def __init__(self, folder, name, dsn, statements, count, seconds, seed):
        self.dsn, self.statements, self.count = dsn, statements, count
        self.seconds, self.seed, self.child = seconds, seed, None
        self.asked = os.path.join(folder, f"{name}-statements.json")
        self.found = os.path.join(folder, f"{name}-records.json")

    def command(self):
        return [sys.executable, os.path.join(shared.HERE, "sessions.py"), "--dsn", self.dsn,
                "--statements", self.asked, "--sessions", str(self.count),
                "--seconds", str(self.seconds), "--seed", str(self.seed), "--out", self.found]

    def __enter__(self):
        report.write(self.asked, self.statements)
        # The kernel ends it with this process.
        self.child = subprocess.Popen(self.command(), preexec_fn=arena.enter([]))
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()

    def have_ended(self):
        return self.child.poll() is not None

    def end(self):
        """Lets each session end after the statement that it asks now."""
        self.child.send_signal(signal.SIGINT)

    def records(self):
        """What the sessions got, once they have ended."""
        try:
            self.child.wait(self.seconds + HANG_S + END_S)
        except subprocess.TimeoutExpired as error:
            raise arena.ArenaError("the sessions do not end") from error
        if self.child.returncode:
            raise arena.ArenaError(f"the sessions ended with {self.child.returncode}")
        return report.read(self.found)


def main(argv):
    parser = argparse.ArgumentParser(description="Ask a server from many sessions.")
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--statements", required=True)
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    args = parser.parse_args(argv)
    with open(args.statements, encoding="utf-8") as file:
        statements = json.load(file)
    records = run(args, statements)
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump(records, file)
    sys.stdout.flush()
    os._exit(0)  # a session that hangs must not hold the process


if __name__ == "__main__":
    main(sys.argv[1:])
