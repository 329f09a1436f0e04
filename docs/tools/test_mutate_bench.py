"""A command runs once without a change and once with each, and what is recorded does not run again."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import engine_claims
import mutate_bench
import mutations
import pages


def claim(text, holds=True, evidence="e"):
    return {"text": text, "holds": holds, "evidence": evidence}


def change(**more):
    return {"file": "lab/bench/src/x.rs", "says": "2 for 1", "from": "{ «1» }", "to": "2", "claims": "^one",
            "command": "coscan bench a --x 1", "seconds": 9, **more}


class Machine:
    """Runs that say what they are told to, and the runs that were asked for."""

    def __init__(self, changes, said):
        self.changes, self.said, self.asked, self.stamp = changes, said, [], {"commit": "1234567", "program": "89"}
        self.listed = changes

    def run(self, command, number, _):
        self.asked.append((command, number))
        return self.said[command, number]


class Making(unittest.TestCase):
    def make(self, changes, said, seen):
        machine = Machine(changes, said)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            root = Path(folder)
            (root / engine_claims.SEEN).parent.mkdir(parents=True)
            for number, one in enumerate(changes, 1):
                mutate_bench.make(root, machine, seen, number, one)
            path = root / engine_claims.SEEN
            return machine.asked, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def test_a_command_runs_once_without_a_change_and_a_record_spares_it(self):
        changes = [change(), change(says="3 for 1"), change(says="4", command="coscan bench a --x 1; coscan bench b", claims="two")]
        a, b = "coscan bench a --x 1", "coscan bench b"
        fine = [claim("one"), claim("two"), claim("never", False)]
        said = {(a, 0): fine, (b, 0): fine, (a, 1): [claim("one", False, "7"), claim("two", False)], (a, 2): "panicked",
                (a, 3): fine, (b, 3): [claim("one", False)]}
        asked, seen = self.make(changes, said, {})
        self.assertEqual(asked, [(a, 0), (a, 0), (a, 1), (a, 2), (a, 3), (b, 0), (b, 0), (b, 3)], "without a change two runs agree")
        self.assertEqual(seen[a]["with"]["x.rs: 2 for 1"]["claims"], [{"text": "one", "evidence": "7"}], "two is not of its pattern")
        self.assertEqual(seen[a]["with"]["x.rs: 3 for 1"]["ended"], "panicked")
        self.assertEqual(seen[b]["with"]["x.rs: 4"]["claims"], [], "a claim that vanishes has not failed")
        stamped = [seen[b], seen[b]["with"]["x.rs: 4"]]
        self.assertEqual([(one["commit"], one["program"]) for one in stamped], 2 * [("1234567", "89")], "the program's, not the tree's")
        self.assertEqual(self.make(changes, {}, seen)[0], [])
        states = [mutate_bench.state(one, seen) for one in changes]
        self.assertEqual(states, ["1 failed", "0 failed", "0 failed"])
        mutate_bench.forget(seen, [changes[1]], again=True)
        self.assertEqual(mutate_bench.state(changes[1], seen), "open")
        self.assertEqual(self.make(changes, said, seen)[0], [(a, 2)])
        mutate_bench.forget(seen, changes, again=True)
        self.assertEqual(seen, {})

    def test_a_change_is_not_made_where_nothing_of_its_pattern_holds(self):
        command = "coscan bench a --x 1"
        asked, seen = self.make([change()], {(command, 0): [claim("one", False), claim("two")]}, {})
        self.assertEqual((asked, seen[command]["with"]), (2 * [(command, 0)], {}))
        self.assertEqual(mutate_bench.state(change(), seen), "none holds")
        asked, seen = self.make([change()], {(command, 0): "exit 1"}, {})
        self.assertEqual((asked, seen), ([(command, 0)], {}), "a run that failed without a change is not recorded")

    def test_claims_that_do_not_hold_run_once_and_need_no_change(self):
        command = "coscan bench a --x 1"
        fail = {"claims": "^one", "why": "too slow", "command": command, "seconds": 9}
        machine = Machine([fail], {(command, 0): [claim("one", False, "1.9"), claim("two")]})
        said, seen = io.StringIO(), {}
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            (Path(folder) / engine_claims.SEEN).parent.mkdir(parents=True)
            for _ in range(2):
                mutate_bench.see(Path(folder), machine, seen, fail)
        self.assertEqual(machine.asked, 2 * [(command, 0)], "they are not asked again")
        self.assertIn("one\n      1.9: does not hold", said.getvalue())
        self.assertEqual(mutate_bench.state(fail, seen), "does not hold")
        self.assertEqual([list(mutate_bench.prune(seen, [fail])), list(mutate_bench.orphans(seen, [fail]))], [[command], []])
        self.assertEqual(list(mutate_bench.held_after_all(seen, [fail])), [])
        seen[command]["claims"][0]["holds"] = True
        self.assertEqual(mutate_bench.state(fail, seen), "HOLDS")
        self.assertIn("MUTATE-4: 'one' holds", next(mutate_bench.held_after_all(seen, [fail])))
        self.assertEqual(mutate_bench.state(fail, {}), "open")

    def test_one_run_without_a_change_decides_nothing(self):
        command = "coscan bench a --x 1"
        slow, usual, other = [claim("one", False, "9")], [claim("one", True, "1"), claim("two")], [claim("one", True, "2"), claim("two", False)]
        for said, decided, count in (([slow, usual, other], [("one", True, "1"), ("two", False, "not measured")], 3),
                                     ([usual, usual], [("one", True, "1"), ("two", True, "e")], 2),
                                     ([usual, slow, slow], [("one", False, "9"), ("two", False, "not measured")], 3)):
            machine, told = Machine([change()], {}), iter(said)
            machine.run = lambda *_, told=told: next(told)
            record = mutate_bench.base(machine, command, 9)
            self.assertEqual([(one["text"], one["holds"], one["evidence"]) for one in record["claims"]], decided)
            self.assertEqual((record["runs"], list(told)), (count, []))

    def test_a_command_without_a_change_runs_once_more_and_what_was_seen_stays(self):
        command, changes = "coscan bench a --x 1", [change(), change(says="3 for 1", claims="^two")]
        made = {"claims": [{"text": "one", "evidence": "7"}]}
        seen = {command: {"claims": [claim("one"), claim("two", False)], "with": {"x.rs: 2 for 1": made, "x.rs: 3 for 1": {"claims": []}},
                          "fresh": {"1000": {"claims": []}}, "commit": "0"}}
        machine = Machine(changes, {(command, 0): [claim("one", True, "2"), claim("two")]})
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            (Path(folder) / engine_claims.SEEN).parent.mkdir(parents=True)
            mutate_bench.rebase(Path(folder), machine, seen, changes)
        record = seen[command]
        self.assertEqual((record["claims"][0]["evidence"], record["commit"], list(record["fresh"])), ("2", "1234567", ["1000"]))
        self.assertEqual(record["with"], {"x.rs: 2 for 1": made}, "two holds only now: its change was not judged by it")

    def test_records_of_another_list_go(self):
        record = {"claims": [], "with": {"x.rs: 2 for 1": {"claims": []}, "gone": {"claims": []}}}
        seen = {"coscan bench gone": record, "coscan bench a --x 1": record}
        self.assertEqual(len(list(mutate_bench.orphans(seen, [change()]))), 4)
        kept = mutate_bench.prune(seen, [change()])
        self.assertEqual(list(kept), ["coscan bench a --x 1"])
        self.assertEqual(list(kept["coscan bench a --x 1"]["with"]), ["x.rs: 2 for 1"])
        self.assertEqual(list(mutate_bench.orphans(kept, [change()])), [])

    def test_words_and_length_choose(self):
        changes = [change(), change(says="3 for 1", seconds=61), change(says="4 for 1", file="y.rs")]
        chosen = lambda *of: [number for number, _ in mutate_bench.choose(changes, *of)]
        self.assertEqual((chosen([], False), chosen([], True), chosen(["x.rs"], False)), ([1, 2, 3], [1, 3], [1, 2]))


class Running(unittest.TestCase):
    def test_a_program_is_told_its_change_and_where_its_figures_go(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "coscan"
            program.write_text("#!/bin/sh\nfor last; do :; done\n[ $# = 6 ] || exit 3\n"
                               'printf \'{"claims": [{"text": "%s", "holds": true, "evidence": "e", "paper": "2"}]}\' "$COSCAN_MUTANT" > "$last"\n')
            os.chmod(program, 0o755)
            runs = mutate_bench.Runs(program, [change()], {}, [])
            name = mutations.list_name([change()])
            self.assertEqual(runs.run("coscan bench a --x 1", 1, 9), [claim(f"{name}:1")])
            self.assertEqual(runs.run("coscan bench a", 1, 9), "exit 3")

    def test_a_program_says_its_commit_or_is_given_one(self):
        head = subprocess.check_output(["git", "rev-parse", "--short=7", "HEAD"], cwd=mutations.ROOT, text=True).strip()
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "coscan"
            says = lambda text: (program.write_text(f"#!/bin/sh\nprintf '{text}'\n"), os.chmod(program, 0o755))
            says("coscan-cli 0.1.0\\n")
            with self.assertRaisesRegex(SystemExit, "does not say its commit"):
                mutate_bench.stamp(program)
            self.assertEqual(mutate_bench.stamp(program, "HEAD")["commit"], head)
            says("coscan-cli 0.1.0\\ncommit abcdef0-dirty\\n")
            stamp = mutate_bench.stamp(program)
            self.assertEqual((stamp["commit"], len(stamp["program"])), ("abcdef0-dirty", 12))
            with self.assertRaisesRegex(SystemExit, "is of commit abcdef0-dirty"):
                mutate_bench.stamp(program, "HEAD")

    def test_promises_are_read_from_the_output(self):
        said = ("any order  full\n\nunproven: smooth is within 1.2 times the best path from 1 % on (1.07 times full at 1 %)\n"
                "FAILS: smooth is the best path from 2.5 % on, with ORDER BY (inf times full at 5 %)\n"
                "not measured: smooth is within 1.1 times the full scan at 100 %\n")
        before = said.replace("unproven: ", "kept: ").replace("FAILS: ", "BROKEN: ")
        for text in (said, before):
            self.assertEqual(mutate_bench.claims_of({"points": []}, text),
                             [claim("smooth is within 1.2 times the best path from 1 % on", True, "1.07 times full at 1 %"),
                              claim("smooth is the best path from 2.5 % on, with ORDER BY", False, "inf times full at 5 %")])

    def test_a_seed_has_the_dependencies_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "from", Path(folder) / "to"
            large = "x" * mutate_bench.SEED_LINKED_BYTES
            for name, text in {"deps/libserde-1.rlib": large, "deps/serde-1.d": "d", "deps/libcoscan_core-2.rlib": "r", "deps/engine-3": "test",
                               ".fingerprint/serde-1/lib-serde": "f", ".fingerprint/coscan-core-2/lib-coscan_core": "f",
                               "build/ring-4/out/a.o": large, "coscan": "program"}.items():
                path = source / "release" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            mutate_bench.seed(source, target)
            made = {str(path.relative_to(target / "release")) for path in target.rglob("*") if path.is_file()}
            self.assertEqual(made, {"deps/libserde-1.rlib", "deps/serde-1.d", ".fingerprint/serde-1/lib-serde", "build/ring-4/out/a.o"})
            same = lambda name: os.path.samefile(source / "release" / name, target / "release" / name)
            self.assertEqual((same("deps/libserde-1.rlib"), same("deps/serde-1.d"), same("build/ring-4/out/a.o")), (True, False, False))
            times = [(folder / "release/deps/serde-1.d").stat().st_mtime_ns for folder in (source, target)]
            self.assertEqual(times[0], times[1], "cargo knows by their times what is fresh")


class Judging(unittest.TestCase):
    def test_a_claim_is_judged_by_the_commands_of_its_changes(self):
        small, large = "coscan bench a --x 1", "coscan bench a"
        changes = [change(), change(says="all", claims="one|two")]
        failed = lambda *texts: {"claims": [{"text": text, "evidence": f"{text} then"} for text in texts]}
        seen = {large: {"claims": [claim("one"), claim("five"), claim("six", False)], "with": {}},
                small: {"claims": [claim("one", True, "1"), claim("two"), claim("four", False)],
                        "with": {"x.rs: all": failed("one", "two"), "x.rs: 2 for 1": failed("one")}}}
        judged = {one["text"]: one for one in engine_claims.judged(changes, seen)}
        self.assertEqual(sorted(judged), ["five", "one", "two"], "a claim that fails and that no change is about does not count")
        self.assertEqual((judged["one"]["command"], judged["one"]["evidence"]), (small, "1"))
        self.assertEqual(judged["one"]["mutation"], {"changed": "x.rs: 2 for 1", "seen": "one then"}, "the change with the fewest failures")
        self.assertEqual([pages.verdict(judged[text]) for text in ("one", "two", "five")], ["holds", "holds", "unproven"])

    def test_a_claim_that_is_listed_as_not_holding_counts_as_that(self):
        fails = [{"claims": "four", "why": "too slow", "command": "coscan bench a", "seconds": 9}]
        seen = {"coscan bench a": {"claims": [claim("four", False, "1.9"), claim("six", False)], "with": {}}}
        [four] = engine_claims.judged([change()], seen, fails)
        self.assertEqual((four["text"], four["why"], pages.verdict(four)), ("four", "too slow", "fails"))
        self.assertIn("- four: 1.9 (too slow)", pages.engine_lines([four]))
        seen["coscan bench a"]["claims"][0]["holds"] = True
        [four] = engine_claims.judged([change()], seen, fails)
        self.assertEqual((pages.verdict(four), "why" in four), ("unproven", False))

    def test_a_claim_that_holds_in_few_fresh_seeds_is_one_that_does_not_hold(self):
        small, large = "coscan bench a --x 1", "coscan bench a"
        runs = lambda held: {str(seed): {"claims": [claim("one", seed < held)]} for seed in range(10)}
        record = lambda held: {"claims": [claim("one")], "with": {}, "fresh": runs(held)}
        seen = {small: record(8), large: record(9)}
        for order in ([small, large], [large, small]):
            [one] = engine_claims.judged([change(command=f"{small}; {large}")], {command: seen[command] for command in order})
            self.assertEqual((one["command"], pages.verdict(one)), (large, "unproven"), "the command with which it holds")
        fail = {"claims": "one", "why": "too slow", "command": small, "seconds": 9}
        [one] = engine_claims.judged([], {small: seen[small]}, [fail])
        self.assertEqual((one["why"], pages.verdict(one)), ("too slow", "fails"))
        self.assertEqual(list(mutate_bench.held_after_all({small: seen[small]}, [fail])), [])
        self.assertEqual(len(list(mutate_bench.held_after_all({small: seen[large]}, [fail]))), 1)
        self.assertEqual(engine_claims.judged([], {small: seen[small]}), [], "no change is about it")


if __name__ == "__main__":
    unittest.main()
