"""Which claims of `coscan bench` fail with a change, and what is kept of that?

Idea: lab/bench/mutations/changes.toml lists changes of the engine and its benchmarks. The program
is built once with all of them; a run has one. Each command of a change runs without a change, once
for all changes, and with it. What it says without a change is what two runs agree about, or most of
three: a slow minute of the machine decides nothing. lab/bench/mutations/seen.json is written after
these runs and after each run with a change. It has for each command its claims, and for each change
the claims of its pattern that held and then failed. What is there does not run again, so that a
session can stop and another go on. Changes come in the order of the seconds that a run of their
commands takes. A record has the commit of the program that ran, which the program says or --commit,
and a hash of its file: the tree may be another by then.
Claims that the list names as not holding are measured too, and need no change.
Not here: how a change is made (mutations.py), how claims are counted (engine_claims.py), fresh
seeds (mutate_fresh.py).

A change is not made where no claim of its pattern holds without it. --again runs the command once
more, unless another change was judged by it: then name both. --rebase runs it without a change
alone, and keeps what changes and fresh seeds said. A claim that vanishes has not failed.
Bounds: LIMIT_FACTOR times the estimated time of a run, and at least LIMIT_S.
"""

import datetime
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import engine_claims
import mutations
import pages
from engine_claims import CHANGES, FAILS, SEEN, commands, fits, read_seen
from mutations import title

# Keys of a change; it must have all.
KEYS = {"file", "says", "from", "to", "claims", "command", "seconds"}
# Keys of claims that do not hold.
FAILS_KEYS = {"claims", "why", "command", "seconds"}
BUILD = ["cargo", "build", "--release", "--quiet", "--offline", "-p", "coscan-cli", "--bin", "coscan"]
# A run that takes this many times as long as it should, and at least LIMIT_S, is ended: data may
# have to be made first, and a change may make queries wait for ever.
LIMIT_FACTOR, LIMIT_S = 8, 1200
# A command runs so often without a change, unless the first two runs agree about every claim.
BASE_RUNS = 3
# A change of which a run takes no longer than this is short.
SHORT_S = 60
# What is taken of a build of the same dependencies: libraries, and what they were made from.
SEED_FOLDERS, SEED_FILES = ("deps", "build", ".fingerprint"), {".rlib", ".rmeta", ".so", ".a", ".d"}
# Larger libraries of a seed are linked: the compiler replaces them and does not write into them.
SEED_LINKED_BYTES = 64 << 10
# What the compiler says of libraries that do not fit each other: a cache of several builds.
MISFITS = re.compile(r"^error\[E046[03]\]", re.MULTILINE)
# The promises of `coscan bench smooth` over selectivities, which only its output has. Programs before
# 30 November 2026 say that a promise is kept or broken.
PROMISE = re.compile(r"^(unproven|FAILS|kept|BROKEN): (smooth is .+?)(?: \(([^()]+)\))?$", re.MULTILINE)


def main(options, fresh):
    """Builds what --binary does not name, and runs what is chosen and not recorded. `fresh` runs it with fresh seeds."""
    root = mutations.ROOT
    changes, fails = read_changes(root), read_fails(root)
    if wrong := list(mutations.misplaced(changes, root, CHANGES)):
        raise SystemExit("\n".join(wrong))
    seen = prune(read_seen(root), [*changes, *fails])
    chosen = sorted(choose(changes, options.words, options.short), key=lambda one: one[1]["seconds"])
    failing = [fail for _, fail in choose(fails, options.words, options.short)]
    if options.list:
        for one in [*(change for _, change in chosen), *failing]:
            print(f"{one['seconds']:5} s  {state(one, seen):14} {name(one)}")
        return
    program = Path(options.binary).absolute() if options.binary else built(mutations.FOLDER / "bench", changes, options.target)
    if not options.fresh and mutations.list_name(changes).encode() not in program.read_bytes():
        raise SystemExit(f"{program} has not the changes of {CHANGES} as they are now: build it with --bench --build-only")
    print(f"{program} runs without a change" if options.fresh else f"{program} has the {len(changes)} changes of {CHANGES}", flush=True)
    if not options.build_only:
        runs = Runs(program, changes, stamp(program, options.commit), [*changes, *fails])
        listed = [*(change for _, change in chosen), *failing]
        if options.fresh:
            fresh(root, runs, seen, listed, options.fresh)
            return
        if options.rebase:
            rebase(root, runs, seen, listed)
            return
        forget(seen, listed, options.again)
        for number, change in chosen:
            make(root, runs, seen, number, change)
        for fail in failing:
            see(root, runs, seen, fail)


def name(one):
    """A change's title; of claims that do not hold their pattern."""
    return title(one) if "file" in one else one["claims"]


def choose(listed, words, short):
    """(number, one) of the changes, or claims, with one of these words, or all; `short`: only short ones."""
    for number, one in enumerate(listed, 1):
        if (not words or any(word in name(one) for word in words)) and (not short or one["seconds"] <= SHORT_S):
            yield number, one


def wrong(root):
    """A line for each change that does not apply, each record without its change or command, and each claim that does hold."""
    changes, fails, seen = read_changes(root), read_fails(root), read_seen(root)
    return [*mutations.misplaced(changes, root, CHANGES), *orphans(seen, [*changes, *fails]), *held_after_all(seen, fails)]


def unproven(root):
    """(command, claim) of the claims that hold and were never seen to fail."""
    for claim in engine_claims.read(root):
        if pages.verdict(claim) == "unproven":
            yield claim["command"], claim["text"]


# What is on disk


def read_changes(root):
    changes = mutations.read_changes(root, CHANGES, KEYS, KEYS)
    check_commands(changes)
    return changes


def read_fails(root):
    """The claims that do not hold."""
    fails = engine_claims.read_lists(root).get(FAILS, [])
    if odd := [fail for fail in fails if set(fail) != FAILS_KEYS]:
        raise SystemExit(f"{CHANGES}: the keys of {FAILS} are {sorted(FAILS_KEYS)}, not {sorted(odd[0])}")
    check_commands(fails)
    return fails


def check_commands(listed):
    for one in listed:
        if strange := [command for command in commands(one) if engine_claims.about(command).split()[:2] != ["coscan", "bench"]]:
            raise SystemExit(f"{CHANGES}: {name(one)} has commands that do not begin with `coscan bench`: {strange}")


def write_seen(root, seen):
    (root / SEEN).write_text(pages.pretty(seen), encoding="utf-8")


def orphans(seen, listed):
    """A line for each record without its command or its change."""
    for command, record in seen.items():
        titles = {name(one) for one in listed if command in commands(one)}
        if not titles:
            yield f"MUTATE-3: {CHANGES} has no command {command!r}"
        yield from (f"MUTATE-3: no change of {CHANGES} is {changed!r} and has the command {command!r}" for changed in record["with"] if changed not in titles)


def held_after_all(seen, fails):
    """A line for each claim that is listed as not holding, and holds, also with fresh seeds."""
    for fail in fails:
        records = [seen[command] for command in commands(fail) if command in seen]
        for claim in [{**claim, **engine_claims.fresh(record, claim)} for record in records for claim in record["claims"]]:
            if claim["holds"] and not engine_claims.falls_short(claim) and fits(fail, claim):
                yield f"MUTATE-4: {claim['text']!r} holds: take it out of {FAILS} of {CHANGES}, and find a change"


def prune(seen, listed):
    """The records of commands and changes that are in the list, in its order."""
    kept = {}
    for one in listed:
        for command in commands(one):
            if command in seen:
                record = kept.setdefault(command, {**seen[command], "with": {}})
                if name(one) in seen[command]["with"]:
                    record["with"][name(one)] = seen[command]["with"][name(one)]
    return kept


def forget(seen, chosen, again):
    """Drops the records of the chosen changes, or claims, if they are to run again."""
    for command in {command for one in chosen for command in commands(one)} if again else ():
        record = seen.get(command, {"with": {}})
        for changed in map(name, chosen):
            record["with"].pop(changed, None)
        if not record["with"]:  # No other change was judged by what the command said.
            seen.pop(command, None)


def state(change, seen):
    """How far a change is: open, without a claim that holds, or how many claims failed. Of claims: whether they hold."""
    records = [seen.get(command) for command in commands(change)]
    if not all(records):
        return "open"
    if "why" in change:
        return "HOLDS" if list(held_after_all(seen, [change])) else "does not hold"
    made = [record["with"].get(title(change)) for record in records]
    if any(one is None and held(record, change) for record, one in zip(records, made, strict=True)):
        return "open"
    failed = sum(len(one.get("claims", [])) for one in made if one)
    return f"{failed} failed" if any(made) else "none holds"


# Making a change


def built(folder, changes, target=None):
    """The program with all changes, built in a copy of the tree."""
    mutations.copy_tree(folder / "tree", changes)
    own = folder / "target"
    if target is None and not own.exists():
        seed(Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/coscan/target")), own)
    try:
        mutations.build(folder / "tree", target or own, BUILD)
    except SystemExit as failed:
        if target is not None or not MISFITS.search(str(failed)):
            raise
        shutil.rmtree(own)
        mutations.build(folder / "tree", own, BUILD)
    return Path(target or own) / "release/coscan"


def seed(source, target):
    """Fills a target folder with another one's dependencies, so that only our crates are built."""
    for path in (path for folder in SEED_FOLDERS for path in (source / "release" / folder).rglob("*")):
        inside = path.relative_to(source / "release")
        if inside.parts[1].removeprefix("lib").startswith("coscan") or not path.is_file():
            continue
        if inside.parts[0] == "deps" and path.suffix not in SEED_FILES:
            continue
        copy = target / "release" / inside
        copy.parent.mkdir(parents=True, exist_ok=True)
        if inside.parts[0] == "deps" and path.stat().st_size >= SEED_LINKED_BYTES and path.stat().st_dev == copy.parent.stat().st_dev:
            os.link(path, copy)
        else:
            shutil.copy2(path, copy)  # With its time, by which cargo knows what is fresh.


def stamp(program, given=None):
    """What records say of a program: its commit, which it says or is given, and a hash of its file."""
    said = mutations.said_commit(program)
    if given:
        given = subprocess.check_output(["git", "rev-parse", "--short=7", f"{given}^{{commit}}"], cwd=mutations.ROOT, text=True).strip()
    if not (said or given):
        raise SystemExit(f"{program} does not say its commit: name the one that it was built from with --commit")
    if said and given and said != given:
        raise SystemExit(f"{program} is of commit {said}, not of {given}")
    with program.open("rb") as file:
        return {"commit": said or given, "program": hashlib.file_digest(file, "sha256").hexdigest()[:12]}


class Runs:
    """Runs commands with the program of all changes. `stamp` is what records say of it, `listed` what is kept."""

    def __init__(self, program, changes, stamp, listed):
        self.program, self.changes, self.stamp, self.listed = program, changes, stamp, listed

    def run(self, command, number, seconds):
        """The claims of a command with a change; a text if it ended otherwise."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run.json"
            words = [self.program, *shlex.split(command)[1:], "--json", out]
            limit = max(LIMIT_S, LIMIT_FACTOR * seconds)
            try:
                ran = subprocess.run(words, env=mutations.environment(self.changes, number), capture_output=True, text=True, check=False, timeout=limit)
            except subprocess.TimeoutExpired:
                return f"no end in {limit} s"
            if ran.returncode:
                return " ".join(ran.stderr.strip().splitlines()[-3:]) or f"exit {ran.returncode}"
            return claims_of(json.loads(out.read_text(encoding="utf-8")), ran.stdout)


def claims_of(report, said):
    """The claims of a run: in its file, or, of selectivities, in its output."""
    if "claims" in report:
        return [{key: claim[key] for key in ("text", "holds", "evidence")} for claim in report["claims"]]
    return [{"text": text, "holds": verdict in ("unproven", "kept"), "evidence": evidence} for verdict, text, evidence in PROMISE.findall(said)]


def make(root, runs, seen, number, change):
    """Makes a change, and records what each of its commands says that is not recorded."""
    print(f"{title(change)}, about {change['seconds']} s", flush=True)
    for command in commands(change):
        if not measured(root, runs, seen, command, change["seconds"]):
            continue
        wanted = held(seen[command], change)
        if not wanted:
            print(f"  {command}\n    no claim holds without the change that fits {change['claims']!r}", flush=True)
            continue
        if title(change) not in seen[command]["with"]:
            record = timed(runs, command, number, change["seconds"])
            if "claims" in record:
                record["claims"] = failed(wanted, record["claims"])
            seen[command]["with"][title(change)] = record
            write_seen(root, prune(seen, runs.listed))
        say(command, wanted, seen[command]["with"][title(change)])


def see(root, runs, seen, fail):
    """Records what the commands of claims that do not hold say, and prints it."""
    print(f"{fail['why']}, about {fail['seconds']} s", flush=True)
    for command in commands(fail):
        if measured(root, runs, seen, command, fail["seconds"]):
            print(f"  {command}", flush=True)
            for claim in (claim for claim in seen[command]["claims"] if fits(fail, claim)):
                print(f"    {claim['text']}\n      {claim['evidence']}: {'HOLDS' if claim['holds'] else 'does not hold'}", flush=True)


def measured(root, runs, seen, command, seconds):
    """Whether it is recorded what a command says without a change; if not, it runs now."""
    return command in seen or based(root, runs, seen, command, seconds)


def rebase(root, runs, seen, listed):
    """Measures the commands without a change once more."""
    for command, seconds in {command: one["seconds"] for one in listed for command in commands(one)}.items():
        if based(root, runs, seen, command, seconds):
            print(f"{command}: {sum(claim['holds'] for claim in seen[command]['claims'])} of {len(seen[command]['claims'])} claims hold", flush=True)


def based(root, runs, seen, command, seconds):
    """Records what a command says without a change; False if it ended otherwise. What changes did stays recorded, but for
    changes that are about a claim that holds only now: they were not judged by it."""
    record = base(runs, command, seconds)
    if "ended" in record:
        print(f"  {command}\n    without a change: {record['ended']}", flush=True)
        return False
    before = seen.get(command, {"claims": [], "with": {}})
    known = {claim["text"] for claim in before["claims"] if claim["holds"]}
    gained = [claim for claim in record["claims"] if claim["holds"] and claim["text"] not in known]
    stale = {name(one) for one in runs.listed for claim in gained if fits(one, claim)}
    seen[command] = {**before, **record, "with": {changed: made for changed, made in before["with"].items() if changed not in stale}}
    write_seen(root, prune(seen, runs.listed))
    return True


def base(runs, command, seconds):
    """What two runs without a change agree about, or most of three; what a run said that ended otherwise."""
    said = []
    while len(said) < BASE_RUNS:
        said.append(timed(runs, command, 0, seconds))
        if "ended" in said[-1]:
            return said[-1]
        if len(said) == 2 and verdicts(said[0]) == verdicts(said[1]):
            break
    return {**said[0], "claims": list(majority([one["claims"] for one in said])), "runs": len(said)}


def verdicts(record):
    return {claim["text"]: claim["holds"] for claim in record["claims"]}


def majority(said):
    """Each claim as most runs have it, with the evidence of the first of these. A claim that a run lacks does not hold in it."""
    lacking = lambda text: {"text": text, "holds": False, "evidence": "not measured"}
    found = [{claim["text"]: claim for claim in claims} for claims in said]
    for text in dict.fromkeys(claim["text"] for claims in said for claim in claims):
        each = [claims.get(text, lacking(text)) for claims in found]
        holds = 2 * sum(claim["holds"] for claim in each) > len(each)
        yield next(claim for claim in each if claim["holds"] == holds)


def timed(runs, command, number, seconds):
    """What a run said, when, and how long it took."""
    begun = time.monotonic()
    claims = runs.run(command, number, seconds)
    took = round(time.monotonic() - begun)
    record = {**runs.stamp, "date": datetime.date.today().isoformat(), "seconds": took}
    return {**record, "ended": claims} if isinstance(claims, str) else {**record, "claims": claims}


def held(record, change):
    """The claims of a command that hold without a change and must fail with this one."""
    return [claim for claim in record["claims"] if claim["holds"] and fits(change, claim)]


def failed(wanted, claims):
    """Those of the wanted claims that fail in a run, with what they say there."""
    after = {claim["text"]: claim for claim in claims}
    others = [after.get(claim["text"]) for claim in wanted]
    return [{"text": other["text"], "evidence": other["evidence"]} for other in others if other and not other["holds"]]


def say(command, wanted, record):
    """Prints which of the wanted claims failed."""
    print(f"  {command}", flush=True)
    if "ended" in record:
        print(f"    {record['ended']}", flush=True)
        return
    after = {claim["text"]: claim["evidence"] for claim in record["claims"]}
    for claim in wanted:
        then = f"fails: {after[claim['text']]}" if claim["text"] in after else "does NOT fail"
        print(f"    {claim['text']}\n      {claim['evidence']}; with the change it {then}", flush=True)
