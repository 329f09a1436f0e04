"""What is written down about a point?

One JSON file for each point: the aim, the machine, the commands, the figures with their spread,
and the verdict with each reason why the aim is missed. The same as a short table for a reader.
"""

import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import textwrap

import shared  # noqa: F401, the path of the next one
import compare

FORMAT = "coscan-cluster"
VERSION = 1
MISSES_SHOWN_MAX = 12
MISS_WIDTH = 200  # an error may name a whole plan; the file has all of it


@dataclasses.dataclass
class Outcome:
    """What a point has shown. An aim is met if there is no miss."""

    point: int
    aim: str
    figures: dict = dataclasses.field(default_factory=dict)
    tables: list = dataclasses.field(default_factory=list)  # of rows of text, the first is a head
    misses: list = dataclasses.field(default_factory=list)
    commands: list = dataclasses.field(default_factory=list)

    def row(self, *cells):
        """Adds a row to the last table."""
        self.tables[-1].append(list(cells))

    def heard(self, machine):
        """Takes down the commands and the faults of a machine, before it closes."""
        self.commands.extend(machine.commands())
        self.misses.extend(machine.faults())

    @property
    def verdict(self):
        return "missed" if self.misses else "met"


def spread(values):
    """The median and the ends of some measurements."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "count": len(values)}


def percentile(ascending, part):
    """The smallest value that at least this part of the values do not exceed."""
    return ascending[min(len(ascending) - 1, max(0, -int(-part * len(ascending) // 1) - 1))]


def megabytes(count):
    return f"{count / 1e6:.1f}"


def machine_of():
    """Of this machine: what a figure depends on."""
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) * 1024
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {"cores": os.cpu_count(), "model": models[0] if models else platform.machine(),
            "memory_bytes": memory, "kernel": platform.release(),
            "load_at_start": os.getloadavg()[0], "python": platform.python_version()}


def version_of(program):
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def document(outcome, options, machine):
    return {"format": FORMAT, "version": VERSION, "point": outcome.point, "aim": outcome.aim,
            "verdict": outcome.verdict, "misses": outcome.misses, "figures": outcome.figures,
            "machine": machine, "coscan": version_of(options.coscan), "command": sys.argv,
            "options": {name: value for name, value in sorted(vars(options).items())},
            "processes": outcome.commands}


def write(path, content):
    """Writes a JSON file, whole or not at all."""
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(partial, path)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def show(outcome):
    lines = [f"Point {outcome.point}: {outcome.aim}"]
    for rows in outcome.tables:
        lines.extend(["", *compare.table(rows)])
    lines.append("")
    lines.extend(textwrap.shorten(f"missed: {miss}", MISS_WIDTH, placeholder=" ...")
                 for miss in outcome.misses[:MISSES_SHOWN_MAX])
    if len(outcome.misses) > MISSES_SHOWN_MAX:
        lines.append(f"and {len(outcome.misses) - MISSES_SHOWN_MAX} more misses")
    return "\n".join([*lines, f"Point {outcome.point} is {outcome.verdict}.", ""])
