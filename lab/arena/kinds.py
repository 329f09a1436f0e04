#!/usr/bin/env python3
"""What does each kind of hostile statement cost a neighbour, and what still runs after its cancellation?

    kinds.py [--coscan BINARY] [--clients 8] [--seconds 5] [--kinds chain,cross] [--json OUT]

Idea: abuse.py mixes all kinds, so that a wait of a minute is one answer among thousands. Here
clients send one kind at a time beside the neighbour of abuse.py, whose longest wait is reported.
After each kind all clients disconnect, and the processor time that the server still uses is
measured: statements that have ended or timed out use none.

K1: rows are compared as in abuse.py. K2: the exit status is 0 only if no kind made the neighbour
wait for more than LONGEST_S, and none used more than REST_S of processor time after its clients
had gone.
"""

import argparse
import json
import os
import random
import shutil
import tempfile
import threading
import time

import abuse

LONGEST_S = 5.0
REST_S = 0.5
AFTER_S = 2.0
# Joins whose filter rejects every pair, so that no row comes out.
JOINS = {
    "loops": "SELECT count(*) FROM t a JOIN t b ON a.k + b.k = -1",
    "hash": "SELECT count(*) FROM t a JOIN t b ON a.g = b.g AND a.k + b.k = -1",
    "semi": "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE a.g = b.g AND a.k + b.k = -1)",
    "left": "SELECT count(*) FROM t a LEFT JOIN t b ON a.k + b.k = -1",
}
KINDS = ["none", *abuse.HOSTILE, *JOINS, "nonsense", "connections", "readers"]


def processor_s(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send_one(kind, port, chance, report):
    """One statement of the kind, over a connection of its own."""
    if kind == "nonsense":
        abuse.send_nonsense(port, chance, report)
    elif kind == "connections":
        abuse.Client(port).close()
    elif kind in JOINS:
        try:
            client = abuse.Client(port)
            client.query("SET statement_timeout = '2s'")
            client.query(JOINS[kind])
        except (OSError, abuse.Refused):
            report.count("refused")
    else:
        abuse.ask(port, chance, report, [other for other in abuse.HOSTILE if other != kind])


def measure(kind, args, server, answers, report):
    over, open_ones, sent = threading.Event(), [], [0]

    def send(seed):
        chance = random.Random(f"{args.seed} {kind} {seed}")
        while not over.is_set():
            send_one(kind, server.port, chance, report)
            sent[0] += 1

    threads = []
    if kind == "readers":
        for _ in range(100):
            abuse.stop_reading(server.port, open_ones, report)
    elif kind != "none":
        threads = [threading.Thread(target=send, args=(n,), daemon=True) for n in range(args.clients)]
        for thread in threads:
            thread.start()
    time.sleep(1)
    # If there is no answer at all, the first query hangs.
    seconds = sorted(abuse.neighbour_alone(server, answers, report, args.seconds)) or [abuse.HANG_S]
    over.set()
    for thread in threads:
        thread.join()
    for client in open_ones:
        client.close()
    time.sleep(0.5)
    before = processor_s(server)
    time.sleep(AFTER_S)
    return {"kind": kind, "answers": len(seconds), "p50_s": seconds[len(seconds) // 2],
            "p95_s": seconds[int(len(seconds) * 0.95)], "max_s": seconds[-1], "sent": sent[0],
            "afterwards_s": processor_s(server) - before}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", default="coscan")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="coscan-kinds-")
    report, found = abuse.Report(), []
    try:
        of_abuse = abuse.parse(["--coscan", args.coscan])
        abuse.make_tables(of_abuse, folder)
        server = abuse.Server(of_abuse, folder)
        answers = abuse.right_answers(server)
        for kind in args.kinds.split(","):
            one = measure(kind, args, server, answers, report)
            found.append(one)
            print(f"{kind:12} {one['sent']:6} sent; {one['answers']:5} answers, P50 {one['p50_s'] * 1e3:6.1f} ms, "
                  f"P95 {one['p95_s'] * 1e3:6.1f}, longest {one['max_s'] * 1e3:7.1f}; "
                  f"afterwards {one['afterwards_s']:.2f} s of {AFTER_S} s", flush=True)
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1)
    if report.counts["wrong_rows"] or any(
            one["max_s"] > LONGEST_S or one["afterwards_s"] > REST_S for one in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
