#!/usr/bin/env python3
"""Does a cluster keep what its issue promises? One verdict for each point.

    figure.py [--point 1 --point 3 ...] [--small] [--scale 10] [--out FOLDER]

| point | aim | file |
|---|---|---|
| 1 | rows on 1, 3 and 5 workers are those of one process | rows.py |
|   | also while workers are killed | kills.py |
| 2 | the device's bytes of 16 streams on 4 workers: 1.25 times one process's | streams.py |
| 3 | 4 workers with 0.3 of the needed memory: 2 % of the bytes are read again | working_set.py |
| 4 | a worker joins three under load: 35 % of the bytes are read again, P95 1.5 times | join.py |
| 5 | point queries and short aggregates: 3 ms more | latency.py |
| 6 | a query over one worker: 1.15 times one process's time | latency.py |

`--small` is a run of each point in less than two minutes; an option that is given beside it counts.
Exit status: 0 if every aim is met, 1 if one is missed, 2 if a point could not be measured. Needs
root, for the control groups, and psycopg. Nothing else may run on the machine.
Not here: plain datafusion-distributed on the same workers.
"""

import argparse
import os
import subprocess
import sys

import shared
import join
import kills
import latency
import report
import rows
import sessions
import streams
import texts
import working_set
import workers
import arena

MET, MISSED, NOT_MEASURED = 0, 1, 2  # exit statuses

CACHE = os.path.expanduser("~/.cache/coscan")
PROGRAM = os.path.join(shared.TREE, "target", "release", "coscan")
# The arena's memory, 2.5 GB at scale 40; below this a worker's buffer has no room for chunks.
MEMORY_PER_SCALE, MEMORY_MIN = 62_500_000, 512_000_000
SMALL = {"scale": 1.0, "seconds": 40.0, "kill_every": 20.0, "streams": 8, "queries": 2,
         "delay": 0.5, "rounds": 1, "passes": 3, "joins": 1, "fill": 10.0, "load": 15.0,
         "join_memory": 1_000_000_000, "repeats": 100, "whole_repeats": 15}


def list_of(text):
    return [int(number) for number in text.split(",")]


def add_common(parser):
    parser.add_argument("--point", type=int, action="append", choices=sorted(POINTS),
                        help="may be given several times [default: all]")
    parser.add_argument("--small", action="store_true", help="each point in two minutes")
    parser.add_argument("--coscan", default=os.environ.get("COSCAN", PROGRAM), metavar="PROGRAM")
    parser.add_argument("--scale", type=float, default=10.0, help="of TPC-H's tables")
    parser.add_argument("--data", help="their folder [default: tpch-sfSCALE of lab/arena/data.sh]")
    parser.add_argument("--out", help="where the JSON files go [default: in ~/.cache/coscan]")
    parser.add_argument("--port", type=int, default=51051, help="of the first worker")
    parser.add_argument("--seed", type=int, default=1)


def add_points(parser):
    size = arena.bytes_of
    parser.add_argument("--workers", type=list_of, default="1,3,5", help="1: sizes of clusters")
    parser.add_argument("--sessions", type=int, default=32, help="1: how many at once")
    parser.add_argument("--seconds", type=float, default=600.0, help="1: of the kills' run")
    parser.add_argument("--kill-every", type=float, default=60.0, help="1: seconds")
    parser.add_argument("--kill-workers", type=int, default=3, help="1: workers of the kills' run")
    parser.add_argument("--rows-memory", type=size, default="2GB",
                        help="1: of one process, of all workers, and of each if one is killed")
    parser.add_argument("--rows-bytes-per-node", type=size, default="256KiB", help="1")
    parser.add_argument("--streams", type=int, default=16, help="2: how many at once")
    parser.add_argument("--queries", type=int, default=4, help="2: of each stream")
    parser.add_argument("--delay", type=float, default=3.0, help="2: seconds between the starts")
    parser.add_argument("--mix", default="FS-T", help="2: of `coscan bench workload`")
    parser.add_argument("--rounds", type=int, default=3, help="2: each with its own seed")
    parser.add_argument("--memory", type=size, help="2: of all four [default: 62.5 MB per scale]")
    parser.add_argument("--bandwidth", type=size, default="200MB/s", help="2, 3 and 4: of all")
    parser.add_argument("--bytes-per-node", type=size, default="4MiB", help="2 and 3")
    parser.add_argument("--passes", type=int, default=4, help="3: over the working set")
    parser.add_argument("--ample", type=size, default="6GB", help="3: memory for all of it")
    parser.add_argument("--joins", type=int, default=join.WORKERS,
                        help="4: rounds, each with another newcomer")
    parser.add_argument("--fill", type=float, default=60.0, help="4: seconds at least to read all")
    parser.add_argument("--load", type=float, default=60.0,
                        help="4: seconds before the worker starts, and from then on")
    parser.add_argument("--short-sessions", type=int, default=4, help="4: with short queries")
    parser.add_argument("--scan-sessions", type=int, default=2, help="4: that scan tables")
    parser.add_argument("--join-memory", type=size, default="2GB", help="4: of each worker")
    parser.add_argument("--join-bytes-per-node", type=size, default="64MiB", help="4")
    parser.add_argument("--repeats", type=int, default=200, help="5: rounds")
    parser.add_argument("--short-workers", type=int, default=3, help="5: workers")
    parser.add_argument("--whole-repeats", type=int, default=9, help="6: rounds")
    parser.add_argument("--latency-memory", type=size, default="3GB", help="5 and 6: of each")
    parser.add_argument("--latency-bytes-per-node", type=size, default="64MiB", help="5 and 6")


def parse(argv):
    parser = argparse.ArgumentParser(description="Measure a cluster against its aims.")
    add_common(parser)
    add_points(parser)
    if "--small" in argv:
        parser.set_defaults(**SMALL)
    args = parser.parse_args(argv)
    if args.passes < 2:
        parser.error("--passes: the second one shows what is read again")
    if args.load < join.WINDOW_S:
        parser.error(f"--load: P95 is that of {join.WINDOW_S:.0f} s at least")
    if args.whole_repeats + latency.WARM_UP > texts.DRAWN_MAX:
        parser.error(f"--whole-repeats: there are parameters for {texts.DRAWN_MAX} rounds, of "
                     f"which {latency.WARM_UP} warm up")
    args.point = args.point or sorted(POINTS)
    args.memory = args.memory or max(MEMORY_MIN, int(MEMORY_PER_SCALE * args.scale))
    args.data = args.data or os.path.join(CACHE, "data", f"tpch-sf{args.scale:g}")
    args.out = args.out or os.path.join(CACHE, "results", f"cluster-sf{args.scale:g}")
    return args


def tables_of(folder):
    """Table -> file of TPC-H's tables."""
    found = {name: os.path.join(folder, f"{name}.parquet") for name in texts.TABLES}
    if missing := sorted(name for name, path in found.items() if not os.path.exists(path)):
        raise arena.ArenaError(f"{folder} has no {', '.join(missing)}: run lab/arena/data.sh "
                               "SCALE tpch")
    return found


def point_1(options, tables, outcome):
    expected = rows.run(options, tables, outcome)
    if options.seconds:
        kills.run(options, tables, expected, outcome)


def reading(run, *names):
    """A point that reads these tables."""
    return lambda options, tables, outcome: run(options, {name: tables[name] for name in names},
                                                outcome)


POINTS = {
    1: (f"{rows.AIM}; {kills.AIM}", point_1),
    2: (streams.AIM, reading(streams.run, "lineitem")),
    3: (working_set.AIM, reading(working_set.run, "lineitem")),
    4: (join.AIM, reading(join.run, *texts.SHORT_TABLES)),
    5: (latency.SHORT_AIM, latency.short),
    6: (latency.WHOLE_AIM, latency.whole),
}


def measure(point, options, machine):
    """Runs a point, writes its file and prints its table; returns the exit status."""
    aim, run = POINTS[point]
    outcome = report.Outcome(point, aim)
    try:
        run(options, tables_of(options.data), outcome)
    except (arena.ArenaError, OSError, subprocess.SubprocessError, sessions.Failure) as error:
        print(f"figure: point {point}: {error}\n", file=sys.stderr)
        return NOT_MEASURED
    path = os.path.join(options.out, f"point-{point}.json")
    report.write(path, report.document(outcome, options, machine))
    print(f"{report.show(outcome)}{path}\n", flush=True)
    return MISSED if outcome.misses else MET


def main(argv):
    options = parse(argv)
    workers.interruptible()
    if sessions.psycopg is None:
        print("figure: this Python has no psycopg: see lab/arena/setup.sh", file=sys.stderr)
        return NOT_MEASURED
    try:
        os.makedirs(options.out, exist_ok=True)
        machine = report.machine_of()
        return max(measure(point, options, machine) for point in options.point)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
