#!/usr/bin/env python3
"""What does working on a chunk once save? Eight TPC-H Q6 or Q1 with different parameters at once, on data in memory.
With `--query both` eight of each: two classes of fragments.

    together.py --data FOLDER [--query q1|q6|both] [--coscan BINARY] [--queries 8] [--rounds 5] [--set NAME=VALUE ...] [--json OUT]

Idea: processor time of the server, user and kernel, from its /proc entry, before and after the
queries; plain DataFusion is `SET coscan.cooperative = off` in the same server (alone.py gives the
reason). Both sides run once before a round counts, and rounds take turns in alternating order.

States of chunks are not remembered (coscan.state_cache = 0); otherwise the second round would cost
nothing.

T1: the rows of both sides are equal; otherwise nothing is reported.
"""

import argparse
import datetime
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


def q1(year, discount, quantity):
    """TPC-H 2.4.1; the delta is derived from Q6's parameters, so that no two are alike."""
    last = datetime.date(1998, 12, 1) - datetime.timedelta(days=60 + (year - 1993) * 10 + discount + quantity % 2)
    return ("select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price, "
            "sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, "
            "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty, "
            "avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order from lineitem "
            f"where l_shipdate <= date '{last}' group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus")


QUERIES = {"q1": [q1], "q6": [q6], "both": [q1, q6]}


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


def connect(server, side, count, settings):
    import psycopg
    connections = [psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", autocommit=True)
                   for _ in range(count)]
    for connection in connections:
        connection.execute(f"set coscan.cooperative = {alone.SIDES[side]}")
        for name, value in settings:
            connection.execute(f"set {name} = '{value}'")
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
    parser.add_argument("--coscan", default=os.path.join(alone.HERE, "../../target/release/coscan"))
    parser.add_argument("--queries", type=int, default=8, choices=range(1, len(PARAMETERS) + 1))
    parser.add_argument("--query", choices=sorted(QUERIES), default="q6")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    settings = [("coscan.state_cache", "0"), *(one.split("=", 1) for one in args.set)]
    queries = [query(*parameters) for parameters in PARAMETERS[:args.queries] for query in QUERIES[args.query]]
    server = alone.Server(args.coscan, args.data)
    try:
        server.connections = {side: connect(server, side, len(queries), settings) for side in alone.SIDES}
        rounds = []
        for at in range(args.rounds + 1):
            one = {side: Round(server, side, queries) for side in sorted(alone.SIDES, reverse=at % 2 == 1)}
            alone.require_equal(args.query, {side: [row for rows in one[side].rows for row in rows] for side in one})
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
            json.dump({"format": "coscan-together", "version": 2, "query": args.query, "queries": len(queries),
                       "settings": settings, **result}, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
