"""How does the oracle communicate with PostgreSQL and Coscan?

By the PostgreSQL protocol, with the standard library only. A driver would choose parameter types
and formats; here the caller chooses them: each parameter has a type (or none) and a format, and
results come as text or binary.

`send` sends a statement and `receive` returns its answer, so that one thread can have a statement
in each of several sessions at once. `ask` does both.

Not here: the values of cells (`cells.py`), authentication other than trust.
W1: after `receive` has returned, the session is idle and can be used for the next statement.
W2: a session that raised `Lost` is closed.
"""

import socket
import struct

TEXT, BINARY = 0, 1
MESSAGE_BYTES_MAX = 1 << 28


class Lost(Exception):
    """The server closed the session, broke the protocol, or did not answer in time."""


class Parameter:
    """A value for `$n`: bytes in `form`, or None for NULL; `oid` 0 leaves the type to the server."""

    def __init__(self, value, form=TEXT, oid=0):
        self.value, self.form, self.oid = value, form, oid


class Answer:
    """Columns as (name, type oid, format), rows as tuples of bytes or None; or an error."""

    def __init__(self):
        self.columns, self.rows, self.tag, self.error = [], [], "", None

    @property
    def failed(self):
        return self.error is not None

    @property
    def state(self):
        """SQLSTATE of the error, '' if there is none."""
        return self.error.get("C", "") if self.error else ""

    @property
    def message(self):
        return self.error.get("M", "") if self.error else ""


class Session:
    """One connection. `host` may be a folder with a unix socket, as in libpq."""

    def __init__(self, host, port, user="postgres", database="postgres", timeout_s=60):
        try:
            if host.startswith("/"):
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.settimeout(timeout_s)
                self.socket.connect(f"{host}/.s.PGSQL.{port}")
            else:
                self.socket = socket.create_connection((host, port), timeout_s)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Lost(str(error)) from error
        self.buffer = b""
        self.process = self.secret = 0
        pairs = {"user": user, "database": database, "client_encoding": "UTF8"}
        body = b"".join(f"{key}\0{value}\0".encode() for key, value in pairs.items()) + b"\0"
        self._write(struct.pack("!ii", len(body) + 8, 196608) + body)
        answer = self.receive()
        if answer.failed:
            self.close()
            raise Lost(answer.message)

    def ask(self, sql, parameters=None, result_format=TEXT):
        self.send(sql, parameters, result_format)
        return self.receive()

    def send(self, sql, parameters=None, result_format=TEXT, earlier=()):
        """A simple query without `parameters`; with them (also an empty list) the extended one.

        `earlier` are lists of parameters with which the prepared statement is executed first.
        """
        if parameters is None:
            self._write(message(b"Q", sql.encode() + b"\0"))
            return
        name = b"again\0" if earlier else b"\0"
        oids = [parameter.oid for parameter in parameters]
        parse = name + sql.encode() + b"\0" + struct.pack(f"!h{len(oids)}I", len(oids), *oids)
        sent = message(b"C", b"S" + name) + message(b"P", parse)
        for values in (*earlier, parameters):
            sent += (
                message(b"B", bind(name, values, result_format)) + message(b"D", b"P\0") + message(b"E", b"\0\0\0\0\0")
            )
        self._write(sent + message(b"S", b""))

    def receive(self):
        """The answer to what was sent: that of the last statement with rows, up to ReadyForQuery."""
        answer = Answer()
        while True:
            kind, body = self._read()
            if kind == b"Z":
                return answer
            if kind == b"2":  # of a separate execution
                answer.rows = []
            elif kind == b"T":
                answer.columns, answer.rows = columns(body), []
            elif kind == b"D":
                answer.rows.append(row(body))
            elif kind == b"C":
                answer.tag = body[:-1].decode()
            elif kind == b"E":
                answer.error = answer.error or fields(body)
            elif kind == b"K":
                self.process, self.secret = struct.unpack("!ii", body)
            elif kind == b"R":
                if body[:4] != b"\0\0\0\0":
                    self.close()
                    raise Lost("the server asks for a password")
            elif kind == b"G":  # COPY FROM STDIN: the caller sends the rows with `copy_in`
                return answer

    def copy_in(self, sql, data):
        """COPY … FROM STDIN with `data` (bytes); raises ValueError if the server refuses it."""
        self.send(sql)
        answer = self.receive()
        if not answer.failed:
            for start in range(0, len(data), 1 << 16):
                self._write(message(b"d", data[start : start + (1 << 16)]))
            self._write(message(b"c", b""))
            answer = self.receive()
        if answer.failed:
            raise ValueError(f"{sql}: {answer.message}")

    def close(self):
        try:
            self.socket.close()
        except OSError:
            pass

    def _write(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            self.close()
            raise Lost(str(error)) from error

    def _read(self):
        head = self._take(5)
        (length,) = struct.unpack("!i", head[1:])
        if not 4 <= length <= MESSAGE_BYTES_MAX:
            self.close()
            raise Lost(f"message of {length} bytes")
        return head[:1], self._take(length - 4)

    def _take(self, count):
        while len(self.buffer) < count:
            try:
                more = self.socket.recv(1 << 16)
            except OSError as error:
                self.close()
                raise Lost(str(error) or "timed out") from error
            if not more:
                self.close()
                raise Lost("the server closed the connection")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken


def bind(name, parameters, result_format):
    forms = [parameter.form for parameter in parameters]
    body = b"\0" + name + struct.pack(f"!h{len(forms)}hh", len(forms), *forms, len(forms))
    for parameter in parameters:
        if parameter.value is None:
            body += struct.pack("!i", -1)
        else:
            body += struct.pack("!i", len(parameter.value)) + parameter.value
    return body + struct.pack("!hh", 1, result_format)


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def columns(body):
    (count,) = struct.unpack_from("!h", body)
    at, found = 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        _table, _number, oid, _size, _modifier, form = struct.unpack_from("!ihIhih", body, end + 1)
        found.append((body[at:end].decode(), oid, form))
        at = end + 19
    return found


def row(body):
    (count,) = struct.unpack_from("!h", body)
    at, cells = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        if length < 0:
            cells.append(None)
        else:
            cells.append(body[at : at + length])
            at += length
    return tuple(cells)


def fields(body):
    """An error's fields by their letters: C is the SQLSTATE, M the message."""
    found = {}
    for part in body.split(b"\0"):
        if part:
            found[chr(part[0])] = part[1:].decode(errors="replace")
    return found
