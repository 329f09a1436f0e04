#!/usr/bin/env python3
"""How much memory does planning take per literal of a long list? One server, one statement, the growth of its memory.

    lists.py [--coscan BINARY] [--literals 100000] [--kinds ints,values] [--at-once 60 --memory 512MiB]

Idea: the growth of the process's peak memory (VmHWM, reset before the statement), divided by the
number of literals. `LITERAL_BYTES` and `BRACKET_BYTES` of crates/engine/src/statement/bounds/limits.rs
are chosen by this figure. With --at-once that many clients send the first kind at the same moment,
to a server of --memory: each statement is answered or refused (53200), and the process stays
within the memory and the unaccounted part. Otherwise the exit status is 1.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import abuse
import rotations

ROOMY = "8GiB"


def ints(n):
    return ",".join(map(str, range(1, n * 20, 20)))


def among(column, literals):
    return f"SELECT count(*) FROM t WHERE {column} IN ({literals})"


KINDS = {
    "ints": lambda n: among("k", ints(n)),
    "ints, spaced": lambda n: among("k", ints(n).replace(",", ", ")),
    "negative": lambda n: among("k", ",".join(f"-{i}" for i in range(n))),
    "strings": lambda n: among("s", ",".join(f"'name-{i * 20}'" for i in range(n))),
    "decimals": lambda n: among("d", ",".join(f"{i}.5" for i in range(n))),
    "not in": lambda n: f"SELECT count(*) FROM t WHERE k NOT IN ({ints(n)})",
    "a column": lambda n: f"SELECT k IN ({ints(n)}) AS x, count(*) FROM t GROUP BY 1",
    "a join": lambda n: f"SELECT count(*) FROM t a JOIN t b ON a.k = b.k WHERE a.k IN ({ints(n)})",
    "or": lambda n: "SELECT count(*) FROM t WHERE " + " OR ".join(f"k={i * 20}" for i in range(n)),
    "values": lambda n: "SELECT count(*) FROM (VALUES " + ",".join(f"({i})" for i in range(n)) + ") AS v(x)",
    "an array": lambda n: f"SELECT count(*) FROM t WHERE k = ANY(ARRAY[{ints(n)}])",
    "an array's text": lambda n: f"SELECT count(*) FROM t WHERE k = ANY('{{{ints(n)}}}')",
}


class Server(abuse.Server):
    """A server with its own table."""

    def __init__(self, coscan, folder, memory):
        self.port = abuse.free_port()
        self.log = open(os.path.join(folder, "server.log"), "ab")
        self.process = subprocess.Popen(
            [coscan, "serve", "-t", f"t={folder}/t.parquet", "--listen", f"127.0.0.1:{self.port}", "--memory", memory],
            stdout=self.log, stderr=self.log)
        self.wait_ready()

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="ascii") as clear:
            clear.write("5")

    def peak(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


def measure(args, folder, kind):
    server = Server(args.coscan, folder, ROOMY)
    client = abuse.Client(server.port, timeout=300)
    client.query("SELECT count(*), sum(k), max(s), max(d) FROM t")
    client.query(KINDS[kind](10))
    sql = KINDS[kind](args.literals)
    before = server.rss()
    server.forget_peak()
    client.query(sql)
    print(f"{kind:16} {(server.peak() - before - len(sql)) / args.literals:5.0f} bytes a literal, beside the text")
    server.kill()


def at_once(args, folder):
    server = Server(args.coscan, folder, args.memory)
    sql = KINDS[args.kinds[0]](args.literals)
    counts, lock = {"answered": 0, "refused": 0}, threading.Lock()

    def ask():
        try:
            abuse.Client(server.port, timeout=300).query(sql)
            how = "answered"
        except abuse.Refused as refused:
            how = "refused" if "memory" in str(refused) or "bytes" in str(refused) else str(refused)
        with lock:
            counts[how] = counts.get(how, 0) + 1

    threads = [threading.Thread(target=ask) for _ in range(args.at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    peak, bound = server.peak(), rotations.bytes_of(args.memory) + abuse.UNACCOUNTED_BYTES
    print(f"{counts}; at most {peak / 1e6:.0f} MB, of {bound / 1e6:.0f}")
    server.stop()
    return peak <= bound and counts["answered"] > 0 and sum(counts.values()) == counts["answered"] + counts["refused"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", default="coscan")
    parser.add_argument("--literals", type=int, default=100_000)
    parser.add_argument("--kinds", type=lambda text: text.split(";"), default=list(KINDS), help="with ; between them")
    parser.add_argument("--at-once", type=int)
    parser.add_argument("--memory", default="512MiB")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="coscan-lists-")
    try:
        rows = ("SELECT value AS k, 'name-' || value AS s, value::decimal(12,2) AS d "
                "FROM generate_series(1, 3000000)")
        subprocess.run([args.coscan, "sql", f"COPY ({rows}) TO '{folder}/t.parquet'"], check=True,
                       stdout=subprocess.DEVNULL)
        if args.at_once:
            sys.exit(0 if at_once(args, folder) else 1)
        for kind in args.kinds:
            measure(args, folder, kind)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
