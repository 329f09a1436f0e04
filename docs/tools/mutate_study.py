"""Which claims of the simulator's experiments fail with a change, and what is kept of that?

Idea: lab/study/mutations/changes.toml lists changes of the core, the simulator and the study. The
simulator is built once with all of them; a run has one. A run has the seeds of its result; one with
SEEDS_FEW comes first, and spares it where nothing fails. lab/study/mutations/seen.json has which
claims held without a change and fail with it, and what they said. The study prints a claim without
a record as unproven. Results take over the records; their figures stay.
Not here: how a change is made (mutations.py), the engine's claims (mutate_bench.py).

Of several changes with which a claim failed the record has the one with which the fewest claims of
the experiment failed: it says most about this one. A claim that vanishes has not failed.
Bounds: CPU_S for a run.
MUTATE-2: a record belongs to a claim of a result, and to a change of the list.
"""

import json
import re
import resource
import subprocess
from fnmatch import fnmatch

import mutations
import pages
from mutations import title

CHANGES, SEEN = "lab/study/mutations/changes.toml", "lab/study/mutations/seen.json"
# Processor time of a run, in seconds. A change may send a simulation round in circles.
CPU_S = 300
# Seeds of a first run. A change with which nothing fails over so few is not run over all.
SEEDS_FEW = 3
# Keys of a change: those that it must have, and all.
NEEDED = {"file", "says", "from", "to", "experiments"}
KNOWN = NEEDED | {"claims"}
BUILD = ["cargo", "build", "--release", "--quiet", "--offline", "-j1", "-p", "coscan-study", "--example", "sim"]


def main(words, only):
    """Makes the changes that have one of these words, or all, and records what fails with them."""
    root = mutations.ROOT
    changes, seen, results = read_changes(root), read_seen(root), read_results(pages.DOCS)
    if wrong := list(mutations.misplaced(changes, root, CHANGES)):
        raise SystemExit("\n".join(wrong))
    chosen = [(number, change) for number, change in enumerate(changes, 1)
              if not words or any(word in title(change) for word in words)]
    tree = Tree(mutations.FOLDER, changes)
    # A change that is no longer in the list must not stand in the way of another.
    seen = prune(seen, changes, results)
    if not words:  # Every change is made: what was seen before need not be kept.
        seen = {name: records for name, records in seen.items() if not fnmatch(name, only)}
    for number, change in chosen:
        names = [name for name in experiments(change, results) if fnmatch(name, only)]
        record(seen, title(change), names, run(tree, number, change, {name: results[name] for name in names}) if names else [])
        write_seen(root, prune(seen, changes, results))
    take_over(pages.DOCS, seen)


def wrong(root):
    """A line for each change that does not apply, and each record without its claim or change."""
    changes = read_changes(root)
    return [*mutations.misplaced(changes, root, CHANGES), *orphans(read_seen(root), changes, read_results(pages.DOCS))]


def unproven():
    """(experiment, claim) of the claims that hold and were never seen to fail."""
    for name, result in read_results(pages.DOCS).items():
        yield from ((name, claim["text"]) for claim in result["report"]["claims"] if pages.verdict(claim) == "unproven")


# What is on disk


def read_changes(root):
    return mutations.read_changes(root, CHANGES, NEEDED, KNOWN)


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
        self.target, self.changes = folder / "target", changes
        self.few = {}  # Whether few seeds can judge the claims of an experiment.
        mutations.copy_tree(folder / "tree", changes)
        mutations.build(folder / "tree", self.target, BUILD, CARGO_PROFILE_RELEASE_DEBUG="0")

    def judges(self, experiment, held):
        """Whether few seeds can judge these claims: all hold over few without a change."""
        if experiment not in self.few:
            claims = self.claims(experiment, 0, SEEDS_FEW)
            self.few[experiment] = not isinstance(claims, str) and held <= {claim["text"] for claim in claims if claim["holds"]}
        return self.few[experiment]

    def claims(self, experiment, number, seeds):
        """The claims of a run with a change; a text if it ended otherwise."""
        out = self.target / "report.json"
        out.unlink(missing_ok=True)
        command = [self.target / "release/examples/sim", "run", experiment, "--seeds", str(seeds), "--json", out]
        ran = subprocess.run(command, env=mutations.environment(self.changes, number), capture_output=True, text=True, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)))
        if ran.returncode < 0:
            return f"no end in {CPU_S} s of processor time"
        if ran.returncode:
            return " ".join(ran.stderr.strip().splitlines()[:3]) or f"exit {ran.returncode}"
        return json.loads(out.read_text(encoding="utf-8"))["claims"]


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
    """The claims that fail with a change, with their evidence; a text if the run ended otherwise."""
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
    """Replaces a change's records here. Of two changes the one with fewer failures stays."""
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
