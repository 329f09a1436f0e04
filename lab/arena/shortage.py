#!/usr/bin/env python3
"""Do joins that start together complete if memory cannot hold all their hash tables?

    shortage.py --data FOLDER-WITH-orders-and-lineitem [--coscan BINARY] [--joins 12] [--memory 80MB,120MB]
                [--rounds 3] [--json OUT]

Idea: all joins start at once, each over other rows of orders, so that no two need the same hash
table. Each engine has the same memory by its own setting. The rows distinguish an answer from a
refusal, and must be the same from all engines.

B1: the engines' rows agree. The exit status is 1 if they do not, or if Coscan refuses a join.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time

import arena

ENGINES = ("duckdb", "coscan")
JOIN = ("select count(*), sum(o_totalprice) from orders join lineitem on o_orderkey = l_orderkey "
        "where o_orderkey % {joins} = {n} or o_comment like '%a{letter}%'")


def joins(count):
    """Joins over different rows of orders, each of at least a twelfth of them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [JOIN.format(joins=count, n=n, letter=letters[n % len(letters)]) for n in range(count)]


@contextlib.contextmanager
def coscan(args, memory):
    """A function that connects to a new server."""
    import psycopg

    tables = {name: f"{os.path.join(args.data, name)}.parquet" for name in ("orders", "lineitem")}
    port, process = arena.serve(args.coscan, tables, "--memory", memory)
    try:
        yield lambda: psycopg.connect(host="127.0.0.1", port=port, user="coscan", autocommit=True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextlib.contextmanager
def duckdb(args, memory):
    """A function that connects to a new database, which may spill to disk."""
    import duckdb as engine

    with tempfile.TemporaryDirectory() as spill:
        database = engine.connect(":memory:", config={"memory_limit": memory, "temp_directory": spill})
        for name in ("orders", "lineitem"):
            database.execute(f"create view {name} as from '{os.path.join(args.data, name)}.parquet'")
        with contextlib.closing(database):
            yield database.cursor


def at_once(connect, queries):
    """Each query's rows as text, or None if it was refused; and the time until all had ended."""
    answers = [None] * len(queries)

    def ask(n):
        with contextlib.closing(connect()) as connection:
            begun.wait()
            try:
                answers[n] = str(connection.execute(queries[n]).fetchall())
            except Exception as refused:
                print(f"  {type(refused).__name__}: {str(refused)[:100]}", file=sys.stderr)

    begun = threading.Barrier(len(queries) + 1)
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(queries))]
    for thread in threads:
        thread.start()
    begun.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return answers, time.perf_counter() - start


def disagreements(runs):
    """The numbers of the queries with different rows; a refusal agrees with everything."""
    got = [{answer for answer in answers if answer is not None} for answers in zip(*runs)]
    return [n for n, answers in enumerate(got) if len(answers) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=os.path.join(os.path.dirname(__file__), "../../target/release/coscan"))
    parser.add_argument("--joins", type=int, default=12)
    parser.add_argument("--memory", default="80MB,120MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--json")
    args = parser.parse_args()
    queries, runs, points = joins(args.joins), [], []
    for memory in args.memory.split(","):
        for name in args.engines.split(","):
            refused, seconds = [], []
            for _ in range(args.rounds):
                with globals()[name](args, memory) as connect:
                    answers, took = at_once(connect, queries)
                runs.append(answers)
                refused.append(answers.count(None))
                seconds.append(took)
            points.append({"engine": name, "memory": memory, "joins": args.joins, "refused": refused, "seconds": seconds})
            print(f"{name} in {memory}: refused {refused} of {args.joins}, {statistics.median(seconds):.2f} s")
    wrong = disagreements(runs)
    if args.json:
        with open(args.json, "w", encoding="ascii") as out:
            json.dump({"experiment": "shortage", "points": points, "disagreements": wrong}, out, indent=1)
    refused = any(point["engine"] == "coscan" and any(point["refused"]) for point in points)
    sys.exit(f"shortage.py: different rows from queries {wrong}" if wrong else int(refused))


if __name__ == "__main__":
    main()
