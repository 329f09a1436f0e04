#!/usr/bin/env python3
"""Does the server keep its promises in every group, under every limit, with every seed?

    matrix.py --coscan PROGRAM --data FOLDER --results FILE [--minutes N] [--scale 1.0] [--only PART]

Runs the soaks of issue 46 (section 4, points 1 to 3) one after the other and writes each one's
summary to FILE as soon as it has ended. A cell that FILE has for this program is not run again, so
that the matrix may be spread over several sessions; none is begun that does not end within
`--minutes`. `--scale 0.1` shortens each run to a tenth. The exit status is 1 if a cell of this
program that has run, now or before, broke a promise, and 3 if none did but some have not run.

M1: a cell counts for the program whose bytes ran, not for its name.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What a run takes beside its load: DuckDB's answers, the server's start, clients that end late.
BESIDE_S = 120


def cells():
    """Names, arguments of `soak.py` and seconds, those that decide most first."""
    def cell(name, seconds, seed, *args, clients=24):
        return name, [*args, "--clients", str(clients), "--seed", str(seed)], seconds

    for seed in (1, 2):
        for group in ("1.0GB", "1.5GB", "2.5GB"):
            for clients in (24, 64):
                yield cell(f"group {group}, {clients} clients, seed {seed}", 300, seed, "--group", group, clients=clients)
        if seed == 1:
            for memory in (150, 300, 600, 1000, 1500):
                yield cell(f"memory {memory} MiB", 300, 11, "--memory", f"{memory}MiB")
            yield cell("limits", 300, 12, "--limits", "200MiB,400MiB,800MiB,1500MiB/10")
    for seed in (3, 4, 5):
        yield cell(f"group 1.5GB, 24 clients, seed {seed}", 300, seed, "--group", "1.5GB")
    yield cell("an hour in 1.5GB", 3600, 6, "--group", "1.5GB")


def identity(program):
    """What tells this program from others."""
    digest = hashlib.sha256()
    with open(program, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()[:16]


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, results):
    """Replaces the file as a whole, so that an end in between loses no cell."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def missing(results, program, wanted, scale):
    """The cells that have not run for this program at least as long as wanted."""
    done = {
        result["cell"] for result in results
        if result["program"] == program and result["scale"] >= scale
    }
    return [cell for cell in wanted if cell[0] not in done]


def fits(seconds, scale, left_s):
    return seconds * scale + BESIDE_S <= left_s


def line(result):
    def mib(value):
        return "" if value is None else f"{value >> 20} MiB"

    p95 = "" if result["p95_s"] is None else f"{result['p95_s']:.1f} s"
    kept = "; ".join(result["broken"]) or "kept"
    return (
        f"| {result['cell']} | {result['ends'].get('answered', 0)} | {result['refused_share']:.1%} | {p95} "
        f"| {mib(result['resident'])} | {mib(result['group_usage'])} | {kept} |"
    )


def table(results):
    yield "| soak | answered | refused | P95 | the process, most | its group, most | promises |"
    yield "|---|---|---|---|---|---|---|"
    yield from map(line, results)


def run(args, program, cell):
    """Runs one cell; its summary with what identifies it."""
    name, options, seconds = cell
    with tempfile.TemporaryDirectory(prefix="coscan-matrix-") as out:
        command = [
            sys.executable, os.path.join(HERE, "soak.py"), "--coscan", args.coscan, "--data", args.data,
            "--seconds", str(seconds * args.scale), "--out", out, *options,
        ]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        try:
            with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
                summary = json.load(file)
        except OSError:
            said = ended.stdout.strip().splitlines()[-1:] or ["nothing"]
            summary = {
                "ends": {}, "refused_share": 0.0, "p95_s": None, "resident": None, "group_usage": None,
                "broken": [f"the soak itself failed: {said[0]}"],
            }
    about = {"cell": name, "program": program, "scale": args.scale, "at": time.strftime("%Y-%m-%d %H:%M")}
    return {**about, **summary}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", required=True, help="the program")
    parser.add_argument("--data", required=True, help="folder with TPC-H's tables")
    parser.add_argument("--results", required=True, help="the file that keeps the summaries")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing that ends later")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of each run's time")
    parser.add_argument("--only", default="", help="cells whose names begin so")
    args = parser.parse_args()
    program, results = identity(args.coscan), read(args.results)
    until = time.monotonic() + args.minutes * 60
    wanted = [cell for cell in cells() if cell[0].startswith(args.only)]
    for cell in missing(results, program, wanted, args.scale):
        if not fits(cell[2], args.scale, until - time.monotonic()):
            continue
        result = run(args, program, cell)
        results = [r for r in results if (r["program"], r["cell"]) != (program, cell[0])] + [result]
        write(args.results, results)
        print(line(result), flush=True)
    ours = [result for result in results if result["program"] == program]
    print("\n".join(table(ours)))
    left = missing(results, program, wanted, args.scale)
    if left:
        print("not run: " + "; ".join(cell[0] for cell in left))
    if any(result["broken"] for result in ours):
        return 1
    return 3 if left else 0


if __name__ == "__main__":
    sys.exit(main())
