#!/usr/bin/env python3
"""What does cooperation cost a lone user? One query at a time, with it and without it.

    alone.py --data FOLDER [--coscan BINARY] [--rounds 9] [--json OUT]            warm: the data is in memory
    alone.py --data FOLDER --cold [--rounds 3] [--json OUT]                       cold: no data is in memory; run it under arena.py
    alone.py --data FOLDER --duckdb                                               warm, beside DuckDB in this process
    alone.py --data FOLDER --setting coscan.share_fragments                       the cost or gain of that setting
    alone.py --data FOLDER --old BINARY                                           warm, beside another build

Idea: plain DataFusion is `SET coscan.cooperative = off` in the same server (with --setting,
another setting is off): same build, same version, same threads, so that only Coscan's part
differs. Warm, both sides have answered every query before a round counts, and rounds take turns in
alternating order. Cold, every single query has a server of its own and no page of the tables is in
the page cache. The program's own pages stay there: it is as large as the tables, and reading its
pages one by one as a query first needs them would be a good part of the time.

L1: the rows of both sides are equal (compare.py); otherwise nothing is reported.
L2: latency is from sending the text to receiving the last row, as in peers.py.
L3: processor time is that of the whole process meanwhile: the server's, or this one's if DuckDB
runs in it.

The queries are TPC-H's 22 (or those of --queries), one per file; FOLDER has a Parquet file per table.
"""

import argparse
import glob
import json
import os
import signal
import statistics
import sys
import time

import arena
import compare
import peers

HERE = os.path.dirname(os.path.abspath(__file__))
SIDES = {"coscan": "on", "plain": "off"}
# What is off on the side `plain`, unless another setting is asked for.
COOPERATIVE = "coscan.cooperative"
TICKS_S = os.sysconf("SC_CLK_TCK")


def files(folder):
    return sorted(glob.glob(os.path.join(folder, "*.parquet")))


class Server:
    """A `coscan serve` of the folder's tables, and one connection per side."""

    def __init__(self, program, folder, setting=COOPERATIVE):
        tables = {os.path.basename(path).removesuffix(".parquet"): path for path in files(folder)}
        if not tables:
            raise SystemExit(f"alone.py: no .parquet files in {folder}")
        self.port, self.process = arena.serve(program, tables)
        self.setting = setting
        self.connections = {}

    def processor_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_S

    def connection(self, side):
        if side not in self.connections:
            import psycopg
            connection = psycopg.connect(host="127.0.0.1", port=self.port, user="coscan", autocommit=True)
            if side in SIDES:
                connection.execute(f"set {self.setting} = {SIDES[side]}")
            # A round must not be answered from states of the preceding one.
            connection.execute("set coscan.state_cache = '0'")
            self.connections[side] = connection
        return self.connections[side]

    def query(self, side, sql):
        """(seconds, processor seconds, rows)"""
        connection = self.connection(side)
        start, before = time.perf_counter(), self.processor_s()
        rows = connection.execute(sql).fetchall()
        return time.perf_counter() - start, self.processor_s() - before, rows

    def stop(self):
        for connection in self.connections.values():
            connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class DuckDB:
    """DuckDB with its defaults, over the same files."""

    def __init__(self, args):
        import duckdb
        self.connection = duckdb.connect()
        for path in files(args.data):
            name = os.path.basename(path).removesuffix(".parquet")
            self.connection.execute(f"create view {name} as select * from read_parquet('{path}')")

    def query(self, _side, sql):
        """As Server.query."""
        start, before = time.perf_counter(), time.process_time()
        rows = self.connection.execute(sql).fetchall()
        return time.perf_counter() - start, time.process_time() - before, rows

    def stop(self):
        self.connection.close()


def require_equal(name, rows):
    """L1"""
    texts = {side: [[text(cell) for cell in row] for row in of_side] for side, of_side in rows.items()}
    coscan = texts.pop("coscan")
    for side, of_side in texts.items():
        why = compare.rows_differ(of_side, coscan)
        if why:
            raise SystemExit(f"alone.py: {name}: rows of {side} differ: {why}")


def text(cell):
    return cell if cell is None or isinstance(cell, (int, float, bool)) else str(cell)


def warm(args, queries):
    """(seconds, processor seconds) by query and side."""
    server = Server(args.coscan, args.data, args.setting)
    sides = {side: server for side in SIDES}
    if args.old:
        sides = {"coscan": server, "old": Server(args.old, args.data, args.setting)}
    if args.duckdb:
        sides["duckdb"] = DuckDB(args)
    times, processor = ({name: {side: [] for side in sides} for name in queries} for _ in range(2))
    try:
        for name, sql in queries.items():
            require_equal(name, {side: runner.query(side, sql)[2] for side, runner in sides.items()})
            for at in range(args.rounds):
                for side in sorted(sides, reverse=at % 2 == 1):
                    seconds, used, _ = sides[side].query(side, sql)
                    times[name][side].append(seconds)
                    processor[name][side].append(used)
    finally:
        for one in set(sides.values()):
            one.stop()
    return times, processor


def cold(args, queries):
    times, processor = ({name: {side: [] for side in SIDES} for name in queries} for _ in range(2))
    for at in range(args.rounds):
        for name, sql in queries.items():
            rows = {}
            for side in sorted(SIDES, reverse=at % 2 == 1):
                peers.drop_pages(files(args.data))
                server = Server(args.coscan, args.data, args.setting)
                try:
                    seconds, used, rows[side] = server.query(side, sql)
                finally:
                    server.stop()
                times[name][side].append(seconds)
                processor[name][side].append(used)
            require_equal(name, rows)
    return times, processor


def summary(times):
    """Medians per query and side, their ratio, and the ratio of the totals, also for every single round.

    The ratio is Coscan's figure over that of the other build if there is one, otherwise of plain DataFusion.
    """
    queries = {name: {side: statistics.median(runs) for side, runs in sides.items()} for name, sides in times.items()}
    totals = {side: sum(sides[side] for sides in queries.values()) for side in next(iter(queries.values()))}
    base = "old" if "old" in totals else "plain"
    for sides in queries.values():
        sides["ratio"] = sides["coscan"] / max(sides[base], 1e-9)
    rounds = zip(*(zip(sides["coscan"], sides[base]) for sides in times.values()))
    by_round = [sum(c for c, _ in one) / max(sum(p for _, p in one), 1e-9) for one in map(list, rounds)]
    return {"queries": queries, "total": {**totals, "ratio": totals["coscan"] / totals[base]},
            "rounds": {"ratio_min": min(by_round), "ratio_max": max(by_round)}}


def show(result):
    sides = [side for side in result["total"] if side != "ratio"]
    lines = [f"{'':6}" + "".join(f"{side:>10}" for side in sides) + f"{'ratio':>8}"]
    rows = [*result["queries"].items(), ("total", result["total"])]
    lines += [f"{name:6}" + "".join(f"{row[side]:>9.3f}s" for side in sides) + f"{row['ratio']:>8.2f}"
              for name, row in rows]
    spread = result["rounds"]
    return "\n".join([*lines, f"single rounds: {spread['ratio_min']:.2f} to {spread['ratio_max']:.2f}"])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=os.path.join(HERE, "../../target/release/coscan"))
    parser.add_argument("--queries", default=os.path.join(HERE, "../../crates/engine/tests/tpch"))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--duckdb", action="store_true")
    parser.add_argument("--old", metavar="BINARY", help="another build of coscan instead of plain DataFusion")
    parser.add_argument("--setting", default=COOPERATIVE)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    args.rounds = args.rounds or (3 if args.cold else 9)
    paths = sorted(glob.glob(os.path.join(args.queries, "q*.sql")))
    if not paths:
        raise SystemExit(f"alone.py: no q*.sql in {args.queries}")
    queries = {os.path.basename(path).removesuffix(".sql"): open(path, encoding="utf-8").read() for path in paths}
    times, processor = (cold if args.cold else warm)(args, queries)
    used = summary(processor)
    result = {"format": "coscan-alone", "version": 1, "cold": args.cold, "setting": args.setting,
              **summary(times), "seconds": times, "processor": used}
    print(show(result))
    print(f"processor time\n{show(used)}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
