"""Promised: values do not depend on formats, and a wrong row does not pass (C1 to C4)."""

import decimal
import struct
import unittest

import cells


class Values(unittest.TestCase):
    def test_text(self):
        for text, oid, want in (
            (b"5", cells.INT4, 5),
            (b"t", cells.BOOL, True),
            (b"\\x6162", cells.BYTEA, b"ab"),
            (b"1.50", cells.NUMERIC, decimal.Decimal("1.5")),
            (b"5", cells.TEXT, "5"),
            (b"{{1,NULL},{3,4}}", 1007, [[1, None], [3, 4]]),
            (b'{"a,b","",NULL,"NULL","q\\"x"}', 1009, ["a,b", "", None, "NULL", 'q"x']),
            (b"[0:1]={1,2}", 1007, ["[0:1]=", [1, 2]]),
            (b"{}", 1007, []),
        ):
            self.assertEqual(cells.value(text, oid, 0), want)

    def test_binary(self):
        for data, oid, want in (
            (b"\xff\xff\xff\xfe", cells.INT4, -2),
            (struct.pack("!d", 0.5), cells.FLOAT8, 0.5),
            (struct.pack("!HhHHHH", 2, 0, 0x4000, 2, 1, 2300), cells.NUMERIC, decimal.Decimal("-1.23")),
            (struct.pack("!HhHH", 0, 0, 0, 2), cells.NUMERIC, decimal.Decimal("0.00")),
            (struct.pack("!HhHHH", 1, 1, 0, 0, 12), cells.NUMERIC, decimal.Decimal("120000")),
            (struct.pack("!i", -10957), cells.DATE, "1970-01-01"),
            (struct.pack("!i", -730485), cells.DATE, "0001-01-01 BC"),
            (struct.pack("!q", 1500000), cells.TIME, "00:00:01.5"),
            (struct.pack("!q", -1), cells.TIMESTAMPTZ, "1999-12-31 23:59:59.999999+00"),
            (struct.pack("!qii", -3600000000, 1, -14), cells.INTERVAL, "-1 years -2 mons +1 day -01:00:00"),
            (struct.pack("!iiIiiiii", 1, 1, 23, 2, 1, 4, 7, -1), 1007, [7, None]),
        ):
            self.assertEqual(cells.value(data, oid, 1), want)


class Ties(unittest.TestCase):
    def test_lengths(self):
        for text, want in (
            ("1 day", 86400),
            ("24:00:00", 86400),
            ("-1 days +02:00:00", -79200),
            ("1 mon", 30 * 86400),
            ("1 year -1 days -00:00:01", 359 * 86400 - 1),
        ):
            self.assertEqual(cells.length_us(text), want * 1_000_000)

    def test_equal_values_are_one(self):
        self.assertEqual(cells.tie("1 day", cells.INTERVAL), cells.tie("24:00:00", cells.INTERVAL))
        self.assertEqual(str(cells.tie(-0.0, cells.FLOAT8)), "0.0")
        self.assertEqual(cells.tie("1 day", cells.TEXT), "1 day")


class Rows(unittest.TestCase):
    def differ(self, left, right, **how):
        return cells.rows_differ(left, right, **how)

    def test_multiset(self):
        self.assertIsNone(self.differ([(1,), (2,)], [(2,), (1,)]))
        self.assertIsNotNone(self.differ([(1,), (1,), (2,)], [(1,), (2,), (2,)]))
        self.assertIsNotNone(self.differ([(None,)], [(0,)]))
        self.assertIsNotNone(self.differ([("1",)], [(1,)]))
        self.assertIsNotNone(self.differ([(True,)], [(1,)]))

    def test_order(self):
        self.assertEqual(self.differ([(1,), (2,)], [(2,), (1,)], ordered=True), "order: row 1")
        self.assertIsNone(self.differ([(0.0,), (-0.0,)], [(-0.0,), (0.0,)], ordered=True))

    def test_numbers(self):
        number = decimal.Decimal
        self.assertIsNone(self.differ([(number("1.50"),)], [(number("1.5"),)]))
        self.assertIsNone(self.differ([(number("NaN"),)], [(number("NaN"),)]))
        self.assertIsNotNone(self.differ([(number("0.3"),)], [(0.1 + 0.2,)]))
        self.assertIsNotNone(self.differ([(0.0,)], [(-0.0,)]))
        self.assertIsNotNone(self.differ([(0.3,)], [(0.1 + 0.2,)]))
        self.assertIsNone(self.differ([(0.3,)], [(0.1 + 0.2,)], loose=True))
        self.assertIsNotNone(self.differ([(0.3,)], [(0.30001,)], loose=True))
        self.assertIsNone(self.differ([(float("nan"), 1)], [(float("nan"), 1)]))

    def test_close_floats_are_paired(self):
        self.assertIsNone(
            self.differ(
                [(1.0000005, "a"), (1.0000004999, "b")], [(1.0000004999999, "a"), (1.00000049990001, "b")], loose=True
            )
        )


if __name__ == "__main__":
    unittest.main()
