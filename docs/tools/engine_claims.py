"""Which claims of `coscan bench` hold, and with which change of the code did each fail?

Idea: lab/bench/mutations/changes.toml lists changes, each with the commands that show it and a
pattern of the claims that must fail. lab/bench/mutations/seen.json has what the commands said,
without a change and with each. Several commands may print the same claim, of other data or fewer
clients. It is judged by the commands of the changes whose pattern it fits, and of those by one with
which it holds and was seen to fail. A claim that no change is about counts only where it holds, as
unproven: its command was not made to show it. Claims that do not hold on the engine need no change:
the list names them with the reason, so that they count as what they are.
Not here: running the commands (mutate_bench.py), how pages show the claims (pages.py).

MUTATE-3: a record belongs to a command and a change of the list.
MUTATE-4: a claim that is listed as not holding does not hold.
"""

import json
import re
import tomllib
from pathlib import Path

# The table of CHANGES with the claims that do not hold on the engine.
FAILS = "does_not_hold"
CHANGES, SEEN = Path("lab/bench/mutations/changes.toml"), Path("lab/bench/mutations/seen.json")
# A claim that was tried with this many fresh seeds, or more, and holds in fewer of ten, does not hold.
FRESH_MIN, HELD_OF_TEN = 10, 9


def read(root):
    """The claims of a tree, judged; none where nothing was recorded."""
    if not (root / CHANGES).exists():
        return []
    lists = read_lists(root)
    return judged(lists["change"], read_seen(root), lists.get(FAILS, []))


def read_lists(root):
    """The changes, and below `FAILS` the claims that do not hold."""
    return tomllib.loads((root / CHANGES).read_text(encoding="utf-8"))


def read_seen(root):
    """Records by command."""
    path = root / SEEN
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def commands(change):
    """The commands of a change, or of claims that do not hold."""
    return [command.strip() for command in change["command"].split(";")]


def about(command):
    """The part of a command that says which benchmark it is: `coscan bench qpipe`."""
    return " ".join(command.split()[:3])


def fits(one, claim):
    """Whether a change, or an entry of `FAILS`, is about a claim."""
    return re.search(one["claims"], claim["text"]) is not None


def judged(changes, seen, fails=()):
    """Every claim once, with its command: {text, holds, evidence, mutation?, why?, fresh?, command}."""
    best = {}
    for command, record in seen.items():
        for claim in record["claims"]:
            fit = [one for one in [*changes, *fails] if fits(one, claim)]
            here = any(command in commands(change) for change in fit)
            elsewhere = about(command) in {about(other) for change in fit for other in commands(change)}
            one = {**claim, **failure(record, claim), **fresh(record, claim), "command": command}
            holds = claim["holds"] and not falls_short(one)
            if not here and (elsewhere or not holds):
                continue
            one |= {"why": known["why"] for known in fit if "why" in known and not holds}
            one |= survived(record, claim, [change for change in fit if "file" in change and command in commands(change)])
            rank = (holds and "mutation" in one, holds, claim["holds"])
            key = about(command), claim["text"]
            if key not in best or rank > best[key][0]:
                best[key] = rank, one
    return [one for _, one in best.values()]


def fresh(record, claim):
    """In how many of a command's runs with fresh seeds a claim held."""
    runs = record.get("fresh", {}).values()
    held = sum(any(one["holds"] and one["text"] == claim["text"] for one in run["claims"]) for run in runs)
    return {"fresh": {"held": held, "of": len(runs)}} if runs else {}


def falls_short(claim):
    """Whether a claim holds in too few fresh seeds. As `Claim::falls_short` of lab/study/src/report/claim.rs."""
    fresh = claim.get("fresh", {"held": 0, "of": 0})
    return fresh["of"] >= FRESH_MIN and held_seldom(fresh)


def held_seldom(fresh):
    return 10 * fresh["held"] < HELD_OF_TEN * fresh["of"]


def survived(record, claim, changes):
    """The changes that were made for a claim and with which it did not fail."""
    titles = [f"{Path(change['file']).name}: {change['says']}" for change in changes]
    passed = [one for one in titles if claim["holds"] and "claims" in record["with"].get(one, {})
              and all(failed["text"] != claim["text"] for failed in record["with"][one]["claims"])]
    return {"survived": passed} if passed else {}


def failure(record, claim):
    """The change with the fewest failures with which a claim failed, and what it said then."""
    failed = []
    for changed, made in record["with"].items():
        for one in made.get("claims", []):
            if claim["holds"] and one["text"] == claim["text"]:
                failed.append((len(made["claims"]), changed, one["evidence"]))
    if not failed:
        return {}
    _, changed, evidence = min(failed, key=lambda one: one[0])
    return {"mutation": {"changed": changed, "seen": evidence}}
