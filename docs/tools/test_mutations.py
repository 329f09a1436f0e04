"""A change applies at one place, and a number in the environment chooses it."""

import tempfile
import unittest
from pathlib import Path

import mutations


def change(**more):
    return {"file": "a/x.rs", "says": "2 for 1", "from": "{ «1» }", "to": "2", **more}


class Changes(unittest.TestCase):
    def test_a_change_applies_at_one_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a/x.rs"
            path.parent.mkdir()
            for code, wrong in [("fn one() -> u8 { 1 }", 0), ("{ 1 } { 1 }", 1), ("3", 1)]:
                path.write_text(code, encoding="utf-8")
                self.assertEqual(len(list(mutations.misplaced([change()], Path(folder), "list"))), wrong, code)
            path.write_text("{ 1 }", encoding="utf-8")
            self.assertIn("two changes", next(mutations.misplaced([change(), change()], Path(folder), "list")))
            self.assertIn("must mark", next(mutations.misplaced([change(**{"from": "{ 1 }"})], Path(folder), "list")))

    def test_a_number_chooses_the_expression(self):
        file = "lab/sim/src/x.rs"
        changes = [change(file=file), change(file="lab/sim/src/y.rs"), change(file=file, to="3"), change(file=file, **{"from": "«two»()", "to": "one"})]
        code = mutations.switched(file, "fn one() { 1 } two()", changes)
        self.assertEqual(code, "fn one() { (if coscan_core::is_mutant(1) { 2 } else if coscan_core::is_mutant(3) { 3 } else { 1 }) } "
                               "(if coscan_core::is_mutant(4) { one } else { two })()")
        with self.assertRaisesRegex(SystemExit, "overlap"):
            mutations.switched(file, "{ 1 }", [change(file=file), change(file=file, **{"from": "«{ 1 }»"})])

    def test_a_program_of_another_list_refuses_the_number(self):
        code = mutations.switched("crates/core/src/lib.rs", "", [change()])
        name, other = mutations.list_name([change()]), mutations.list_name([change(to="3")])
        self.assertNotEqual(name, other)
        self.assertIn(f'strip_prefix("{name}:")', code)
        self.assertIn(f"this program has the changes {name} and", code)
        self.assertEqual(mutations.environment([change()], 7)["COSCAN_MUTANT"], f"{name}:7")

    def test_a_copy_has_the_files_of_the_tree_and_no_others(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "copy"
            (copy / "crates").mkdir(parents=True)
            (copy / "crates/gone.rs").write_text("", encoding="utf-8")
            mutations.copy_tree(copy, [])
            self.assertFalse((copy / "crates/gone.rs").exists())
            manifest = copy / "Cargo.toml"
            self.assertEqual(manifest.read_bytes(), (mutations.ROOT / "Cargo.toml").read_bytes())
            says = (copy / mutations.VERSION_FILE).read_text(encoding="utf-8")
            self.assertIn(f'"\\ncommit {mutations.tree_commit()}"), ', says, "its program says the commit")
            before = manifest.stat().st_mtime_ns
            mutations.copy_tree(copy, [])
            self.assertEqual(manifest.stat().st_mtime_ns, before, "a file that is alike is not written")
            with self.assertRaisesRegex(SystemExit, "no crate of SWITCH"):
                mutations.copy_tree(copy, [change()])
            with self.assertRaisesRegex(SystemExit, "mend VERSION"):
                mutations.versioned("fn main() {}", "1234567")


if __name__ == "__main__":
    unittest.main()
