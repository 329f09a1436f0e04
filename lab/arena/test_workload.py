"""Promised: a file that is not a workload is refused; a workload is shown as it is."""

import json
import unittest

import workload


def made():
    """A workload of two streams of two queries."""
    query = lambda name, place: {"name": name, "percent": 10, "from_percent": place, "sql": f"select {place}"}
    streams = [{"start_s": 0.5 * n, "queries": [query("F-10", n), query("S-10", 50.0)]} for n in range(2)]
    return json.loads(json.dumps({"format": "coscan-workload", "version": 1, "seed": 1, "streams": streams}))


class Read(unittest.TestCase):
    def test_kinds_are_the_first_of_each_name(self):
        self.assertEqual(workload.kinds(made()), {"F-10": "select 0", "S-10": "select 50.0"})

    def test_each_stream_is_shown_as_a_line(self):
        lines = list(workload.show(made()))
        self.assertEqual(lines[1].split(), ["1", "0.5", "s", "F-10@1.0", "S-10@50.0"])
        self.assertEqual(lines[2], "4 queries: 2 F-10, 2 S-10")


class Checked(unittest.TestCase):
    def test_a_workload_passes(self):
        good = made()
        self.assertIs(workload.check(good), good)

    def test_wrong_files_are_refused(self):
        def broken(change):
            wrong = made()
            change(wrong)
            return wrong

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


if __name__ == "__main__":
    unittest.main()
