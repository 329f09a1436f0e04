"""A claim is recorded only with a change that made it fail, and with the one that says most about it."""

import json
import tempfile
import unittest
from pathlib import Path

import mutate_study
import pages


def claim(text, holds=True, evidence="e"):
    return {"text": text, "holds": holds, "evidence": evidence}


def change(**more):
    return {"file": "a/x.rs", "says": "2 for 1", "from": "{ «1» }", "to": "2", "experiments": ["x"], **more}


class Failing(unittest.TestCase):
    def test_a_claim_is_broken_if_it_held_and_fails(self):
        committed = [claim("held"), claim("never", False), claim("gone"), claim("kept"), claim("other")]
        after = [claim("held", False, "3"), claim("never", False), claim("kept"), claim("other", False, "4")]
        self.assertEqual(list(mutate_study.broken(committed, after)), [("held", "3"), ("other", "4")])
        self.assertEqual(list(mutate_study.broken(committed, after, "^h")), [("held", "3")])

    def test_the_change_with_the_fewest_failures_stays(self):
        seen = {}
        mutate_study.record(seen, "x.rs: all", ["x"], [("x", "one", "1"), ("x", "two", "2")])
        mutate_study.record(seen, "x.rs: some", ["x", "y"], [("x", "one", "3"), ("y", "three", "6"), ("y", "four", "7")])
        mutate_study.record(seen, "x.rs: many", ["x"], [("x", "one", "4"), ("x", "two", "5")])
        self.assertEqual([(one["changed"], one["seen"]) for one in seen["x"]], [("x.rs: some", "3"), ("x.rs: all", "2")])
        mutate_study.record(seen, "x.rs: all", ["y"], [])
        mutate_study.record(seen, "x.rs: some", ["x"], [])
        self.assertEqual([one["claim"] for one in seen["x"]], ["two"], "what a change did before is forgotten")
        self.assertEqual(len(seen["y"]), 2, "but not in other experiments")

    def test_records_follow_the_claims(self):
        results = {"x": {"report": {"claims": [claim("one"), claim("two"), claim("fails", False)]}}}
        of = lambda text, changed: {"claim": text, "changed": changed, "fails": 1, "seen": "s"}
        seen = {"x": [of("two", "x.rs: 2 for 1"), of("one", "x.rs: 2 for 1"), of("fails", "x.rs: 2 for 1"), of("one", "gone")], "y": []}
        kept = mutate_study.prune(seen, [change()], results)
        self.assertEqual([(one["claim"], one["changed"]) for one in kept["x"]], [("one", "x.rs: 2 for 1"), ("two", "x.rs: 2 for 1")])
        self.assertNotIn("y", kept)
        seen["x"].append(of("fourth", "gone"))
        self.assertEqual(len(list(mutate_study.orphans(seen, [change()], results))), 2)

    def test_a_result_takes_over_records_and_keeps_its_figures(self):
        old = {**claim("one"), "mutation": {"changed": "old", "seen": "o"}, "fresh": {"held": 9, "of": 10}}
        result = {"commit": "0123abc", "report": {"rows": [{"ours": 1.50}], "claims": [old, {**old, "text": "two"}]}}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results/s/x.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(result), encoding="utf-8")
            mutate_study.take_over(Path(folder), {"x": [{"claim": "one", "changed": "x.rs: 2 for 1", "fails": 1, "seen": "s"}]})
            report = pages.load(path)["report"]
        self.assertEqual(report["claims"][0]["mutation"], {"changed": "x.rs: 2 for 1", "seen": "s"})
        self.assertEqual(list(report["claims"][0]), ["text", "holds", "evidence", "mutation", "fresh"])
        self.assertNotIn("mutation", report["claims"][1])
        self.assertEqual(report["rows"], [{"ours": pages.Decimal("1.5")}])

    def test_experiments_are_named_by_patterns(self):
        results = {"coop-fig2": {}, "coop-fig4": {}, "rahm-fig4a": {}}
        self.assertEqual(mutate_study.experiments(change(experiments=["coop-*", "rahm-fig4a"]), results), list(results))
        self.assertEqual(mutate_study.experiments(change(experiments=["coop-fig2"]), results), ["coop-fig2"])


if __name__ == "__main__":
    unittest.main()
