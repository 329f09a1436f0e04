"""Promised: each query under kills has the outcome of the table in kills.py, and a run that shows
nothing misses (CL6)."""

import unittest

import kills
import rows
import sessions

NODE = "127.0.0.1:51052"
KILLS = [{"worker": NODE, "at": 10.0, "back": 15.0}]


def record(start=9.0, end=11.0, came=0, error=None, wrong=None, closed=False):
    one = {"session": 0, "name": "q01", "start": start, "rows": came, "error": error,
           "sqlstate": None, "closed": closed, "wrong": wrong}
    return one if end is None else {**one, "end": end}


class Judged(unittest.TestCase):
    def expect(self, kind, **of):
        self.assertEqual(kills.judged(record(**of), KILLS), kind)

    def test_rows(self):
        self.expect("right", came=1)
        self.expect("wrong", came=1, wrong="1 instead of 2")

    def test_a_named_worker_after_rows(self):
        self.expect("allowed", came=5, error=f"node {NODE}: connection reset")
        self.expect("early", came=0, error=f"node {NODE}: connection reset")
        self.expect("unnamed", came=5, error="node 127.0.0.1:51059: connection reset")

    def test_a_kill_before_or_after_the_query_excuses_nothing(self):
        self.expect("unnamed", came=5, error=f"node {NODE}: lost", start=10.5)
        self.expect("unnamed", came=5, error=f"node {NODE}: lost", start=15.5, end=16.0)
        self.expect("unnamed", came=5, error=f"node {NODE}: lost", end=9.5)

    def test_a_lost_connection_is_never_allowed(self):
        self.expect("closed", came=5, error=f"node {NODE}: lost", closed=True)

    def test_hangs(self):
        self.expect("hang", end=None)
        self.expect("hang", end=9.0 + sessions.HANG_S + 1)


class Summary(unittest.TestCase):
    def test_counts_and_misses(self):
        records = [record(came=1), record(came=1), record(came=1, wrong="x"), record(end=None)]
        figures, misses = kills.summary(records, KILLS)
        self.assertEqual((figures["right"], figures["wrong"], figures["hang"]), (2, 1, 1))
        self.assertEqual(figures["under_way_at_kills"], [4])
        self.assertEqual(len(misses), 2)
        self.assertIn("q01", misses[0])
        self.assertEqual([one["outcome"] for one in figures["not_right"]], ["wrong", "hang"])
        self.assertEqual((figures["not_right"][0]["start"], figures["not_right"][0]["end"]),
                         (0.0, 2.0))
        self.assertEqual((figures["killed"][0]["at"], figures["killed"][0]["back"]), (1.0, 6.0))

    def test_a_clean_run_has_no_miss(self):
        self.assertEqual(kills.summary([record(came=1)], KILLS)[1], [])

    def test_nothing_under_way_is_a_miss(self):
        _, misses = kills.summary([record(start=1.0, end=2.0, came=1)], KILLS)
        self.assertIn("CL6", misses[0])
        self.assertIn("CL6", kills.summary([], [])[1][0])

    def test_few_of_each_kind_are_told(self):
        many = [record(came=1, wrong="x") for _ in range(10)]
        _, misses = kills.summary(many, KILLS)
        self.assertEqual(len(misses), kills.EXAMPLES_MAX + 1)
        self.assertIn("7 more", misses[-1])


class Times(unittest.TestCase):
    def test_ten_minutes_have_ten_kills(self):
        self.assertEqual(kills.times(600.0, 60.0), [30.0 + 60.0 * at for at in range(10)])
        self.assertEqual(kills.times(40.0, 20.0), [10.0, 30.0])
        self.assertEqual(kills.times(10.0, 20.0), [])


class Nodes(unittest.TestCase):
    def test_of_a_plan(self):
        plan = ("PlacedScanExec: node=127.0.0.1:1, pieces=2, CScan\n"
                "  PlacedScanExec: node=[::1]:2, pieces=1, CScan node_count=3")
        self.assertEqual(rows.nodes_in(plan), {"127.0.0.1:1", "[::1]:2"})


if __name__ == "__main__":
    unittest.main()
