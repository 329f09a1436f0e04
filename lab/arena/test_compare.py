"""Promised: allowed differences pass (C1, C2, C3), and wrong rows do not."""

import json
import os
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import compare


class Cells(unittest.TestCase):
    def test_same(self):
        for left, right in ((1, 1), (None, None), ("R", "R"), (1.0, 1), ("10.00", "10"), (1.0, 1.0 + 1e-12),
                            ("0.049998", 0.0499979512), ("25.51", 25.5104), ("25.510000", "25.51000049"),
                            ("-3.140000", -3.1400005), ("1E+2", 100)):
            self.assertTrue(compare.same(left, right), (left, right))

    def test_different(self):
        for left, right in ((1, 2), (None, 0), ("R", "N"), ("10.00", "10.01"), (1.0, 1.00001),
                            ("0.049998", 0.05), ("R", 1), ("1998-09-02", "1998-09-03"), (True, 2)):
            self.assertFalse(compare.same(left, right), (left, right))

    def test_exact_sums_have_no_slack_of_a_unit(self):
        self.assertFalse(compare.same("123.4567", "123.4568"))


class Rows(unittest.TestCase):
    def test_order_is_free(self):
        self.assertIsNone(compare.rows_differ([["A", 1.0], ["B", 2.0]], [["B", 2.0], ["A", 1.0 + 1e-13]]))

    def test_multiset_not_set(self):
        self.assertIsNotNone(compare.rows_differ([["A"], ["A"], ["B"]], [["A"], ["B"], ["B"]]))

    def test_the_difference_is_named(self):
        self.assertEqual(compare.rows_differ([[1]], []), "1 rows against 0")
        self.assertEqual(compare.rows_differ([[1]], [[1, 2]]), "1 columns against 2")
        self.assertEqual(compare.rows_differ([["A", 1]], [["A", 2]]), "column 1: 1 against 2")


def result(rows, **changes):
    query = {"stream": 0, "position": 0, "name": "F-01", "start_s": 0, "latency_s": 2.0, "rows": len(rows),
             "result": rows}
    return {"format": "coscan-peers", "workload": {"digest": "d"}, "failures": [], "total_s": 2.0,
            "avg_stream_s": 2.0, "avg_normalized_latency": None, "queries": [query], **changes}


class Runs(unittest.TestCase):
    def compare(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, content in files.items():
                with open(os.path.join(root, name), "w") as file:
                    json.dump(content, file)
            stems = list(dict.fromkeys(name.split(".")[0] for name in files))
            out = StringIO()
            with redirect_stdout(out), redirect_stderr(out):
                code = compare.main([os.path.join(root, f"{stem}.json") for stem in stems])
            return code, out.getvalue()

    def test_agreeing(self):
        code, text = self.compare({"a.json": result([[1]]), "b.json": result([[1.0]], avg_stream_s=1.0)})
        self.assertEqual(code, 0)
        self.assertIn("b against a: same rows", text)
        self.assertIn("1.00 (0.50)", text)

    def test_differing(self):
        code, text = self.compare({"a.json": result([[1]]), "b.json": result([[2]])})
        self.assertEqual(code, 1)
        self.assertIn("stream 0 query 0 (F-01): column 0: 1 against 2", text)

    def test_a_killed_run_has_only_its_report(self):
        killed = {"killed_for_memory": True, "exit_code": 137, "cpu_s": 3.0, "read_bytes": 10**9,
                  "anonymous_bytes_max": 10**9}
        code, text = self.compare({"a.json": result([[1]]), "b.arena.json": killed})
        self.assertEqual(code, 0)
        self.assertIn("killed for memory", text)
        code, text = self.compare({"b.arena.json": killed, "a.json": result([[1]])})
        self.assertEqual(code, 0)

    def test_failures_are_no_difference(self):
        failed = result([], failures=[{"stream": 0}])
        failed["queries"][0]["error"] = "refused"
        code, text = self.compare({"a.json": result([[1]]), "b.json": failed})
        self.assertEqual(code, 0)

    def test_other_workloads_are_refused(self):
        code, text = self.compare({"a.json": result([]), "b.json": result([], workload={"digest": "e"})})
        self.assertEqual(code, 2)
        self.assertIn("different workloads", text)

    def test_nothing_there(self):
        out = StringIO()
        with redirect_stderr(out):
            self.assertEqual(compare.main(["/nonexistent.json"]), 2)


if __name__ == "__main__":
    unittest.main()
