"""Point 2: how many bytes does the device give to four workers, and how many to one process?

The arena's streams (`coscan bench workload`) run first on one process with the memory of all
workers, then on the workers; the kernel holds all processes of a side together to one bandwidth.
Each round has a seed of its own. The rows of both sides must agree.
The bytes are those between the first query and the last answer: footers that a start reads, and
the program, are not among them. The coordinator's memory, which holds no chunks, comes on top of
the workers'.
Not here: plain datafusion-distributed on the same workers, the issue's second bound.
"""

import os
import subprocess
import sys
import tempfile

import report
import shared
import workers
import arena
import compare

WORKERS = 4
RATIO_MAX = 1.25
AIM = f"{WORKERS} workers read at most {RATIO_MAX} times the bytes of one process with the " \
      "memory of all"
DIFFERENCES_MAX = 3  # of each round, in the misses
LIMIT_S = 1800.0


def workload_command(options, seed, path):
    return [options.coscan, "bench", "workload", "--scale", f"{options.scale:g}", "--mix",
            options.mix, "--streams", str(options.streams), "--queries", str(options.queries),
            "--delay", f"{options.delay:g}s", "--seed", str(seed), "--out", path]


def peers_command(dsn, workload, result):
    return [sys.executable, os.path.join(shared.ARENA, "peers.py"), "pg", "--workload", workload,
            "--dsn", dsn, "--json", result, "--quiet"]


def measured(machine, server, workload, result):
    """Runs the workload; returns the bytes that the device gave meanwhile."""
    before = machine.read_bytes()
    command = peers_command(server.dsn, workload, result)
    code = subprocess.run(command, timeout=LIMIT_S, preexec_fn=arena.enter([])).returncode
    if code not in (0, 1):  # 1: a query failed, which the result has
        raise arena.ArenaError(f"peers.py ended with {code}")
    return machine.read_bytes() - before


def side(name, options, tables, workload, outcome):
    """The result of one side, with the device's bytes: `alone` or `cluster`."""
    with tempfile.TemporaryDirectory() as folder, \
            workers.Machine(options.coscan, options.data, options.bandwidth) as machine:
        if name == "alone":
            server = machine.server(tables, options.memory)
        else:
            started = machine.workers(WORKERS, options.memory // WORKERS, options.port)
            server = machine.coordinator(tables, started, options.bytes_per_node)
        result = os.path.join(folder, "result.json")
        read = measured(machine, server, workload, result)
        found = {"read_bytes": read, "memory_most": machine.memory_most(),
                 "result": report.read(result)}
        outcome.heard(machine)
        return found


def one_round(options, tables, seed, outcome):
    with tempfile.TemporaryDirectory() as folder:
        workload = os.path.join(folder, "w.json")
        command = workload_command(options, seed, workload)
        outcome.commands.append(" ".join(command))
        subprocess.run(command, check=True)
        return {name: side(name, options, tables, workload, outcome)
                for name in ("alone", "cluster")}


def misses_of(sides, seed):
    """Failed queries, and rows that differ."""
    for name, found in sides.items():
        failures = found["result"]["failures"]
        if failures:
            yield (f"seed {seed}: {len(failures)} queries failed on {name}, the first with "
                   f"{failures[0]['error'].splitlines()[0]}")
    different = list(compare.differences(sides["alone"]["result"], sides["cluster"]["result"]))
    for line in different[:DIFFERENCES_MAX]:
        yield f"seed {seed}: rows differ: {line}"
    if len(different) > DIFFERENCES_MAX:
        yield f"seed {seed}: {len(different) - DIFFERENCES_MAX} more queries differ"


def judge(rounds, outcome):
    """The ratios, and whether their median is within the aim."""
    ratios = [one["cluster"]["read_bytes"] / one["alone"]["read_bytes"] for one in rounds]
    outcome.figures["ratio"] = report.spread(ratios)
    median = outcome.figures["ratio"]["median"]
    if median > RATIO_MAX:
        outcome.misses.append(f"{median:.2f} times the bytes of one process")


def run(options, tables, outcome):
    rounds = []
    outcome.tables.append([["seed", "alone MB", "workers MB", "ratio", "alone s", "workers s"]])
    for seed in range(options.seed, options.seed + options.rounds):
        sides = one_round(options, tables, seed, outcome)
        rounds.append(sides)
        outcome.misses.extend(misses_of(sides, seed))
        alone, cluster = sides["alone"], sides["cluster"]
        outcome.row(
            str(seed), *(report.megabytes(one["read_bytes"]) for one in (alone, cluster)),
            f"{cluster['read_bytes'] / alone['read_bytes']:.2f}",
            *(f"{one['result']['total_s']:.1f}" for one in (alone, cluster)))
    judge(rounds, outcome)
    outcome.figures["rounds"] = [
        {name: {"read_bytes": one["read_bytes"], "memory_most": one["memory_most"],
                **{key: one["result"][key] for key in ("total_s", "avg_stream_s", "p95_s")}}
         for name, one in sides.items()} for sides in rounds]
