"""How many claims had another check, and what was wrong with it?

Idea: lab/corrected.toml lists them, by the result and by how the claims begin. A claim counts once,
however often it was corrected, and only as long as it is there.
Not here: the changes of the code with which claims fail (engine_claims.py, docs/results).

CORRECTED-1: an entry has the known keys, and each beginning is that of a claim of its result, or of a
recorded run of `coscan bench`, unless the entry says that none has it: a beginning with a mistake
in it would count nothing, and that would go unnoticed.
"""

import tomllib
from pathlib import Path

CORRECTED = Path("lab/corrected.toml")
NEEDED = {"of", "claims", "wrong", "since"}
KNOWN = NEEDED | {"row", "unmeasured"}
# The name of the claims of `coscan bench`.
ENGINE = "engine"


class Unknown(Exception):
    """An entry that is about no claim; the message names it."""


def read(root):
    """The entries of a tree; none where it has no list."""
    path = root / CORRECTED
    return tomllib.loads(path.read_text(encoding="utf-8"))["corrected"] if path.exists() else []


def check(entries, claims):
    """Refuses an entry that is about no claim. `claims` has a list for each result, and for the engine one of all runs."""
    for entry in entries:
        if set(entry) - KNOWN or NEEDED - set(entry):
            raise Unknown(f"CORRECTED-1: the keys of {entry} of {CORRECTED} are not {sorted(KNOWN)}")
        unmeasured = tuple(entry.get("unmeasured", ()))
        if idle := [one for one in unmeasured if not any(begins.startswith(one) for begins in entry["claims"])]:
            raise Unknown(f"CORRECTED-1: {idle} of {CORRECTED} are none of their entry's claims")
        for begins in entry["claims"]:
            if begins.startswith(unmeasured):
                continue
            if not any(claim["text"].startswith(begins) for claim in claims.get(entry["of"], [])):
                raise Unknown(f"CORRECTED-1: no claim of {entry['of']} begins with {begins!r}: mend {CORRECTED}")


def count(entries, name, claims):
    """How many claims of a result were corrected."""
    begins = tuple(begin for entry in entries if entry["of"] == name for begin in entry["claims"])
    return sum(claim["text"].startswith(begins) for claim in claims)


def rows(entries):
    """The entries as rows of a table: the result, the claims, what was wrong, and when it was corrected."""
    row = lambda entry: f" (row {entry['row']})" if "row" in entry else ""
    claims = lambda entry: "; ".join(f"*{begins} …*" for begins in entry["claims"])
    return [[entry["of"], claims(entry), entry["wrong"] + row(entry), entry["since"].isoformat()] for entry in entries]
