#!/usr/bin/env python3
"""Which claims of lab/study fail when the code is wrong?

    docs/tools/mutate.py                         make every change, run the experiments, record what failed
    docs/tools/mutate.py WORD ...                only the changes whose file or words have one of these
    docs/tools/mutate.py --only 'rahm-*'         only these experiments
    docs/tools/mutate.py --check                 exit 1 if a change no longer applies, or a record has no claim
    docs/tools/mutate.py --unproven              the claims that hold and were never seen to fail

Not here: claims of lab/bench, which are measured on the engine. lab/bench/mutations/changes.toml
has their changes, each with the command that shows it; --check covers it.

Idea: lab/study/mutations/changes.toml lists changes of the core, the simulator and the study. A
change replaces one expression. The program builds the simulator once, from a copy of the tree in
which a number in the environment chooses each expression, and runs the experiments that a change
names with its number. It records in lab/study/mutations/seen.json which claims held without the
change and fail with it, and what they said. A run has the seeds of its result; one with SEEDS_FEW
comes first, and spares it where nothing fails. The study prints a claim without a record as
unproven. Results take over the records; their figures stay.

Of several changes with which a claim failed the record has the one with which the fewest claims of
the experiment failed: it says most about this one. A claim that vanishes has not failed.
Bounds: CPU_S for a run.
MUTATE-1: a change applies at exactly one place, and changes that overlap replace the same
expression. MUTATE-2: a record belongs to a claim of a result, and to a change of the list.

The copy and its target folder are in $COSCAN_MUTANTS, by default ~/.cache/coscan/mutants.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pages

ROOT = pages.DOCS.parent
FOLDER = Path("lab/study/mutations")
CHANGES, SEEN = FOLDER / "changes.toml", FOLDER / "seen.json"
# Changes with which claims of lab/bench are to fail. These need the engine: they are only checked.
BENCH_CHANGES = Path("lab/bench/mutations/changes.toml")
# Processor time of a run, in seconds. A change may send a simulation round in circles.
CPU_S = 300
# Seeds of a first run. A change with which nothing fails over so few is not run over all.
SEEDS_FEW = 3
# Where a change's expression begins and ends.
MARKS = re.compile("«(.*?)»", re.DOTALL)
# The crates with changes, by folder, and how each calls the function that says which change is made.
SWITCH = {"crates/core/": "crate", "lab/sim/": "coscan_core", "lab/study/": "coscan_core"}
SWITCH_CODE = """
/// Whether this change is made.
#[doc(hidden)]
pub fn is_mutant(number: u32) -> bool {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("COSCAN_MUTANT").ok().and_then(|text| text.parse().ok());
    *NUMBER.get_or_init(|| chosen().unwrap_or(0)) == number
}
"""
# Keys of a change: those that it must have, and all.
CHANGE = ({"file", "says", "from", "to", "experiments"}, {"file", "says", "from", "to", "experiments", "claims"})
BENCH_CHANGE = (CHANGE[0] - {"experiments"} | {"claims", "command"}, CHANGE[1] - {"experiments"} | {"command", "seen"})


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--only", default="*", metavar="EXPERIMENTS")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--unproven", action="store_true")
    options = parser.parse_args(arguments)
    changes, seen, results = read_changes(ROOT), read_seen(ROOT), read_results(pages.DOCS)
    if options.check:
        of_bench = read_changes(ROOT, BENCH_CHANGES, BENCH_CHANGE)
        wrong = [*misplaced(changes, ROOT), *orphans(seen, changes, results), *misplaced(of_bench, ROOT, BENCH_CHANGES)]
        print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
        return 1 if wrong else 0
    if options.unproven:
        for name, result in results.items():
            for claim in result["report"]["claims"]:
                if pages.verdict(claim) == "unproven":
                    print(f"{name}: {claim['text']}")
        return 0
    if wrong := list(misplaced(changes, ROOT)):
        raise SystemExit("\n".join(wrong))
    chosen = [(number, change) for number, change in enumerate(changes, 1)
              if not options.words or any(word in title(change) for word in options.words)]
    tree = Tree(Path(os.environ.get("COSCAN_MUTANTS", Path.home() / ".cache/coscan/mutants")), changes)
    # A change that is no longer in the list must not stand in the way of another.
    seen = prune(seen, changes, results)
    if not options.words:  # Every change is made: what was seen before need not be kept.
        seen = {name: records for name, records in seen.items() if not fnmatch(name, options.only)}
    for number, change in chosen:
        names = [name for name in experiments(change, results) if fnmatch(name, options.only)]
        record(seen, title(change), names, run(tree, number, change, {name: results[name] for name in names}) if names else [])
        write_seen(ROOT, prune(seen, changes, results))
    take_over(pages.DOCS, seen)
    return pages.main([])


def title(change):
    """The change in a line: the name of its file, and its words."""
    return f"{Path(change['file']).name}: {change['says']}"


# What is on disk


def read_changes(root, file=CHANGES, keys=CHANGE):
    changes = tomllib.loads((root / file).read_text(encoding="utf-8"))["change"]
    needed, known = keys
    for change in changes:
        if set(change) - known or needed - set(change):
            raise SystemExit(f"{file}: the keys of {change.get('says')} are {sorted(change)}; known are {sorted(known)}")
    return changes


def read_seen(root):
    """Records by experiment."""
    path = root / SEEN
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_seen(root, seen):
    (root / SEEN).write_text(pages.pretty(seen), encoding="utf-8")


def read_results(docs):
    """The results that are reports, by experiment."""
    results = {}
    for path in sorted((docs / "results").glob("*/*.json")):
        result = pages.load(path)
        if "report" in result:
            results[path.stem] = result
    return results


def misplaced(changes, root, file=CHANGES):
    """A line for each change that does not apply at exactly one place."""
    titles = [title(change) for change in changes]
    yield from (f"{file}: two changes are called {one}" for one in sorted({one for one in titles if titles.count(one) > 1}))
    for change in changes:
        if len(MARKS.findall(change["from"])) != 1:
            yield f"MUTATE-1: {title(change)} must mark one expression of `from` with « and »"
            continue
        path = root / change["file"]
        times = path.read_text(encoding="utf-8").count(unmarked(change)) if path.exists() else 0
        if times != 1:
            yield f"MUTATE-1: {title(change)} applies at {times} places: mend {file}, and run docs/tools/mutate.py '{change['says']}'"


def unmarked(change):
    return MARKS.sub(r"\1", change["from"])


def orphans(seen, changes, results):
    """A line for each record without its claim or its change."""
    known = {title(change) for change in changes}
    for name, records in seen.items():
        claims = {claim["text"] for claim in results[name]["report"]["claims"]} if name in results else set()
        for one in records:
            if one["claim"] not in claims:
                yield f"MUTATE-2: {name} has no claim {one['claim']!r}: run docs/tools/mutate.py {one['changed']!r}"
            if one["changed"] not in known:
                yield f"MUTATE-2: {CHANGES} has no change {one['changed']!r}"


# Making a change


class Tree:
    """A copy of the tree with all changes, one of which a run may choose."""

    def __init__(self, folder, changes):
        self.root, self.target = folder / "tree", folder / "target"
        self.few = {}  # Whether few seeds can judge the claims of an experiment.
        listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).splitlines()
        wanted = {name for name in listed if (ROOT / name).is_file()}
        for name in {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()} - wanted:
            (self.root / name).unlink()
        for name in wanted:
            content, copy = (ROOT / name).read_bytes(), self.root / name
            if name.endswith(".rs") and name.startswith(tuple(SWITCH)):
                content = switched(name, content.decode(), changes).encode()
            # A file that is alike keeps its time, so that cargo does not build it again.
            if not copy.exists() or copy.read_bytes() != content:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
                shutil.copymode(ROOT / name, copy)
        self.build()

    def build(self):
        command = ["cargo", "build", "--release", "--quiet", "--offline", "-j1", "-p", "coscan-study", "--example", "sim"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target), "CARGO_PROFILE_RELEASE_DEBUG": "0"}
        built = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        if built.returncode:
            raise SystemExit(built.stderr)

    def judges(self, experiment, held):
        """Whether all these claims hold over few seeds without a change, so that few seeds can judge them."""
        if experiment not in self.few:
            claims = self.claims(experiment, 0, SEEDS_FEW)
            self.few[experiment] = not isinstance(claims, str) and held <= {claim["text"] for claim in claims if claim["holds"]}
        return self.few[experiment]

    def claims(self, experiment, number, seeds):
        """The claims of a run with a change; a text if it ended otherwise."""
        out = self.target / "report.json"
        out.unlink(missing_ok=True)
        command = [self.target / "release/examples/sim", "run", experiment, "--seeds", str(seeds), "--json", out]
        ran = subprocess.run(command, env={**os.environ, "COSCAN_MUTANT": str(number)}, capture_output=True, text=True, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)))
        if ran.returncode < 0:
            return f"no end in {CPU_S} s of processor time"
        if ran.returncode:
            return " ".join(ran.stderr.strip().splitlines()[:3]) or f"exit {ran.returncode}"
        return json.loads(out.read_text(encoding="utf-8"))["claims"]


def switched(name, code, changes):
    """The code of a file in which a number in the environment chooses the expressions of the changes."""
    crate = next(call for folder, call in SWITCH.items() if name.startswith(folder))
    places = {}
    for number, change in enumerate(changes, 1):
        if change["file"] == name:
            start = code.index(unmarked(change)) + change["from"].index("«")
            end = start + len(MARKS.search(change["from"]).group(1))
            places.setdefault((start, end), []).append((number, change["to"]))
    last = len(code)
    for (start, end), ways in sorted(places.items(), reverse=True):
        if end > last:
            raise SystemExit(f"MUTATE-1: changes of {name} overlap at {code[start:end]!r}")
        chosen = "".join(f"if {crate}::is_mutant({number}) {{ {to} }} else " for number, to in ways)
        code = f"{code[:start]}({chosen}{{ {code[start:end]} }}){code[end:]}"
        last = start
    return code + (SWITCH_CODE if name == "crates/core/src/lib.rs" else "")


def run(tree, number, change, results):
    """The claims that fail with a change: (experiment, claim, evidence)."""
    failed = []
    for name in experiments(change, results):
        found = run_one(tree, number, name, results[name]["report"], change.get("claims", ""))
        if isinstance(found, str):
            print(f"  {name}: {found}", flush=True)
        else:
            failed += [(name, *one) for one in found]
    print(f"{title(change)}: {len(failed)} claims fail", flush=True)
    for name, claim, evidence in failed:
        print(f"  {name}: {claim}\n      {evidence}", flush=True)
    return failed


def run_one(tree, number, name, report, wanted):
    """The claims of an experiment that fail with a change, with their evidence; a text if it ended otherwise."""
    seeds = int(report["seeds"])
    held = {claim["text"] for claim in report["claims"] if claim["holds"]}
    for many in [SEEDS_FEW, seeds] if seeds > SEEDS_FEW and tree.judges(name, held) else [seeds]:
        claims = tree.claims(name, number, many)
        if isinstance(claims, str):
            return claims
        failed = list(broken(report["claims"], claims, wanted))
        if not failed:
            return []
    return failed


def experiments(change, results):
    """The experiments that a change names, with `*` for any letters."""
    return [name for name in results if any(fnmatch(name, pattern) for pattern in change["experiments"])]


def broken(committed, claims, wanted=""):
    """The claims that hold in a result and fail in a run, with their evidence there."""
    after = {claim["text"]: claim for claim in claims}
    for claim in committed:
        other = after.get(claim["text"])
        if claim["holds"] and other and not other["holds"] and re.search(wanted, claim["text"]):
            yield claim["text"], other["evidence"]


# Keeping what was seen


def record(seen, changed, names, failed):
    """Replaces the records of a change in these experiments. Of two changes the one with fewer failures there stays."""
    for name in names:
        seen[name] = [one for one in seen.get(name, []) if one["changed"] != changed]
    for name, claim, evidence in failed:
        fails = sum(other == name for other, _, _ in failed)
        new = {"claim": claim, "changed": changed, "fails": fails, "seen": evidence}
        old = next((one for one in seen[name] if one["claim"] == claim), None)
        if old is None:
            seen[name].append(new)
        elif int(old["fails"]) > fails:
            old.update(new)


def prune(seen, changes, results):
    """Drops records without a claim or a change, and sorts them as the claims."""
    known = {title(change) for change in changes}
    for name in sorted(seen):
        texts = [claim["text"] for claim in results[name]["report"]["claims"] if claim["holds"]] if name in results else []
        kept = [one for one in seen.pop(name) if one["claim"] in texts and one["changed"] in known]
        if kept:
            seen[name] = sorted(kept, key=lambda one: texts.index(one["claim"]))
    return seen


def take_over(docs, seen):
    """Writes the records into the results, whose figures stay."""
    for path in sorted((docs / "results").glob("*/*.json")):
        result = pages.load(path)
        if "report" not in result:
            continue
        records = {one["claim"]: one for one in seen.get(path.stem, [])}
        for claim in result["report"]["claims"]:
            fresh = claim.pop("fresh", None)
            claim.pop("mutation", None)
            if one := records.get(claim["text"]):
                claim["mutation"] = {"changed": one["changed"], "seen": one["seen"]}
            if fresh is not None:
                claim["fresh"] = fresh
        if result != pages.load(path):
            path.write_text(pages.pretty(result), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
