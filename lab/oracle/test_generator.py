"""Promised: a seed fixes the statements, and the generator draws every clause, form and signature."""

import random
import unittest

import data
import tree
from generator import expressions, queries, signatures


def texts(seed, count):
    generator = queries.Generator(random.Random(seed), data.tables(1, 0.1))
    return [tree.Text(generator.statement().root) for _ in range(count)]


class Seeds(unittest.TestCase):
    def test_a_seed_fixes_the_statements(self):
        one, two = ([text.text for text in texts(9, 40)] for _ in range(2))
        self.assertEqual(one, two)
        self.assertNotEqual(one, [text.text for text in texts(10, 40)])

    def test_a_seed_fixes_the_rows(self):
        self.assertEqual(*(data.copy_text(data.tables(5, 0.1)[0].rows) for _ in range(2)))


class Reach(unittest.TestCase):
    def test_clauses(self):
        generator = queries.Generator(random.Random(1), data.tables(1, 0.1))
        seen = set()
        for _ in range(4000):
            seen |= tree.tags(generator.statement().root)
        wanted = {
            "WITH",
            "DISTINCT",
            "HAVING",
            "ROLLUP",
            "CUBE",
            "GROUPING SETS",
            "LATERAL",
            "VALUES",
            "derived table",
            "FULL JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "UNION ALL",
            "EXCEPT ALL",
            "INTERSECT ALL",
            "UNION",
            "EXISTS",
            "NOT EXISTS",
            "IN subquery",
            "NOT IN subquery",
            "row IN subquery",
            "scalar subquery",
            "ARRAY(subquery)",
            "FILTER",
            "DISTINCT in aggregate",
            "PARTITION BY",
            "row_number OVER",
            "lag OVER",
            "frame ROWS",
            "frame GROUPS EXCLUDE TIES",
            "percentile_cont",
        }
        self.assertEqual(wanted - seen, set())

    def test_parameters_in_every_form(self):
        forms = {node.form for text in texts(2, 800) for node in text.parameters}
        self.assertEqual(forms, set(expressions.FORMS))

    def test_signatures(self):
        found = signatures.load()
        self.assertIn("int4 + int8", {s.tag for s in found["scalar"]["int8"]["operator +"]})
        self.assertGreater(sum(len(f) for families in found["scalar"].values() for f in families.values()), 1000)
        slot = next(
            part
            for part in found["scalar"]["bool"][
                "{text} LIKE {text:'a#%b'|'%#_%'|'##'} ESCAPE {text:'#'}".replace("{text}", "_")
                .replace("{text:'a#%b'|'%#_%'|'##'}", "_")
                .replace("{text:'#'}", "_")
            ][0].parts
            if isinstance(part, signatures.Slot) and part.values
        )
        self.assertEqual(slot.values, ("a#%b", "%#_%", "##"))


if __name__ == "__main__":
    unittest.main()
