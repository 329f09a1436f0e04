"""Promised: no two joins need the same table, refusals are distinguished from answers, and different rows are found."""

import threading
import unittest

import shortage


class Connection:
    def __init__(self, rows):
        self.rows = rows

    def execute(self, query):
        if query not in self.rows:
            raise MemoryError(query)
        self.query = query
        return self

    def fetchall(self):
        return self.rows[self.query]

    def close(self):
        pass


class Joins(unittest.TestCase):
    def test_joins_differ(self):
        for count in (1, 12, 40):
            self.assertEqual(len(set(shortage.joins(count))), count)

    def test_a_refusal_is_no_answer(self):
        before = threading.active_count()
        answers, took = shortage.at_once(lambda: Connection({"a": [(1,)], "c": []}), ["a", "b", "c"])
        self.assertEqual(answers, ["[(1,)]", None, "[]"])
        self.assertGreater(took, 0)
        self.assertEqual(threading.active_count(), before)

    def test_different_rows_are_found(self):
        self.assertEqual(shortage.disagreements([["1", None, "3"], ["1", "2", None]]), [])
        self.assertEqual(shortage.disagreements([["1", "2"], ["1", "4"], [None, "2"]]), [1])


if __name__ == "__main__":
    unittest.main()
