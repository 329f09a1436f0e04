#!/usr/bin/env python3
"""Is ClickBench slower with more memory? Its 43 queries from several clients at once, on servers of different memory.

    clickbench.py --data FOLDER [--coscan BINARY] [--memory 16GB,4GB] [--clients 10] [--rounds 3] [--json OUT]

Idea: every round starts a server for each memory limit, in turn, and each client runs all 43
queries, each client starting at another one. The measure is the server's processor time, user and
kernel, and its page faults: the first use of memory costs the kernel time per page. FOLDER/hits
comes from odd_data.py; the queries are the lines of clickbench.sql.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import threading
import time

import alone
import arena
import odd

QUERIES = os.path.join(alone.HERE, "clickbench.sql")


def of_stat(pid):
    """Page faults, user seconds, kernel seconds."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[7]), int(fields[11]) / alone.TICKS_S, int(fields[12]) / alone.TICKS_S


def client(port, queries, first, failed):
    import psycopg
    with psycopg.connect(host="127.0.0.1", port=port, user="coscan", autocommit=True) as connection:
        connection.execute("set coscan.state_cache = '0'")
        for at in range(len(queries)):
            query = queries[(first + at) % len(queries)]
            try:
                connection.execute(query).fetchall()
            except psycopg.Error as error:
                failed.append(f"{query[:60]}: {error}")


def one(args, memory, queries):
    tables = {"hits": os.path.join(args.data, "hits")}
    port, process = arena.serve(args.coscan, tables, "--memory", memory)
    failed = []
    threads = [threading.Thread(target=client, args=(port, queries, at * len(queries) // args.clients, failed))
               for at in range(args.clients)]
    before, begun = of_stat(process.pid), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    faults, user, kernel = (b - a for a, b in zip(before, of_stat(process.pid)))
    peak = odd.of_process(process.pid, "VmHWM")
    process.send_signal(signal.SIGTERM)
    process.wait()
    if failed:
        raise SystemExit(f"clickbench.py: {len(failed)} queries failed, the first: {failed[0]}")
    return {"wall_s": took, "user_s": user, "kernel_s": kernel, "faults": faults, "peak_bytes": peak}


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--coscan", default=os.path.join(alone.HERE, "../../target/release/coscan"))
    parser.add_argument("--memory", default="16GB,4GB")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    with open(QUERIES, encoding="utf-8") as lines:
        queries = lines.read().splitlines()
    limits = args.memory.split(",")
    rounds = [{memory: one(args, memory, queries) for memory in limits} for _ in range(args.rounds)]
    report = {memory: {what: statistics.median(of[memory][what] for of in rounds) for what in rounds[0][memory]}
              for memory in limits}
    for memory, of in report.items():
        print(f"{memory:>6}: {of['wall_s']:.1f} s, user {of['user_s']:.1f}, kernel {of['kernel_s']:.1f} CPU-s, "
              f"{of['faults'] / 1e6:.2f} million faults, peak {of['peak_bytes'] / 1e9:.2f} GB")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"format": "coscan-clickbench", "version": 1, "clients": args.clients, "median": report}, out,
                      indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
