#!/usr/bin/env python3
"""A cluster of N workers on this machine, over one folder of shared storage.

    up.sh N [--data FOLDER] [--memory 1GB] [--bandwidth 200MB/s] [--port 50051]

Prints the workers and a command that serves their tables, then waits. SIGINT and SIGTERM stop all
workers and remove their groups. A worker that ends by itself is reported, and the others go on, so
that a user may kill one to see what becomes of queries. Exit status: 0 after a signal, 1 once no
worker is left, 2 if the cluster could not be started. Needs root.
Not here: the coordinator, which a user starts beside the workers.
"""

import argparse
import os
import sys
import time

import shared
import workers
import arena

WATCH_S = 0.5
PROGRAM = os.path.join(shared.TREE, "target", "release", "coscan")
DATA = os.path.expanduser("~/.cache/coscan/data/tpch-sf1")


def parse(argv):
    parser = argparse.ArgumentParser(description="Start a cluster of workers on this machine.")
    parser.add_argument("count", type=int, metavar="N", help="how many workers")
    parser.add_argument("--coscan", default=os.environ.get("COSCAN", PROGRAM), metavar="PROGRAM")
    parser.add_argument("--data", default=DATA, help="the folder of tables; its device is metered")
    parser.add_argument("--memory", type=arena.bytes_of, default="1GB", help="of each worker")
    parser.add_argument("--bandwidth", type=arena.bytes_of, default=0,
                        help="of all workers together, such as 200MB/s [default: the device's]")
    parser.add_argument("--bytes-per-node", type=arena.bytes_of, default="64MiB")
    parser.add_argument("--port", type=int, default=50051, help="of the first worker")
    args = parser.parse_args(argv)
    if args.count < 1:
        parser.error("a cluster has a worker at least")
    return args


def tables_of(folder):
    """Table -> file, for each Parquet file of the folder."""
    files = sorted(name for name in os.listdir(folder) if name.endswith(".parquet"))
    return {name.removesuffix(".parquet"): os.path.join(folder, name) for name in files}


def watch(machine, tell):
    """Reports each worker that ends, until none is left; a signal is a KeyboardInterrupt."""
    told = set()
    while len(told) < len(machine.processes):
        for process in machine.processes:
            fault = process.fault()
            if fault and process.name not in told:
                told.add(process.name)
                tell(fault)
        time.sleep(WATCH_S)


def main(argv):
    args = parse(argv)
    workers.interruptible()
    try:
        with workers.Machine(args.coscan, args.data, args.bandwidth) as machine:
            started = machine.workers(args.count, args.memory, args.port)
            nodes = machine.nodes_file(started, args.bytes_per_node)
            print("\n".join(f"{worker.name}: {worker.address}" for worker in started))
            options = workers.table_options(tables_of(args.data))
            print(f"{args.coscan} serve --cluster {nodes} {' '.join(options)}", flush=True)
            watch(machine, lambda fault: print(f"up: {fault}", file=sys.stderr))
            return 1
    except KeyboardInterrupt:
        return 0
    except (arena.ArenaError, OSError) as error:
        print(f"up: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
