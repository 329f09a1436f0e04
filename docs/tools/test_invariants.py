"""Citations need a definition, a definition has one place, and covered folders have no bare numbers."""

import unittest

import invariants

PAGE = {"docs/design/abm.md": "- **ABM-I1** A segment is loading once.\n- **ABM-I10** They agree.\n"}


def undefined(texts):
    places, _ = invariants.definitions(texts)
    return list(invariants.undefined(texts, places))


class Citations(unittest.TestCase):
    def test_a_number_that_a_page_defines_may_be_cited(self):
        self.assertEqual(undefined({**PAGE, "a.rs": "// ABM-I1, ABM-I10.\n"}), [])

    def test_an_undefined_number_is_named_with_its_line(self):
        self.assertEqual(undefined({**PAGE, "a.rs": "\nassert!(x, \"ABM-I2: no\");\n"}),
                         ["a.rs:2: ABM-I2 is defined nowhere"])

    def test_an_unknown_prefix_is_named(self):
        self.assertEqual(undefined({**PAGE, "a.rs": "// POOL-3\n"}), ["a.rs:1: POOL-3 is defined nowhere"])

    def test_standards_are_no_invariants(self):
        self.assertEqual(undefined({"a.rs": "// UTF-8, SHA-256, AVX-512, CRC-32\n"}), [])


class Definitions(unittest.TestCase):
    def test_a_header_defines_what_its_sentences_begin_with(self):
        places, wrong = invariants.definitions({"a.rs": "//! How?\n//! LOG-I1: it is read back. LOG-I2 so is that.\n"})
        self.assertEqual((places, wrong), ({"LOG-I1": "a.rs", "LOG-I2": "a.rs"}, []))

    def test_a_comment_below_the_header_defines_nothing(self):
        self.assertEqual(undefined({"a.rs": "//! How?\n\n// LOG-I1: it is read back.\n"}),
                         ["a.rs:3: LOG-I1 is defined nowhere"])

    def test_a_python_file_defines_in_its_docstring(self):
        places, _ = invariants.definitions({"a.py": '#!/usr/bin/env python3\n"""How?\n\nSIZE-1: they add up.\n"""\n'})
        self.assertEqual(places, {"SIZE-1": "a.py"})

    def test_headers_may_repeat_what_a_page_defines(self):
        _, wrong = invariants.definitions({**PAGE, "a.rs": "//! ABM-I1: once.\n", "b.rs": "//! ABM-I1: once.\n"})
        self.assertEqual(wrong, [])

    def test_two_headers_without_a_page_are_wrong(self):
        _, wrong = invariants.definitions({"a.rs": "//! LOG-I1: a.\n", "b.rs": "//! LOG-I1: b.\n"})
        self.assertEqual(len(wrong), 1)

    def test_two_pages_are_wrong(self):
        _, wrong = invariants.definitions({**PAGE, "docs/design/b.md": "**ABM-I1** also\n"})
        self.assertEqual(len(wrong), 1)


class Bare(unittest.TestCase):
    def test_a_covered_folder_has_no_bare_numbers(self):
        texts = {"crates/core/src/a.rs": "// (I5)\n", "crates/storage/src/a.rs": "// (I5)\n",
                 "crates/core/src/smooth/a.rs": "// I11\n", "crates/core/src/b.rs": "// ABM-I5, I16x\n"}
        self.assertEqual(list(invariants.bare(texts)), ["crates/core/src/a.rs:1: I5 has no owner's prefix"])


if __name__ == "__main__":
    unittest.main()
