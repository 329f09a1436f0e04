#!/usr/bin/env python3
"""Does a server stay within its memory while files and settings change? One `coscan serve`, one client at a time.

    rotations.py [--coscan BINARY] [--rotations 10000] [--settings 10000] [--memory 256MiB] [--json OUT]

Idea: a folder is a table. Each rotation puts a file with a new name into it, selects its rows, and
removes the oldest file, as daily files and compaction do. Each setting is a new value of
`coscan.chunk_bytes`, which is part of the key under which the server keeps what it knows of a
table. Connections are replaced every so often, as pools do.

M1: the process's memory stays within `--memory` and the engine's allowance for unaccounted memory.
M2: every answer is right. Otherwise the exit status is 1.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import abuse

KEPT = 5
PER_CONNECTION = 100
ROWS = 2000
CHUNK_BYTES_MIN = 1 << 16
COLUMNS = 30


def bytes_of(text):
    units = {"KiB": 10, "MiB": 20, "GiB": 30}
    return int(text[:-3]) << units[text[-3:]]


def write_file(coscan, path):
    columns = ", ".join(f"value * {n} AS c{n}" for n in range(1, COLUMNS))
    sql = f"COPY (SELECT value AS k, {columns} FROM generate_series(1, {ROWS}) AS g(value)) TO '{path}'"
    subprocess.run([coscan, "sql", sql], check=True, stdout=subprocess.DEVNULL)


class Server(abuse.Server):
    """A server whose table is a folder."""

    def __init__(self, args, folder):
        self.port = abuse.free_port()
        self.log = open(os.path.join(folder, "server.log"), "ab")
        self.process = subprocess.Popen(
            [args.coscan, "serve", "-t", f"t={folder}/t/", "--listen", f"127.0.0.1:{self.port}",
             "--memory", str(bytes_of(args.memory)), "--small-table-bytes", "0"], stdout=self.log, stderr=self.log)
        self.wait_ready()

    def rss_max(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            lines = [line for line in status if line.startswith("VmHWM")]
        return int(lines[0].split()[1]) << 10


def ask(client, files):
    """Checks the sums: every file has all keys."""
    rows = client.query("SELECT count(*), sum(k), sum(c7) FROM t")
    total = files * ROWS * (ROWS + 1) // 2
    if rows != [(str(files * ROWS), str(total), str(7 * total))]:
        raise SystemExit(f"rotations.py: wrong rows: {rows}")


def rotate(args, server, folder):
    client = None
    for day in range(args.rotations):
        if day % PER_CONNECTION == 0:
            client and client.close()
            client = abuse.Client(server.port)
        # A copy, not a link: a new file, whose rows are read.
        shutil.copyfile(f"{folder}/one.parquet", f"{folder}/new")
        os.rename(f"{folder}/new", f"{folder}/t/day-{day + KEPT}.parquet")
        os.remove(f"{folder}/t/day-{day}.parquet")
        ask(client, KEPT)
        told("rotations", day, server)
    client and client.close()


def told(what, n, server):
    if (n + 1) % 1000 == 0:
        print(f"{n + 1} {what}: {server.rss_max() / 1e6:.0f} MB at most", file=sys.stderr, flush=True)


def set_all(args, server):
    client = None
    for n in range(args.settings):
        if n % PER_CONNECTION == 0:
            client and client.close()
            client = abuse.Client(server.port)
        client.query(f"SET coscan.chunk_bytes = {CHUNK_BYTES_MIN + n}")
        ask(client, KEPT)
        told("settings", n, server)
    client and client.close()


def run(args, folder):
    write_file(args.coscan, f"{folder}/one.parquet")
    os.mkdir(f"{folder}/t")
    for day in range(KEPT):
        shutil.copyfile(f"{folder}/one.parquet", f"{folder}/t/day-{day}.parquet")
    server = Server(args, folder)
    peaks = [server.rss_max()]
    try:
        rotate(args, server, folder)
        peaks.append(server.rss_max())
        set_all(args, server)
        peaks.append(server.rss_max())
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait()
        server.log.close()
    bound = bytes_of(args.memory) + abuse.UNACCOUNTED_BYTES
    return {"rotations": args.rotations, "settings": args.settings, "rss_bytes_started": peaks[0],
            "rss_bytes_max_rotated": peaks[1], "rss_bytes_max": peaks[2], "rss_bytes_bound": bound,
            "within": peaks[2] <= bound, "commit": abuse.commit(), "machine": abuse.machine()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", default="coscan")
    parser.add_argument("--rotations", type=int, default=10_000)
    parser.add_argument("--settings", type=int, default=10_000)
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--json")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="coscan-rotations-")
    try:
        result = run(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(result, indent=1)
    print(text)
    if args.json:
        with open(args.json, "w", encoding="ascii") as out:
            out.write(text + "\n")
    sys.exit(0 if result["within"] else 1)


if __name__ == "__main__":
    main()
