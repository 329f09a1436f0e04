#!/usr/bin/env python3
"""What do other people's queries cost: alone, beside busy programs, and when they are repeated?

    suite.py --data FOLDER alone    [--rounds 3]       beside DuckDB, nothing retained
    suite.py --data FOLDER busy     [--loops 2,4]      the same beside so many busy loops, over alone
    suite.py --data FOLDER repeated [--runs 10]        Coscan's default settings: does a later run take longer?

The tables are FOLDER/*.parquet, or FOLDER itself if it has none with --table; the queries are
FOLDER/queries/*.sql (tpcds_data.py makes such a folder) or the lines of --queries
(`--data FOLDER/hits --table hits --queries clickbench.sql`).

Idea: an engine is a process of its own with its default settings, started once; queries run one at
a time, and every engine has answered a query before a run of it counts. A busy loop is a process
that does nothing else, of plain niceness. The kernel's automatic groups protect a session from
others; `/proc/sys/kernel/sched_autogroup_enabled` is printed, and what it is changes `busy`.

L1: rows of both engines are compared (compare.py); queries whose rows differ or that fail are
listed, and the exit status is 1. L2: a query that fails in one engine counts in no total.
"""

import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time

import alone
import arena
import compare
import odd

BUSY = [sys.executable, "-c", "while True: pass"]
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
# A run of a repeated query is slow if it takes so much more than the fastest, and not below this time.
SLOWER, EXEMPT_S = 2.0, 0.02


def tables(args):
    if args.table:
        return {args.table: args.data}
    return {os.path.basename(path).removesuffix(".parquet"): path for path in alone.files(args.data)}


def queries(args):
    if args.queries:
        with open(args.queries, encoding="utf-8") as lines:
            return {f"{at:02}": sql for at, sql in enumerate(lines.read().splitlines())}
    paths = sorted(glob.glob(os.path.join(args.data, "queries", "*.sql")))
    return {os.path.basename(path).removesuffix(".sql"): open(path, encoding="utf-8").read() for path in paths}


class Coscan(odd.Coscan):
    def __init__(self, args, retaining=False):
        super().__init__(args.coscan, tables(args))
        if retaining:
            self.connection.execute("reset coscan.state_cache")


def timed(engine, sql):
    """(seconds, processor seconds, rows), or the error's text."""
    before, begun = odd.used_s(engine.pid), time.perf_counter()
    try:
        rows = engine.query(sql)
    except Exception as error:  # of whichever driver: it is reported
        return str(error).splitlines()[0]
    return time.perf_counter() - begun, odd.used_s(engine.pid) - before, rows


def texts(rows):
    return [[alone.text(cell) for cell in row] for row in rows]


def passes(engines, of, rounds):
    """Medians of seconds and processor seconds by query and engine, and what went wrong by query."""
    medians, wrong = {}, {}
    for name, sql in of.items():
        runs = {engine: [timed(running, sql)] for engine, running in engines.items()}
        failed = {engine: run[0] for engine, run in runs.items() if isinstance(run[0], str)}
        if failed:
            wrong[name] = f"failed: {failed}"
            continue
        first, *others = (texts(run[0][2]) for run in runs.values())
        differs = next(filter(None, (compare.rows_differ(first, other) for other in others)), None)
        if differs:
            wrong[name] = f"rows differ: {differs}"
        for at in range(rounds):
            for engine in sorted(engines, reverse=at % 2 == 1):
                runs[engine].append(timed(engines[engine], sql))
        medians[name] = {engine: [statistics.median(run[measure] for run in run_list[1:]) for measure in (0, 1)]
                         for engine, run_list in runs.items()}
    return medians, wrong


def totals(medians):
    engines = next(iter(medians.values()))
    return {engine: [sum(of[engine][measure] for of in medians.values()) for measure in (0, 1)] for engine in engines}


def compared(args):
    """The queries alone, and beside busy loops."""
    of, report, wrong = queries(args), {}, {}
    for loops in [0, *args.loops]:
        engines = {"coscan": Coscan(args), "duckdb": odd.DuckDB(tables(args))}
        busy = [subprocess.Popen(BUSY) for _ in range(loops)]
        try:
            report[loops], found = passes(engines, of, args.rounds)
        finally:
            for loop in busy:
                loop.kill()
            for engine in engines.values():
                engine.stop()
        wrong.update(found)
    common = set.intersection(*(set(medians) for medians in report.values()))
    report = {loops: {name: of for name, of in medians.items() if name in common} for loops, medians in report.items()}
    if not args.loops:
        for name, by_engine in report[0].items():
            print(f"{name}: " + ", ".join(f"{engine} {of[0]:.3f} s {of[1]:.2f} CPU-s" for engine, of in by_engine.items()))
    quiet = totals(report[0])
    for loops, medians in report.items():
        for engine, (seconds, used) in totals(medians).items():
            print(f"{len(common)} queries beside {loops} loops: {engine:7} {seconds:8.2f} s {used:8.2f} CPU-s, "
                  f"{seconds / quiet[engine][0]:.2f} times alone")
    return {"medians": report, "wrong": wrong}


def repeated(args):
    engine, of, wrong = Coscan(args, retaining=True), {}, {}
    for name, sql in queries(args).items():
        runs = [timed(engine, sql) for _ in range(args.runs)]
        failed = next((run for run in runs if isinstance(run, str)), None)
        if failed:
            wrong[name] = f"failed: {failed}"
            continue
        if any(compare.rows_differ(texts(runs[0][2]), texts(run[2])) for run in runs):
            wrong[name] = "rows of two runs differ"
        of[name] = [run[0] for run in runs]
    engine.stop()
    slow = {name: runs for name, runs in of.items() if max(runs[2:]) > max(SLOWER * min(runs), EXEMPT_S)}
    kept = sum(statistics.median(runs[1:]) < runs[0] / 2 for runs in of.values())
    for name, runs in slow.items():
        print(f"{name}: " + " ".join(f"{seconds:.3f}" for seconds in runs))
    print(f"{len(of)} queries, {args.runs} runs each: {kept} take less than half of the first run's time afterwards, "
          f"{len(slow)} have a later run of more than {SLOWER:g} times the fastest; "
          f"fastest runs {sum(map(min, of.values())):.2f} s in all")
    return {"seconds": of, "slow": sorted(slow), "wrong": wrong}


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--table", help="the name of the one table that --data is")
    parser.add_argument("--queries", help="a file with a query per line")
    parser.add_argument("--coscan", default=os.path.join(alone.HERE, "../../target/release/coscan"))
    parser.add_argument("what", choices=["alone", "busy", "repeated"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", default="2,4")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    args.loops = [int(loops) for loops in args.loops.split(",")] if args.what == "busy" else []
    if args.what == "busy":
        with open(AUTOGROUP, encoding="ascii") as setting:
            print(f"automatic groups: {setting.read().strip()}")
    result = (repeated if args.what == "repeated" else compared)(args)
    for name, why in sorted(result["wrong"].items()):
        print(f"{name}: {why}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"format": "coscan-suite", "version": 1, "what": args.what, **result}, out, indent=1)
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
