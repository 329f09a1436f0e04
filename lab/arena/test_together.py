"""Promised: processor time is read from the right fields, and ratios are Coscan's over plain."""

import pathlib
import tempfile
import types
import unittest
from unittest import mock

import arena
import together


class Figures(unittest.TestCase):
    def test_a_name_with_brackets_does_not_shift_the_fields(self):
        ticks = round(1 / together.TICKS_S)
        stat = f"12 (a ) b) S 1 1 1 0 -1 4194560 9 9 9 9 {3 * ticks} {2 * ticks} 0 0 20 0"
        self.assertEqual(together.cpu_of(stat), (3.0, 2.0))

    def test_ratios(self):
        def used(user, kernel):
            return types.SimpleNamespace(user=user, kernel=kernel, wall=1.0)
        rounds = [{"coscan": used(1.0, 1.0), "plain": used(3.0, 1.0)}, {"coscan": used(1.0, 0.0), "plain": used(4.0, 0.0)},
                  {"coscan": used(4.0, 0.0), "plain": used(4.0, 0.0)}]
        self.assertEqual(together.summary(rounds)["cpu_ratio"], {"median": 0.5, "min": 0.25, "max": 1.0})

    def test_the_server_has_the_tables_of_the_folder(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("arena.serve", side_effect=arena.ArenaError) as serve:
            path = pathlib.Path(folder, "lineitem.parquet")
            path.touch()
            with self.assertRaises(arena.ArenaError):
                together.main(["--data", folder, "--coscan", "PROGRAM"])
            serve.assert_called_once_with("PROGRAM", {"lineitem": str(path)})

    def test_queries_differ(self):
        queries = [together.q6(*parameters) for parameters in together.PARAMETERS]
        self.assertEqual(len(set(queries)), len(queries))


if __name__ == "__main__":
    unittest.main()
