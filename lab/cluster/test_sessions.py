"""Promised: answers are compared exactly, but for averages (CL4), and every session is recorded
(CL5). A driver that is made up here stands in for psycopg."""

import contextlib
import threading
import time
import types
import unittest
from unittest import mock

import sessions


class Connection:
    """Gives the rows of `answers`; an exception among them is raised at its place."""

    def __init__(self, answers):
        self.answers, self.closed = answers, False

    def cursor(self):
        return contextlib.nullcontext(self)

    def stream(self, sql):
        for row in self.answers[sql]:
            if isinstance(row, Exception):
                raise row
            if isinstance(row, threading.Event):
                row.wait()
            else:
                yield row


class Answers(unittest.TestCase):
    def test_rows_are_multisets(self):
        rows = [("b", None), ("a", "2"), ("a", None)]
        self.assertEqual(sessions.in_order(rows), [["a", None], ["a", "2"], ["b", None]])
        self.assertEqual(sessions.in_order(rows[::-1]), sessions.in_order(rows))

    def test_exact_without_an_average(self):
        self.assertIsNone(sessions.difference("select 1", [["1.50"]], [["1.50"]]))
        self.assertIn("instead of", sessions.difference("select 1", [["1.50"]], [["1.5"]]))
        self.assertIn("0 rows instead of 1", sessions.difference("select 1", [["1"]], []))

    def test_tolerance_with_an_average(self):
        sql = "select AVG (x) from t"
        third = "0.3333333333"
        self.assertIsNone(sessions.difference(sql, [[third]], [["0.3333333334"]]))
        self.assertIn("column 0", sessions.difference(sql, [[third]], [["0.3333333433"]]))


class Sessions(unittest.TestCase):
    def run_with(self, answers, seconds=0.05):
        args = types.SimpleNamespace(sessions=2, seconds=seconds, seed=1, dsn="here")
        statements = {name: {"sql": name, "rows": [["1"]]} for name in answers}
        with mock.patch.object(sessions, "connect", lambda _: Connection(answers)):
            return sessions.run(args, statements)

    def test_right_and_wrong_rows(self):
        records = self.run_with({"right": [("1",)], "wrong": [("2",)]})
        self.assertEqual({record["session"] for record in records}, {0, 1})
        by_name = {record["name"]: record for record in records}
        self.assertIsNone(by_name["right"]["wrong"])
        self.assertIn("instead of", by_name["wrong"]["wrong"])
        self.assertEqual(by_name["right"]["rows"], 1)

    def test_rows_before_an_error_are_counted(self):
        records = self.run_with({"fails": [("1",), ("1",), ValueError("node a:1: lost")]})
        self.assertEqual((records[0]["rows"], records[0]["closed"]), (2, False))
        self.assertIn("node a:1", records[0]["error"])

    def test_rows_that_are_not_known_are_not_compared(self):
        with mock.patch.object(sessions, "connect", lambda _: Connection({"x": [("2",)]})):
            args = types.SimpleNamespace(sessions=1, seconds=0.05, seed=1, dsn="here")
            records = sessions.run(args, {"x": {"sql": "x", "rows": None}})
        self.assertEqual((records[0]["wrong"], records[0]["rows"]), (None, 1))

    def test_an_interrupt_ends_them_after_their_statements(self):
        def interrupted(_):
            raise KeyboardInterrupt
        with mock.patch.object(sessions.time, "sleep", interrupted):
            records = self.run_with({"right": [("1",)]}, seconds=600.0)
        self.assertTrue(all("end" in record for record in records))

    def test_one_that_waits_has_a_record_without_end(self):
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)
        with mock.patch.object(sessions, "HANG_S", 0.05):
            records = self.run_with({"hangs": [goes_on]}, seconds=0.02)
        self.assertEqual(len(records), 2)
        self.assertNotIn("end", records[0])
        self.assertLess(records[0]["start"], time.monotonic())


if __name__ == "__main__":
    unittest.main()
