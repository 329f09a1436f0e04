"""Promised: the cursors' ranges divide the keys, and the verdict is by the medians."""

import unittest

import idle


class Figures(unittest.TestCase):
    def test_ranges_divide_the_keys(self):
        for first, last, parts in [(1, 6000000, 64), (1, 7, 7), (5, 5, 1), (-3, 10, 4)]:
            ranges = idle.ranges(first, last, parts)
            self.assertEqual(len(ranges), parts)
            covered = [key for begin, end in ranges for key in (begin, end - 1)]
            self.assertEqual((covered[0], covered[-1]), (first, last))
            self.assertTrue(all(begin < end for begin, end in ranges))
            self.assertTrue(all(a[1] == b[0] for a, b in zip(ranges, ranges[1:])))

    def test_more_ranges_than_keys_are_refused(self):
        with self.assertRaises(SystemExit):
            idle.ranges(1, 3, 4)

    def test_the_verdict_is_of_the_medians(self):
        self.assertTrue(idle.verdict([1.0, 1.0, 9.0], [1.2, 1.1, 30.0])["within"])
        self.assertFalse(idle.verdict([1.0, 1.0, 1.0], [1.3, 1.3, 1.0])["within"])


if __name__ == "__main__":
    unittest.main()
