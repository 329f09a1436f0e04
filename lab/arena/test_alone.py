"""Promised: medians are per query, ratios are Coscan's over plain, and differing rows end the run (L1)."""

import decimal
import unittest

import alone


class Summary(unittest.TestCase):
    def test_medians_and_ratios(self):
        times = {"q01": {"coscan": [1.0, 2.0, 9.0], "plain": [4.0, 4.0, 4.0]},
                 "q02": {"coscan": [3.0, 3.0, 3.0], "plain": [1.0, 1.0, 2.0]}}
        result = alone.summary(times)
        self.assertEqual(result["queries"]["q01"], {"coscan": 2.0, "plain": 4.0, "ratio": 0.5})
        self.assertEqual(result["total"], {"coscan": 5.0, "plain": 5.0, "ratio": 1.0})
        self.assertEqual(result["rounds"], {"ratio_min": 0.8, "ratio_max": 2.0})
        self.assertIn("total", alone.show(result))


class Rows(unittest.TestCase):
    def test_equal_rows_pass(self):
        rows = [(1, decimal.Decimal("2.50"), None, "x")]
        alone.require_equal("q01", {"plain": rows, "coscan": list(rows)})

    def test_other_rows_end_the_run(self):
        with self.assertRaisesRegex(SystemExit, "q07"):
            alone.require_equal("q07", {"plain": [(1,)], "coscan": [(2,)]})


if __name__ == "__main__":
    unittest.main()
