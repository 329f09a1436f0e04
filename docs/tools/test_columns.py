"""Prose and comments are measured, except for what cannot be wrapped."""

import unittest

import columns

LONG = "word " * 20 + "w"


class Prose(unittest.TestCase):
    def test_a_long_line_is_named_with_its_columns(self):
        self.assertEqual(list(columns.long_prose(f"# Title\n\n{LONG}\nshort\n")), [(3, 101)])

    def test_a_hundred_columns_are_enough(self):
        self.assertEqual(list(columns.long_prose("x" * 100)), [])

    def test_tables_code_and_targets_of_links_do_not_count(self):
        link = "[a page](" + "x" * 120 + ")"
        self.assertEqual(list(columns.long_prose(f"| {LONG} |\n```sh\n{LONG}\n```\nsee {link}\n")), [])

    def test_code_ends_with_its_fence(self):
        self.assertEqual(list(columns.long_prose(f"```\n{LONG}\n```\n{LONG}\n")), [(4, 101)])


class Comments(unittest.TestCase):
    def test_comments_are_measured_and_code_is_not(self):
        text = f"//! {LONG}\nlet long = \"{LONG}\";\n    /// {LONG}\n    // {LONG}\n"
        self.assertEqual([at for at, _ in columns.long_comments(text)], [1, 3, 4])

    def test_a_comment_after_code_is_measured(self):
        self.assertEqual([at for at, _ in columns.long_comments(f"let x = 1; // {LONG}\n")], [1])

    def test_a_url_in_a_string_is_no_comment(self):
        self.assertEqual(list(columns.long_comments(f'let x = "http://host/{LONG}";\n')), [])

    def test_tables_and_examples_in_comments_do_not_count(self):
        self.assertEqual(list(columns.long_comments(f"//! | {LONG} |\n//! ```sh\n//! {LONG}\n//! ```\n")), [])


if __name__ == "__main__":
    unittest.main()
