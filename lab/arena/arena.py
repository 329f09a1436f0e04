#!/usr/bin/env python3
"""Runs a command where the kernel, not the engine, limits the device's bandwidth and the memory.

    arena.py --data FILE --bandwidth 200MB/s --memory 2.5GB [--json OUT] -- COMMAND ...
    arena.py ... --port 5432 --client 'peers.py pg ...' -- coscan serve ...

Idea: a fair race between engines needs limits that no engine can evade. A new control group limits
the reads from one block device to a bandwidth, and the memory, page cache included, to a size; the
page cache is emptied first. With --client the COMMAND is a server: it runs in the group, the
client outside of it, and when the client has ended the server is stopped (SIGTERM). One JSON line
reports the use of resources; see `Report` in README.md.

Works on control groups v1 (`blkio`, `memory`, `cpuacct`) and, written from its documentation and
not yet run there, v2 (`io`, `memory`, `cpu`). Needs root, and nothing but Python's library.

A1: the command is in the group before its first instruction, so all its work is counted.
A2: no process and no group outlives the arena, however it ends (short of SIGKILL: then the kernel
    still kills the command, by its parent-death signal, and an empty group stays).
A3: reads are metered even without --bandwidth: v1 counts only on a device that has a rule.
A4: the limits are read back after they were written; a limit that the kernel rounded is reported.

Not here: writes and processor time are only metered, not limited. Network file systems and tmpfs
have no block device and are refused.
"""

import argparse
import ctypes
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

METERED_ONLY_BPS = 10**12  # A3: a limit that no device reaches
SAMPLE_S = 0.1  # anonymous memory is sampled: the kernel keeps a peak of the total only
STOP_S = 20.0  # from SIGTERM to SIGKILL
READY_S = 120.0  # for a server to accept its first connection
KILLED = 128 + signal.SIGKILL
PR_SET_PDEATHSIG = 1


class ArenaError(Exception):
    """The arena can't be set up: the message names what is missing, and where."""


# ---------------------------------------------------------------- quantities

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
         "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def bytes_of(text):
    """'2.5GB' -> 2500000000, '1536MiB' -> 1610612736, '200MB/s' -> 200000000."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?)?b?(?:/s)?\s*", text.lower())
    if not match:
        raise ArenaError(f"not a size: {text!r} (such as 2.5GB, 1536MiB, 200MB/s)")
    return int(round(float(match[1]) * UNITS[match[2] or ""]))


# ---------------------------------------------------------------- the device

def device_of(path, sys_root="/sys", mountinfo="/proc/self/mountinfo"):
    """The `major:minor` of the whole disk under `path`. Throttling works on disks, not partitions."""
    number = os.stat(path).st_dev
    major_minor = f"{os.major(number)}:{os.minor(number)}"
    if os.major(number) == 0:  # btrfs, overlay: the file system has a number of its own
        source = mount_source(os.path.realpath(path), mountinfo)
        try:
            number = os.stat(source).st_rdev
        except OSError:
            number = 0
        if os.major(number) == 0:
            raise ArenaError(f"{path} is on {source!r}, which is no block device: "
                             "put the data on a disk or name one with --device")
        major_minor = f"{os.major(number)}:{os.minor(number)}"
    return whole_disk(major_minor, sys_root)


def mount_source(path, mountinfo):
    """The source of the mount that holds `path`: the longest mount point that is its prefix."""
    best, source = "", ""
    with open(mountinfo) as lines:
        for line in lines:
            fields, _, tail = line.partition(" - ")
            point = fields.split()[4].replace("\\040", " ")
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, source = point, tail.split()[1]
    return source


def whole_disk(major_minor, sys_root="/sys"):
    """A partition's disk; a disk itself."""
    entry = os.path.realpath(f"{sys_root}/dev/block/{major_minor}")
    if not os.path.isdir(entry):
        raise ArenaError(f"no block device {major_minor} in {sys_root}/dev/block")
    if os.path.exists(f"{entry}/partition"):
        entry = os.path.dirname(entry)
    return read(f"{entry}/dev").strip()


# ---------------------------------------------------------------- control groups

def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    try:
        with open(path, "w") as file:
            file.write(str(text))
    except OSError as error:
        raise ArenaError(f"writing {text!r} to {path}: {error.strerror}") from error


def mounts_of(text):
    """(v1 controller -> mount point, v2 mount point or None) from the text of /proc/mounts."""
    controllers, unified = {}, None
    for line in text.splitlines():
        _, point, kind, options = line.split()[:4]
        if kind == "cgroup":
            for option in options.split(","):
                controllers.setdefault(option, point)
        elif kind == "cgroup2":
            unified = point
    return controllers, unified


def keyed(text):
    """'a 1\\nb 2\\n' -> {'a': 1, 'b': 2}: memory.stat, oom_control, cpu.stat, memory.events."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def v1_io(text, device, operation):
    """'254:0 Read 4096' lines of blkio.throttle.io_service_bytes."""
    for line in text.splitlines():
        fields = line.split()
        if fields[:2] == [device, operation]:
            return int(fields[2])
    return 0


def v2_io(text, device, key):
    """'254:0 rbytes=1 wbytes=2 rios=3 ...' lines of io.stat."""
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == device:
            return int(dict(field.split("=") for field in fields[1:]).get(key, 0))
    return 0


class GroupV1:
    """One directory in each of three hierarchies."""

    version = 1

    def __init__(self, controllers, name, device):
        missing = [c for c in ("blkio", "memory", "cpuacct") if c not in controllers]
        if missing:
            raise ArenaError(f"control groups v1 without {', '.join(missing)}")
        self.device = device
        self.blkio = f"{controllers['blkio']}/{name}"
        self.memory = f"{controllers['memory']}/{name}"
        self.cpuacct = f"{controllers['cpuacct']}/{name}"
        # v1 may mount controllers together (cpu,cpuacct): each directory once.
        self.directories = list(dict.fromkeys((self.blkio, self.memory, self.cpuacct)))

    def make(self, bandwidth, memory):
        for directory in self.directories:
            make_directory(directory)
        rule = f"{self.device} {bandwidth or METERED_ONLY_BPS}"
        write(f"{self.blkio}/blkio.throttle.read_bps_device", rule)
        if rule not in read(f"{self.blkio}/blkio.throttle.read_bps_device"):
            raise ArenaError(f"A4: the kernel took no rule {rule!r}")
        if memory:
            write(f"{self.memory}/memory.limit_in_bytes", memory)
            swap = f"{self.memory}/memory.memsw.limit_in_bytes"
            if os.path.exists(swap):
                write(swap, memory)  # no escape into swap

    def procs_files(self):
        return [f"{directory}/cgroup.procs" for directory in self.directories]

    def memory_limit(self):
        return int(read(f"{self.memory}/memory.limit_in_bytes"))

    def anonymous(self):
        return keyed(read(f"{self.memory}/memory.stat")).get("total_rss", 0)

    def usage(self):
        served = read(f"{self.blkio}/blkio.throttle.io_service_bytes")
        requests = read(f"{self.blkio}/blkio.throttle.io_serviced")
        ticks = os.sysconf("SC_CLK_TCK")
        cpu = keyed(read(f"{self.cpuacct}/cpuacct.stat"))
        return {
            "cpu_s": int(read(f"{self.cpuacct}/cpuacct.usage")) / 1e9,
            "cpu_user_s": cpu["user"] / ticks,
            "cpu_system_s": cpu["system"] / ticks,
            "read_bytes": v1_io(served, self.device, "Read"),
            "read_requests": v1_io(requests, self.device, "Read"),
            "write_bytes": v1_io(served, self.device, "Write"),
            "memory_bytes_max": int(read(f"{self.memory}/memory.max_usage_in_bytes")),
            "oom_kills": keyed(read(f"{self.memory}/memory.oom_control")).get("oom_kill", 0),
        }

    def release_memory(self):
        """Releases the group's page cache, which would otherwise stay charged to a removed group."""
        write(f"{self.memory}/memory.force_empty", 0)


class GroupV2:
    """One directory in the unified hierarchy."""

    version = 2

    def __init__(self, unified, name, device):
        self.device = device
        self.parent = unified
        self.path = f"{unified}/{name}"
        self.directories = [self.path]
        have = set(read(f"{unified}/cgroup.controllers").split())
        missing = {"io", "memory", "cpu"} - have
        if missing:
            raise ArenaError(f"control groups v2 at {unified} without {', '.join(sorted(missing))} "
                             f"(it has: {' '.join(sorted(have)) or 'none'})")

    def make(self, bandwidth, memory):
        write(f"{self.parent}/cgroup.subtree_control", "+io +memory +cpu")
        make_directory(self.path)
        write(f"{self.path}/io.max", f"{self.device} rbps={bandwidth or METERED_ONLY_BPS}")
        if memory:
            write(f"{self.path}/memory.max", memory)
            if os.path.exists(f"{self.path}/memory.swap.max"):
                write(f"{self.path}/memory.swap.max", 0)

    def procs_files(self):
        return [f"{self.path}/cgroup.procs"]

    def memory_limit(self):
        text = read(f"{self.path}/memory.max").strip()
        return sys.maxsize if text == "max" else int(text)

    def anonymous(self):
        return keyed(read(f"{self.path}/memory.stat")).get("anon", 0)

    def usage(self):
        io = read(f"{self.path}/io.stat")
        cpu = keyed(read(f"{self.path}/cpu.stat"))
        events = keyed(read(f"{self.path}/memory.events"))
        peak = f"{self.path}/memory.peak"  # since Linux 5.19
        return {
            "cpu_s": cpu["usage_usec"] / 1e6,
            "cpu_user_s": cpu["user_usec"] / 1e6,
            "cpu_system_s": cpu["system_usec"] / 1e6,
            "read_bytes": v2_io(io, self.device, "rbytes"),
            "read_requests": v2_io(io, self.device, "rios"),
            "write_bytes": v2_io(io, self.device, "wbytes"),
            "memory_bytes_max": int(read(peak)) if os.path.exists(peak) else None,
            "oom_kills": events.get("oom_kill", 0),
        }

    def release_memory(self):
        pass  # the charge moves to the parent when the directory is removed


def make_directory(path):
    try:
        os.mkdir(path)
    except PermissionError as error:
        raise ArenaError(f"{path}: not permitted; the arena needs root") from error
    except OSError as error:
        raise ArenaError(f"{path}: {error.strerror}") from error


def group_for(device, mounts_text=None):
    """v1 if `blkio` is mounted as v1, otherwise v2: a machine with both has the controllers in one of them."""
    controllers, unified = mounts_of(read("/proc/mounts") if mounts_text is None else mounts_text)
    name = f"coscan-arena-{os.getpid()}"
    if "blkio" in controllers:
        return GroupV1(controllers, name, device)
    if unified:
        return GroupV2(unified, name, device)
    raise ArenaError("no control groups mounted: neither v1 (blkio, memory, cpuacct) nor v2 found "
                     "in /proc/mounts")


def members(group):
    """Process ids in the group, in any of its hierarchies."""
    pids = set()
    for path in group.procs_files():
        try:
            pids.update(int(line) for line in read(path).split())
        except OSError:
            pass
    return pids


def remove(group):
    """A2: kills the processes left in the group, then removes the group."""
    deadline = time.monotonic() + STOP_S
    while (left := members(group)) and time.monotonic() < deadline:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.05)
    try:
        group.release_memory()
    except ArenaError:
        pass  # busy pages: the kernel frees them later, and no result depends on that
    for directory in group.directories:
        while os.path.isdir(directory):
            try:
                os.rmdir(directory)
            except OSError as error:
                if time.monotonic() > deadline:
                    print(f"arena: {directory} stays: {error.strerror}", file=sys.stderr)
                    break
                time.sleep(0.05)


# ---------------------------------------------------------------- the run

def drop_page_cache():
    """Empties the whole machine's page cache: a page that another group holds would be a free read for ours."""
    os.sync()
    write("/proc/sys/vm/drop_caches", 3)


def enter(procs_files):
    """Runs in the child between fork and exec (A1)."""
    def body():
        # A2: the kernel ends the child if the arena is killed outright.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for path in procs_files:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
    return body


class Sampler(threading.Thread):
    """Peak of the group's anonymous memory: the engine's allocations, without page cache."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group, self.peak, self.ended = group, 0, threading.Event()

    def run(self):
        while not self.ended.wait(SAMPLE_S):
            self.peak = max(self.peak, self.group.anonymous())

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak


def serve(coscan, tables, *options):
    """Starts a server with these tables (path by name); returns its port and process once it accepts connections."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    named = [word for name, path in tables.items() for word in ("-t", f"{name}={path}")]
    command = [coscan, "serve", *named, *options, "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_ready(port, process)
    return port, process


def wait_ready(port, server, limit_s=READY_S):
    """Waits until the server accepts a connection; raises if it ends or takes too long."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ArenaError(f"the server ended with {exit_code(server)} before it accepted a "
                             "connection")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise ArenaError(f"nothing accepts connections on port {port} after {limit_s:.0f} s")


def exit_code(process):
    """As in a shell: 128 + signal for a process that a signal ended."""
    code = process.returncode
    return 128 - code if code is not None and code < 0 else code


def stop_server(server):
    """SIGTERM first: a server promises a clean stop. Returns whether the stop was clean."""
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
            return False
    return True


def run(command, group, args):
    """Starts the command, waits and reports. The group exists and has its limits."""
    sampler = Sampler(group)
    timed_out = False
    started = time.monotonic()
    process = subprocess.Popen(command, preexec_fn=enter(group.procs_files()))
    sampler.start()
    client_code = None
    clean = None
    try:
        if args.client:
            wait_ready(args.port, process)
            started = time.monotonic()
            client = subprocess.Popen(shlex.split(args.client))
            try:
                client_code, timed_out = wait(client, args.timeout)
            finally:
                if client.poll() is None:
                    client.kill()
                    client.wait()
            wall = time.monotonic() - started
            clean = stop_server(process)
        else:
            code, timed_out = wait(process, args.timeout)
            wall = time.monotonic() - started
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        anonymous = sampler.stop()
    usage = group.usage()
    report = {
        "label": args.label,
        "wall_s": round(wall, 3),
        **usage,
        "anonymous_bytes_max": anonymous,
        "exit_code": exit_code(process),
        "client_exit_code": client_code,
        "server_stopped_cleanly": clean,
        "killed_for_memory": usage["oom_kills"] > 0,
        "timed_out": timed_out,
        "bandwidth_bytes_per_s": args.bandwidth or None,
        "memory_limit_bytes": group.memory_limit() if args.memory else None,
        "device": group.device,
        "cgroup_version": group.version,
        "command": command,
    }
    return report


def wait(process, limit_s):
    """(exit code, whether it was killed at the time limit)."""
    try:
        process.wait(timeout=limit_s)
        return exit_code(process), False
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return exit_code(process), True


def overall_code(report):
    """The arena's own exit code: the client's, if there is a client."""
    if report["killed_for_memory"]:
        return KILLED
    if report["timed_out"]:
        return 124  # as timeout(1)
    code = report["client_exit_code"]
    return report["exit_code"] if code is None else code


def parse(argv):
    parser = argparse.ArgumentParser(
        description="Run a command with device bandwidth and memory held by the kernel.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--data", help="file or folder on the device to limit [default: here]")
    where.add_argument("--device", help="major:minor of a whole disk")
    parser.add_argument("--bandwidth", type=bytes_of, default=0, help="such as 200MB/s")
    parser.add_argument("--memory", type=bytes_of, default=0, help="such as 2.5GB, page cache included")
    parser.add_argument("--keep-cache", action="store_true", help="don't empty the page cache first")
    parser.add_argument("--timeout", type=float, help="seconds, then the command is killed")
    parser.add_argument("--port", type=int, help="the server in the group listens here")
    parser.add_argument("--client", help="command to run outside of the group once the port answers")
    parser.add_argument("--label", help="copied into the report")
    parser.add_argument("--json", help="write the report here, not to standard output")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    args.command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not args.command:
        parser.error("no command")
    if bool(args.client) != bool(args.port):
        parser.error("--client and --port belong together")
    return args


def main(argv):
    def interrupted(number, _frame):
        raise KeyboardInterrupt(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    group = None
    try:
        args = parse(argv)
        device = whole_disk(args.device) if args.device else device_of(args.data or ".")
        group = group_for(device)
        group.make(args.bandwidth, args.memory)
        if not args.keep_cache:
            drop_page_cache()
        report = run(args.command, group, args)
    except (ArenaError, OSError) as error:
        print(f"arena: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        if group:
            remove(group)
    line = json.dumps(report)
    if args.json:
        with open(args.json, "w") as out:
            out.write(line + "\n")
    else:
        print(line, flush=True)
    return overall_code(report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
