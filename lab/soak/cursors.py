#!/usr/bin/env python3
"""Do many cursors go on in little memory, each over a large sort of its own?

    cursors.py --coscan PROGRAM [--old PROGRAM] --data FOLDER [--memory 150MiB] [--clients 24] [--runs 1]
               [--batch-size N] [--out FOLDER] [--json OUT]

All clients begin at once. Each opens a cursor over orders that are sorted by their key, without the
first K, where K is the client's number: no two sorts are the same, so no operator is shared, and
each of them spills. The client fetches some rows, holds the cursor for up to a second, fetches some
more, and leaves the rest. Each run starts a server. `--old` runs another program before it each
time, for comparison: its broken promises are told, and do not count. `--batch-size` sets
`datafusion.execution.batch_size`; by default the server's is used.

S1: every cursor returns its rows, in order: none is refused, lost or hangs.
S2: the process takes at most the limit and 200 MiB (K6 of `verdict.py`), at every moment.
The exit status is 1 if a run of PROGRAM broke one. `--out` keeps the servers' logs.

Not here: what else clients do beside each other (`soak.py`).
"""

import argparse
import collections
import itertools
import json
import os
import sys
import tempfile
import threading
import time

import limits
import matrix
import servers
import tally
import verdict
import watch

QUERY = "select o_orderkey, o_comment from orders where o_orderkey > {} order by o_orderkey"
# Several batches, so that the merge has gone on when the client comes back.
FIRST_ROWS, THEN_ROWS = 3000, 100
# Clients hold their cursors for none, one or two of these.
HOLD_S = 0.5
# A query that is refused waits a minute at most for each of its next runs.
END_S = 300
CONNECT_S = 20
# What the engine logs for a query that comes back after a refusal (`running/rerun.rs`).
AGAIN = "run again"


def keys_after(number):
    """The keys that the query of a client returns first, as many as it fetches. Of each 32 numbers
    TPC-H uses the first eight."""
    used = (key for key in itertools.count(number + 1) if key % 32 < 8)
    return list(itertools.islice(used, FIRST_ROWS + THEN_ROWS))


def fault(keys, number):
    """What is wrong with the keys that a client has fetched, in words; `None` if nothing is."""
    if len(keys) != FIRST_ROWS + THEN_ROWS:
        return f"{len(keys)} rows in place of {FIRST_ROWS + THEN_ROWS}"
    if keys[0] <= number:
        return f"the first key is {keys[0]}, which the predicate excludes"
    if any(left >= right for left, right in zip(keys, keys[1:])):
        return "the keys are not in order"
    if keys != keys_after(number):
        wrong = next(had for had, key in zip(keys, keys_after(number)) if had != key)
        return f"a row before the one of {wrong} is missing"
    return None


def fetch(dsn, number, batch_rows):
    """The keys that a client fetches from its cursor."""
    import psycopg  # Here, because the tests of this file run without it.

    with psycopg.connect(dsn, autocommit=True, connect_timeout=CONNECT_S) as connection:
        if batch_rows:
            connection.execute(f"set datafusion.execution.batch_size = {batch_rows}")
        connection.execute("begin")
        held = connection.cursor("held")
        held.execute(QUERY.format(number))
        rows = held.fetchmany(FIRST_ROWS)
        time.sleep(HOLD_S * (number % 3))
        rows += held.fetchmany(THEN_ROWS)
        held.close()
        connection.execute("rollback")
    return [row[0] for row in rows]


def client(dsn, number, batch_rows, counts):
    """Counts how one client ends."""
    began = time.monotonic()
    try:
        keys = fetch(dsn, number, batch_rows)
    except Exception as error:  # Whatever it is: a client that counts nowhere would pass for a served one.
        code = getattr(error, "sqlstate", None)
        if code is None:
            counts.lost(f"{type(error).__name__}: {error}")
        else:
            counts.failed(code, str(error))
        return
    found = fault(keys, number)
    if found:
        counts.differs(QUERY.format(number), [found], [])
    else:
        counts.answered(time.monotonic() - began)


def crowd(dsn, clients, batch_rows, counts):
    """Runs all clients at once; returns how many of them hang."""
    threads = [
        threading.Thread(target=client, args=(dsn, number, batch_rows, counts), daemon=True)
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + END_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return sum(thread.is_alive() for thread in threads)


def run(program, args, log):
    """One run over a server of its own: its figures, and the promises that it broke."""
    counts = tally.Tally()
    with servers.started(program, args.data, log, ["--memory", args.memory], log_level="info") as server:
        hung = crowd(server.dsn, args.clients, args.batch_size, counts)
        alive, last = server.alive(), server.process().sample()
    with open(log, encoding="utf-8", errors="replace") as said:
        again = reruns(said)
    return summary(counts, limits.size(args.memory), peak=last.get("resident_max"), alive=alive, hung=hung, again=again)


def reruns(said):
    """How many queries were run again, by the lines of a log; one that was so twice counts twice."""
    return sum(AGAIN in line for line in said)


def summary(counts, limit, *, peak, alive, hung, again):
    """Sizes in bytes, times in seconds."""
    return {
        "answered": counts.ends["answered"],
        "wrong": [rows[0] for _, rows, _ in counts.wrong],
        "refused": dict(counts.refused),
        "examples": counts.examples,
        "odd": dict(counts.odd),
        "lost": dict(counts.losses),
        "hung": hung,
        "run_again": again,
        "median_s": counts.latency_s(0.5),
        "longest_s": counts.latency_s(1),
        "peak": peak,
        "broken": list(broken(counts, limit, peak=peak, alive=alive, hung=hung)),
    }


def broken(counts, limit, *, peak, alive, hung):
    """The promises that are broken, each in words."""
    if not alive:
        yield "S1: the server has ended"
    for what, number in (
        ("were refused", sum(counts.refused.values())),
        ("had wrong rows", len(counts.wrong)),
        ("ended with another error", sum(counts.odd.values())),
        ("were lost", sum(counts.losses.values())),
        ("hang", hung),
    ):
        if number:
            yield f"S1: {number} cursors {what}"
    if not counts.ends["answered"]:
        yield "S1: no cursor returned its rows"
    if peak is not None and peak > limit + verdict.BEYOND:
        yield f"S2: the process took {(peak - limit) / watch.MIB:.0f} MiB more than its limit"


def in_turn(runs, old):
    """Which program each run has: the old one, if there is one, before the new one each time."""
    return [name for _ in range(runs) for name in (("old", "new") if old else ("new",))]


def in_all(results):
    """The runs of each program together."""
    together = {}
    for name in sorted({result["program"] for result in results}):
        ours = [result for result in results if result["program"] == name]
        refused = collections.Counter()
        for result in ours:
            refused.update(result["refused"])
        together[name] = {
            "runs": len(ours),
            "answered": sum(result["answered"] for result in ours),
            "refused": dict(refused.most_common()),
            "run_again": sum(result["run_again"] for result in ours),
            "peak": max((result["peak"] for result in ours if result["peak"] is not None), default=None),
            "runs_broken": sum(bool(result["broken"]) for result in ours),
        }
    return together


def line(result):
    def seconds(value):
        return "-" if value is None else f"{value:.1f} s"

    peak = "-" if result["peak"] is None else f"{result['peak'] / watch.MIB:.0f} MiB"
    return (
        f"{result['program']}: answered {result['answered']}, refused {sum(result['refused'].values())}, "
        f"run again {result['run_again']}, median {seconds(result['median_s'])}, "
        f"longest {seconds(result['longest_s'])}, the process {peak}; {'; '.join(result['broken']) or 'kept'}"
    )


def judge(args, out):
    """The results of all runs; each is printed when it has ended."""
    programs = {"new": args.coscan, "old": args.old}
    results = []
    for at, name in enumerate(in_turn(args.runs, args.old)):
        log = os.path.join(out, f"{at}-{name}.log")
        result = {"program": name, "sha256": matrix.identity(programs[name])}
        result |= run(programs[name], args, log)
        results.append(result)
        print(line(result), flush=True)
        for words, number in result["refused"].items():
            print(f"  {number:4} {result['examples'].get(words, words)}", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", required=True, help="the program")
    parser.add_argument("--old", help="a program to compare with, which runs before it each time")
    parser.add_argument("--data", required=True, help="folder with TPC-H's tables")
    parser.add_argument("--memory", default="150MiB", help="the server's --memory")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--runs", type=int, default=1, help="how often each program runs")
    parser.add_argument("--batch-size", type=int, help="rows of a batch, in place of the server's choice")
    parser.add_argument("--out", help="where the logs go; by default they are not kept")
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="coscan-cursors-") as folder:
        out = args.out or folder
        os.makedirs(out, exist_ok=True)
        results = judge(args, out)
    told = {
        "memory": limits.size(args.memory), "clients": args.clients, "batch_size": args.batch_size,
        "runs": results, "in_all": in_all(results),
    }
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(told, file, indent=1)
            file.write("\n")
    print(json.dumps(told["in_all"], indent=1))
    return 1 if any(result["broken"] for result in results if result["program"] == "new") else 0


if __name__ == "__main__":
    sys.exit(main())
