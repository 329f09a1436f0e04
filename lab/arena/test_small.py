"""Promised: figures are of all runs, ratios are the new build's over the old one's, and differing rows end the run."""

import decimal
import unittest

import small


def stretch(seconds, cpu_s=0.0, switches=0):
    return {"seconds": seconds, "cpu_s": cpu_s, "switches": switches}


class Runs:
    """A build that answers at once, and whose counters grow with each answer."""

    def __init__(self, name, asked):
        self.name, self.asked, self.answers = name, asked, 0

    def query(self, _sql):
        self.asked.append(self.name)
        self.answers += 1

    def used(self):
        return 0.5 * self.answers, 3 * self.answers


class Figures(unittest.TestCase):
    def test_figures_are_of_all_runs(self):
        old = [stretch([4.0, 4.0], 8.0, 40), stretch([8.0, 4.0], 4.0, 20)]
        new = [stretch([1.0, 3.0], 2.0, 4), stretch([9.0, 3.0], 2.0, 4)]
        result = small.summary({"old": old, "coscan": new})
        self.assertEqual(result["old"], {"median_s": 4.0, "p95_s": 8.0, "cpu_s": 3.0, "switches": 15.0})
        self.assertEqual(result["coscan"], {"median_s": 3.0, "p95_s": 9.0, "cpu_s": 1.0, "switches": 2.0})
        self.assertEqual(result["ratio"], 0.75)
        self.assertIn("median 4000.00 and 3000.00 ms (0.75)", small.shown("q", result))

    def test_builds_take_turns_and_use_is_of_the_stretch(self):
        asked = []
        of = small.measured({side: Runs(side, asked) for side in ("old", "coscan")}, "select 1", rounds=2, runs=2)
        self.assertEqual(asked, ["coscan"] * 2 + ["old"] * 4 + ["coscan"] * 2)
        self.assertEqual([(one["cpu_s"], one["switches"]) for one in of["old"]], [(1.0, 6)] * 2)

    def test_only_voluntary_changes_count(self):
        self.assertEqual(small.voluntary("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t5\n"), 12)


class Rows(unittest.TestCase):
    def test_equal_rows_pass(self):
        rows = [(1, decimal.Decimal("2.50"))]
        small.require_equal("sum", {"old": rows, "coscan": list(rows)})

    def test_other_rows_end_the_run(self):
        with self.assertRaisesRegex(SystemExit, "sum"):
            small.require_equal("sum", {"old": [(1,)], "coscan": [(2,)]})


if __name__ == "__main__":
    unittest.main()
