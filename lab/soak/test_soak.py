"""Promised: a run fails for each broken promise and only then, and samples are read correctly."""

import asyncio
import datetime
import decimal
import os
import random
import socket
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree

import answers
import crowd
import cursors
import groups
import limits
import matrix
import picture
import servers
import statements
import tally
import verdict
import watch

MIB = watch.MIB


def sample(time_s, resident=500, group=None, **holders):
    engine = {"limit": 1000 * MIB, "arrays_in_use": 0} | {holder: 0 for holder in watch.HOLDERS}
    engine |= {holder: size * MIB for holder, size in holders.items()}
    made = {"time": time_s, "resident": resident * MIB, "engine": engine}
    if group is not None:
        made["group"] = {"usage": group * MIB, "most": group * MIB, "limit": 1500 * MIB,
                         "resident": group * MIB, "cache": 0, "limit_met": 0, "kills": 0}
    return made


class Crowd(unittest.TestCase):
    def test_messages_are_damaged_and_a_seed_fixes_how(self):
        said = [crowd.conversation(random.Random(seed)) for seed in range(200)]
        self.assertEqual(said, [crowd.conversation(random.Random(seed)) for seed in range(200)])
        begun = [one for one in said if one.startswith(crowd.startup())]
        self.assertTrue(100 < len(begun) < 200, "most damage is behind a sound beginning")
        whole = b"".join([crowd.query("select 1"), *crowd.prepared()])
        self.assertNotEqual(crowd.damaged(random.Random(1), whole), whole)

    def test_a_server_that_has_ended_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        asyncio.run(crowd.send_all(port, 3, random.Random(1)))
        took, failed = asyncio.run(crowd.crowd(port, 1))
        self.assertEqual((took, len(failed)), (0.0, 1))

    def test_each_broken_promise_is_told(self):
        sound = [(0.1, []), (0.2, [])]
        self.assertEqual(list(crowd.broken(sound, 400, 0, True, 1)), [])
        self.assertIn("round 2", next(crowd.broken([(0.1, []), (0.2, ["no row"])], 0, 0, True, 1)))
        for what in ((401, 0, True), (0, 1, True), (0, 0, False)):
            told = list(crowd.broken(sound, *what, 1))
            self.assertEqual([line[:2] for line in told], ["C2"], what)


class Cursors(unittest.TestCase):
    limit = 150 * MIB

    def summary(self, counts, **more):
        more = {"peak": self.limit, "alive": True, "hung": 0, "again": 0} | more
        return cursors.summary(counts, self.limit, **more)

    def counted(self, *messages):
        counts = tally.Tally()
        counts.answered(1.0)
        for message in messages:
            counts.failed("53200", message)
        return counts

    def test_rows_are_judged_by_their_number_and_order(self):
        keys = cursors.keys_after(3)
        self.assertEqual((keys[:6], cursors.keys_after(7)[:2]), ([4, 5, 6, 7, 32, 33], [32, 33]))
        self.assertIsNone(cursors.fault(keys, 3))
        self.assertIn("excludes", cursors.fault(keys, 4))
        self.assertIn("3099 rows", cursors.fault(keys[1:], 3))
        self.assertIn("order", cursors.fault([*keys[:-2], keys[-1], keys[-2]], 3))
        self.assertIn("order", cursors.fault([*keys[:-1], keys[-2]], 3))
        later = [*keys[:7], *keys[8:], cursors.keys_after(keys[-1])[0]]
        self.assertIn(f"before the one of {keys[8]}", cursors.fault(later, 3))

    def test_each_client_counts_once_whatever_ends_it(self):
        class Refused(Exception):
            sqlstate = "53200"

        for ended, counted in (
            (Refused("no"), "refused"), (OSError("closed"), "lost"), (TypeError("odd"), "lost"),
            (cursors.keys_after(0), "answered"), ([], "wrong"),
        ):
            counts, fetched = tally.Tally(), unittest.mock.Mock(side_effect=[ended])
            with unittest.mock.patch.object(cursors, "fetch", fetched):
                self.assertEqual(cursors.crowd("", 1, None, counts), 0)
            self.assertEqual(dict(counts.ends), {counted: 1})

    def test_no_two_clients_sort_the_same(self):
        self.assertEqual(len({cursors.QUERY.format(number) for number in range(24)}), 24)

    def test_each_broken_promise_is_told(self):
        self.assertEqual(self.summary(self.counted(), again=7)["broken"], [])
        refused, odd, wrong, lost = self.counted("no"), self.counted(), self.counted(), self.counted()
        odd.failed("XX000", "what")
        wrong.differs("q", ["the keys are not in order"], [])
        lost.lost("closed")
        for counts in (refused, odd, wrong, lost, tally.Tally()):
            self.assertEqual([told[:2] for told in self.summary(counts)["broken"]], ["S1"])
        for more in ({"alive": False}, {"hung": 1}):
            self.assertEqual([told[:2] for told in self.summary(self.counted(), **more)["broken"]], ["S1"])
        most = self.limit + verdict.BEYOND
        self.assertEqual(self.summary(self.counted(), peak=most)["broken"], [])
        told = self.summary(self.counted(), peak=most + 1)["broken"]
        self.assertEqual([words[:2] for words in told], ["S2"])

    def test_refusals_are_counted_by_their_words(self):
        counts = self.counted("a sort needs 7 more bytes", "a sort needs 9 more bytes", "a merge needs 9")
        summary = self.summary(counts, again=2)
        self.assertEqual(sorted(summary["refused"].values()), [1, 2])
        runs = [{"program": "new", **summary}, {"program": "new", **summary}]
        runs.append({"program": "old", **self.summary(tally.Tally(), alive=False, peak=None)})
        in_all = cursors.in_all(runs)
        self.assertEqual(sorted(in_all["new"]["refused"].values()), [2, 4])
        self.assertEqual((in_all["new"]["runs"], in_all["new"]["run_again"]), (2, 4))
        self.assertEqual((in_all["old"]["runs_broken"], in_all["old"]["peak"]), (1, None))
        self.assertIn("refused 3, run again 2", cursors.line(runs[0]))
        self.assertIn("S1: the server has ended", cursors.line(runs[-1]))

    def test_the_old_program_runs_before_the_new_one_each_time(self):
        self.assertEqual(cursors.in_turn(2, None), ["new", "new"])
        self.assertEqual(cursors.in_turn(2, "p"), ["old", "new", "old", "new"])

    def test_runs_after_a_refusal_are_counted_in_the_log(self):
        said = [
            "12:00:00 INFO a query is run again when 4 bytes are there for it\n",
            "12:00:01 INFO listening on 127.0.0.1:4711\n",
            "12:00:02 INFO a query that found no memory on a node is run again on more of them\n",
        ]
        self.assertEqual(cursors.reruns(said), 2)


class Statements(unittest.TestCase):
    def test_a_seed_fixes_the_questions(self):
        self.assertEqual(statements.questions(3), statements.questions(3))
        self.assertNotEqual(statements.questions(3), statements.questions(4))
        for text in statements.questions(1):
            self.assertNotIn("\n", text)
            self.assertNotIn("None", text)


class Answers(unittest.TestCase):
    def test_cells_are_compared_by_value(self):
        rows = [(decimal.Decimal("1.50"), "x", None, datetime.date(2000, 1, 2))]
        self.assertTrue(answers.same(rows, [(1.5, "x", None, datetime.datetime(2000, 1, 2))]))
        self.assertTrue(answers.same([(1.0,)], [(1.0 + 1e-9,)]))
        for other in ([(1.6, "x", None, datetime.date(2000, 1, 2))], [(1.5, "x", 0, datetime.date(2000, 1, 2))],
                      [(1.5, "x", None, datetime.date(2000, 1, 3))], [], rows * 2, [rows[0][:3]]):
            self.assertFalse(answers.same(rows, other), other)


class Tally(unittest.TestCase):
    def test_errors_of_one_reason_have_one_shape(self):
        one = tally.shape("53200", "a sort needs 9,496 more bytes, and 'x' has 12\nHINT")
        self.assertEqual(one, tally.shape("53200", "a sort needs 1 more bytes, and 'yy' has 3.5"))

    def test_each_end_is_counted_once(self):
        counts = tally.Tally()
        counts.answered(1.0)
        counts.answered(3.0)
        counts.failed("57014", "canceled", ("57014",))
        counts.failed("53200", "no memory")
        counts.failed("53200", "no memory", free=True)
        counts.failed("XX000", "what")
        counts.differs("q", [(1,)], [(2,)])
        counts.lost("closed")
        self.assertEqual(dict(counts.ends), {"answered": 2, "expected": 1, "refused": 2, "odd": 1, "wrong": 1, "lost": 1})
        self.assertAlmostEqual(counts.refused_share(), 0.25)
        self.assertEqual((counts.latency_s(0.5), counts.latency_s(1)), (3.0, 3.0))
        self.assertTrue(any("no memory" in line for line in counts.lines()))


class Limits(unittest.TestCase):
    def test_sizes_and_schedules(self):
        self.assertEqual(limits.size("200MiB"), 200 * MIB)
        self.assertEqual(limits.size("1.5GB"), 1_500_000_000)
        self.assertEqual(limits.schedule("1k,2K/2.5"), ([1024, 2048], 2.5))
        for wrong in ("MiB", "1 XB", ""):
            with self.assertRaises(ValueError):
                limits.size(wrong)

    def test_the_limit_in_force(self):
        changes = [(0.0, 800), (10.0, 200)]
        self.assertEqual(limits.limit_at(changes, 4), (800, 4.0))
        self.assertEqual(limits.limit_at(changes, 11), (200, 1.0))
        self.assertEqual(limits.limit_at([], 11), (None, 0.0))


class Watched(unittest.TestCase):
    def test_what_is_accounted_is_the_sum_of_the_holders(self):
        one = sample(1, operators=10, arrays=20, metadata=3)
        one["engine"]["arrays_in_use"] = 15 * MIB
        self.assertEqual(watch.accounted(one), 33 * MIB)
        self.assertIsNone(watch.accounted({"time": 1}))
        del one["engine"]["statements"]
        self.assertEqual(watch.accounted(one), 33 * MIB, "an older program does not tell all")
        said = "\n".join(watch.lines([one, {"time": 2, "engine": {}, "resident": 7}]))
        self.assertIn("accounted: at most 33 MiB, after 1 s", said)
        self.assertIn("taken beyond what is accounted: at most 467 MiB", said)

    def test_an_engine_that_is_busy_does_not_hold_up_the_others(self):
        class Busy:
            def sample(self):
                time.sleep(1.0)
                return {"limit": 1}

            def close(self):
                pass

        seen = watch.Watch(watch.Process(os.getpid()), None, Busy())
        seen.start()
        time.sleep(0.9)
        seen.stop()
        self.assertGreaterEqual(len(seen.samples), 2)
        self.assertNotIn("engine", seen.samples[0])

    def test_this_process(self):
        seen = watch.Process(os.getpid()).sample()
        self.assertGreater(seen["resident"], MIB)
        self.assertGreaterEqual(seen["resident_max"], seen["resident"])
        self.assertEqual(watch.Process(2**30).sample(), {})


class Group(unittest.TestCase):
    def made(self, first, files):
        group = groups.Group.__new__(groups.Group)
        group.first, group.path = first, self.enterContext(tempfile.TemporaryDirectory())
        for name, text in files.items():
            groups.write(os.path.join(group.path, name), text)
        return group.sample()

    def test_both_versions_give_the_same_figures(self):
        wanted = {"usage": 7, "most": 9, "limit": 10, "resident": 5, "cache": 2, "limit_met": 3, "kills": 1}
        self.assertEqual(wanted, self.made(True, {
            "memory.usage_in_bytes": "7\n", "memory.max_usage_in_bytes": "9", "memory.limit_in_bytes": "10",
            "memory.stat": "cache 2\nrss 5\n", "memory.failcnt": "3", "memory.oom_control": "under_oom 0\noom_kill 1\n",
        }))
        self.assertEqual(wanted, self.made(False, {
            "memory.current": "7", "memory.peak": "9", "memory.max": "10",
            "memory.stat": "anon 5\nfile 2\n", "memory.events": "max 3\noom_kill 1\n",
        }))


class Verdict(unittest.TestCase):
    def judge(self, counts=None, samples=(), changes=(), **more):
        if counts is None:
            counts = tally.Tally()
            counts.answered(1.0)
        more = {"alive": True, "hung": 0, "left": (0, verdict.KEPT_MAX)} | more
        return [fault[:2] for fault in verdict.faults(counts, list(samples), changes=changes, **more)]

    def test_a_good_run_passes(self):
        self.assertEqual(self.judge(samples=[sample(1)], changes=[(0, 400 * MIB)]), [])

    def test_each_promise_can_be_broken(self):
        self.assertEqual(self.judge(alive=False, left=None), ["K1"])
        killed = sample(1, group=100)
        killed["group"]["kills"] = 1
        self.assertEqual(self.judge(samples=[killed]), ["K1"])
        self.assertEqual(self.judge(hung=1), ["K3"])
        self.assertEqual(self.judge(left=None), ["K8"])
        self.assertEqual(self.judge(left=(1, 0)), ["K8"])
        self.assertEqual(self.judge(left=(0, verdict.KEPT_MAX + 1)), ["K8"])
        for code, free, fault in (("53200", False, "K5"), ("53200", True, "K4")):
            counts = tally.Tally()
            for _ in range(50):
                counts.answered(1.0)
            counts.failed(code, "no", free=free)
            self.assertEqual(self.judge(counts), [fault])
        counts = tally.Tally()
        counts.answered(1.0)
        counts.differs("q", [], [])
        counts.lost("gone")
        self.assertEqual(self.judge(counts), ["K2", "K7"])
        self.assertEqual(self.judge(tally.Tally()), ["no"])

    def test_the_process_has_some_seconds_to_get_below_a_lower_limit(self):
        changes = [(0, 800 * MIB), (10, 200 * MIB)]
        before, soon, late = (sample(time_s, resident=900) for time_s in (9, 11, 12.5))
        self.assertEqual(self.judge(samples=[before, soon], changes=changes), [])
        self.assertEqual(self.judge(samples=[before, soon, late], changes=changes), ["K6"])


class Picture(unittest.TestCase):
    def test_areas_stand_on_each_other(self):
        areas = list(picture.stacked([sample(0, operators=1, frames=2), sample(5, operators=4)]))
        self.assertEqual([holder for holder, _, _ in areas], list(watch.HOLDERS))
        self.assertEqual(areas[0][2], [(0, 1 * MIB), (5, 4 * MIB)])
        self.assertEqual(areas[1][1], areas[0][2])
        self.assertEqual(areas[-1][2], [(0, 3 * MIB), (5, 4 * MIB)])
        self.assertEqual(set(picture.AREAS), set(watch.HOLDERS))

    def test_it_is_well_formed_whatever_the_samples_have(self):
        for samples in ([], [{"time": 1}], [sample(1, group=900), {"time": 2, "resident": 5, "engine": {}}, sample(3)]):
            drawn = picture.draw(samples, "24 clients & < 1 GB")
            xml.etree.ElementTree.fromstring(drawn)

    def test_ticks_are_round_and_few(self):
        for most in (1, 7, 60, 333, 1500, 3600, 100_000):
            step = picture.step(most)
            self.assertLessEqual(most / step, picture.TICKS)
            self.assertEqual(str(step).rstrip("0") in ("1", "2", "5"), True, step)


class Servers(unittest.TestCase):
    def test_every_table_is_given(self):
        words = servers.command("coscan", "/data", ["--memory", "1GB"])
        self.assertIn("lineitem=/data/lineitem.parquet", words)
        self.assertEqual(words[-2:], ["--memory", "1GB"])
        self.assertEqual(servers.LISTENING.search("coscan: listening on 127.0.0.1:4711")[1], "4711")

    def test_a_level_of_the_log_is_added_to_the_environment(self):
        self.assertIsNone(servers.environment(None), "the caller's")
        told = servers.environment("info")
        self.assertEqual((told["COSCAN_LOG"], told["PATH"]), ("info", os.environ["PATH"]))


class Matrix(unittest.TestCase):
    def test_the_cells_are_those_of_the_issue(self):
        cells = list(matrix.cells())
        names = [name for name, _, _ in cells]
        self.assertEqual(len(set(names)), len(names))
        in_little = [name for name in names if name.startswith("group 1.5GB, 24 clients")]
        self.assertEqual(len(in_little), 5)
        self.assertEqual(max(seconds for _, _, seconds in cells), 3600)

    def test_a_cell_counts_for_its_program_and_its_length(self):
        wanted = [("a", [], 300), ("b", [], 300)]
        results = [{"cell": "a", "program": "p", "scale": 0.5}]
        names = lambda *of: [cell[0] for cell in matrix.missing(results, *of)]  # noqa: E731
        self.assertEqual(names("p", wanted, 0.5), ["b"])
        self.assertEqual(names("p", wanted, 0.1), ["b"])
        self.assertEqual(names("p", wanted, 1.0), ["a", "b"])
        self.assertEqual(names("other", wanted, 0.5), ["a", "b"])

    def test_nothing_begins_that_ends_too_late(self):
        self.assertTrue(matrix.fits(300, 1.0, 420))
        self.assertFalse(matrix.fits(300, 1.0, 419))
        self.assertTrue(matrix.fits(3600, 0.1, 480))

    def test_results_are_replaced_as_a_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.json")
            self.assertEqual(matrix.read(path), [])
            matrix.write(path, [{"cell": "a"}])
            self.assertEqual(matrix.read(path), [{"cell": "a"}])
            self.assertEqual(os.listdir(folder), ["results.json"])

    def test_a_summary_is_a_line(self):
        counts = tally.Tally()
        counts.answered(2.0)
        counts.failed("53200", "no memory")
        summary = counts.summary([sample(1, group=900), sample(2, resident=700)], ["K5: half"])
        line = matrix.line({"cell": "a", **summary})
        self.assertEqual(line, "| a | 1 | 50.0% | 2.0 s | 700 MiB | 900 MiB | K5: half |")
        empty = tally.Tally().summary([], [])
        self.assertIn("| kept |", matrix.line({"cell": "b", **empty}))


if __name__ == "__main__":
    unittest.main()
