"""Promised: streams run as P1 and P2 say, and averages are the paper's. No engine is needed."""

import datetime
import decimal
import os
import tempfile
import threading
import time
import types
import unittest

import peers


class FakeEngine:
    """Notes when each query ran; text 'fail' fails; `refuse` sessions can't be opened."""

    def __init__(self, refuse=0):
        self.ran, self.lock, self.refuse = [], threading.Lock(), refuse

    def session(self):
        if self.refuse:
            self.refuse -= 1
            raise ConnectionError("too many connections")

        def query(sql):
            if sql == "fail":
                raise ValueError("no such table")
            time.sleep(0.01)
            with self.lock:
                self.ran.append(sql)
            return [(1, decimal.Decimal("2.50"))]
        return query


def workload(*streams):
    return {"streams": [{"start_s": start, "queries": [{"name": name, "sql": sql} for name, sql in queries]}
                        for start, queries in streams]}


def quiet(_record):
    pass


class Streams(unittest.TestCase):
    def test_order_within_a_stream_and_starts(self):
        engine = FakeEngine()
        records = peers.run_streams(
            engine, workload((0.0, [("F-01", "a1"), ("F-01", "a2")]), (0.1, [("S-01", "b1")])), quiet)
        self.assertLess(engine.ran.index("a1"), engine.ran.index("a2"))
        start = {(r["stream"], r["position"]): r["start_s"] for r in records}
        self.assertGreaterEqual(start[1, 0], 0.1)
        self.assertGreaterEqual(start[0, 1], 0.01)
        self.assertEqual(records[0]["result"], [[1, "2.50"]])

    def test_a_failure_does_not_end_its_stream(self):
        engine = FakeEngine()
        records = peers.run_streams(engine, workload((0.0, [("F-01", "fail"), ("F-01", "next")])), quiet)
        self.assertEqual(engine.ran, ["next"])
        self.assertEqual([r.get("error") for r in records], ["ValueError: no such table", None])

    def test_a_refused_session_fails_its_queries_only(self):
        engine = FakeEngine(refuse=1)
        records = peers.run_streams(engine, workload((0.0, [("F-01", "a")] * 2), (0.0, [("F-01", "b")])), quiet)
        self.assertEqual(engine.ran, ["b"])
        self.assertEqual(sum("error" in r for r in records), 2)


class Summary(unittest.TestCase):
    RECORDS = [
        {"stream": 0, "position": 0, "name": "F-01", "start_s": 0.0, "latency_s": 2.0, "rows": 1, "result": []},
        {"stream": 0, "position": 1, "name": "S-01", "start_s": 2.0, "latency_s": 4.0, "rows": 1, "result": []},
        {"stream": 1, "position": 0, "name": "F-01", "start_s": 3.0, "latency_s": 6.0, "rows": 1, "result": []},
    ]

    def copies(self):
        return [dict(record) for record in self.RECORDS]

    def test_averages(self):
        told = peers.summarise(self.copies(), {"F-01": 1.0, "S-01": 2.0})
        self.assertEqual(told["avg_stream_s"], 6.0)
        self.assertEqual(told["total_s"], 9.0)
        self.assertEqual((told["queries_per_hour"], told["p95_s"]), (1200.0, 6.0))
        self.assertEqual(told["avg_normalized_latency"], round((2 + 2 + 6) / 3, 4))
        self.assertEqual(told["failures"], [])

    def test_failures_count_in_no_latency(self):
        records = self.copies()
        records[2]["error"] = "refused"
        told = peers.summarise(records, {"F-01": 1.0, "S-01": 2.0})
        self.assertEqual(told["avg_normalized_latency"], 2.0)
        self.assertEqual(told["failures"], [{"stream": 1, "position": 0, "name": "F-01", "error": "refused"}])

    def test_without_standalone_times(self):
        told = peers.summarise(self.copies(), None)
        self.assertIsNone(told["avg_normalized_latency"])
        self.assertIsNone(told["queries"][0]["normalized"])


class Values(unittest.TestCase):
    def test_plain(self):
        for value, text in ((decimal.Decimal("1E+3"), "1000"), (datetime.date(1998, 9, 2), "1998-09-02"),
                            (float("nan"), "nan"), (b"\x01", "01"), (7, 7), (None, None), (0.5, 0.5)):
            self.assertEqual(peers.plain(value), text)

    def test_digest_is_of_the_queries_only(self):
        one, two = workload((0.0, [("F-01", "a")])), workload((0.0, [("F-01", "a")]))
        two["comment"] = "x"
        self.assertEqual(peers.digest(one), peers.digest(two))
        self.assertNotEqual(peers.digest(one), peers.digest(workload((0.0, [("F-01", "b")]))))


class Arguments(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as root:
            for name in ("b.parquet", "a.parquet", "c.txt"):
                open(os.path.join(root, name), "w").close()
            both = [os.path.join(root, "a.parquet"), os.path.join(root, "b.parquet")]
            self.assertEqual(peers.files_of([root]), both)
            self.assertEqual(peers.files_of([both[1], root]), [both[1], both[0]])
            self.assertEqual(peers.folder_of(both), root + "/")
            with self.assertRaises(ValueError):
                peers.files_of([os.path.join(root, "none.parquet")])

    def test_settings(self):
        args = types.SimpleNamespace(set=["a.b=c=d"])
        self.assertEqual(peers.settings_of(args), [("a.b", "c=d")])
        self.assertEqual(peers.quoted("it's"), "'it''s'")


class Tables(unittest.TestCase):
    def test_a_file_for_each(self):
        files = ["/d/a.parquet", "/d/b.parquet", "/d/c.parquet"]
        self.assertEqual(peers.tables_of({"tables": ["a", "c"]}, files), {"a": files[:1], "c": files[2:]})
        self.assertEqual(peers.tables_of({"table": "t"}, files), {"t": files})
        with self.assertRaises(ValueError):
            peers.tables_of({"tables": ["a", "d"]}, files)


if __name__ == "__main__":
    unittest.main()
