"""Which claims of `coscan bench` hold, and with which change of the code did each fail?

Idea: lab/bench/mutations/changes.toml lists changes, each with the commands that show it and a
pattern of the claims that must fail. lab/bench/mutations/seen.json has what the commands said,
without a change and with each. Several commands may print the same claim, of other data or fewer
clients. It is judged by the commands of the changes whose pattern it fits, and of those by one with
which it holds and was seen to fail. A claim that no change is about counts only where it holds, as
unproven: its command was not made to show it.
Not here: running the commands (mutate_bench.py), how pages show the claims (pages.py).

MUTATE-3: a record belongs to a command and a change of the list.
"""

import json
import re
import tomllib
from pathlib import Path

CHANGES, SEEN = Path("lab/bench/mutations/changes.toml"), Path("lab/bench/mutations/seen.json")


def read(root):
    """The claims of a tree, judged; none where nothing was recorded."""
    if not (root / CHANGES).exists():
        return []
    changes = tomllib.loads((root / CHANGES).read_text(encoding="utf-8"))["change"]
    return judged(changes, read_seen(root))


def read_seen(root):
    """Records by command."""
    path = root / SEEN
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def commands(change):
    """The commands of a change."""
    return [command.strip() for command in change["command"].split(";")]


def about(command):
    """The part of a command that says which benchmark it is: `coscan bench qpipe`."""
    return " ".join(command.split()[:3])


def judged(changes, seen):
    """Every claim once, with its command: {text, holds, evidence, mutation?, command}."""
    best = {}
    for command, record in seen.items():
        for claim in record["claims"]:
            fit = [change for change in changes if re.search(change["claims"], claim["text"])]
            here = any(command in commands(change) for change in fit)
            elsewhere = about(command) in {about(other) for change in fit for other in commands(change)}
            if not here and (elsewhere or not claim["holds"]):
                continue
            one = {**claim, **failure(record, claim), "command": command}
            rank = (claim["holds"] and "mutation" in one, claim["holds"])
            key = about(command), claim["text"]
            if key not in best or rank > best[key][0]:
                best[key] = rank, one
    return [one for _, one in best.values()]


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
