"""Promised: the abuse counts correctly, and a small one (run if `coscan` is built) has no abort, hang or wrong row."""

import os
import random
import shutil
import struct
import subprocess
import sys
import unittest

import abuse

BINARY = os.environ.get("COSCAN") or shutil.which("coscan")


class Parts(unittest.TestCase):
    def test_rows_and_messages_are_read(self):
        body = struct.pack("!hi", 2, 1) + b"7" + struct.pack("!i", -1)
        self.assertEqual(abuse.row_of(body), ("7", None))
        self.assertEqual(abuse.message_of(b"SERROR\0C42601\0Mwhat is this\0\0"), "what is this")

    def test_damaged_files_differ_and_seeds_decide(self):
        whole = bytes(range(256)) * 40 + struct.pack("<i", 100) + b"PAR1"
        many = [abuse.damaged(whole, random.Random(seed)) for seed in range(50)]
        self.assertEqual(many, [abuse.damaged(whole, random.Random(seed)) for seed in range(50)])
        self.assertGreater(sum(one != whole for one in many), 45)

    def test_any_bad_count_fails_a_result(self):
        good = {"aborts": 0, "hangs": 0, "wrong_rows": 0, "rss_bytes_max": 1, "rss_bytes_bound": 2}
        self.assertTrue(abuse.passed(good))
        for change in ({"aborts": 1}, {"hangs": 1}, {"wrong_rows": 1}, {"rss_bytes_max": 3}):
            self.assertFalse(abuse.passed({**good, **change}))

    def test_percentiles(self):
        self.assertEqual(abuse.percentile(list(range(100)), 0.95), 95)
        self.assertIsNone(abuse.percentile([], 0.95))

    def test_every_hostile_statement_can_be_made(self):
        chance = random.Random(3)
        self.assertGreater(len({abuse.hostile_statement(chance)[0][:20] for _ in range(400)}), 12)


@unittest.skipUnless(BINARY, "no coscan: set COSCAN to one")
class Small(unittest.TestCase):
    def test_a_small_abuse(self):
        script = os.path.join(abuse.HERE, "abuse.py")
        ended = subprocess.run([sys.executable, script, "--small", "--coscan", BINARY], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)


if __name__ == "__main__":
    unittest.main()
