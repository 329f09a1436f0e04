#!/usr/bin/env python3
"""What do small questions cost in one build and in another? Time, processor time and changes of threads.

    small.py --data FOLDER --old BINARY [--coscan BINARY] [--json OUT]            nothing beside it
    small.py --data FOLDER --old BINARY --loops 2 --runs 60 [--json OUT]          beside busy loops

Idea: a question of few rows takes as long as its planning and its changes of threads, so both
builds run with their default settings, each with one client, and are asked the same texts in
turn, --runs times in each of --rounds rounds. The texts are sent as they are, without being
prepared: what a build keeps of a text that comes repeatedly is part of the figures. A busy loop is
suite.py's, a process that does nothing else.

Not here: clients beside each other (abuse.py, mix.sh), and questions of many rows (alone.py --old).

SMALL-1: the rows of both builds are equal (compare.py); otherwise nothing is reported.
SMALL-2: latency is from sending the text to receiving the last row; processor time and voluntary
changes of threads are the server's meanwhile. A thread that ends takes its changes with it.

FOLDER has TPC-H's tables as Parquet files.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import alone
import arena
import compare
import odd
import suite

TABLES = ("orders", "nation", "region", "supplier")
STATEMENTS = {
    "SELECT 1": "select 1",
    "a point query": "select o_totalprice, o_orderdate from orders where o_orderkey = 12345",
    "groups of a small table": "select n_regionkey, count(*), max(n_name) from nation group by n_regionkey order by 1",
    "a join of two small tables": "select r_name, count(*) from nation join region on n_regionkey = r_regionkey "
                                  "group by r_name order by r_name",
    "a sum of few rows": "select count(*), sum(s_acctbal), avg(s_acctbal) from supplier "
                         "where s_nationkey = 7 and s_acctbal > 0",
}
# Answers of each build before any counts: by then what a build keeps of a text is kept.
WARM_UP = 30


class Program:
    """A `coscan serve` with its default settings, and its one client."""

    def __init__(self, program, folder):
        import psycopg
        self.port, self.process = arena.serve(program, {name: os.path.join(folder, f"{name}.parquet") for name in TABLES})
        self.connection = psycopg.connect(host="127.0.0.1", port=self.port, user="coscan", autocommit=True,
                                          prepare_threshold=None)

    def query(self, sql):
        return self.connection.execute(sql).fetchall()

    def used(self):
        """Processor seconds and voluntary changes of threads."""
        return odd.used_s(self.process.pid), switches(self.process.pid)

    def stop(self):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def switches(pid):
    """Voluntary changes of all threads of the process."""
    counted = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as status:
                counted += voluntary(status.read())
        except OSError:
            pass  # the thread has ended
    return counted


def voluntary(status):
    """Of the text of a thread's status."""
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("voluntary_ctxt_switches:"))


def stretch(program, sql, runs):
    """Latencies of so many runs, and what they used in all."""
    before, seconds = program.used(), []
    for _ in range(runs):
        begun = time.perf_counter()
        program.query(sql)
        seconds.append(time.perf_counter() - begun)
    cpu, changes = (after - was for after, was in zip(program.used(), before))
    return {"seconds": seconds, "cpu_s": cpu, "switches": changes}


def require_equal(name, rows):
    """SMALL-1"""
    old, new = (suite.texts(rows[side]) for side in ("old", "coscan"))
    why = compare.rows_differ(old, new)
    if why:
        raise SystemExit(f"small.py: {name}: rows of the builds differ: {why}")


def measured(programs, sql, rounds, runs):
    """The stretches of each build, the builds in alternating order."""
    of = {side: [] for side in programs}
    for at in range(rounds):
        for side in sorted(programs, reverse=at % 2 == 1):
            of[side].append(stretch(programs[side], sql, runs))
    return of


def summary(stretches):
    """Per build: median and P95 of all runs, and what a run used in the mean; and the ratio of the medians."""
    sides = {side: figures(of_side) for side, of_side in stretches.items()}
    return {**sides, "ratio": sides["coscan"]["median_s"] / sides["old"]["median_s"]}


def figures(stretches):
    seconds = sorted(second for one in stretches for second in one["seconds"])
    mean = {name: sum(one[name] for one in stretches) / len(seconds) for name in ("cpu_s", "switches")}
    return {"median_s": statistics.median(seconds), "p95_s": seconds[int(len(seconds) * 0.95)], **mean}


def shown(name, of):
    def both(key, scale, places):
        return " and ".join(f"{of[side][key] * scale:.{places}f}" for side in ("old", "coscan"))
    return (f"{name:27} median {both('median_s', 1e3, 2)} ms ({of['ratio']:.2f}), P95 {both('p95_s', 1e3, 2)} ms, "
            f"processor {both('cpu_s', 1e3, 2)} ms, changes of threads {both('switches', 1, 1)}")


def compared(args):
    """The summary of each statement, beside the loops."""
    programs, loops, of = {}, [], {}
    try:
        for side, program in (("old", args.old), ("coscan", args.coscan)):
            programs[side] = Program(program, args.data)
        loops += (subprocess.Popen(suite.BUSY) for _ in range(args.loops))
        for name, sql in STATEMENTS.items():
            rows = {side: [program.query(sql) for _ in range(WARM_UP)][-1] for side, program in programs.items()}
            require_equal(name, rows)
            of[name] = summary(measured(programs, sql, args.rounds, args.runs))
            print(shown(name, of[name]), flush=True)
    finally:
        for loop in loops:
            loop.kill()
        for program in programs.values():
            program.stop()
    return of


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--old", required=True, metavar="BINARY")
    parser.add_argument("--coscan", default=os.path.join(alone.HERE, "../../target/release/coscan"))
    parser.add_argument("--loops", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    of = compared(args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"format": "coscan-small", "version": 1, "loops": args.loops, "runs": args.rounds * args.runs,
                       "statements": of}, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
