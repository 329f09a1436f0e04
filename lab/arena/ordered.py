#!/usr/bin/env python3
"""What do aggregation and joins in table order save? GROUP BY l_orderkey, lineitem with orders,
and TPC-H's Q4, Q12, Q18 and Q21.

    ordered.py --data FOLDER [--coscan BINARY] [--rounds 5] [--queries NAME ...] [--json OUT]
    arena.py --data FOLDER/lineitem.parquet --bandwidth 200MB/s --memory 1GB -- ordered.py --data FOLDER --four

Idea: three variants of one build take turns: Coscan in 256 MiB with ordered aggregates and
clustered joins and without, and plain DataFusion (`--cooperative off`) in 4 GiB. A query runs
under EXPLAIN ANALYZE, which computes all rows, prints none, and reports what was spilled and read.
Each run is a process of its own, so nothing is kept for the next; the file is in the page cache,
unless arena.py limits that. With --four: the bytes that four groupings, or four joins, read at
once, over those of one alone, by the metrics of their scans. Operators are not shared, so that
each query does its own work.

ORDERED-1: only the side `ordered` may have an operator that follows the order, and it must have
the one named below (`follows`).

FOLDER has a Parquet file per table; lineitem and orders are in order-key order.
"""

import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import time

COSCAN = os.path.expanduser("~/.cache/coscan/target/release/coscan")
SIDES = {
    "ordered": ["--memory", "256MiB", "--ordered-aggregates", "on", "--merge-joins", "on"],
    "hash": ["--memory", "256MiB", "--ordered-aggregates", "off", "--merge-joins", "off"],
    "plain": ["--memory", "4GiB", "--cooperative", "off"],
}
ORDERED = {"OrderedAggregateExec", "ClusteredJoinExec"}
GROUP_BY = "SELECT l_orderkey, sum(l_quantity) FROM lineitem GROUP BY l_orderkey"
JOIN = "SELECT count(*), sum(l_quantity), max(o_totalprice) FROM lineitem, orders WHERE l_orderkey = o_orderkey"
TPCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/engine/tests/tpch")


def tpch(number):
    with open(os.path.join(TPCH, f"q{number:02}.sql"), encoding="utf-8") as file:
        return file.read().strip().rstrip(";")


# SQL, and the operator that the side `ordered` must have, if known.
QUERIES = {
    "group by l_orderkey": (GROUP_BY, "OrderedAggregateExec"),
    "join by order key": (JOIN, "ClusteredJoinExec"),
    **{f"Q{number}": (tpch(number), None) for number in (4, 12, 18, 21)},
}
# Four different queries, with different filters above the same grouping or join.
FOUR = {"group by l_orderkey": [GROUP_BY + f" HAVING sum(l_quantity) > {limit}" for limit in (100, 150, 200, 250)],
        "join by order key": [JOIN + f" AND l_quantity > {limit}" for limit in (0, 1, 2, 3)]}
UNITS = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def follows(plan):
    """The operators of a plan that follow an order."""
    return {name for name in ORDERED if name in plan}


def counted(plan, name):
    """The sum of a metric over a plan."""
    found = re.findall(rf"\b{name}=([0-9.]+) ?([KMGB]*)", plan)
    return sum(float(number) * UNITS[unit] for number, unit in found)


class Run:
    """One process that runs statements at once: its time, its processor time, and the plans."""

    def __init__(self, args, options, statements):
        tables = [text for path in sorted(glob.glob(os.path.join(args.data, "*.parquet")))
                  for text in ("-t", f"{os.path.basename(path).removesuffix('.parquet')}={path}")]
        text = "; ".join(f"EXPLAIN ANALYZE {statement}" for statement in statements)
        command = [args.coscan, "sql", *tables, *options, "--format", "csv", "--concurrent", text]
        before, start = os.times(), time.perf_counter()
        self.plan = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.seconds = time.perf_counter() - start
        after = os.times()
        self.cpu_s = (after.children_user + after.children_system
                      - before.children_user - before.children_system)


def raced(args):
    """Seconds of each side and query, a list of rounds."""
    queries = {name: QUERIES[name] for name in args.queries or QUERIES}
    results = {query: {side: [] for side in SIDES} for query in queries}
    for number in range(args.rounds + 1):
        for query, (text, operator) in queries.items():
            for side in list(SIDES) if number % 2 else list(SIDES)[::-1]:
                try:
                    run = Run(args, SIDES[side], [text])
                except subprocess.CalledProcessError as error:
                    print(f"{query}, {side}: {error.stderr.strip()}", file=sys.stderr)
                    continue
                found = follows(run.plan)
                if found and side != "ordered" or side == "ordered" and operator and operator not in found:
                    raise SystemExit(f"ORDERED-1: {query}, {side}: {run.plan}")
                # The first round loads the files into the page cache.
                if number > 0:
                    results[query][side].append({"seconds": run.seconds, "cpu_s": run.cpu_s,
                                                 "spills": counted(run.plan, "spill_count"),
                                                 "operators": sorted(found)})
    return results


def summary(results):
    """Medians, and the ratio of each side to plain DataFusion, round by round."""
    rows = {}
    for query, sides in results.items():
        for side, runs in sides.items():
            if not runs:
                rows[query, side] = {"runs": 0}
                continue
            plain = sides["plain"]
            ratios = [own["seconds"] / other["seconds"] for own, other in zip(runs, plain)]
            rows[query, side] = {
                "runs": len(runs),
                "seconds": statistics.median(run["seconds"] for run in runs),
                "cpu_s": statistics.median(run["cpu_s"] for run in runs),
                "spills": max(run["spills"] for run in runs),
                "operators": runs[0]["operators"],
                "of_plain": statistics.median(ratios) if ratios else None,
            }
    return rows


def four(args):
    """For each kind of query, bytes read and seconds of one alone and of four at once."""
    # Four joins hold the rows of eight chunks and their partners: too much for 256 MiB.
    options = ["--memory", "512MiB", *SIDES["ordered"][2:], "--share-operators", "off"]
    report = []
    for query, texts in FOUR.items():
        one, all_four = Run(args, options, texts[:1]), Run(args, options, texts)
        if not follows(one.plan) or not follows(all_four.plan):
            raise SystemExit(f"ORDERED-1: {query}: {one.plan}")
        read = [counted(run.plan, "bytes_read") for run in (one, all_four)]
        report.append({"query": query, "one": read[0], "four": read[1], "ratio": read[1] / read[0],
                       "one_s": one.seconds, "four_s": all_four.seconds})
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=COSCAN)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", nargs="+", choices=list(QUERIES))
    parser.add_argument("--four", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    if args.four:
        report = four(args)
        for row in report:
            print(f"{row['query']:20} one {row['one'] / 1e6:.0f} MB in {row['one_s']:.1f} s, four at once "
                  f"{row['four'] / 1e6:.0f} MB in {row['four_s']:.1f} s: {row['ratio']:.2f}")
    else:
        results = raced(args)
        report = {"rounds": results, "medians": [
            {"query": query, "side": side, **row} for (query, side), row in summary(results).items()]}
        for row in report["medians"]:
            if row["runs"] == 0:
                print(f"{row['query']:20} {row['side']:8} failed")
                continue
            print(f"{row['query']:20} {row['side']:8} {row['seconds']:6.2f} s {row['cpu_s']:6.2f} s of processor "
                  f"time, {row['spills']:.0f} spills, {row['of_plain']:.2f} of plain's time {' '.join(row['operators'])}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(report, out, indent=1)


if __name__ == "__main__":
    main()
