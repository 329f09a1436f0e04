"""Each entry is about a claim that is there, and a claim counts once."""

import datetime
import unittest

import corrected
import mutations
import pages

CLAIMS = [{"text": "one is small"}, {"text": "two"}]


def entry(**more):
    return {"of": "a", "claims": ["one"], "wrong": "luck", "since": datetime.date(2026, 11, 28), **more}


class Corrected(unittest.TestCase):
    def test_a_claim_counts_once_and_only_for_its_result(self):
        entries = [entry(), entry(claims=["one is", "three"]), entry(of="b", claims=["two"])]
        self.assertEqual([corrected.count(entries, name, CLAIMS) for name in "abc"], [1, 1, 0])

    def test_an_entry_about_no_claim_is_refused(self):
        corrected.check([entry(), entry(of="engine", claims=["two"])], {"a": CLAIMS, "engine": CLAIMS})
        corrected.check([entry(of=name, claims=["one", "to be measured"], unmeasured=["to be"]) for name in ("engine", "a")], {"a": CLAIMS, "engine": CLAIMS})
        for wrong in (entry(claims=["one", "three"]), entry(of="b"), entry(when="x"), entry(of="engine"), entry(unmeasured=["two"]),
                      entry(of="engine", claims=["to be measured"], unmeasured=["to be measured"] + ["else"])):
            with self.assertRaisesRegex(corrected.Unknown, "CORRECTED-1"):
                corrected.check([wrong], {"a": CLAIMS})

    def test_a_row_says_what_was_wrong_and_until_when(self):
        rows = corrected.rows([entry(row=2, claims=["one", "two"]), entry()])
        self.assertEqual(rows[0], ["a", "*one …*; *two …*", "luck (row 2)", "2026-11-28"])
        self.assertEqual(len(pages.grid(["of", "claims", "wrong", "on"], rows)), 4, "a list, which is read more than once")

    def test_the_list_is_read(self):
        self.assertTrue(all(set(one) <= corrected.KNOWN for one in corrected.read(mutations.ROOT)))


if __name__ == "__main__":
    unittest.main()
