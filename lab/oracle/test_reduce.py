"""Promised: a difference shrinks to what causes it, and a total order stays total (R1, R2)."""

import random
import unittest

import data
import reduce
import tree
from generator import queries


def drawn(seed, count):
    generator = queries.Generator(random.Random(seed), data.tables(1, 0.1))
    return [generator.statement() for _ in range(count)]


class Reduce(unittest.TestCase):
    def test_one_function_remains_of_a_large_statement(self):
        tried = 0
        for statement in drawn(3, 1200):
            found = [node for node in statement.root.walk() if node.tag.startswith("concat(")]
            if not found:
                continue
            tried += 1
            tag = found[0].tag
            minimal = reduce.reduce(statement.root, lambda root: tag in tree.tags(root))
            self.assertLess(tree.size(minimal), 12, tree.text(minimal))
            self.assertIn("concat(", tree.text(minimal))
        self.assertGreater(tried, 2)

    def test_candidates_are_other_trees(self):
        for statement in drawn(4, 30):
            before = tree.text(statement.root)
            for candidate in reduce.candidates(statement.root):
                self.assertIsInstance(tree.text(candidate), str)
            self.assertEqual(tree.text(statement.root), before)

    def test_a_frozen_order_is_kept(self):
        key = tree.column("q.k", "int8")
        root = tree.Node(
            "query",
            (
                tree.EMPTY,
                tree.Node(
                    "select",
                    (
                        "SELECT ",
                        tree.listed([tree.expr("text", "agg", "string_agg(q.t, ',' ORDER BY ", tree.frozen(key), ")")]),
                    ),
                ),
            ),
        )
        minimal = reduce.reduce(root, lambda candidate: "agg" in tree.tags(candidate))
        self.assertIn("ORDER BY q.k", tree.text(minimal))

    def test_the_first_tree_stays_if_nothing_smaller_shows_it(self):
        statement = drawn(5, 1)[0]
        self.assertIs(reduce.reduce(statement.root, lambda _: False), statement.root)


if __name__ == "__main__":
    unittest.main()
