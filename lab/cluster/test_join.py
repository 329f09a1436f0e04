"""Promised: the bytes and latencies after a worker has joined are judged by their bounds, over
windows of equal length, and a round that shows nothing misses (CL7)."""

import itertools
import types
import unittest
from unittest import mock

import join
import report
import sessions
import texts
import arena


def record(start, end, name="point-order/1", **of):
    one = {"session": 0, "name": name, "start": start, "rows": 1, "error": None, "sqlstate": None,
           "closed": False, "wrong": None, **of}
    return one if end is None else {**one, "end": end}


def short(before=0.1, after=0.1, count=join.QUERIES_MIN):
    return {"before": {"count": count, "p95_s": before}, "after": {"count": count, "p95_s": after},
            "ratio": after / before}


def one_round(**of):
    return {"joiner": "127.0.0.1:4", "place": 1, "has_part": True, "settled_s": 2.0,
            "resident_bytes": 10**6, "before_read_bytes": 0, "again_bytes": 10**5, "again": 0.1,
            "short": short(), **of}


class Windows(unittest.TestCase):
    def test_settled_by_the_first_whole_pass_without_reads(self):
        passes = [join.Pass(0.0, 1.0, 0), join.Pass(1.0, 2.5, 7), join.Pass(2.5, 3.5, 0),
                  join.Pass(3.5, 4.5, 0)]
        self.assertEqual(join.settled(passes, present=0.5), 3.5)
        self.assertEqual(join.settled(passes, present=3.0), 4.5)
        self.assertIsNone(join.settled(passes[:2], present=0.5))
        self.assertIsNone(join.settled(passes, present=None))

    def test_a_query_counts_where_it_ends(self):
        records = [record(0.0, 1.0), record(0.5, 3.0), record(1.0, 1.5), record(2.0, None)]
        self.assertEqual(join.took(records, 1.0, 3.0), [0.5, 2.5])

    def test_latencies_of_both_windows(self):
        records = [record(at, at + 0.1) for at in range(20)]
        records += [record(100 + at, 100.3 + at) for at in range(20)]
        found = join.latencies(records, before=(0, 50), after=(100, 150))
        self.assertEqual((found["before"]["count"], found["after"]["count"]), (20, 20))
        self.assertAlmostEqual(found["ratio"], 3.0)
        self.assertNotIn("ratio", join.latencies(records, before=(0, 50), after=(50, 60)))

    def test_latencies_of_each_statement(self):
        records = [record(0, 1, "a/1"), record(0, 2, "a/2"), record(0, 1, "b/1")]
        found = join.by_statement(records, before=(0, 5), after=(5, 9))
        self.assertEqual({name: of["before"]["count"] for name, of in found.items()},
                         {"a": 2, "b": 1})


class Bounds(unittest.TestCase):
    def judged(self, *rounds):
        outcome = report.Outcome(4, join.AIM)
        join.judge(list(rounds), outcome)
        return outcome

    def test_met_at_the_bounds(self):
        met = self.judged(one_round(again=0.35, short=short(0.1, 0.15)))
        self.assertEqual(met.verdict, "met")
        self.assertEqual([row[-1] for row in met.tables[0]], ["verdict", "met", "met"])

    def test_the_worst_round_counts(self):
        missed = self.judged(one_round(), one_round(again=0.36, short=short(0.1, 0.151)))
        self.assertEqual(missed.misses, [
            "127.0.0.1:4: 36.0% of the resident bytes are read again",
            "127.0.0.1:4: P95 of short queries is 1.51 times that before"])
        self.assertEqual([row[-1] for row in missed.tables[0]], ["verdict", "missed", "missed"])
        self.assertEqual(missed.figures["again"]["min"], 0.1)

    def test_a_round_that_shows_nothing(self):
        found = list(join.misses_of(one_round(has_part=False, short=short(count=99))))
        self.assertEqual([miss[:4] for miss in found], ["CL7:", "CL7:"])

    def test_reads_without_end(self):
        self.assertIn("reads nothing until", next(join.misses_of(one_round(settled_s=None))))

    def test_no_query_may_fail(self):
        records = [record(0, 1), *(record(0, 1, error="node x: lost") for _ in range(5)),
                   record(0, None)]
        found = list(join.failures(records))
        self.assertEqual(len(found), join.EXAMPLES_MAX + 1)
        self.assertIn("unnamed", found[0])
        self.assertEqual(found[-1], "3 more queries are not right")

    def test_without_a_round_there_is_no_figure(self):
        self.assertEqual(self.judged().figures, {})

    def test_rows_of_the_table(self):
        full = one_round(short=short(0.1, 0.2))
        self.assertEqual(len(join.row(full)), len(join.HEAD))
        self.assertEqual(join.row(full)[-1], "2.00")
        none = {"before": {"count": 0}, "after": {"count": 0}}
        self.assertEqual(join.row(one_round(short=none, settled_s=None))[-3:], ["-", "-", "-"])


class Statements(unittest.TestCase):
    def test_sessions_that_scan_ask_nothing_that_the_lab_asks(self):
        of_lab = {sql for number in range(join.SCANS_FIRST) for sql in texts.whole(number)}
        of_sessions = [one["sql"] for one in join.scan_statements().values()]
        self.assertEqual(len(of_sessions), len(set(of_sessions)))
        self.assertFalse(of_lab & set(of_sessions))

    def test_short_texts_have_their_statement_in_the_name(self):
        found = join.short_texts(types.SimpleNamespace(seed=1, scale=1))
        self.assertEqual(len(found), 7 * join.SHORT_ROUNDS)
        self.assertEqual(len({name.partition("/")[0] for name in found}), 7)


class Machine:
    """Gives a byte to each of the first statements, and none to those that follow."""

    def __init__(self, reads):
        self.reads, self.read, self.events = reads, 0, []

    def read_bytes(self):
        return self.read

    def ask(self, _connection, _sql):
        self.read += self.reads > 0
        self.reads -= 1
        return []

    def forget_pages(self):
        self.events.append("forget")


class Rounds(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(6)
        self.enterContext(mock.patch.object(sessions, "ask", self.machine.ask))

    def test_passes_end_with_the_time(self):
        done = join.passes(self.machine, None, itertools.count(), 0.0)
        self.assertEqual([one.read_bytes for one in done], [4])

    def test_what_is_not_resident_is_an_error(self):
        self.machine.reads = 10**9
        with self.assertRaisesRegex(arena.ArenaError, "passes read 0.0"):
            join.filled(self.machine, None, itertools.count(), 0.0)

    def test_passes_go_on_until_one_reads_nothing(self):
        with mock.patch.object(join, "PHASE_MAX", 10**10):
            done, resident = join.filled(self.machine, None, itertools.count(), 1e-9)
        self.assertEqual(([one.read_bytes for one in done], resident), ([4, 2, 0], 6))

    def test_all_bytes_after_the_start_are_read_again(self):
        joiner = types.SimpleNamespace(address="a:4", start=self.start)
        options = types.SimpleNamespace(fill=0.02, load=0.1)
        states = iter(["lost", "lost", "present"])
        with mock.patch.object(join, "nodes", lambda _: {"a:4": (2, next(states))}), \
                mock.patch.object(join.rows, "nodes_of", lambda *_: {"a:4"}):
            one = join.joined(self.machine, None, joiner, itertools.count(), options)
        self.assertEqual(self.machine.events, ["forget", "start"])
        self.assertEqual((one["resident_bytes"], one["before_read_bytes"]), (6, 0))
        self.assertEqual((one["again_bytes"], one["again"]), (3, 0.5))
        self.assertTrue(one["has_part"] and one["settled_s"] > one["present_s"] > 0)
        begin, end = one["windows"]["before"]
        self.assertAlmostEqual(end - begin, one["window_s"])
        self.assertGreaterEqual(one["window_s"], options.load)

    def start(self):
        self.machine.events.append("start")
        self.machine.read += 1
        self.machine.reads = 2


if __name__ == "__main__":
    unittest.main()
