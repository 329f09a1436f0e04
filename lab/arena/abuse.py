#!/usr/bin/env python3
"""What do hostile clients cost a well-behaved one? Hostile statements, messages and files against one `coscan serve`.

    abuse.py [--coscan BINARY] [--small] [--statements 1000] [--connections 200] [--kills 3] [--json OUT]

Idea: one client, the neighbour, repeats the same queries, first on a quiet server, then under
abuse, and compares every answer with the known rows. Meanwhile half of the connections query a
large table and stop reading. The others send statements that overflow, nest, repeat and never end,
and messages that are cut off, have wrong lengths or are no protocol at all. The one file of a
table is replaced by damaged ones all the time. When the abuse has ended the neighbour continues
for as long as before it: a shared machine's speed changes within minutes, so the quiet figures are
taken on both sides of the abuse. Then the server is killed (SIGKILL) under load and restarted,
several times.

A1: a server that ends by itself is an abort. A2: an answer that is neither the right rows nor an
error is a wrong one. A3: a query without an answer after HANG_S is a hang. Everything in the
report is counted, never judged by eye: the exit status is 0 only if there are no aborts, hangs or
wrong rows, and memory stayed within its bound. The ratio of latencies has an aim (RATIO_AIM),
which noisy machines miss, so it is only reported.

A4: the neighbour's latency measures the server, not Python. The neighbour is a process of its own:
a thread beside two hundred others would compete with them for Python's lock. --nice gives the
abusive clients less processor time, as if they ran on another machine.

Not here: changed metadata and pages that are consistent in themselves
(crates/engine/tests/engine/mutants, a hundred thousand of them). That test can keep its files
(`COSCAN_MUTANTS_KEEP`), and --files uses them here.
"""

import argparse
import glob
import json
import multiprocessing
import os
import platform
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HANG_S = 60.0
READY_S = 60.0
RATIO_AIM = 1.5
LONG_WAIT_S = 0.1
# The server counts as quiet this long after the last abusive client has gone.
SETTLES_S = 2.0
MEMORY_BYTES = 512 << 20
# Memory that the engine leaves to allocations outside of its accounts (settings.rs,
# `coscan.memory`).
UNACCOUNTED_BYTES = 320 << 20
ROWS = {True: 200_000, False: 3_000_000}
# A server that takes this many times the bound is killed before it takes all the machine's memory.
RUNAWAY = 3
HERE = os.path.dirname(os.path.abspath(__file__))
OPEN_CONNECTION = b"user\0abuse\0database\0abuse\0\0"


class Refused(Exception):
    """The server sent an error, or closed the connection."""


class Client:
    """The part of PostgreSQL's protocol that is needed: simple queries, rows as text."""

    def __init__(self, port, timeout=HANG_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.buffer = b""
        self.send_raw(struct.pack("!ii", 8 + len(OPEN_CONNECTION), 196608) + OPEN_CONNECTION)
        self.rows_until_ready()

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, kind, body):
        self.send_raw(kind + struct.pack("!i", 4 + len(body)) + body)

    def take(self, length):
        while len(self.buffer) < length:
            more = self.socket.recv(1 << 16)
            if not more:
                raise Refused("the connection was closed")
            self.buffer += more
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def rows_until_ready(self):
        rows, refused = [], None
        while True:
            kind, length = struct.unpack("!ci", self.take(5))
            body = self.take(length - 4)
            if kind == b"D":
                rows.append(row_of(body))
            elif kind == b"E":
                refused = message_of(body)
            elif kind == b"Z":
                if refused:
                    raise Refused(refused)
                return rows

    def query(self, sql):
        self.send(b"Q", sql.encode() + b"\0")
        return self.rows_until_ready()

    def close(self):
        self.socket.close()


def row_of(body):
    cells, at = [], 2
    for _ in range(struct.unpack_from("!h", body)[0]):
        length = struct.unpack_from("!i", body, at)[0]
        at += 4
        cells.append(None if length < 0 else body[at:at + length].decode())
        at += max(length, 0)
    return tuple(cells)


def message_of(body):
    fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
    return fields.get(b"M", b"").decode(errors="replace")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Server:
    """A `coscan serve`, and how it ended."""

    def __init__(self, args, folder):
        self.port = free_port()
        self.log = open(os.path.join(folder, "server.log"), "ab")
        self.process = subprocess.Popen(
            [args.coscan, "serve", "-t", f"t={folder}/t.parquet", "-t", f"h={folder}/hostile/",
             "--listen", f"127.0.0.1:{self.port}", "--memory", str(MEMORY_BYTES),
             "--connections-max", str(args.connections + 20)], stdout=self.log, stderr=self.log)
        self.wait_ready()

    def wait_ready(self):
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            try:
                Client(self.port, timeout=5).close()
                return
            except (OSError, Refused):
                if self.process.poll() is not None:
                    with open(self.log.name, encoding="utf-8", errors="replace") as log:
                        raise SystemExit(f"abuse.py: the server does not start: {log.read()[-20000:]}")
                time.sleep(0.05)
        raise SystemExit("abuse.py: the server is not ready in time")

    def rss(self):
        try:
            with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
                lines = [line for line in status if line.startswith("VmRSS")]
            return int(lines[0].split()[1]) << 10 if lines else 0
        except OSError:
            return 0

    def ended(self):
        """The exit status if it ended by itself; None if it runs."""
        return self.process.poll()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Report:
    """What happened, counted by all threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {"aborts": 0, "hangs": 0, "wrong_rows": 0, "answered": 0, "refused": 0}
        self.notes = []

    def count(self, what, note=None):
        with self.lock:
            self.counts[what] += 1
            if note and len(self.notes) < 20:
                self.notes.append(note)


QUESTIONS = ["SELECT count(*), sum(k), max(s) FROM t WHERE k % 7 = 3",
             "SELECT g, count(*), sum(k) FROM t GROUP BY g ORDER BY g",
             "SELECT k, s FROM t WHERE k BETWEEN 1000 AND 1040 ORDER BY k"]


PROCESSES = multiprocessing.get_context("spawn")


class Neighbour:
    """The well-behaved client: measures latencies and compares every answer. A process of its own (A4)."""

    def __init__(self, port, answers, report):
        self.report, self.over = report, PROCESSES.Event()
        self.told, tell = PROCESSES.Pipe(duplex=False)
        self.process = PROCESSES.Process(target=behave, args=(port, answers, self.over, tell), daemon=True)
        self.process.start()
        tell.close()
        self.heard()  # It is connected: the load to be measured beside it begins now.

    def heard(self):
        try:
            return self.told.recv() if self.told.poll(HANG_S + 5) else None
        except EOFError:
            return None

    def finish(self):
        """Its latencies in seconds, ascending."""
        self.over.set()
        outcome = self.heard()
        self.process.join(5)
        if outcome is None:
            self.report.count("hangs", "the neighbour does not answer")
            self.process.kill()
            return []
        for what, note in outcome["counts"]:
            self.report.count(what, note)
        return sorted(outcome["seconds"])


def behave(port, answers, over, tell):
    """The neighbour's process: sends one query after the other until `over` is set."""
    client = Client(port)
    tell.send("connected")
    at, seconds, counts = 0, [], []
    while not over.is_set():
        sql = QUESTIONS[at % len(QUESTIONS)]
        at += 1
        start = time.perf_counter()
        try:
            rows = client.query(sql)
        except socket.timeout:
            counts.append(("hangs", f"the neighbour: {sql}"))
            break
        except (OSError, Refused) as error:
            counts.append(("aborts", f"the neighbour: {sql}: {error}"))
            break
        seconds.append(time.perf_counter() - start)
        if rows != answers[sql]:
            counts.append(("wrong_rows", f"the neighbour: {sql}: {rows[:3]}"))
    tell.send({"seconds": seconds, "counts": counts})


def give_way(niceness):
    """Lowers the priority of the calling thread, an abusive client (A4)."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


# By kind: a function that makes a statement of a size, and the rows that it must give if it gives any
# (None: unknown; "slow": it must be cancelled).
HOSTILE = {
    "chain": lambda n, _: ("SELECT " + "+".join(["1"] * n), [(str(n),)]),
    "ors": lambda n, _: ("SELECT count(*) FROM t WHERE " + " OR ".join(f"k={k}" for k in range(n)), [(str(n),)]),
    "list": lambda n, _: ("SELECT count(*) FROM t WHERE k IN (" + ",".join(map(str, range(n * 20))) + ")", [(str(n * 20),)]),
    "nested": lambda n, _: ("SELECT " + "(" * n + "1" + ")" * n, [("1",)]),
    "not": lambda n, _: ("SELECT " + "NOT " * n + "true", [("t",)]),
    "empty": lambda n, _: (";" * n * 100, []),
    "repeat": lambda n, _: ("SELECT length(repeat('x', 2000000000))", None),
    "cross": lambda n, _: ("SELECT count(*) FROM t a, t b, t c, t d WHERE a.k + b.k + c.k + d.k = -1", "slow"),
    "recursive": lambda n, _: ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r", "slow"),
    "sort": lambda n, _: ("SELECT * FROM t ORDER BY s, k DESC LIMIT 3", None),
    "bytes": lambda n, _: ("SELECT \x01\x7f'\u20ac" + "\\" * n, None),
    "explain": lambda n, _: ("EXPLAIN " * n + "SELECT 1", None),
    "cursor": lambda n, _: ("DECLARE c CURSOR FOR SELECT * FROM t", None),
    "setting": lambda n, chance: (f"SET coscan.chunk_bytes = '{chance.randrange(1 << 70)}'", None),
    "drop": lambda n, _: ("DROP TABLE t_that_is_not_there", None),
    "file": lambda n, _: ("SELECT count(*), sum(k), max(s) FROM h", None),
    "rows": lambda n, _: ("SELECT * FROM h ORDER BY k LIMIT 5", None),
}


def hostile_statement(chance, left_out=()):
    """A statement of a random kind, and its expected rows."""
    kind = chance.choice([kind for kind in HOSTILE if kind not in left_out])
    return HOSTILE[kind](chance.choice([10, 100, 1000, 5000]), chance)


def ask(port, chance, report, left_out=()):
    """One hostile statement over a connection of its own."""
    sql, right = hostile_statement(chance, left_out)
    try:
        client = Client(port)
        if right == "slow":
            client.query("SET statement_timeout = '2s'")
        rows = client.query(sql)
        client.close()
    except socket.timeout:
        return report.count("hangs", sql[:100])
    except (OSError, Refused):
        return report.count("refused")
    if isinstance(right, list) and rows != right:
        return report.count("wrong_rows", f"{sql[:100]}: {rows[:3]}")
    return report.count("answered")


def send_nonsense(port, chance, report):
    """Sends bytes that are not a complete message of the protocol; then closes the connection, or waits for an answer."""
    start = struct.pack("!ii", 8 + len(OPEN_CONNECTION), 196608) + OPEN_CONNECTION
    message = chance.choice([
        b"", b"\0" * 8, b"GET / HTTP/1.1\r\n\r\n", struct.pack("!ii", 0x7fffffff, 196608), struct.pack("!ii", -1, 196608),
        struct.pack("!ii", 8, 80877103), struct.pack("!iiii", 16, 80877102, 1, 2), start[:chance.randrange(len(start))],
        start + b"Q" + struct.pack("!i", 0x7fffffff), start + b"Q" + struct.pack("!i", -5), start + b"Q" + struct.pack("!i", 4),
        start + b"P" + struct.pack("!i", 8) + b"\xff\xff\xff\xff", start + b"B" + struct.pack("!i", 12) + b"\0\0\x7f\xff\x7f\xff\0\0",
        start + b"E" + struct.pack("!i", 9) + b"\0\x7f\xff\xff\xff", start + b"X" * 1000, start + b"d" + struct.pack("!i", 5) + b"x",
        start + chance.randbytes(chance.randrange(1, 3000))])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(message)
            if chance.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(chance.choice([0.01, 0.3]))
            connection.recv(1 << 16)
    except OSError:
        pass
    report.count("refused")


def stop_reading(port, open_ones, report):
    """Selects all rows and reads none; the connection stays open."""
    try:
        client = Client(port)
        client.send(b"Q", b"SELECT a.*, b.* FROM t a JOIN t b ON a.g = b.g\0")
        open_ones.append(client)
    except (OSError, Refused):
        report.count("refused")


def damaged(file, chance):
    """The file with some bytes changed, cut off, or repeated."""
    data = bytearray(file)
    way = chance.randrange(4)
    if way == 0:
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.choice([0, 0xff, chance.randrange(256)])
    elif way == 1:
        footer = struct.unpack("<i", data[-8:-4])[0]
        for _ in range(chance.randrange(1, 9)):
            data[chance.randrange(len(data) - 8 - footer, len(data))] = chance.choice([0, 0xff, 0x7f, chance.randrange(256)])
    elif way == 2:
        del data[chance.randrange(len(data)):]
    else:
        at, length = chance.randrange(len(data)), chance.randrange(200)
        data[at:at] = data[at - length:at]
    return bytes(data)


def replace_files(args, folder, chance, over):
    """Replaces the one file of the table `h` by damaged ones, until `over` is set."""
    give_way(args.nice)
    with open(f"{folder}/whole.parquet", "rb") as whole:
        whole = whole.read()
    while not over.is_set():
        data = whole if chance.random() < 0.2 else damaged(whole, chance)
        if args.files and chance.random() < 0.5:
            with open(chance.choice(args.files), "rb") as mutant:
                data = mutant.read()
        with open(f"{folder}/next", "wb") as draft:
            draft.write(data)
        os.replace(f"{folder}/next", f"{folder}/hostile/h.parquet")
        time.sleep(0.02)


def make_tables(args, folder):
    os.makedirs(f"{folder}/hostile")
    rows = ROWS[args.small]
    for name, count in (("t", rows), ("whole", 20_000)):
        sql = (f"COPY (SELECT value AS k, value % 10 AS g, concat('text ', value % 1000) AS s FROM generate_series(0, {count - 1}) AS g(value)) "
               f"TO '{folder}/{name}.parquet' STORED AS PARQUET")
        subprocess.run([args.coscan, "sql", sql], check=True, stdout=subprocess.DEVNULL)
    shutil.copy(f"{folder}/whole.parquet", f"{folder}/hostile/h.parquet")


def percentile(values, share):
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def abuse(args, server, folder, report):
    """Runs all abuse at once until every statement was sent; returns the highest RSS seen."""
    over, peak = threading.Event(), [0]
    chance = random.Random(args.seed)
    replacing = threading.Thread(target=replace_files, args=(args, folder, random.Random(args.seed + 1), over), daemon=True)
    replacing.start()

    def watch():
        while not over.is_set():
            peak[0] = max(peak[0], server.rss())
            if peak[0] > RUNAWAY * (MEMORY_BYTES + UNACCOUNTED_BYTES) and server.ended() is None:
                report.count("aborts", f"memory ran away: {peak[0]} bytes; ended here")
                server.process.kill()
            time.sleep(0.05)
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    stalled = []
    for _ in range(args.connections // 2):
        stop_reading(server.port, stalled, report)
    left = list(range(args.statements))
    lock = threading.Lock()

    def work(seed):
        give_way(args.nice)
        own = random.Random(seed)
        while server.ended() is None:
            with lock:
                if not left:
                    return
                left.pop()
            if own.random() < 0.7:
                ask(server.port, own, report, args.leave_out)
            else:
                send_nonsense(server.port, own, report)
    workers = [threading.Thread(target=work, args=(chance.random(),), daemon=True)
               for _ in range(max(args.connections - args.connections // 2, 1))]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + HANG_S * (2 + args.statements / len(workers))
    for worker in workers:
        worker.join(max(deadline - time.monotonic(), 0))
        if worker.is_alive():
            report.count("hangs", "a worker")
    over.set()
    watching.join()
    replacing.join()
    # The next servers must be able to open the table.
    shutil.copy(f"{folder}/whole.parquet", f"{folder}/hostile/h.parquet")
    for client in stalled:
        client.close()
    return peak[0]


def kill_under_load(args, folder, answers, report):
    """SIGKILL while many clients query; the next server must give the same answers."""
    for at in range(args.kills):
        server = Server(args, folder)
        chance = [random.Random(f"{args.seed} {at} {n}") for n in range(8)]
        quiet = Report()
        asking = [threading.Thread(target=ask, args=(server.port, one, quiet, args.leave_out), daemon=True) for one in chance]
        for thread in asking:
            thread.start()
        time.sleep(0.2)
        server.kill()
        for thread in asking:
            thread.join(HANG_S + 5)
        server = Server(args, folder)
        client = Client(server.port)
        for sql, rows in answers.items():
            if client.query(sql) != rows:
                report.count("wrong_rows", f"after SIGKILL: {sql}")
        client.close()
        server.stop()


def neighbour_alone(server, answers, report, seconds):
    neighbour = Neighbour(server.port, answers, report)
    time.sleep(seconds)
    return neighbour.finish()


def quiet_seconds(args):
    return 2 if args.small else 10


def right_answers(server):
    client = Client(server.port)
    answers = {sql: client.query(sql) for sql in QUESTIONS}
    client.close()
    return answers


def run(args, folder):
    make_tables(args, folder)
    report = Report()
    server = Server(args, folder)
    answers = right_answers(server)
    before = neighbour_alone(server, answers, report, quiet_seconds(args))
    neighbour = Neighbour(server.port, answers, report)
    peak = abuse(args, server, folder, report)
    beside, after = neighbour.finish(), []
    if server.ended() is not None:
        report.count("aborts", f"the server ended: {server.ended()}")
        server.log.close()
    else:
        client = Client(server.port)
        for sql, rows in answers.items():
            if client.query(sql) != rows:
                report.count("wrong_rows", f"afterwards: {sql}")
        client.close()
        time.sleep(SETTLES_S)
        after = neighbour_alone(server, answers, report, quiet_seconds(args))
        server.stop()
    kill_under_load(args, folder, answers, report)
    quiet = sorted(before + after)
    quiet_p95, beside_p95 = percentile(quiet, 0.95), percentile(beside, 0.95)
    ratio = beside_p95 / quiet_p95 if quiet_p95 and beside_p95 else None
    bound = MEMORY_BYTES + UNACCOUNTED_BYTES
    return {**report.counts, "notes": report.notes, "rss_bytes_max": peak, "rss_bytes_bound": bound,
            "neighbour": {"quiet_s_p95": quiet_p95, "abused_s_p95": beside_p95, "ratio": ratio, "aim": RATIO_AIM,
                          "quiet_before_s_p95": percentile(before, 0.95), "quiet_after_s_p95": percentile(after, 0.95),
                          "quiet_queries": len(quiet), "abused_queries": len(beside),
                          "quiet_s_max": max(quiet, default=None), "abused_s_max": max(beside, default=None),
                          # A wait of seconds is one answer among thousands, so its cost shows in
                          # the sum, not in the P95.
                          "abused_s": sum(beside), "abused_s_in_long_waits": sum(s for s in beside if s > LONG_WAIT_S)},
            "command": " ".join(sys.argv), "nice": args.nice, "commit": commit(), "machine": machine(),
            "statements": args.statements, "left_out": args.leave_out, "connections": args.connections, "kills": args.kills, "seed": args.seed}


def passed(result):
    return (not (result["aborts"] or result["hangs"] or result["wrong_rows"])
            and result["rss_bytes_max"] <= result["rss_bytes_bound"])


def commit():
    asked = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def machine():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{os.cpu_count()} cores, {pages >> 20} MiB, {platform.system()} {platform.release()}"


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", default="coscan")
    parser.add_argument("--small", action="store_true", help="a minute's worth: 60 statements, 20 connections, 1 kill")
    parser.add_argument("--statements", type=int)
    parser.add_argument("--connections", type=int)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--files", help="a folder of hostile Parquet files")
    parser.add_argument("--leave-out", default="", help=f"kinds of statements, of {', '.join(HOSTILE)}")
    parser.add_argument("--nice", type=int, default=0, help="niceness of the abusive clients")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    for name, small, large in (("statements", 60, 1000), ("connections", 20, 200), ("kills", 1, 3)):
        if getattr(args, name) is None:
            setattr(args, name, small if args.small else large)
    args.leave_out = [kind for kind in args.leave_out.split(",") if kind]
    args.files = sorted(glob.glob(os.path.join(args.files, "*.parquet"))) if args.files else []
    return args


def main():
    args = parse(sys.argv[1:])
    folder = tempfile.mkdtemp(prefix="coscan-abuse-")
    try:
        result = run(args, folder)
        text = json.dumps(result, indent=1)
        print(text)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as out:
                out.write(text + "\n")
        with open(f"{folder}/server.log", encoding="utf-8", errors="replace") as log:
            end = log.readlines()[-20:]
        if not passed(result):
            sys.stderr.write("".join(end))
            raise SystemExit(1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
