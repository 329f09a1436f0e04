"""Promised: the same arguments give the same workload (W1, W2), and it is well formed."""

import collections
import json
import unittest

import workload


class SplitMix(unittest.TestCase):
    def test_known_answers(self):
        # The reference values for seed 1234567, found in many implementations' tests.
        rng = workload.SplitMix64(1234567)
        self.assertEqual([rng.next() for _ in range(3)],
                         [6457827717110365317, 3203168211198807973, 9817491932198370423])

    def test_below_stays_below(self):
        rng = workload.SplitMix64(7)
        drawn = collections.Counter(rng.below(5) for _ in range(5000))
        self.assertEqual(sorted(drawn), [0, 1, 2, 3, 4])
        self.assertTrue(all(800 < count < 1200 for count in drawn.values()), drawn)


class Mixes(unittest.TestCase):
    def test_figure_5(self):
        self.assertEqual(workload.parse_mix("FFS-M"), ("FFS", (1, 2, 10, 50, 100)))
        self.assertEqual(workload.parse_mix("S-L"), ("S", (10, 30, 50, 100)))
        self.assertEqual(workload.parse_mix("F-5,25"), ("F", (5, 25)))

    def test_refused(self):
        for mix in ("", "M", "X-M", "F-", "F-Q", "F-0", "F-101", "F-1,x"):
            with self.subTest(mix), self.assertRaises(ValueError):
                workload.parse_mix(mix)


class Distinct(unittest.TestCase):
    def test_no_date_twice(self):
        made = workload.generate(streams=64, distinct=True)
        dates = [word for stream in made["streams"] for query in stream["queries"]
                 for word in query["sql"].split("'") if word[:2] == "19"]
        self.assertGreater(len(dates), 64)
        self.assertEqual(len(dates), len(set(dates)))

    def test_too_many(self):
        with self.assertRaises(ValueError):
            workload.generate(mix="S-S", streams=1001, queries=1, distinct=True)


class Generated(unittest.TestCase):
    def test_golden(self):
        """W1 across versions and languages: whoever changes this makes older results incomparable."""
        made = workload.generate(seed=1, key_max=240_000_000)
        names = [[query["name"] for query in stream["queries"]] for stream in made["streams"]]
        self.assertEqual(names[:2], [["S-50", "F-100", "F-50", "S-100"], ["F-01", "S-50", "S-50", "F-50"]])
        first = made["streams"][0]["queries"][0]
        self.assertEqual((first["key_low"], first["key_high"]), GOLDEN_KEYS)
        self.assertIn(f" and l_orderkey between {GOLDEN_KEYS[0]} and {GOLDEN_KEYS[1]}", first["sql"])

    def test_same_arguments_same_bytes(self):
        self.assertEqual(json.dumps(workload.generate(seed=9)), json.dumps(workload.generate(seed=9)))
        self.assertNotEqual(workload.generate(seed=9)["streams"], workload.generate(seed=10)["streams"])

    def test_fewer_streams_are_a_prefix(self):
        many = workload.generate(streams=64)["streams"]
        self.assertEqual(many[:16], workload.generate(streams=16)["streams"])

    def test_ranges_lie_in_the_table_and_have_their_size(self):
        made = workload.generate(mix="FS-S", streams=50, key_max=6_000_000)
        for stream in made["streams"]:
            for query in stream["queries"]:
                self.assertGreaterEqual(query["key_low"], 1)
                self.assertLessEqual(query["key_high"], 6_000_000)
                self.assertEqual(query["key_high"] - query["key_low"] + 1, 60_000 * query["percent"])

    def test_whole_table_has_no_range(self):
        made = workload.generate(mix="FS-100")
        self.assertFalse(any("l_orderkey" in query["sql"] for s in made["streams"] for query in s["queries"]))

    def test_starts(self):
        made = workload.generate(streams=3, delay_s=0.1)
        self.assertEqual([stream["start_s"] for stream in made["streams"]], [0.0, 0.1, 0.2])

    def test_each_mix_draws_only_its_kinds(self):
        names = {query["name"] for s in workload.generate(mix="F-S", streams=60)["streams"] for query in s["queries"]}
        self.assertEqual(names, {"F-01", "F-02", "F-05", "F-10", "F-20"})

    def test_bounds(self):
        for wrong in ({"streams": 0}, {"streams": 10_000}, {"queries": 0}, {"delay_s": -1}, {"key_max": 0},
                      {"slow_terms": -1}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                workload.generate(**wrong)

    def test_no_bare_decimals(self):
        """W3: DataFusion would read them as floats."""
        for sql in workload.kinds(workload.generate(streams=64)).values():
            self.assertNotRegex(sql.replace("cast('", "cast(["), r"[^\['0-9]\d+\.\d")


class Checked(unittest.TestCase):
    def test_own_output_passes(self):
        made = json.loads(json.dumps(workload.generate()))
        self.assertIs(workload.check(made), made)

    def test_wrong_files_are_refused(self):
        def broken(change):
            made = workload.generate(streams=1, queries=1)
            change(made)
            return made

        changes = (
            lambda w: w.update(format="other"),
            lambda w: w.update(version=2),
            lambda w: w.update(streams=[]),
            lambda w: w["streams"][0].update(start_s="soon"),
            lambda w: w["streams"][0].update(queries=[]),
            lambda w: w["streams"][0]["queries"][0].pop("sql"),
            lambda w: w["streams"][0]["queries"][0].update(name=""),
        )
        for change in changes:
            with self.assertRaises(ValueError):
                workload.check(broken(change))
        with self.assertRaises(ValueError):
            workload.check([])


GOLDEN_KEYS = (116_520_332, 236_520_331)

if __name__ == "__main__":
    unittest.main()
