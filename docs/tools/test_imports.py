"""Imports are found wherever Rust writes them, and circles beyond parent and child are named."""

import tempfile
import unittest
from pathlib import Path

import imports


def crate(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return imports.load(Path(folder))


def graph(files, path=()):
    modules = crate(files)
    return imports.inside(path, modules, imports.arrows(modules))


class Imports(unittest.TestCase):
    def test_trees_paths_in_code_and_super_are_imports(self):
        found = graph({
            "lib.rs": "mod a; mod b; mod c; mod d; mod e;",
            "a.rs": "use crate::{b::B, c::{self, C as D}};\nfn f() { let x = super::d::g(crate::e::E); }",
            "b.rs": "pub struct B;", "c.rs": "pub struct C;", "d.rs": "pub fn g() {}", "e.rs": "pub struct E;",
        })
        self.assertEqual(found, {"a": {"b", "c", "d", "e"}, "b": set(), "c": set(), "d": set(), "e": set()})

    def test_a_name_belongs_to_the_module_that_defines_it(self):
        found = graph({
            "lib.rs": "mod a; mod b; mod c;\npub use b::B;\npub use c::*;",
            "a.rs": "use crate::{B, C};", "b.rs": "pub struct B;", "c.rs": "mod inner; pub use inner::C;",
            "c/inner.rs": "pub enum C {}",
        })
        self.assertEqual(found["a"], {"b", "c"})

    def test_a_folder_counts_as_one_module_with_everything_inside(self):
        files = {
            "lib.rs": "mod a; mod b;", "a/mod.rs": "mod deep;", "a/deep.rs": "use crate::b::inner::X;",
            "b.rs": "pub mod inner;", "b/inner.rs": "pub struct X;",
        }
        self.assertEqual(graph(files), {"a": {"b"}, "b": set()})
        self.assertEqual(graph(files, ("a",)), {"deep": set()})

    def test_tests_comments_and_strings_are_left_out(self):
        found = graph({
            "lib.rs": "mod a; mod b; #[cfg(test)] mod t;",
            "a.rs": "// use crate::b::B;\nconst S: &str = \"crate::b::B\";\n/// [`crate::b::B`]\nfn f<'a>(x: &'a str) {}\n"
                    "#[cfg(test)]\nmod tests { use crate::b::B; }\n",
            "b.rs": "pub struct B;", "t.rs": "use crate::{a, b};",
        })
        self.assertEqual(found, {"a": set(), "b": set()})

    def test_code_after_a_test_counts(self):
        found = graph({"lib.rs": "mod a; mod b;", "b.rs": "pub struct B;",
                       "a.rs": "#[cfg(test)]\nuse std::fmt::Debug;\nuse crate::b::B;"})
        self.assertEqual(found["a"], {"b"})

    def test_another_crate_is_no_import(self):
        self.assertEqual(graph({"lib.rs": "mod a; mod std;", "a.rs": "use std::fmt;", "std.rs": ""})["a"], set())


class Circles(unittest.TestCase):
    def test_a_circle_between_siblings_is_named(self):
        modules = crate({"lib.rs": "mod a; mod b; mod c;", "a.rs": "use crate::b::B; pub struct A;",
                         "b.rs": "use crate::c::C; pub struct B;", "c.rs": "use crate::a::A; pub struct C;"})
        self.assertEqual(imports.all_circles(modules), [("(root)", ("a", "b", "c"))])

    def test_a_circle_inside_of_a_folder_is_named(self):
        modules = crate({"lib.rs": "mod a;", "a/mod.rs": "mod x; mod y;", "a/x.rs": "use super::y::Y; pub struct X;",
                         "a/y.rs": "use super::x::X; pub struct Y;"})
        self.assertEqual(imports.all_circles(modules), [("a", ("x", "y"))])

    def test_parent_and_child_may_import_each_other(self):
        modules = crate({"lib.rs": "mod a;", "a/mod.rs": "mod x; use x::X; pub struct A;",
                         "a/x.rs": "use super::A; pub struct X;"})
        self.assertEqual(imports.all_circles(modules), [])

    def test_the_list_can_only_shrink(self):
        circle, other = ("(root)", ("a", "b")), ("(root)", ("c", "d"))
        self.assertEqual(list(imports.compare("k", [circle], [circle])), [])
        self.assertEqual(list(imports.compare("k", [circle, other], [circle])), ["k: a circle in (root): c d"])
        self.assertIn("take it off", next(imports.compare("k", [], [circle])))

    def test_the_core_and_the_simulator_are_not_on_the_list(self):
        self.assertFalse({"core", "sim"} & set(imports.CIRCLES))


class Drawing(unittest.TestCase):
    def test_text_and_dot(self):
        modules = crate({"lib.rs": "mod a; mod bc;", "a.rs": "use crate::bc::B;", "bc.rs": "pub struct B;"})
        self.assertEqual(imports.draw(modules, (), False), "a  -> bc\nbc -> (none)")
        self.assertIn('"a" -> "bc";', imports.draw(modules, (), True))


if __name__ == "__main__":
    unittest.main()
