"""How is the server started and ended?

It runs in a control group of its own if there is a limit, and logs into a file.
"""

import contextlib
import os
import re
import subprocess
import time

import groups
import statements
import watch

LISTENING = re.compile(r"listening on \S*:(\d+)")
START_S, STOP_S = 30, 30


class Server:
    def __init__(self, port, child, group):
        self.dsn = f"host=127.0.0.1 port={port} user=soak dbname=coscan"
        self.child, self.group = child, group

    def process(self):
        return watch.Process(self.child.pid)

    def alive(self):
        return self.child.poll() is None


def command(program, data, options):
    tables = [word for table in statements.TABLES for word in ("--table", f"{table}={data}/{table}.parquet")]
    return [program, "serve", *tables, "--listen", "127.0.0.1:0", "--allow-engine-settings", *options]


def environment(log_level):
    return {**os.environ, "COSCAN_LOG": log_level} if log_level else None


@contextlib.contextmanager
def started(program, data, log, options=(), group_limit=None, log_level=None):
    """A server over TPC-H's tables in `data`; at the end stops it and removes its group. Without a
    `log_level` it logs what the caller's `COSCAN_LOG` says."""
    group, child = groups.Group(group_limit) if group_limit else None, None
    try:
        with open(log, "w", encoding="utf-8") as said:
            child = subprocess.Popen(
                command(program, data, options),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment(log_level),
                preexec_fn=group.enter if group else None,
            )
        yield Server(port(child, log), child, group)
    finally:
        if child is not None:
            end(child)
        if group is not None:
            group.remove()


def port(child, log):
    """Waits until the server listens; returns its port."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and child.poll() is None:
        with open(log, encoding="utf-8") as said:
            match = LISTENING.search(said.read())
        if match:
            return int(match[1])
        time.sleep(0.05)
    raise RuntimeError(f"the server does not listen; see {log}")


def end(child):
    child.terminate()
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
