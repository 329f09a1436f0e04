"""Tests of backed.py: `python3 -m unittest discover -s lab/arena`."""

import subprocess
import sys
import unittest
from pathlib import Path

import backed

GIB = 1 << 30


class Backed(unittest.TestCase):
    def test_as_many_blocks_as_leave_the_rest_free(self):
        per_gib = GIB // backed.BLOCK_BYTES
        rest = backed.FREE_BYTES
        for held, free, hold_max, wanted in [
            (0, GIB + rest, 100 * GIB, per_gib),
            (0, GIB + rest, GIB // 2, per_gib // 2),
            (per_gib, rest, 100 * GIB, per_gib),
            # Other processes take memory: it is released to them, to the last block.
            (per_gib, rest - backed.BLOCK_BYTES, 100 * GIB, per_gib - 1),
            (1, 0, 100 * GIB, 0),
            # They have freed it.
            (per_gib, rest + 10 * backed.BLOCK_BYTES, 100 * GIB, per_gib + 10),
        ]:
            with self.subTest(held=held, free=free):
                self.assertEqual(backed.blocks_to_hold(held, free, hold_max), wanted)

    def test_the_command_runs_and_its_exit_code_is_returned(self):
        script = Path(backed.__file__)
        command = [sys.executable, script, "--hold", "64MiB", "--", "sh", "-c", "echo ran; exit 3"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((ended.returncode, ended.stdout), (3, "ran\n"))


if __name__ == "__main__":
    unittest.main()
