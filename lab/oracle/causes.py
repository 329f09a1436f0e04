"""Groups differences by cause, and judges a run.

Two differences have one cause if their minimal statements are made of the same functions, operators
and clauses (`rows`), or if their errors have the same shape (the other kinds).

V1: a run passes only if every fault (`rows`, `lost`) is in the list of accepted differences,
V2: at most REFUSED_MAX of the statements that PostgreSQL answers are refused,
V3: at most ANSWERED_MAX of all statements are answered where PostgreSQL has an error, and at most
    MOMENT_MAX because no row needed the expression that fails (`moment.py`: the plan decides for
    which rows an expression is computed, in PostgreSQL too; two PostgreSQL servers with
    different plans differ in 0.0002 of the statements).
V4: at least ROWS_MIN of all statements return rows, so that a weak generator cannot pass.
"""

import collections
import dataclasses
import os
import re

import tree

HERE = os.path.dirname(os.path.abspath(__file__))
REFUSED_MAX, ANSWERED_MAX, MOMENT_MAX, ROWS_MIN = 0.01, 0.001, 0.005, 0.5
FAULTS = ("lost", "rows")
ORDER = ("lost", "rows", "refused", "answered", "moment", "state", "type")
TITLES = {
    "lost": "Sessions lost",
    "rows": "Wrong rows",
    "refused": "Refused by Coscan, answered by PostgreSQL",
    "answered": "Answered by Coscan, refused by PostgreSQL",
    "moment": "Answered, as no row needed the expression that both refuse",
    "state": "Other SQLSTATE class",
    "type": "Right rows, other types",
}
EXAMPLES_MAX = 3


@dataclasses.dataclass
class Cause:
    kind: str
    name: str
    count: int = 0
    examples: list = dataclasses.field(default_factory=list)
    accepted: "Accepted | None" = None

    def add(self, example, count=1):
        self.count += count
        if example is None:
            return
        known = {kept.statement.partition(" -- ")[0] for kept in self.examples}
        if example.statement.partition(" -- ")[0] not in known:
            self.examples = sorted([*self.examples, example], key=lambda kept: len(kept.statement))[:EXAMPLES_MAX]


@dataclasses.dataclass
class Example:
    statement: str
    tested: str
    reference: str
    note: str = ""
    tags: frozenset = frozenset()


@dataclasses.dataclass(frozen=True)
class Accepted:
    """A line of accepted.tsv: differences of `kind` whose minimal statement or error matches."""

    kind: str
    pattern: str
    cause: str
    reason: str

    def covers(self, kind, statement, detail):
        return self.kind == kind and bool(re.search(self.pattern, statement) or re.search(self.pattern, detail))


def accepted(path=os.path.join(HERE, "accepted.tsv")):
    with open(path, encoding="utf-8") as file:
        return [Accepted(*line.rstrip("\n").split("\t")) for line in file if line.strip() and not line.startswith("#")]


def name_of(difference, root):
    """The name of a difference's cause."""
    if difference.kind in ("refused", "lost", "state"):
        return difference.shape()
    if difference.kind == "type":
        return difference.detail
    made_of = ", ".join(sorted(tree.tags(root))) or re.sub(r"'[^']*'|\d+(\.\d+)?", "_", tree.text(root))[:80]
    return f"{difference.shape()}: {made_of}" if difference.kind in ("answered", "moment") else made_of


class Causes:
    """All causes of a run, and its counts."""

    def __init__(self, accepted_list=()):
        self.causes, self.accepted = {}, list(accepted_list)
        self.counts = collections.Counter()
        self.coverage = collections.Counter()  # tag of a statement that both answered alike
        self.drawn = collections.Counter()
        self.errors = collections.Counter()  # PostgreSQL's errors

    def cause(self, kind, name):
        return self.causes.setdefault((kind, name), Cause(kind, name))

    def add(self, difference, root, statement, note=""):
        wider = self.attributed(difference, root, strictly=True)
        if wider:
            wider.add(None)
            return wider
        cause = self.cause(difference.kind, name_of(difference, root))
        note = "; ".join(part for part in (note, difference.detail if difference.kind == "rows" else "") if part)
        cause.add(Example(statement, difference.tested, difference.reference, note, frozenset(tree.tags(root))))
        for rule in self.accepted:
            if rule.covers(difference.kind, statement, difference.detail):
                cause.accepted = rule
        return cause

    def attributed(self, difference, root, strictly=False):
        """A known cause whose parts are all in the statement; with `strictly` it also has fewer parts and shows the same error."""
        have = tree.tags(root)
        for cause in self.causes.values():
            if cause.kind != difference.kind or cause.accepted or cause.kind not in ("rows", "answered"):
                continue
            if cause.kind == "answered" and not cause.name.startswith(difference.shape()):
                continue
            if any(
                example.tags and (example.tags < have if strictly else example.tags <= have)
                for example in cause.examples
            ):
                return cause
        return None

    def saw(self, reference, root, agreed):
        self.counts["statements"] += 1
        self.counts["errors" if reference.failed else "rows" if reference.rows else "empty"] += 1
        if reference.failed:
            self.errors[f"{reference.state} {reference.message}"[:70]] += 1
        for tag in tree.tags(root):
            self.drawn[tag] += 1
            if agreed and not reference.failed:
                self.coverage[tag] += 1

    def total(self, *kinds, with_accepted=False):
        return sum(
            cause.count
            for cause in self.causes.values()
            if cause.kind in kinds and (with_accepted or not cause.accepted)
        )

    def judged(self):
        """The reasons why the run fails; empty if it passes."""
        said, counts = [], self.counts
        answered = counts["rows"] + counts["empty"]
        faults = self.total(*FAULTS)
        if faults:
            said.append(f"{faults} wrong answers that are not on the list")
        refused = self.total("refused", with_accepted=True)
        if refused > REFUSED_MAX * answered:
            said.append(f"{refused} of {answered} statements that PostgreSQL answers are refused")
        loud = self.total("answered")
        if loud > ANSWERED_MAX * counts["statements"]:
            said.append(f"{loud} of {counts['statements']} statements are answered that PostgreSQL refuses")
        unneeded = self.total("moment")
        if unneeded > MOMENT_MAX * counts["statements"]:
            said.append(f"{unneeded} of {counts['statements']} statements did not need what PostgreSQL computed")
        if counts["rows"] < ROWS_MIN * counts["statements"]:
            said.append(f"only {counts['rows']} of {counts['statements']} statements return rows")
        return said

    # ------------------------------------------------------------ pages

    def page(self, title):
        counts, lines = self.counts, [f"# {title}", ""]
        lines.append(
            f"{counts['statements']} statements: {counts['rows']} with rows, {counts['empty']} without, {counts['errors']} errors in PostgreSQL. "
            + "; ".join(f"{kind} {self.total(kind, with_accepted=True)}" for kind in ORDER)
            + f". {counts['unreduced']} differences of known causes were not reduced."
            + (f" PostgreSQL ended {counts['reference']} sessions." if counts["reference"] else "")
        )
        for kind in ORDER:
            found = sorted(
                (cause for cause in self.causes.values() if cause.kind == kind), key=lambda cause: -cause.count
            )
            if found:
                lines += ["", f"## {TITLES[kind]} ({len(found)} causes)", ""]
            for cause in found:
                lines += self.section(cause)
        return "\n".join(lines) + "\n"

    def section(self, cause):
        mark = f" · accepted: {cause.accepted.cause}" if cause.accepted else ""
        lines = [f"### {cause.count} × {cause.name}{mark}", ""]
        for example in cause.examples:
            lines += [
                "```sql",
                example.statement,
                f"-- Coscan:     {example.tested}",
                f"-- PostgreSQL: {example.reference}",
            ]
            lines += [f"-- {example.note}"] if example.note else []
            lines.append("```")
        return [*lines, ""]

    def coverage_page(self):
        lines = ["function, operator or clause\tstatements\tanswered alike"]
        lines += [f"{tag}\t{count}\t{self.coverage[tag]}" for tag, count in sorted(self.drawn.items())]
        return "\n".join(lines) + "\n"
