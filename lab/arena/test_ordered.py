"""What ordered.py computes: metrics of a plan, medians and ratios."""

import unittest

import ordered


class Counted(unittest.TestCase):
    def test_a_metric_is_summed_over_the_plan(self):
        plan = "A, metrics=[bytes_read=1.5 M, spill_count=2]\nB, metrics=[bytes_read=300, other_bytes_read=7]"
        self.assertEqual(ordered.counted(plan, "bytes_read"), 1_500_300)
        self.assertEqual(ordered.counted(plan, "spill_count"), 2)
        self.assertEqual(ordered.counted(plan, "spilled_rows"), 0)


class Summary(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        def run(seconds):
            return {"seconds": seconds, "cpu_s": seconds, "spills": 0, "operators": []}
        sides = {"ordered": [run(1), run(4), run(3)], "hash": [], "plain": [run(4), run(8), run(6)]}
        rows = ordered.summary({"q": sides})
        self.assertEqual(rows["q", "ordered"]["seconds"], 3)
        self.assertEqual(rows["q", "ordered"]["of_plain"], 0.5)
        self.assertEqual(rows["q", "plain"]["of_plain"], 1)
        self.assertEqual(rows["q", "hash"], {"runs": 0})


if __name__ == "__main__":
    unittest.main()
