#!/usr/bin/env python3
"""Are clients served that all connect at once, and what do clients send that know no protocol?

    crowd.py --coscan PROGRAM --data FOLDER [--clients 500] [--rounds 10] [--damaged 3000] [--seed 1] [--json OUT]

In each round all clients open their connections together, query one row, and leave when the last one
has it. Then come connections whose messages are damaged (bytes changed, lost or doubled, lengths and
counts far beyond the message), fifty at a time, and one more client that must be served.

C1: every client of every round gets its row.
C2: damaged messages end no server and cause no panic, and at most `LOGGED_MAX` bytes a connection are
logged for them.
The exit status is 1 if one is broken.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import struct
import sys
import tempfile
import time

import servers

ROUND_S, TOGETHER = 60, 50
LOGGED_MAX = 400
# Lengths and counts that a decoder may believe.
BEYOND = (0, 1, 3, 4, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def message(kind, body=b""):
    return kind + struct.pack("!I", len(body) + 4) + body


def startup():
    body = struct.pack("!I", 196608) + b"user\0crowd\0database\0coscan\0\0"
    return struct.pack("!I", len(body) + 4) + body


def query(text):
    return message(b"Q", text.encode() + b"\0")


def prepared():
    """Messages of the extended protocol, each a bytes of its own: one parameter, one row."""
    return [
        message(b"P", b"s\0select $1::int\0" + struct.pack("!HI", 1, 23)),
        message(b"B", b"p\0s\0" + struct.pack("!HHHI", 1, 0, 1, 1) + b"7" + struct.pack("!HH", 1, 0)),
        message(b"D", b"Pp\0"),
        message(b"E", b"p\0" + struct.pack("!I", 0)),
        message(b"C", b"Ss\0"),
        message(b"d", b"1\t2\n"),
        message(b"f", b"no\0"),
        message(b"p", b"secret\0"),
        message(b"H"),
        message(b"S"),
    ]


def damaged(draw, said):
    """`said` with one to four faults."""
    said = bytearray(said)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(said))
        fault = draw.randrange(5)
        if fault == 0:
            said[at] = draw.randrange(256)
        elif fault == 1:
            said[at:at + 4] = struct.pack("!I", draw.choice(BEYOND))
        elif fault == 2:
            said[at:at + 2] = struct.pack("!H", draw.choice(BEYOND) & 0xFFFF)
        elif fault == 3 and len(said) > 8:
            del said[at:at + draw.randint(1, 8)]
        else:
            said[at:at] = said[at:at + draw.randint(1, 64)]
        if not said:
            return b"\0"
    return bytes(said)


def conversation(draw):
    """What one connection sends: sometimes the beginning itself is damaged."""
    begin, messages = startup(), [query("select 1"), *prepared()]
    if draw.random() < 0.2:
        return damaged(draw, begin)
    draw.shuffle(messages)
    return begin + damaged(draw, b"".join(messages[:draw.randint(1, len(messages))]))


async def until_ready(reader):
    """The kinds of the messages up to ReadyForQuery; an error is raised with its text."""
    kinds = b""
    while not kinds.endswith(b"Z"):
        head = await reader.readexactly(5)
        body = await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)
        kinds += head[:1]
        if head[:1] == b"E":
            raise RuntimeError(body.replace(b"\0", b" ").decode(errors="replace"))
    return kinds


async def served(port):
    """Connects and queries a row: the seconds that it took, and the connection, which stays open."""
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(startup())
    await until_ready(reader)
    writer.write(query("select 7"))
    if b"D" not in await until_ready(reader):
        raise RuntimeError("no row")
    return time.monotonic() - begun, writer


async def crowd(port, clients):
    """Seconds until the last client was served, and why the others were not."""
    tasks = [asyncio.wait_for(served(port), ROUND_S) for _ in range(clients)]
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [f"{type(end).__name__} {end}" for end in ends if isinstance(end, BaseException)]
    connected = [end for end in ends if not isinstance(end, BaseException)]
    for _, writer in connected:
        writer.write(message(b"X"))
        writer.close()
    return max((took for took, _ in connected), default=0.0), failed


async def send(port, said):
    """Sends what may be nonsense, and reads until the server ends the connection or has no more to say."""
    with contextlib.suppress(TimeoutError, ConnectionError):  # A server that has ended is told by the last client.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            writer.write(said)
            while await asyncio.wait_for(reader.read(4096), 0.2):
                pass


async def send_all(port, number, draw):
    said = [conversation(draw) for _ in range(number)]
    for at in range(0, number, TOGETHER):
        await asyncio.gather(*(send(port, one) for one in said[at:at + TOGETHER]))


def broken(rounds, logged, panics, served_after, damaged_connections):
    """The promises that are broken, each in words."""
    for at, (_, failed) in enumerate(rounds):
        if failed:
            yield f"C1: {len(failed)} clients of round {at + 1} were not served, the first: {failed[0]}"
    if panics:
        yield f"C2: {panics} panics"
    if not served_after:
        yield "C2: no client is served afterwards"
    if logged > LOGGED_MAX * damaged_connections:
        yield f"C2: {logged} bytes are logged for {damaged_connections} connections"


async def judge(args, port, log):
    rounds = [await crowd(port, args.clients) for _ in range(args.rounds)]
    before = os.path.getsize(log)
    await send_all(port, args.damaged, random.Random(args.seed))
    logged = os.path.getsize(log) - before
    _, failed = await crowd(port, 1)
    with open(log, encoding="utf-8", errors="replace") as said:
        panics = said.read().count("panicked at")
    return {
        "clients": args.clients, "slowest_s": [took for took, _ in rounds], "damaged": args.damaged,
        "seed": args.seed, "logged_bytes": logged, "panics": panics,
        "broken": list(broken(rounds, logged, panics, not failed, args.damaged)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", required=True, help="the program")
    parser.add_argument("--data", required=True, help="folder with TPC-H's tables")
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--damaged", type=int, default=3000, help="connections whose messages are damaged")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where the figures go")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="coscan-crowd-") as folder:
        log = os.path.join(folder, "log")
        with servers.started(args.coscan, args.data, log) as server:
            port = int(server.dsn.split("port=")[1].split()[0])
            result = asyncio.run(judge(args, port, log))
    print(json.dumps(result, indent=1))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)
    return 1 if result["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
