"""Starts PostgreSQL 15 and Coscan over the same rows, and stops what it started.

PostgreSQL comes from Debian's packages (or PGBIN). Its cluster is in a temporary folder, with
`--locale=C --lc-ctype=C.UTF-8` (text is ordered by its bytes, letters are Unicode's) and the zone
UTC. Started by root, PostgreSQL runs as the user postgres, because it refuses to run as root.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import data
import wire

PGBIN = os.environ.get("PGBIN", "/usr/lib/postgresql/15/bin")
START_S_MAX = 60


class Server:
    """A server's address and, if this program started it, its process."""

    def __init__(self, host, port, database="postgres", process=None, folder=None):
        self.host, self.port, self.database = host, port, database
        self.process, self.folder = process, folder

    def session(self, timeout_s=60):
        return wire.Session(self.host, self.port, database=self.database, timeout_s=timeout_s)

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def postgres():
    """Starts a new cluster; its `host` is the folder of its socket."""
    folder = tempfile.mkdtemp(prefix="oracle-pg")
    user = {}
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
    cluster, port = os.path.join(folder, "cluster"), free_port()
    subprocess.run(
        [
            f"{PGBIN}/initdb",
            "-D",
            cluster,
            "-U",
            "postgres",
            "--locale=C",
            "--lc-ctype=C.UTF-8",
            "--encoding=UTF8",
            "--auth=trust",
            "--no-sync",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        **user,
    )
    options = {
        "listen_addresses": "",
        "unix_socket_directories": folder,
        "port": port,
        "fsync": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    with open(os.path.join(folder, "log"), "wb") as log:
        process = subprocess.Popen(
            [f"{PGBIN}/postgres", "-D", cluster, *(f"-c{key}={value}" for key, value in options.items())],
            stdout=log,
            stderr=log,
            cwd=folder,
            **user,
        )
    return ready(Server(folder, port, process=process, folder=folder))


def coscan(binary, folder, names, options=(), log=True):
    """Starts `coscan serve` over the tables' folders below `folder`, where its log goes too."""
    port = free_port()
    tables = [part for name in names for part in ("-t", f"{name}={folder}/{name}/")]
    log = open(os.path.join(folder, "coscan.log") if log else os.devnull, "wb")  # noqa: SIM115: the process keeps it
    process = subprocess.Popen(
        [binary, "serve", "--listen", f"127.0.0.1:{port}", *tables, *options], stdout=log, stderr=log
    )
    log.close()
    return ready(Server("127.0.0.1", port, process=process))


def ready(server):
    until = time.monotonic() + START_S_MAX
    while True:
        try:
            server.session().close()
            return server
        except wire.Lost:
            if time.monotonic() > until or (server.process and server.process.poll() is not None):
                server.stop()
                raise
            time.sleep(0.1)


def both(binary, tables, postgres_at=None, tested_at=None):
    """PostgreSQL with the tables (at an address, or started here), and Coscan over the same rows.

    `tested_at` is the address of a server that has the tables already.
    """
    folder = tempfile.mkdtemp(prefix="oracle-data")
    reference = None
    try:
        reference = addressed(postgres_at) if postgres_at else postgres()
        session = reference.session()
        data.load(session, tables)
        session.close()
        if tested_at:
            return reference, addressed(tested_at)
        data.write(folder, tables)
        tested = coscan(binary, folder, [table.name for table in tables])
        tested.folder = folder
        return reference, tested
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if reference:
            reference.stop()
        raise


def addressed(address):
    """HOST:PORT:DATABASE; HOST may be the folder of a unix socket."""
    host, port, database = address.rsplit(":", 2)
    return Server(host, int(port), database)
