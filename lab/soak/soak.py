#!/usr/bin/env python3
"""Does a busy server keep its promises for hours, in little memory?

    soak.py --coscan PROGRAM --data FOLDER [--seconds 60] [--clients 24] [--seed 1] [--group 1.5GB]
            [--memory SIZE] [--limits 200MiB,400MiB/10] [--only KIND] [--option=--NAME=VALUE ...] [--out FOLDER]

Starts a server over TPC-H's tables (FOLDER has lineitem.parquet and the seven others), runs the
clients of `clients.py`, and compares rows with DuckDB's. `--group` puts the server into a control
group of this size (root); `--limits` changes `coscan.memory` on a schedule. The exit status is 1
if a promise of `verdict.py` was broken. In `--out`: the server's log, `samples.json`,
`summary.json`, `memory.svg`, `report.txt`, and `left.txt`, what was left after the load (K8).

A seed fixes the queries and each client's draws, but not the interleaving of the clients.
Not here: what a client does (`clients.py`), how memory is sampled (`watch.py`).
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time

import answers
import clients
import engine
import limits
import picture
import servers
import tally
import verdict
import watch

SAY_EVERY_S = 15
SETTLE_S = 10  # how long the server may take to notice that the clients have gone


class Run:
    """The state that the clients of a run share."""

    def __init__(self, dsn, expected, counts, seed, seconds):
        self.dsn, self.expected, self.tally, self.seed = dsn, expected, counts, seed
        self.until = time.monotonic() + seconds

    def over(self):
        return time.monotonic() > self.until

    def sleep(self, seconds):
        """Sleeps, but not beyond the run's end."""
        time.sleep(max(0.0, min(seconds, self.until - time.monotonic())))


def live(number, run, only):
    try:
        clients.Client(number, run).live(only)
    except Exception as error:  # a client that cannot continue is a fault, not the end of the run
        run.tally.lost(f"client {number} ended: {error!r}")


def load(run, count, only, server, seen):
    """Runs the clients; returns how many of them hang."""
    threads = [threading.Thread(target=live, args=(number, run, only), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    while not run.over() and server.alive():
        run.sleep(SAY_EVERY_S)
        sample = seen.samples[-1] if seen.samples else {}
        said = " ".join(f"{end} {number}" for end, number in sorted(run.tally.ends.items()))
        resident = sample.get("resident", 0) // watch.MIB
        print(f"{time.monotonic() - began:5.0f} s: {said}; the process has {resident} MiB", flush=True)
    run.until = min(run.until, time.monotonic())
    until = time.monotonic() + verdict.HANG_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return sum(thread.is_alive() for thread in threads)


def left(asked):
    """Scans and operators' bytes that are left after the load, once the last scan has ended."""
    until, found = time.monotonic() + SETTLE_S, None
    while time.monotonic() < until:
        memory = asked.sample()
        if memory:
            scans = asked.connection.execute("select count(*) from coscan.scans").fetchone()[0]
            found = (int(scans), memory["operators"])
            if not scans:
                break
        time.sleep(0.25)
    return found


def soak(args, out):
    expected = answers.Expected(args.data, args.seed)
    counts = tally.Tally()
    options = [*args.option, *(["--memory", args.memory] if args.memory else [])]
    group_limit = limits.size(args.group) if args.group else None
    log = os.path.join(out, "server.log")
    with servers.started(args.coscan, args.data, log, options, group_limit) as server:
        seen = watch.Watch(server.process(), server.group, engine.Engine(server.dsn, counts))
        seen.start()
        changes = None
        if args.limits:
            sizes, every_s = limits.schedule(args.limits)
            changes = engine.Changes(server.dsn, sizes, every_s, counts, seen.began)
            changes.start()
        run = Run(server.dsn, expected, counts, args.seed, args.seconds)
        hung = load(run, args.clients, args.only, server, seen)
        if changes:
            changes.stop()
        seen.stop()
        alive = server.alive()
        after = engine.Engine(server.dsn, counts)
        remains = left(after) if alive else None
        if remains and verdict.is_left(remains):
            with open(os.path.join(out, "left.txt"), "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in after.describes())
    kept = changes.done if changes else [(0.0, limits.size(args.memory))] if args.memory else []
    promised = kept if not args.group else ()
    found = list(
        verdict.faults(counts, seen.samples, alive=alive, hung=hung, left=remains, changes=promised)
    )
    return counts, seen.samples, found, os.path.getsize(log)


def report(args, counts, samples, found, log_bytes):
    yield " ".join(sys.argv)
    yield from counts.lines()
    yield from watch.lines(samples)
    yield f"the log has {log_bytes} bytes"
    yield from found
    yield "broken" if found else "kept"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", required=True, help="the program")
    parser.add_argument("--data", required=True, help="folder with TPC-H's tables")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--group", help="size of a control group for the server")
    parser.add_argument("--memory", help="the server's --memory")
    parser.add_argument("--limits", help="sizes of coscan.memory, and the seconds of each")
    parser.add_argument("--only", choices=sorted(clients.KINDS), help="nine of ten actions are this one")
    parser.add_argument("--option", action="append", default=[], help="an option of the server")
    parser.add_argument("--out", help="where to write; a temporary folder by default")
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp(prefix="coscan-soak-")
    os.makedirs(out, exist_ok=True)
    counts, samples, found, log_bytes = soak(args, out)
    with open(os.path.join(out, "samples.json"), "w", encoding="utf-8") as file:
        json.dump(samples, file)
    with open(os.path.join(out, "memory.svg"), "w", encoding="utf-8") as file:
        file.write(picture.draw(samples, f"{args.clients} clients, {args.group or args.memory or 'no limit'}, seed {args.seed}"))
    with open(os.path.join(out, "summary.json"), "w", encoding="utf-8") as file:
        json.dump(counts.summary(samples, found), file, indent=1)
    said = list(report(args, counts, samples, found, log_bytes))
    with open(os.path.join(out, "report.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(said) + "\n")
    print("\n".join(said))
    print(f"written to {out}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
