"""What does one client do next?

Each kind is a function of a client. Most kinds query and compare; the others do what clients of
real servers do: cancel, hang up, hold cursors, run into timeouts, cause errors, change settings,
write their own tables, read rows slowly or not at all, open many connections at once.

C1: a client that queries knows the expected rows. A statement that needs almost no memory (BEGIN,
ROLLBACK, SHOW, DISCARD, connecting) runs as `free`: its refusal is a fault.
"""

import random
import socket
import threading
import time

import psycopg

import answers
import statements

CANCELED, TIMEOUT, GONE = "57014", "57014", (None, "57P01", "08006")
CONNECT_TIMEOUT_S = 20
RETRY_S = 0.3

# The weight of each kind.
KINDS = {
    "question": 40, "parameters": 8, "cancel": 12, "vanish": 8, "cursor": 8, "timeout": 6, "own": 6, "setting": 6,
    "error": 4, "transaction": 6, "slow": 3, "copy": 3, "prepared": 3, "pool": 1,
}
SETTINGS = (
    "coscan.small_table_bytes = 0", "coscan.share_operators = off", "coscan.share_operators = on",
    "coscan.share_fragments = off", "coscan.share_fragments = on", "coscan.cooperative = off",
    "coscan.cooperative = on", "statement_timeout = 0", "timezone = 'Europe/Berlin'",
)
ERRORS = (
    "select 1 / 0", "selct", "select * from nowhere", "select l_tax::int from lineitem where l_comment::int > 1",
    "select sum(l_comment) from lineitem",
)
# Division by zero, syntax, no such table, not a number, no such function.
ERRORS_CODES = ("22012", "42601", "42P01", "22P02", "42883")


class Client:
    """One user: a connection, replaced when it is lost, and its own random source."""

    def __init__(self, number, run):
        self.run, self.tally, self.expected = run, run.tally, run.expected
        self.draw = random.Random(run.seed * 1000 + number)
        self.kind = "connect"
        self.connection = self.connect()

    def connect(self):
        """A connection. A refusal is counted, and the client retries until the run ends."""
        while True:
            try:
                return psycopg.connect(self.run.dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S)
            except psycopg.Error as error:
                self.failed(error, free=True)
                if self.run.over():
                    raise
                time.sleep(RETRY_S)

    def failed(self, error, expected=(), free=False):
        if error.sqlstate is None and expected != GONE:
            self.tally.lost(str(error))
        else:
            self.tally.failed(error.sqlstate, f"{self.kind}: {error}", expected, free)

    def live(self, only=None):
        """Performs one action after the other until the run ends."""
        names, weights = list(KINDS), list(KINDS.values())
        while not self.run.over():
            kind = only if only and self.draw.random() < 0.9 else self.draw.choices(names, weights)[0]
            self.kind = kind
            self.tally.does(kind)
            try:
                globals()[kind](self)
            except psycopg.Error as error:
                self.failed(error)
            self.recover()
        self.connection.close()

    def recover(self):
        if not self.connection.closed and self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.free("rollback")
        if self.connection.closed or self.draw.random() < 0.05:
            self.connection.close()
            self.connection = self.connect()

    def free(self, text):
        """Runs a statement that needs almost no memory."""
        try:
            return self.connection.execute(text)
        except psycopg.Error as error:
            self.failed(error, free=True)
            return None

    def ask(self, text, expected, values=None, prepare=None):
        began = time.monotonic()
        rows = self.connection.execute(text, values, prepare=prepare).fetchall()
        self.compare(text, rows, expected, time.monotonic() - began)

    def compare(self, text, rows, expected, seconds):
        if answers.same(rows, expected):
            self.tally.answered(seconds)
        else:
            self.tally.differs(text, rows, expected)

    def question(self):
        return self.draw.choice(list(self.expected.questions.items()))


def question(client):
    client.ask(*client.question())


def parameters(client):
    """Uses the extended protocol, by psycopg and by SQL."""
    (text, value), expected = client.draw.choice(list(client.expected.parametric.items()))
    if client.draw.random() < 0.5:
        client.ask(text.replace("$1", "%s"), expected, (value,), client.draw.random() < 0.5)
        return
    client.connection.execute(f"prepare p (int) as {text}")
    try:
        client.ask(f"execute p ({value})", expected)
    finally:
        client.free("deallocate p")


def cancel(client):
    text, expected = client.question()
    timer = threading.Timer(client.draw.random() * 0.4, client.connection.cancel)
    timer.start()
    try:
        client.ask(text, expected)
    except psycopg.Error as error:
        client.failed(error, (CANCELED,))
    finally:
        timer.cancel()
        timer.join()


def vanish(client):
    """Hangs up while a statement runs or sends rows."""
    other = client.connect()
    text = "select * from lineitem" if client.draw.random() < 0.3 else client.question()[0]
    line = socket.socket(fileno=other.fileno())
    timer = threading.Timer(client.draw.random() * 0.3, hang_up, [line])
    timer.start()
    try:
        other.execute(text)
    except psycopg.Error as error:
        client.failed(error, GONE)
    finally:
        timer.join()
        line.detach()
        other.close()


def hang_up(line):
    try:
        line.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def cursor(client):
    """Fetches some rows, pauses, fetches more, and leaves the rest."""
    rows = []
    client.free("begin")
    held = client.connection.cursor("held")
    held.execute(statements.CURSOR)
    for most in (client.draw.randint(1, statements.CURSOR_ROWS_MAX), 100):
        began = time.monotonic()
        rows += held.fetchmany(most)
        client.compare(statements.CURSOR, rows, client.expected.cursor[: len(rows)], time.monotonic() - began)
        client.run.sleep(client.draw.random() * 3)
    held.close()
    client.free("rollback")


def timeout(client):
    client.free(f"set statement_timeout = {client.draw.randint(1, 200)}")
    try:
        client.ask(*client.question())
    except psycopg.Error as error:
        client.failed(error, (TIMEOUT,))
    client.free("set statement_timeout = 0")


def own(client):
    """Makes a table of its own, and deletes half of its rows."""
    most = client.draw.choice(statements.OWN)
    name = f"own_{client.draw.randrange(10**9)}"
    made = f"create temp table {name} as select o_orderkey k, o_totalprice p from orders where o_orderkey < {most}"
    client.connection.execute(made)
    try:
        client.connection.execute(f"delete from {name} where k % 2 = 0")
        client.ask(f"select count(*), sum(p) from {name}", client.expected.own[most])
    finally:
        client.free(f"drop table if exists {name}")


def setting(client):
    client.free(f"set {client.draw.choice(SETTINGS)}")


def error(client):
    try:
        client.connection.execute(client.draw.choice(ERRORS))
    except psycopg.Error as provoked:
        client.failed(provoked, ERRORS_CODES)


def transaction(client):
    """Sends what an application's pool sends around a query."""
    client.free("begin")
    try:
        client.ask(*client.question())
    except psycopg.Error as refused:
        client.failed(refused)
    client.free(client.draw.choice(("rollback", "commit")))
    client.free(client.draw.choice(("show coscan.memory", "select * from coscan.memory")))
    if client.draw.random() < 0.3:
        forget(client, "discard all")


def forget(client, text):
    """Drops all prepared statements, also those that psycopg prepared. It notices that the first time only, and would
    go on to use them (26000; and without its BEGIN a cursor fails, 25P01)."""
    client.free(text)
    client.connection.close()


def slow(client):
    """Reads the rows of a large result one by one, and may stop early."""
    began, stream = time.monotonic(), client.connection.cursor()
    rows = stream.stream("select l_orderkey, l_comment from lineitem")
    for number, _ in enumerate(rows):
        if number % 1000 == 0:
            client.run.sleep(0.05)
        if time.monotonic() - began > 3:
            break
    try:
        rows.close()
    except psycopg.Error as ended:
        client.failed(ended, (CANCELED,))


def copy(client):
    """Reads all rows of a table by COPY; half of the clients stop early by hanging up: psycopg has no other way."""
    most = client.expected.orders if client.draw.random() < 0.5 else client.draw.randint(1, 50_000)
    began, rows = time.monotonic(), 0
    text = "copy (select o_orderkey, o_comment from orders) to stdout"
    try:
        with client.connection.cursor().copy(text) as lines:
            for piece in lines:
                rows += bytes(piece).count(b"\n")
                if rows > most:
                    break
    except psycopg.Error as ended:
        client.failed(ended, (CANCELED,) if rows > most else ())
        return
    if rows > most:
        client.connection.close()
    elif most == client.expected.orders:
        client.compare(text, [(rows,)], [(most,)], time.monotonic() - began)


def prepared(client):
    """Prepares many statements, which stay until the session drops them."""
    for number in range(client.draw.randint(5, 40)):
        text, _ = client.question()
        client.connection.execute(f"prepare kept_{number} as {text}")
    forget(client, "deallocate all")


def pool(client):
    """Opens many connections, as an application does when it starts."""
    opened = [client.connect() for _ in range(client.draw.randint(10, 50))]
    for one in opened:
        one.close()
