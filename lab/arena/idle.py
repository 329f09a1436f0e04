#!/usr/bin/env python3
"""What do idle cursors cost other clients? A scan of lineitem, alone and beside cursors that each fetched one row.

    idle.py --data FOLDER-WITH-lineitem.parquet [--coscan BINARY] [--cursors 64] [--memory 1GiB] [--rounds 5] [--json OUT]

Idea: the cursors divide the orders among themselves, so that their ranges are disjoint, and each
fetches one row of `SELECT *`. Then the scan runs, first while they are fresh, then after they have
been idle for a while. At the end each cursor fetches the rest, and the rows are counted (L2).

L1: a scan beside idle cursors takes at most `RATIO_MAX` times as long as alone, by the medians.
Otherwise the exit status is 1.
L2: the cursors return each row of the table exactly once.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import sys
import time

import arena

# The threshold differs in every scan, so that no kept state answers it (docs/design/fragments.md).
SCAN = "select sum(l_extendedprice * (1 - l_discount)), count(*) from lineitem where l_extendedprice > {}"
# Every price lies between 900 and 105,000: above this threshold statistics exclude no chunk.
LEAST_PRICE = 2000
RATIO_MAX = 1.2


def ranges(first, last, parts):
    """Half-open ranges that divide first..=last, all of about the same width, none empty."""
    keys = last - first + 1
    if not 1 <= parts <= keys:
        raise SystemExit(f"idle.py: {keys} keys do not make {parts} ranges")
    bounds = [first + keys * at // parts for at in range(parts + 1)]
    return list(zip(bounds, bounds[1:]))


def verdict(alone, beside):
    """Medians and their ratio; `within` says whether L1 holds."""
    alone, beside = statistics.median(alone), statistics.median(beside)
    ratio = beside / alone
    return {"alone_s": alone, "beside_s": beside, "ratio": ratio, "within": ratio <= RATIO_MAX}


def times(connection, rounds, thresholds):
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        connection.execute(SCAN.format(next(thresholds))).fetchall()
        taken.append(time.perf_counter() - begun)
    return taken


def run(args, port):
    import psycopg

    def connect():
        return psycopg.connect(host="127.0.0.1", port=port, user="coscan", autocommit=True)
    own = connect()
    first, last, rows = own.execute("select min(l_orderkey), max(l_orderkey), count(*) from lineitem").fetchone()
    thresholds = itertools.count(LEAST_PRICE)
    times(own, 1, thresholds)
    alone = times(own, args.rounds, thresholds)
    cursors, count = [], 0
    for begin, end in ranges(first, last, args.cursors):
        connection = connect()
        connection.execute("begin")
        connection.execute("declare c cursor for select * from lineitem "
                           f"where l_orderkey >= {begin} and l_orderkey < {end}")
        count += len(connection.execute("fetch 1 from c").fetchall())
        cursors.append(connection)
    fresh = times(own, 1, thresholds)
    time.sleep(args.idle)
    beside = times(own, args.rounds, thresholds)
    if args.fetch_all:
        for connection in cursors:
            while got := len(connection.execute("fetch 100000 from c").fetchall()):
                count += got
        if count != rows:
            raise SystemExit(f"idle.py: the cursors gave {count} rows of {rows}")
    return {"cursors": args.cursors, "fresh_s": fresh[0], **verdict(alone, beside)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=os.path.join(os.path.dirname(__file__), "../../target/release/coscan"))
    parser.add_argument("--cursors", type=int, default=64)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=2.0, help="seconds before the scans beside idle cursors")
    parser.add_argument("--fetch-all", action="store_true", help="at the end fetch all rows of all cursors, and count them (L2)")
    parser.add_argument("--json")
    args = parser.parse_args()
    tables = {"lineitem": os.path.join(args.data, "lineitem.parquet")}
    port, process = arena.serve(args.coscan, tables, "--memory", args.memory)
    try:
        result = run(args, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        with open(args.json, "w", encoding="ascii") as out:
            out.write(text + "\n")
    sys.exit(0 if result["within"] else 1)


if __name__ == "__main__":
    main()
