"""The changes of the tree apply, and options that belong together are given together."""

import contextlib
import io
import unittest

import mutate


class Options(unittest.TestCase):
    def test_the_trees_changes_apply_and_its_records_have_claims(self):
        self.assertEqual(mutate.main(["--check"]), 0)

    def test_an_option_of_the_engine_needs_bench(self):
        for wrong in (["--short"], ["--binary", "coscan"], ["--bench", "--only", "rahm-*"],
                      ["--fresh", "10"], ["--bench", "--fresh", "10", "--again"], ["--bench", "--commit", "HEAD"], ["--binary", "coscan", "--commit", "HEAD"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                mutate.parse(wrong)
        options = mutate.parse(["--bench", "--build-only", "reserve"])
        self.assertTrue(options.build_only and options.words == ["reserve"])


if __name__ == "__main__":
    unittest.main()
