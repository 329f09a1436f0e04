#!/usr/bin/env python3
"""What does cooperation cost a user who is alone? One query at a time, with it and without it.

    alone.py --data FOLDER [--coscan BINARY] [--rounds 9] [--json OUT]            warm: the data is in memory
    alone.py --data FOLDER --cold [--rounds 3] [--json OUT]                       cold: nothing is; run it under arena.py

Idea: plain DataFusion is `SET coscan.cooperative = off` in the same server: same build, same version, same
threads, so that the difference is Coscan's and nothing else's. Warm, both have answered every query before it
counts, and rounds take turns in alternating order; cold, every single query has a server of its own and
nothing of the tables in the page cache. The program itself stays there: it is as large as the tables, and its
pages, read one by one as a query first needs them, would be a good part of what is timed.

L1: the rows of both sides are equal (compare.py), else nothing is reported.
L2: latency is from sending the text to holding the last row, as in peers.py.

The queries are TPC-H's 22 (or those of --queries), one per file; FOLDER has a Parquet file per table.
"""

import argparse
import glob
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

import arena
import compare
import peers

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = {"coscan": "on", "plain": "off"}
READY_S = 60.0


def files(folder):
    return sorted(glob.glob(os.path.join(folder, "*.parquet")))


class Server:
    """A `coscan serve` of the folder's tables, and one connection per side."""

    def __init__(self, args):
        tables = [text for path in files(args.data)
                  for text in ("-t", f"{os.path.basename(path).removesuffix('.parquet')}={path}")]
        if not tables:
            raise SystemExit(f"alone.py: no .parquet files in {args.data}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen([args.coscan, "serve", *tables, "--listen", f"127.0.0.1:{self.port}"],
                                        stderr=subprocess.DEVNULL)
        arena.wait_ready(self.port, self.process, READY_S)
        self.connections = {}

    def connection(self, side):
        if side not in self.connections:
            import psycopg
            connection = psycopg.connect(host="127.0.0.1", port=self.port, user="coscan", autocommit=True)
            connection.execute(f"set coscan.cooperative = {SIDES[side]}")
            # What one round leaves must not be the next one's answer.
            connection.execute("set coscan.state_cache = '0'")
            self.connections[side] = connection
        return self.connections[side]

    def query(self, side, sql):
        """(seconds, rows)"""
        connection = self.connection(side)
        start = time.perf_counter()
        rows = connection.execute(sql).fetchall()
        return time.perf_counter() - start, rows

    def stop(self):
        for connection in self.connections.values():
            connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def require_equal(name, rows):
    """L1"""
    plain, coscan = ([[text(cell) for cell in row] for row in rows[side]] for side in ("plain", "coscan"))
    why = compare.rows_differ(plain, coscan)
    if why:
        raise SystemExit(f"alone.py: {name}: rows differ: {why}")


def text(cell):
    return cell if cell is None or isinstance(cell, (int, float, bool)) else str(cell)


def warm(args, queries):
    server = Server(args)
    times = {name: {side: [] for side in SIDES} for name in queries}
    try:
        for name, sql in queries.items():
            require_equal(name, {side: server.query(side, sql)[1] for side in SIDES})
            for at in range(args.rounds):
                for side in sorted(SIDES, reverse=at % 2 == 1):
                    times[name][side].append(server.query(side, sql)[0])
    finally:
        server.stop()
    return times


def cold(args, queries):
    times = {name: {side: [] for side in SIDES} for name in queries}
    for at in range(args.rounds):
        for name, sql in queries.items():
            rows = {}
            for side in sorted(SIDES, reverse=at % 2 == 1):
                peers.drop_pages(files(args.data))
                server = Server(args)
                try:
                    seconds, rows[side] = server.query(side, sql)
                finally:
                    server.stop()
                times[name][side].append(seconds)
            require_equal(name, rows)
    return times


def summary(times):
    """Medians per query and side, their ratio, and the ratio of the totals with that of every single round."""
    queries = {name: {side: statistics.median(runs) for side, runs in sides.items()} for name, sides in times.items()}
    for sides in queries.values():
        sides["ratio"] = sides["coscan"] / sides["plain"]
    totals = {side: sum(sides[side] for sides in queries.values()) for side in SIDES}
    rounds = zip(*(zip(sides["coscan"], sides["plain"]) for sides in times.values()))
    by_round = [sum(c for c, _ in one) / sum(p for _, p in one) for one in map(list, rounds)]
    return {"queries": queries, "total": {**totals, "ratio": totals["coscan"] / totals["plain"]},
            "rounds": {"ratio_min": min(by_round), "ratio_max": max(by_round)}}


def show(result):
    lines = [f"{'':6}{'coscan':>10}{'plain':>10}{'ratio':>8}"]
    rows = [*result["queries"].items(), ("total", result["total"])]
    lines += [f"{name:6}{row['coscan']:>9.3f}s{row['plain']:>9.3f}s{row['ratio']:>8.2f}" for name, row in rows]
    spread = result["rounds"]
    return "\n".join([*lines, f"single rounds: {spread['ratio_min']:.2f} to {spread['ratio_max']:.2f}"])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=os.path.join(HERE, "../../target/release/coscan"))
    parser.add_argument("--queries", default=os.path.join(HERE, "../../crates/engine/tests/tpch"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    args.rounds = args.rounds or (3 if args.cold else 9)
    paths = sorted(glob.glob(os.path.join(args.queries, "q*.sql")))
    if not paths:
        raise SystemExit(f"alone.py: no q*.sql in {args.queries}")
    queries = {os.path.basename(path).removesuffix(".sql"): open(path, encoding="utf-8").read() for path in paths}
    times = (cold if args.cold else warm)(args, queries)
    result = {"format": "coscan-alone", "version": 1, "cold": args.cold, **summary(times), "seconds": times}
    print(show(result))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
