#!/usr/bin/env python3
"""Does Coscan answer as PostgreSQL 15 does?

    run.py --coscan PROGRAM [--statements N] [--seed S] [--seconds S] [--found FILE] [--coverage FILE]
           [--postgres-at HOST:PORT:DATABASE] [--coscan-at HOST:PORT:DATABASE] [--explore]

Starts both over the same rows and sends both random statements, in four concurrent sessions. Every
difference is reduced to a minimal statement and grouped by cause. The exit status is 1 if the run
fails (`causes.py`, V1 to V4). A seed fixes the statements.

`--explore` finds many causes: functions with known faults are drawn rarely, and a difference that
a known cause explains is counted without being reduced.
R1: each statement is compared in the session that ran it beside the others; a difference that does
    not occur when the statement runs alone is reported as a fault of sharing.
"""

import argparse
import dataclasses
import random
import sys
import time

import asking
import causes
import data
import moment
import reduce
import rewrites
import servers
import tree
import wire
from generator import pools, queries

SESSIONS = (  # settings of Coscan, and the time zone of both
    (("coscan.small_table_bytes = 0",), "UTC"),
    (("coscan.small_table_bytes = 0",), "UTC"),
    (("coscan.small_table_bytes = 0", "coscan.share_fragments = on"), "America/New_York"),
    ((), "UTC"),
)
# Reductions per shape of error. Each step on a statement that timed out takes as long as its
# timeout.
REDUCED_MAX = {"refused": 4, "state": 2, "type": 4, "answered": 4, "lost": 1}
REOPENED = 60  # attempts, a second apart
AVOID_AFTER = 2
PAGE_EVERY_S = 60


class Pair:
    """A session on each system in the same time zone; a lost session is replaced."""

    def __init__(self, reference, tested, settings=(), zone="UTC"):
        self.servers, self.settings, self.zone = (reference, tested), settings, zone
        self.reference = self.open_reference()
        self.tested = self.open_tested()

    def open_reference(self):
        session = self.servers[0].session()
        session.ask(f"set statement_timeout = {asking.POSTGRES_TIMEOUT_MS}; set timezone = '{self.zone}'")
        return session

    def open_tested(self):
        session = self.servers[1].session(asking.COSCAN_TIMEOUT_S)
        for setting in (*self.settings, f"timezone = '{self.zone}'", f"statement_timeout = {asking.COSCAN_TIMEOUT_MS}"):
            session.ask(f"set {setting}")
        return session

    def answers(self, one):
        """Both answers to one statement that runs alone; Coscan's may be a wire.Lost."""
        reference = asking.ask(self.reference, one)
        return reference, self.tested_answer(one)

    def tested_answer(self, one, begun=False):
        try:
            if not begun:
                one.send(self.tested)
            return self.tested.receive()
        except wire.Lost as lost:
            self.tested = self.open_tested()
            return lost

    def difference(self, one):
        reference, tested = self.answers(one)
        return None if asking.gave_up(reference) else asking.compare(one, reference, tested)


class Run:
    def __init__(self, options, reference, tested, tables):
        self.options, self.tables = options, tables
        self.draw = random.Random(options.seed)
        self.generator = queries.Generator(self.draw, tables)
        self.generator.maker.without = frozenset(options.without.split(",") if options.without else ())
        self.generator.maker.simple = options.simple
        self.pairs = [Pair(reference, tested, *session) for session in SESSIONS]
        self.encoder = asking.Encoder(reference.session())
        self.causes = causes.Causes(causes.accepted())
        self.shapes = {}

    def go(self):
        options, begun, paged = self.options, time.monotonic(), time.monotonic()
        while self.causes.counts["statements"] < options.statements:
            try:
                self.round()
            except wire.Lost:
                # PostgreSQL has ended a session, or crashed and ended all its sessions.
                self.reopen()
            now = time.monotonic()
            if options.seconds and now - begun > options.seconds:
                break
            if now - paged > PAGE_EVERY_S:
                paged = now
                self.write()
        self.write()

    def reopen(self):
        self.causes.counts["reference"] += 1
        for _ in range(REOPENED):
            time.sleep(1)
            try:
                for pair in self.pairs:
                    pair.reference, pair.tested = pair.open_reference(), pair.open_tested()
                self.encoder = asking.Encoder(self.pairs[0].servers[0].session())
                return
            except (OSError, wire.Lost):
                pass
        raise wire.Lost("PostgreSQL accepts no new session")

    def write(self):
        title = f"Differences from PostgreSQL 15 (seed {self.options.seed})"
        for path, text in (
            (self.options.found, self.causes.page(title)),
            (self.options.coverage, self.causes.coverage_page()),
        ):
            if path:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)

    # ------------------------------------------------------------ a round

    def round(self):
        """Runs four statements at once; in half of the rounds the others repeat or vary the first."""
        statements = self.batch()
        formats = [self.draw.choice([wire.TEXT, wire.TEXT, wire.BINARY]) for _ in statements]
        asked = [asking.sent(statement, self.encoder, form) for statement, form in zip(statements, formats)]
        for pair, one in zip(self.pairs, asked):
            one.send(pair.reference)
        references = [pair.reference.receive() for pair in self.pairs]
        for pair, one in zip(self.pairs, asked):
            try:
                one.send(pair.tested)
            except wire.Lost:
                pair.tested = pair.open_tested()
                one.send(pair.tested)
        tested = [pair.tested_answer(one, begun=True) for pair, one in zip(self.pairs, asked)]
        for number, (pair, one, reference) in enumerate(zip(self.pairs, asked, references)):
            if asking.gave_up(reference):
                continue
            found = asking.compare(one, reference, tested[number])
            self.causes.saw(reference, statements[number].root, found is None)
            if found:
                self.explain(pair, statements[number], one, found)
        if self.draw.random() < 0.1:
            self.rewrite(statements[0])

    def batch(self):
        first = self.generator.statement()
        if self.draw.random() < 0.5:
            return [first] + [self.generator.statement() for _ in self.pairs[1:]]
        return [first, like(first, first.root), *(like(first, self.varied(first.root)) for _ in self.pairs[2:])]

    def varied(self, root):
        """The statement with another literal."""
        literals = [
            node
            for node in root.walk()
            if node.kind == "literal" and node.value is not None and node.type in pools.TAME
        ]
        if not literals:
            return root
        old = self.draw.choice(literals)
        new = tree.literal(old.type, self.draw.choice(pools.TAME[old.type]), old.form)
        return tree.substitute(root, old, new)

    # ------------------------------------------------------------ a difference

    def explain(self, pair, statement, one, found):
        known = self.known(found, statement)
        if known:
            self.causes.counts["unreduced"] += 1
            known.add(None)
            return
        again = pair.difference(one)
        if again is None:
            self.causes.add(
                dataclasses.replace(found, kind="rows" if found.kind == "rows" else found.kind),
                tree.fixed(tag="only beside other statements"),
                one.text,
                "not alone: it shows only beside other sessions' statements",
            )
            return
        if one.earlier:
            statement, one, again = self.without_earlier(pair, statement, one, again)
        root, minimal, last = self.reduced(pair, statement, one, again)
        if last.kind == "answered" and moment.differs(pair, root, minimal, self.tables):
            last = dataclasses.replace(last, kind="moment")
        note = f"parameters: {parameters(root)}" if minimal.parameters else ""
        cause = self.causes.add(
            last, root, self.shown(minimal), note + " (executed with other values first)" * bool(minimal.earlier)
        )
        self.avoid(cause, root)

    def known(self, found, statement):
        """A known cause of the difference, if the difference need not be reduced."""
        if found.kind in REDUCED_MAX:
            key = (found.kind, found.shape())
            self.shapes[key] = self.shapes.get(key, 0) + 1
            # A statement that did not need the failing expression has the kind "moment" after
            # reduction.
            cause = self.causes.causes.get(key) or self.causes.causes.get(("moment", found.shape()))
            if self.shapes[key] > REDUCED_MAX[found.kind] and cause:
                return cause
        if self.options.explore and self.draw.random() < 0.85:
            return self.causes.attributed(found, statement.root)
        return None

    def without_earlier(self, pair, statement, one, found):
        """The statement executed once, if that shows the difference too."""
        once = queries.Statement(statement.root, statement.loose)
        asked = asking.sent(once, self.encoder, one.result_format)
        difference = pair.difference(asked)
        return (once, asked, difference) if difference and difference.kind == found.kind else (statement, one, found)

    def reduced(self, pair, statement, one, found):
        kept = [one, found]

        def shows(root):
            smaller = asking.sent(like(statement, root), self.encoder, one.result_format)
            difference = pair.difference(smaller)
            if difference is None or difference.kind != found.kind:
                return False
            if found.kind in ("refused", "state", "lost") and difference.shape() != found.shape():
                return False
            kept[:] = smaller, difference
            return True

        root = reduce.reduce(statement.root, shows)
        return root, kept[0], kept[1]

    def avoid(self, cause, root):
        found = tree.tags(root)
        if self.options.explore and cause.count >= AVOID_AFTER and len(found) == 1:
            self.generator.maker.avoided[found.pop()] = 0.95

    def shown(self, one):
        form = " -- rows in binary" if one.result_format else ""
        return one.text + form

    # ------------------------------------------------------------ rewrites

    def rewrite(self, statement):
        pair = self.pairs[0]
        for made in rewrites.rewrites(statement.root, self.draw):
            found = made.difference(pair.tested_answer)
            self.causes.counts["rewrites"] += 1
            if found:
                root = reduce.reduce(
                    made.root,
                    lambda smaller, made=made: made.again(smaller).difference(pair.tested_answer) is not None,
                    200,
                )
                last = made.again(root)
                self.causes.add(
                    last.difference(pair.tested_answer) or found,
                    tree.fixed(last.root, tag=f"{made.name} rewrite"),
                    last.shown(),
                )


def parameters(root):
    return ", ".join(
        f"${number + 1} = {node.value!r} ({node.form.rstrip('?')}, {'undeclared' if node.form.endswith('?') else node.type})"
        for number, node in enumerate(tree.Text(root).parameters)
    )


def like(statement, root):
    return queries.Statement(root, statement.loose, statement.again)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", help="the program to test")
    parser.add_argument("--coscan-at", help="a running server that has the tables; with PostgreSQL here the run checks the oracle")
    parser.add_argument("--postgres-at", help="a running PostgreSQL, whose tables are replaced")
    parser.add_argument("--statements", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0, help="end after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", help="write the causes to this file")
    parser.add_argument("--coverage", help="write the coverage to this file (tab-separated)")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument(
        "--simple", action="store_true", help="everyday expressions only: look at the shapes of queries"
    )
    parser.add_argument("--without", default="", help="types to leave out, separated by commas")
    return parser.parse_args()


def main():
    options = arguments()
    tables = data.tables(options.seed)
    reference, tested = servers.both(options.coscan, tables, options.postgres_at, options.coscan_at)
    try:
        run = Run(options, reference, tested, tables)
        run.go()
    finally:
        tested.stop()
        reference.stop()
    said = run.causes.judged()
    print(run.causes.page("Summary").split("\n## ")[0].strip())
    for kind in causes.ORDER:
        print(f"{causes.TITLES[kind]}: {len([c for c in run.causes.causes.values() if c.kind == kind])} causes")
    for message, count in run.causes.errors.most_common(12):
        print(f"  {count} errors in PostgreSQL: {message}")
    print("FAILED: " + "; ".join(said) if said else "passed")
    sys.exit(1 if said else 0)


if __name__ == "__main__":
    main()
