#!/usr/bin/env python3
"""Runs a command while the host of the virtual machine keeps backing its free memory.

    backed.py [--hold 20GB] -- COMMAND ...

Idea: a virtual machine with free page reporting returns memory that is free for some seconds to
its host, and gets it back page by page at the first touch: 8 ms for 2 MiB where it was measured,
instead of 0.2 ms. How much an engine pays for that depends on what ran before it, and on how much
memory it takes. So this process allocates the free memory, touches it, and releases as much as
other processes take: it frees some when less than `FREE_BYTES` are free, and allocates when more
are free, while the host still backs them.

B1: it never makes the kernel reclaim memory from other processes: it frees before memory runs out.
B2: its memory is freed when it ends, and it ends with its command.

Not here: machines without free page reporting do not need this; `--probe` shows whether one does.
"""

import argparse
import mmap
import signal
import subprocess
import sys
import time

from arena import bytes_of, exit_code

FREE_BYTES = 384 << 20  # left free; two cores can touch half of it in PAUSE_S
BLOCK_BYTES = 16 << 20
PAGE_BYTES = 2 << 20  # transparent huge pages: one touch each
PAUSE_S = 0.01
PROBE_BYTES = 1 << 30
PROBE_PAUSE_S = 20.0


def free_bytes(meminfo="/proc/meminfo"):
    with open(meminfo, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemFree:"):
                return int(line.split()[1]) << 10
    raise SystemExit(f"backed.py: no MemFree in {meminfo}")


def block(size=BLOCK_BYTES):
    """Allocated memory with every page touched."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, size, PAGE_BYTES):
        memory[at] = 1
    return memory


def blocks_to_hold(held, free, hold_max):
    """The number of blocks to hold, when `held` are held and `free` bytes are free."""
    spare = (free - FREE_BYTES) // BLOCK_BYTES
    return max(0, min(held + spare, hold_max // BLOCK_BYTES))


def settle(held, hold_max):
    """Frees or allocates blocks until `FREE_BYTES` are free."""
    wanted = blocks_to_hold(len(held), free_bytes(), hold_max)
    for memory in held[wanted:]:
        memory.close()
    del held[wanted:]
    # A few at a time, because other processes may take the memory meanwhile.
    for _ in range(min(4, wanted - len(held))):
        held.append(block())
    return len(held) == wanted


def probe():
    """Prints the seconds to touch a gibibyte that was free for long, and one that was just freed."""
    time.sleep(PROBE_PAUSE_S)
    for name in ("free for long", "just freed"):
        begun = time.monotonic()
        block(PROBE_BYTES).close()
        print(f"1 GiB, {name}: {time.monotonic() - begun:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hold", type=bytes_of, default=bytes_of("1TB"), help="the most memory to hold")
    parser.add_argument("--probe", action="store_true", help="print the time of a first touch")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.probe:
        return probe()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command")
    held = []
    while not settle(held, args.hold):
        pass
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with subprocess.Popen(command) as process:
        try:
            while process.poll() is None:
                settle(held, args.hold)
                time.sleep(PAUSE_S)
        finally:
            if process.poll() is None:
                process.terminate()
    return exit_code(process)


if __name__ == "__main__":
    sys.exit(main())
