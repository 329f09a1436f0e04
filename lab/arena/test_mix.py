"""Promised: the same arguments give the same workload (W1); sets are shared by all clients; nothing is drawn twice alike else."""

import unittest

import mix
import peers


class Generated(unittest.TestCase):
    def test_same_arguments_same_workload(self):
        self.assertEqual(mix.generate(seed=3), mix.generate(seed=3))
        self.assertNotEqual(mix.generate(seed=3), mix.generate(seed=4))

    def test_sets(self):
        made = mix.generate(clients=40, queries=8, sets=4)
        texts = {}
        for stream in made["streams"]:
            for query in stream["queries"]:
                texts.setdefault(query["name"], set()).add(query["sql"])
        self.assertEqual(set(texts), set(mix.QUERIES))
        self.assertTrue(all(1 < len(sql) <= 4 for sql in texts.values()), texts)

    def test_months(self):
        first = mix.datetime.date(1997, 11, 1)
        self.assertEqual(mix.months_on(first, 2), mix.datetime.date(1998, 1, 1))
        self.assertEqual(mix.months_on(first, 1), mix.datetime.date(1997, 12, 1))

    def test_every_table_is_named(self):
        sql = " ".join(query["sql"] for stream in mix.generate(clients=40)["streams"] for query in stream["queries"])
        for table in mix.TABLES:
            self.assertIn(table, sql)


class Tables(unittest.TestCase):
    def test_a_file_for_each(self):
        files = ["/d/a.parquet", "/d/b.parquet", "/d/c.parquet"]
        self.assertEqual(peers.tables_of({"tables": ["a", "c"]}, files), {"a": files[:1], "c": files[2:]})
        self.assertEqual(peers.tables_of({"table": "t"}, files), {"t": files})
        with self.assertRaises(ValueError):
            peers.tables_of({"tables": ["a", "d"]}, files)


if __name__ == "__main__":
    unittest.main()
