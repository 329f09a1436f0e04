#!/usr/bin/env python3
"""Which answers does PostgreSQL give? Turns statements (one a line) into a table for tests/answers.

    ask.py SOCKET < statements > answers/NAME.tsv

SOCKET is a server's unix socket, for instance /tmp/pgoracle/.s.PGSQL.5999. Lines that begin with #
are kept. A line that is a table row already is asked again.
"""
import socket
import struct
import sys


def connect(path):
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    words = b"user\0postgres\0database\0postgres\0client_encoding\0UTF8\0\0"
    body = struct.pack("!i", 196608) + words
    server.sendall(struct.pack("!i", len(body) + 4) + body)
    stream = server.makefile("rb")
    while message(stream)[0] != b"Z":
        pass
    return server, stream


def message(stream):
    kind = stream.read(1)
    length = struct.unpack("!i", stream.read(4))[0]
    return kind, stream.read(length - 4)


def answer(server, stream, sql):
    body = sql.encode() + b"\0"
    server.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
    rows, error = [], None
    while True:
        kind, body = message(stream)
        if kind == b"D":
            at, cells = 2, []
            for _ in range(struct.unpack("!h", body[:2])[0]):
                length = struct.unpack("!i", body[at : at + 4])[0]
                at += 4
                if length < 0:
                    cells.append("NULL")
                else:
                    cells.append(body[at : at + length].decode())
                    at += length
            rows.append(" | ".join(cells))
        elif kind == b"E":
            parts = {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}
            error = f"error {parts[b'C']} {parts[b'M']}"
        elif kind == b"Z":
            return error or "; ".join(rows)


def main():
    server, stream = connect(sys.argv[1])
    for line in sys.stdin:
        line = line.rstrip("\n")
        if not line or line.startswith("#"):
            print(line)
            continue
        sql = line.split("\t")[0]
        given = answer(server, stream, sql)
        if "\n" in given or "\t" in given:
            print(f"left out, because its answer has several lines: {sql}", file=sys.stderr)
            continue
        print(f"{sql}\t{given}")


main()
