"""What does the engine report about its memory, and how is its limit changed?

E1: both statements need almost no memory, so a refusal is a fault.
"""

import threading
import time

import psycopg

LEFT = (
    "coscan.scans", "coscan.operators", "coscan.fragments", "coscan.memory", "coscan.queries",
    "pg_stat_activity",
)


class Engine:
    """`coscan.memory`, over a connection of its own."""

    def __init__(self, dsn, tally):
        self.dsn, self.tally, self.connection = dsn, tally, None

    def sample(self):
        try:
            return self.ask()
        except psycopg.Error as error:
            if error.sqlstate is None:
                self.tally.lost(f"the watcher: {error}")
            else:
                self.tally.failed(error.sqlstate, f"the watcher: {error}", free=True)
            self.close()
            return {}

    def ask(self):
        if self.connection is None or self.connection.closed:
            self.connection = psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)
        cursor = self.connection.execute("select * from coscan.memory")
        names = [column.name for column in cursor.description]
        return {name: int(cell) for name, cell in zip(names, cursor.fetchone())}

    def describes(self):
        """Everything that runs or is kept, by the server's own tables, a line each."""
        for table in LEFT:
            cursor = self.connection.execute(f"select * from {table}")
            yield f"{table}: {' '.join(column.name for column in cursor.description)}"
            yield from (f"  {row}" for row in cursor.fetchall())

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Changes(threading.Thread):
    """Changes the limit until it is stopped. `done`: pairs of a time and a limit."""

    def __init__(self, dsn, sizes, every_s, tally, began):
        super().__init__(daemon=True)
        self.dsn, self.sizes, self.every_s, self.tally = dsn, sizes, every_s, tally
        self.began, self.done, self.stopped = began, [], threading.Event()

    def run(self):
        number = 0
        while True:
            self.change(self.sizes[number % len(self.sizes)])
            number += 1
            if self.stopped.wait(self.every_s):
                return

    def change(self, limit):
        try:
            with psycopg.connect(self.dsn, autocommit=True, connect_timeout=10) as connection:
                connection.execute(f"set coscan.memory = '{limit}B'")
            self.done.append((time.monotonic() - self.began, limit))
        except psycopg.Error as error:
            self.tally.failed(error.sqlstate, f"the limit: {error}", free=True)

    def stop(self):
        self.stopped.set()
        self.join()
