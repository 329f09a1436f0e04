#!/usr/bin/env python3
"""What does shared decode save? Eight TPC-H Q6 with different parameters at once, on data in memory.

    together.py --data FOLDER [--coscan BINARY] [--queries 8] [--rounds 5] [--json OUT]

Idea: processor time of the server, user and kernel, from its /proc entry, before and after the queries; plain
DataFusion is `SET coscan.cooperative = off` in the same server (alone.py says why). Both sides have run once
before it counts, and rounds take turns in alternating order.

T1: the rows of both sides are equal, else nothing is reported.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time

import alone

PARAMETERS = [(year, discount, quantity) for year in range(1993, 1998) for discount, quantity in ((3, 24), (6, 25))]
TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


def q6(year, discount, quantity):
    """TPC-H 2.4.6, discount in percent."""
    return (f"select sum(l_extendedprice * l_discount) as revenue from lineitem where l_shipdate >= date '{year}-01-01' "
            f"and l_shipdate < date '{year + 1}-01-01' and l_discount between 0.0{discount - 1} and 0.0{discount + 1} "
            f"and l_quantity < {quantity}")


def cpu_of(stat):
    """(user, kernel) seconds from the text of /proc/PID/stat, whose second field may hold anything in brackets."""
    fields = stat.rsplit(")", 1)[1].split()
    return int(fields[11]) * TICKS_S, int(fields[12]) * TICKS_S


class Round:
    """All queries at once, each over a connection of its own."""

    def __init__(self, server, side, queries):
        with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
            before = cpu_of(stat.read())
        self.rows = [None] * len(queries)
        connections = server.connections[side]
        start = time.perf_counter()

        def run(at):
            self.rows[at] = connections[at].execute(queries[at]).fetchall()
        threads = [threading.Thread(target=run, args=(at,)) for at in range(len(queries))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.wall = time.perf_counter() - start
        with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
            after = cpu_of(stat.read())
        self.user, self.kernel = (b - a for a, b in zip(before, after))


def connect(server, side, count):
    import psycopg
    connections = [psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", autocommit=True)
                   for _ in range(count)]
    for connection in connections:
        connection.execute(f"set coscan.cooperative = {alone.SIDES[side]}")
    return connections


def summary(rounds):
    """Medians per side, and the ratio of processor times of each round."""
    sides = {side: {what: statistics.median(getattr(one[side], what) for one in rounds)
                    for what in ("user", "kernel", "wall")} for side in alone.SIDES}
    ratios = sorted((one["coscan"].user + one["coscan"].kernel) / (one["plain"].user + one["plain"].kernel)
                    for one in rounds)
    return {**sides, "cpu_ratio": {"median": statistics.median(ratios), "min": ratios[0], "max": ratios[-1]}}


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=os.path.join(alone.HERE, "../target/release/coscan"))
    parser.add_argument("--queries", type=int, default=8, choices=range(1, len(PARAMETERS) + 1))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    queries = [q6(*parameters) for parameters in PARAMETERS[:args.queries]]
    server = alone.Server(args)
    try:
        server.connections = {side: connect(server, side, len(queries)) for side in alone.SIDES}
        rounds = []
        for at in range(args.rounds + 1):
            one = {side: Round(server, side, queries) for side in sorted(alone.SIDES, reverse=at % 2 == 1)}
            alone.require_equal("Q6", {side: [row for rows in one[side].rows for row in rows] for side in one})
            rounds.append(one)
    finally:
        server.connections = {}
        server.stop()
    result = summary(rounds[1:])
    for side in alone.SIDES:
        print(f"{side:8}" + "".join(f"  {what} {value:.2f} s" for what, value in result[side].items()))
    ratio = result["cpu_ratio"]
    print(f"processor time, coscan / plain: {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"format": "coscan-together", "version": 1, **result}, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
