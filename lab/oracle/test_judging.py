"""Promised: answers are judged by the rules of `asking.py` and `causes.py`, and a run cannot pass by refusing."""

import tempfile
import unittest

import asking
import causes
import expressions
import rewrites
import tree
import wire


def answer(*rows, oid=23, error=None):
    made = wire.Answer()
    made.columns, made.rows = [("c", oid, 0)], [tuple(row) for row in rows]
    made.error = error and {"C": error[0], "M": error[1]}
    return made


PLAIN = asking.Sent("select", None, False, False)


class Compare(unittest.TestCase):
    def kind(self, reference, tested):
        found = asking.compare(PLAIN, reference, tested)
        return found and found.kind

    def test_kinds(self):
        good, zero = answer((b"1",)), answer(error=("22012", "division by zero"))
        self.assertIsNone(self.kind(good, answer((b"1",))))
        self.assertEqual(self.kind(good, answer((b"2",))), "rows")
        self.assertEqual(self.kind(good, answer((b"1",), oid=20)), "type")
        self.assertEqual(self.kind(good, zero), "refused")
        self.assertEqual(self.kind(zero, good), "answered")
        self.assertIsNone(self.kind(zero, answer(error=("22003", "other"))))
        self.assertEqual(self.kind(zero, answer(error=("XX000", "other"))), "state")
        self.assertEqual(self.kind(good, wire.Lost("gone")), "lost")

    def test_shapes_keep_names_of_functions_only(self):
        shape = asking.Difference("refused", "42883 Invalid function 'mod'.\nDid you mean 'abs'?", "", "").shape()
        self.assertEqual(shape, "# Invalid function 'mod'.")
        self.assertEqual(
            asking.Difference("refused", "22P02 Cannot cast string 'x' to 12", "", "").shape(),
            "#P# Cannot cast string _ to #",
        )


def counted(rows=10, empty=0, refused=0, wrong=0, rules=(), answered=0, unneeded=0):
    found = causes.Causes(rules)
    root = tree.expr("int4", "f()", "f()")
    for number in range(rows + empty):
        found.saw(answer((b"1",)) if number < rows else answer(), root, True)
    for kind, count in (("refused", refused), ("rows", wrong), ("answered", answered), ("moment", unneeded)):
        for _ in range(count):
            found.add(asking.Difference(kind, "detail", "1", "2"), root, "select f()")
    return found


class Verdict(unittest.TestCase):
    def test_passes(self):
        self.assertEqual(counted(200, 100, 2).judged(), [])

    def test_fails(self):
        self.assertIn("wrong answers", counted(wrong=1).judged()[0])
        self.assertIn("refused", counted(100, 0, 2).judged()[0])
        self.assertIn("PostgreSQL refuses", counted(100, answered=1).judged()[0])
        self.assertIn("did not need", counted(100, unneeded=1).judged()[0])
        self.assertIn("return rows", counted(10, 11).judged()[0])

    def test_an_accepted_difference_is_no_fault(self):
        rule = causes.Accepted("rows", r"^select f\(\)$", "f", "it is meant to differ")
        self.assertEqual(counted(wrong=1, rules=[rule]).judged(), [])
        self.assertIn("1 ×", counted(wrong=1, rules=[rule]).page("t"))

    def test_differences_of_the_same_parts_are_one_cause(self):
        found = counted(wrong=3)
        self.assertEqual([(cause.count, len(cause.examples)) for cause in found.causes.values()], [(3, 1)])

    def test_the_list_is_readable(self):
        for rule in causes.accepted():
            self.assertTrue(rule.kind in causes.ORDER and rule.cause and rule.reason, rule)

    def test_only_zeros_of_a_fraction_may_be_missing(self):
        covers = lambda has, wanted: any(  # noqa: E731
            rule.covers("rows", "select", f"column 1: '{has}' instead of '{wanted}'") for rule in causes.accepted()
        )
        for has, wanted in (("11", "11.0000"), ("1.5", "1.500"), ("a 2.5", "a 2.50")):
            self.assertTrue(covers(has, wanted))
        for has, wanted in (("11", "110"), ("1.5", "1.6"), ("1.5", "1.501"), ("1", "1."), ("a", "a0"), ("1.50", "1.5")):
            self.assertFalse(covers(has, wanted), (has, wanted))


class Expressions(unittest.TestCase):
    def test_alike(self):
        self.assertTrue(expressions.alike("1.50", answer((b"1.5",), oid=1700)))
        self.assertFalse(expressions.alike("1.50", answer((b"1.5",), oid=25)))
        self.assertTrue(expressions.alike("1; 2", answer((b"1",), (b"2",))))
        self.assertTrue(expressions.alike("error 22012 division by zero", answer(error=("22012", "division by zero"))))
        self.assertFalse(expressions.alike("1", answer(error=("22012", "division by zero"))))

    def test_the_file_is_read(self):
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
            file.write("kind\tstatement\tanswer\nnum\tselect 1\t1\n")
            file.flush()
            self.assertEqual(expressions.entries(file.name), [("num", "select 1", "1")])


class Rewrites(unittest.TestCase):
    def statement(self):
        predicate = tree.expr("bool", "p", "x > 1")
        select = tree.Node(
            "select",
            (
                "SELECT ",
                tree.listed([tree.fixed("x")]),
                tree.option(" FROM ", tree.fixed("t")),
                tree.option(" WHERE ", tree.listed([predicate], " AND ")),
            ),
        )
        return tree.Node("query", (tree.EMPTY, select))

    def test_lost_and_doubled_rows_are_found(self):
        import random

        tlp, norec = rewrites.rewrites(self.statement(), random.Random(1))
        self.assertEqual(
            tlp.parts()[1],
            [
                "SELECT x FROM t WHERE x > 1",
                "SELECT x FROM t WHERE (NOT x > 1)",
                "SELECT x FROM t WHERE (x > 1) IS NULL",
            ],
        )
        for made, good, bad in (
            (tlp, [[b"1", b"2"], [b"2"], [b"1"], []], [[b"1", b"2"], [b"2"], [b"2"], []]),
            (norec, [[b"1", b"0"], [b"1"]], [[b"1", b"0"], []]),
        ):
            for lists, fails in ((good, False), (bad, True)):
                answers = iter([answer(*([cell] for cell in cells)) for cells in lists])
                self.assertEqual(made.difference(lambda _, answers=answers: next(answers)) is not None, fails)


if __name__ == "__main__":
    unittest.main()
