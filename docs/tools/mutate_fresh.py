"""Do the claims of `coscan bench` hold with fresh seeds?

Idea: each command of changes.toml runs without a change, with seeds that no result was made with.
What is random in a run follows from its seed: queries, their parameters and order, think times,
arrivals, and the values of the micro-benchmark's and the Wisconsin tables. TPC-H's data and the
texts of `--experiment tpch` are the specification's: there a fresh seed is another run. seen.json
has for each command and seed what the claims said, and is written after each run. What is there
does not run again. A claim that a run does not have did not hold in it.
Not here: running a command (mutate_bench.py), how many seeds a claim held in (engine_claims.py).

Bounds: those of mutate_bench.py for each run. The tables of one seed are on disk at a time.
"""

import contextlib
import shutil

import engine_claims
import mutate_bench
import mutations
from engine_claims import about, commands, fits

# Rounds of `coscan bench parallel` have the seeds after the given one, so fresh ones are far apart.
SEEDS_APART = 1000
# Experiments of `coscan bench smooth` on TPC-H's tables, which no seed changes.
OF_TPCH = ("--experiment tpch", "--experiment rival")


def run(root, runs, seen, listed, count):
    """Runs the commands of changes and claims with `count` fresh seeds, and prints the claims."""
    asked = {}
    for one in sorted(listed, key=lambda one: one["seconds"]):
        asked |= {command: one["seconds"] for command in commands(one) if command not in asked}
    asked = {command: seconds for command, seconds in asked.items() if mutate_bench.measured(root, runs, seen, command, seconds)}
    for seed in range(SEEDS_APART, SEEDS_APART * (count + 1), SEEDS_APART):
        with tables(mutations.FOLDER / "fresh") as data:
            for command, seconds in asked.items():
                once(root, runs, seen, command, seed, seconds, data)
    for command in asked:
        say(command, seen[command], listed)


@contextlib.contextmanager
def tables(folder):
    """A folder for the tables of one seed; it is empty, also if the last run was killed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def once(root, runs, seen, command, seed, seconds, data):
    """Records what a command says with a seed, if that is not recorded."""
    fresh = seen[command].setdefault("fresh", {})
    if str(seed) in fresh:
        return
    own = about(command) == "coscan bench smooth" and not any(of in command for of in OF_TPCH)
    record = mutate_bench.timed(runs, f"{command} --seed {seed}" + (f" --data {data}" if own else ""), 0, seconds)
    if "ended" in record:
        print(f"{command} --seed {seed}\n  {record['ended']}", flush=True)
        return
    fresh[str(seed)] = record
    mutate_bench.write_seen(root, mutate_bench.prune(seen, runs.listed))
    print(f"{command} --seed {seed}: {sum(claim['holds'] for claim in record['claims'])} of {len(record['claims'])} claims hold", flush=True)


def say(command, record, listed):
    """Prints in how many seeds each claim of a command held that the list is about."""
    print(command, flush=True)
    for claim in record["claims"]:
        mine = [one for one in listed if command in commands(one) and fits(one, claim)]
        counted = engine_claims.fresh(record, claim).get("fresh")
        if not (mine and counted):
            continue
        known = any("why" in one for one in mine)
        short = not known and engine_claims.held_seldom(counted)
        words = ", as is known" if known else ": FALLS SHORT" if short else ""
        print(f"  held in {counted['held']} of {counted['of']}{words}: {claim['text']}", flush=True)
