"""Promised: a tree prints as SQL, and a substitution changes every occurrence of a node and nothing else."""

import unittest

import tree


def made(*items, tail=None):
    select = tree.Node("select", ("SELECT ", tree.listed(list(items)), tree.option(" FROM ", tree.fixed("t"))))
    return tree.Node("query", (tree.EMPTY, select), tail=tail)


class Text(unittest.TestCase):
    def test_literals(self):
        for kind, value, form, want in (
            ("int4", "-1", "plain", "(-1)"),
            ("int4", "5", "cast", "'5'::int4"),
            ("text", "x'y", "plain", "'x''y'"),
            ("numeric", "1e5", "plain", "'1e5'::numeric"),
            ("date", "2024-01-01", "plain", "date '2024-01-01'"),
            ("int8", None, "cast", "NULL::int8"),
            ("int4", "-2147483648", "plain", "'-2147483648'::int4"),
        ):
            self.assertEqual(tree.literal_text(tree.literal(kind, value, form)), want)

    def test_a_total_order_names_every_column(self):
        tail = tree.Tail(("", " DESC"), "5", "1")
        self.assertEqual(
            tree.text(made(tree.fixed("a"), tree.fixed("b"), tree.fixed("c"), tail=tail)),
            "SELECT a, b, c FROM t ORDER BY 1, 2 DESC, 3 LIMIT 5 OFFSET 1",
        )

    def test_a_shared_parameter_has_one_number(self):
        shared, other = tree.literal("int4", "1", "text"), tree.literal("int4", "1", "text")
        text = tree.Text(made(shared, other, shared))
        self.assertEqual((text.text, len(text.parameters)), ("SELECT $1, $2, $1 FROM t", 2))


class Substitute(unittest.TestCase):
    def test_every_place_and_no_other(self):
        key = tree.column("g", "int4")
        root = made(key, tree.expr("int4", "", "(", key, " + ", tree.literal("int4", "1"), ")"))
        self.assertEqual(tree.text(tree.substitute(root, key, tree.literal("int4", "7"))), "SELECT 7, (7 + 1) FROM t")
        self.assertEqual(tree.text(root), "SELECT g, (g + 1) FROM t")


if __name__ == "__main__":
    unittest.main()
