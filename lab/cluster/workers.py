"""How are workers, coordinators and single servers started, counted, killed and ended?

Idea: the nodes of a cluster share one storage, and each has a memory of its own. So all processes
are members of one blkio group, which holds them to one bandwidth and counts their reads, and each
has a memory group below one common memory group. Version 1's throttle is not hierarchical: groups
of blkio below a group would have no limit. The groups are those of lab/arena and lab/soak.

CL1: no process and no group outlives the `Machine`, however it ends (short of SIGKILL: then the
     kernel kills the processes by their parent-death signal, and empty groups stay).
CL2: a process is in its groups before its first instruction, so all its reads are counted.
CL3: a process that is started once more has the memory group, the arguments and the address that
     it had.

The parent-death signal comes when the thread ends that started the process, so only a thread that
lives as long as the `Machine` may start processes.
Not here: control groups of version 2, which nobody has tried; `Machine` refuses them.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import shared  # noqa: F401, the path of the next two
import arena
import groups

READY = re.compile(r"coscan: (?:worker|listening) on (\S+)")
READY_S = 60.0  # a start reads the program and the footers of the tables, throttled
LOG_LINES = 5  # of a log, in an error
UNCOUNTED_BYTES = 320 << 20  # what a process may take beside its limit (docs/design/storage.md)
PROGRAM_BYTES = 192 << 20  # the kernel's buffers, and pages of the program that the group reads
COORDINATOR_BYTES = 256 << 20  # it plans and merges


def group_bytes(memory):
    """The limit of the memory group of a process that has `--memory` so many bytes."""
    return memory + max(UNCOUNTED_BYTES, memory // 4) + PROGRAM_BYTES


def nodes_toml(addresses, bytes_per_node):
    """The list of nodes that a coordinator reads."""
    listed = ", ".join(f'"{address}"' for address in addresses)
    return (f"nodes = [{listed}]\nbytes_per_node = \"{bytes_per_node}B\"\n"
            'connect_timeout = "2s"\nsilence_timeout = "5s"\n')


def address_in(log_text):
    """The address on which a process says that it listens; None before it does."""
    match = READY.search(log_text)
    return match[1] if match else None


def table_options(tables):
    return [word for name, path in sorted(tables.items()) for word in ("-t", f"{name}={path}")]


class Process:
    """A process that may be killed and started once more (CL3)."""

    def __init__(self, name, command, memory_group, procs_files, log):
        self.name, self.command, self.log = name, command, log
        self.memory_group, self.procs_files = memory_group, procs_files
        self.child, self.address, self.was_killed = None, None, False

    def start(self):
        """Starts it, and waits until it says that it listens."""
        said_before = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,  # Ctrl-C is for the lab, which ends the others in order
                preexec_fn=arena.enter(self.procs_files))
        self.was_killed = False
        deadline = time.monotonic() + READY_S
        while (address := address_in(self.said(said_before))) is None:
            if self.child.poll() is not None:
                raise arena.ArenaError(f"{self.name} ended with {arena.exit_code(self.child)}: "
                                       f"{self.last_words()}")
            if time.monotonic() > deadline:
                raise arena.ArenaError(f"{self.name} is not ready after {READY_S:.0f} s")
            time.sleep(0.02)
        self.address = address
        return self

    def said(self, begin=0):
        """The log from this byte on."""
        with open(self.log, "rb") as log:
            log.seek(begin)
            return log.read().decode("utf-8", "replace")

    def last_words(self):
        return " / ".join(self.said().splitlines()[-LOG_LINES:])

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    @property
    def dsn(self):
        return f"host=127.0.0.1 port={self.port} user=coscan dbname=coscan"

    def kill(self):
        """SIGKILL, as a machine that fails."""
        self.was_killed = True
        self.child.kill()
        self.child.wait()

    def stop(self):
        if self.child is not None:
            arena.stop_server(self.child)

    def fault(self):
        """What went wrong that nobody asked for; None if nothing did."""
        if self.memory_group.sample()["kills"]:
            return f"{self.name} was killed for memory"
        if not self.was_killed and self.child is not None and self.child.poll() is not None:
            return f"{self.name} ended with {arena.exit_code(self.child)}: {self.last_words()}"
        return None


class Machine:
    """The processes of one run over one storage. A context manager (CL1)."""

    def __init__(self, program, data, bandwidth=0):
        self.program, self.data, self.bandwidth = program, data, bandwidth
        self.group, self.folder, self.processes = None, None, []

    def __enter__(self):
        group = arena.group_for(arena.device_of(self.data))
        if group.version != 1:
            raise arena.ArenaError("this lab needs control groups of version 1 (blkio, memory)")
        self.group = group
        try:
            group.make(self.bandwidth, 0)
            self.folder = tempfile.mkdtemp(prefix="coscan-cluster-")
            self.forget_pages()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def forget_pages(self):
        """Empties the page cache, but for the program: its pages are no data of a query."""
        arena.drop_page_cache()
        with open(self.program, "rb") as program:
            while program.read(1 << 20):
                pass

    def process(self, name, arguments, memory):
        """A process of the program, with `memory` bytes, that is not started yet."""
        command = [self.program, *arguments, "--memory", f"{memory}B"]
        parent = os.path.basename(self.group.memory)
        own = groups.Group(group_bytes(memory), name=f"{parent}/{name}")
        of_all = [file for file in self.group.procs_files()
                  if not file.startswith(f"{self.group.memory}/")]
        process = Process(name, command, own, [*of_all, f"{own.path}/cgroup.procs"],
                          os.path.join(self.folder, f"{name}.log"))
        self.processes.append(process)  # before it starts: CL1
        return process

    def start(self, name, arguments, memory):
        """The same, when it listens."""
        return self.process(name, arguments, memory).start()

    def server(self, tables, memory, name="alone"):
        """One process that answers clients by itself."""
        return self.start(name, ["serve", *table_options(tables), "--listen", "127.0.0.1:0"],
                          memory)

    def worker(self, memory, port):
        """A worker that is not started yet. Lists of nodes may name it."""
        address = f"127.0.0.1:{port}"
        worker = self.process(f"worker-{port}", ["worker", "--listen", address], memory)
        worker.address = address
        return worker

    def workers(self, count, memory, first_port):
        return [self.worker(memory, port).start()
                for port in range(first_port, first_port + count)]

    def nodes_file(self, workers, bytes_per_node):
        path = os.path.join(self.folder, "nodes.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(nodes_toml([worker.address for worker in workers], bytes_per_node))
        return path

    def coordinator(self, tables, workers, bytes_per_node, memory=COORDINATOR_BYTES):
        nodes = self.nodes_file(workers, bytes_per_node)
        return self.start("coordinator", ["serve", "--cluster", nodes, *table_options(tables),
                                          "--listen", "127.0.0.1:0"], memory)

    def read_bytes(self):
        """What the device has given to all processes together, by the kernel's count."""
        return self.group.usage()["read_bytes"]

    def memory_most(self):
        """Name -> the most bytes that its memory group has held."""
        return {process.name: process.memory_group.sample()["most"] for process in self.processes}

    def commands(self):
        return [" ".join(process.command) for process in self.processes]

    def faults(self):
        found = (process.fault() for process in self.processes)
        return [fault for fault in found if fault]

    def close(self):
        """CL1. Coordinators end before the workers that they use. Signals wait."""
        if self.group is None:
            return
        held = {number: signal.signal(number, signal.SIG_IGN)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            for process in reversed(self.processes):
                process.stop()
            for path in folders_below(self.group.memory):
                remove(path)
            arena.remove(self.group)
            self.group = None
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            for number, handler in held.items():
                signal.signal(number, handler)


def folders_below(path):
    """The groups below a group; none if it was not made."""
    if not os.path.isdir(path):
        return []
    return [entry.path for entry in os.scandir(path) if entry.is_dir()]


def remove(path, limit_s=arena.STOP_S):
    """Removes a group; the kernel may need a moment after the last member has ended."""
    deadline = time.monotonic() + limit_s
    while os.path.isdir(path):
        try:
            os.rmdir(path)
        except OSError as error:
            if time.monotonic() > deadline:
                raise arena.ArenaError(f"{path} stays: {error.strerror}") from error
            time.sleep(0.05)


def interruptible():
    """SIGTERM and SIGHUP end the lab as Ctrl-C does, so that it cleans up (CL1)."""
    def interrupted(number, _frame):
        raise KeyboardInterrupt(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
