"""Promised: the texts are asked as described, aims are judged by their bounds, and a miss is the
exit status."""

import contextlib
import io
import itertools
import os
import random
import re
import tempfile
import unittest
from unittest import mock

import figure
import latency
import report
import streams
import texts
import working_set
import arena


class Texts(unittest.TestCase):
    def test_all_of_tpch(self):
        found = texts.tpch(10)
        self.assertEqual(sorted(found), [f"q{number:02d}" for number in range(1, 23)])
        self.assertIn("l_returnflag", found["q01"])
        self.assertIn("* 0.00001000\n", found["q11"])

    def test_a_folder_that_has_not_all_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(OSError, "0 of"):
            texts.tpch(1, folder)

    def test_no_drawn_text_comes_twice(self):
        rounds = list(itertools.islice(texts.drawn(1, (6, 14)), 12))
        given = [text for one in rounds for text in one.values()]
        self.assertEqual(len(given), len(set(given)))
        self.assertEqual(sorted(rounds[0]), ["q06", "q14"])

    def test_as_many_rounds_as_there_are_parameters(self):
        self.assertEqual(len(list(itertools.islice(texts.drawn(1), texts.DRAWN_MAX))),
                         texts.DRAWN_MAX)
        with self.assertRaisesRegex(ValueError, "TPC-H 8"):
            list(itertools.islice(texts.drawn(1, (8,)), texts.DRAWN_MAX + 1))

    def test_a_query_without_parameters_left_is_an_error(self):
        with mock.patch.object(texts.statements, "tpch", lambda *_: "select 1"):
            with self.assertRaisesRegex(ValueError, "TPC-H 6"):
                list(itertools.islice(texts.drawn(1, (6,)), 2))

    def test_passes_differ(self):
        self.assertFalse(set(texts.working_set(0)) & set(texts.working_set(1)))

    def test_whole_passes_differ_and_read_what_short_queries_read(self):
        self.assertFalse(set(texts.whole(0)) & set(texts.whole(1)))
        column = re.compile(r"\b[lco]_[a-z]+\b")
        orders = {f"o_{name}" for name in (  # `select *`
            "orderkey", "custkey", "orderstatus", "totalprice", "orderdate", "orderpriority",
            "clerk", "shippriority", "comment")}
        asked = column.findall(" ".join(texts.short(1, random.Random(1)).values()))
        self.assertLessEqual(orders | set(asked), set(column.findall(" ".join(texts.whole(0)))))

    def test_keys_are_those_of_tpch(self):
        self.assertEqual([texts.key(number) for number in (1, 7, 8, 15, 16)], [1, 7, 32, 39, 64])
        self.assertEqual(texts.key(6_000_000), 24_000_000)

    def test_short_statements_have_new_keys(self):
        draw = random.Random(1)
        one, two = texts.short(1, draw), texts.short(1, draw)
        self.assertEqual(set(one), set(two))
        self.assertNotEqual(one["point-order"], two["point-order"])


def sides(alone, cluster, failures=(), rows=(["1"],)):
    def of(read, failed, result):
        query = {"stream": 0, "position": 0, "name": "F-10", "result": result}
        return {"read_bytes": read, "result": {"failures": list(failed), "queries": [query]}}
    return {"alone": of(alone, [], [["1"]]), "cluster": of(cluster, failures, list(rows))}


class Bounds(unittest.TestCase):
    def outcome_of(self, judge, *arguments):
        outcome = report.Outcome(9, "an aim")
        judge(*arguments, outcome)
        return outcome

    def test_point_2_takes_the_median_ratio(self):
        met = self.outcome_of(streams.judge, [sides(100, 125), sides(100, 300), sides(100, 90)])
        self.assertEqual(met.verdict, "met")
        self.assertEqual(met.figures["ratio"]["max"], 3.0)
        missed = self.outcome_of(streams.judge, [sides(100, 126)])
        self.assertIn("1.26", missed.misses[0])

    def test_point_2_compares_rows_and_counts_failures(self):
        self.assertEqual(list(streams.misses_of(sides(1, 1), 1)), [])
        self.assertIn("rows differ", next(streams.misses_of(sides(1, 1, rows=(["2"],)), 1)))
        failed = [{"stream": 0, "position": 0, "name": "F-10", "error": "Oom: none\nleft"}]
        self.assertIn("1 queries failed on cluster, the first with Oom: none",
                      next(streams.misses_of(sides(1, 1, failed), 1)))

    def test_point_3_takes_the_worst_later_pass(self):
        self.assertEqual(working_set.again([1000, 0, 30, 10]), 0.03)
        self.assertEqual(self.outcome_of(working_set.judge, [1000, 20]).verdict, "met")
        self.assertEqual(self.outcome_of(working_set.judge, [1000, 0, 21]).verdict, "missed")

    def test_point_3_needs_the_least_memory_that_is_enough(self):
        asked = []

        def measure(memory):
            asked.append(memory)
            return None if memory < 105 else [100, 50] if memory < 120 else [100, 1]
        self.assertEqual(working_set.needed(measure, 100), (121, [100, 1]))
        self.assertEqual(asked, [100, 110, 121])
        with self.assertRaisesRegex(arena.ArenaError, "reads again"):
            working_set.needed(lambda _: [100, 100], 100)

    def test_point_5_bounds_the_median_difference(self):
        times = {"near": {"alone": [0.001, 0.001, 0.001], "cluster": [0.003, 0.004, 0.9]},
                 "far": {"alone": [0.001, 0.001, 0.001], "cluster": [0.002, 0.0045, 0.0045]}}
        found = list(latency.short_misses(latency.figures_of(times)))
        self.assertEqual(found, ["far: 3.5 ms more"])

    def test_point_6_bounds_the_ratio(self):
        times = {"met": {"alone": [1.0], "cluster": [1.15]},
                 "missed": {"alone": [1.0], "cluster": [1.16]}}
        found = list(latency.whole_misses(latency.figures_of(times)))
        self.assertEqual(found, ["missed: 1.16 times as long"])


class Rounds(unittest.TestCase):
    def test_sides_take_turns_and_rows_are_compared(self):
        asked, times, misses = [], {}, []

        def timed(side, _sql):
            asked.append(side)
            return 0.5, [("1",)] if side == "alone" else [("2",)]
        with mock.patch.object(latency, "timed", timed):
            for turn in (0, 1):
                latency.round_of({side: side for side in latency.SIDES}, {"s": "select"}, turn,
                                 times, misses)
        self.assertEqual(asked, ["alone", "cluster", "cluster", "alone"])
        self.assertEqual(times, {"s": {"alone": [0.5, 0.5], "cluster": [0.5, 0.5]}})
        self.assertEqual(len(misses), 2)


class Reports(unittest.TestCase):
    def test_spread_and_percentile(self):
        self.assertEqual(report.spread([3, 1, 2]), {"median": 2, "min": 1, "max": 3, "count": 3})
        ascending = list(range(1, 101))
        self.assertEqual(report.percentile(ascending, 0.95), 95)
        self.assertEqual(report.percentile([7], 0.95), 7)

    def test_show_has_the_table_and_the_misses(self):
        outcome = report.Outcome(3, "an aim", tables=[[["a", "b"], ["1", "22"]]])
        self.assertIn("Point 3 is met.", report.show(outcome))
        outcome.misses = [f"miss {number}" for number in range(report.MISSES_SHOWN_MAX + 2)]
        shown = report.show(outcome)
        self.assertIn("and 2 more misses", shown)
        self.assertIn("Point 3 is missed.", shown)


class Options(unittest.TestCase):
    def test_small_is_a_preset_that_options_override(self):
        small = figure.parse(["--small", "--point", "2", "--streams", "3"])
        self.assertEqual((small.scale, small.streams, small.queries), (1.0, 3, 2))
        self.assertEqual(small.point, [2])
        self.assertTrue(small.data.endswith("tpch-sf1"))
        full = figure.parse([])
        self.assertEqual((full.scale, full.memory), (10.0, 625_000_000))
        self.assertEqual(full.workers, [1, 3, 5])
        self.assertEqual(full.point, [1, 2, 3, 4, 5, 6])

    def test_the_load_is_as_long_as_the_window(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            figure.parse(["--load", "9"])

    def test_a_point_gets_its_tables(self):
        run = figure.reading(lambda options, tables, outcome: tables, "b")
        self.assertEqual(run(None, {"a": 1, "b": 2}, None), {"b": 2})

    def test_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(arena.ArenaError, "lineitem"):
                figure.tables_of(folder)


class Exit(unittest.TestCase):
    def measured(self, run):
        """The exit status and the file of a point."""
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict(figure.POINTS, {5: ("an aim", run)}), \
                mock.patch.object(figure, "tables_of", lambda _: {}), \
                mock.patch.object(report, "version_of", lambda _: "coscan 0"), \
                mock.patch.object(figure.sessions, "psycopg", "a driver"), \
                contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            code = figure.main(["--point", "5", "--out", folder])
            path = os.path.join(folder, "point-5.json")
            written = report.read(path) if os.path.exists(path) else None
        return code, written

    def test_met(self):
        code, written = self.measured(lambda options, tables, outcome: outcome.figures.update(x=1))
        self.assertEqual((code, written["verdict"], written["figures"]), (0, "met", {"x": 1}))
        self.assertEqual(written["coscan"], "coscan 0")
        self.assertIn("cores", written["machine"])

    def test_missed(self):
        code, written = self.measured(lambda options, tables, outcome: outcome.misses.append("x"))
        self.assertEqual((code, written["verdict"], written["misses"]), (1, "missed", ["x"]))

    def test_not_measured(self):
        def refuse(options, tables, outcome):
            raise arena.ArenaError("no groups")
        self.assertEqual(self.measured(refuse), (2, None))


if __name__ == "__main__":
    unittest.main()
