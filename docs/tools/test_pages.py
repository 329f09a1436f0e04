"""A result is shown as it is written: no digit is lost, and figures that fall short are bold."""

import contextlib
import io
import json
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import pages


def result(**more):
    base = {"question": "How fast?", "commands": ["run"], "commit": "0123abc", "date": "2026-11-23", "machine": "here",
            "spread": "one run", "tables": [{"columns": [{"key": "what", "title": ""}, {"key": "ours", "title": "Coscan", "unit": "s"},
                                                         {"aim_of": "ours", "title": "aim"}],
                                             "rows": [{"what": "Q1", "ours": {"value": 1.50, "at_most": 1.2}}]}]}
    return {**base, **more}


def read(value):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return pages.load(path)


def docs(folder, results, template="# T\n\n<!-- headline -->\n\n<!-- results: s -->\n"):
    folder = Path(folder)
    (folder / "templates").mkdir()
    (folder / "templates" / "BENCHMARKS.md.in").write_text(template, encoding="utf-8")
    (folder / "templates" / "REPRODUCTION.md.in").write_text("# R\n", encoding="utf-8")
    (folder / "templates" / "CLAIMS.md.in").write_text("# C\n", encoding="utf-8")
    (folder / "machines.json").write_text('{"here": "a machine"}', encoding="utf-8")
    for name, one in results.items():
        path = folder / "results" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one), encoding="utf-8")
    return folder


class Cells(unittest.TestCase):
    def test_digits_are_those_of_the_file(self):
        self.assertEqual(pages.cell_text(read("[1.00]")[0], "s"), "1.00 s")
        self.assertEqual(pages.cell_text(read("[25.0]")[0]), "25.0")
        self.assertEqual(pages.cell_text(Decimal("1095000")), "1,095,000")
        self.assertEqual(pages.cell_text(Decimal("4186")), "4186")

    def test_what_misses_its_aim_is_bold(self):
        self.assertEqual(pages.cell_text({"value": Decimal("1.28"), "at_least": Decimal("1.3")}), "**1.28**")
        self.assertEqual(pages.cell_text({"value": Decimal("1.30"), "at_least": Decimal("1.3")}), "1.30")
        self.assertEqual(pages.cell_text({"value": Decimal("27"), "at_most": Decimal("20")}, "µs"), "**27 µs**")
        self.assertEqual(pages.cell_text({"value": Decimal("1"), "short": True}), "**1**")

    def test_the_spread_stands_beside_the_figure(self):
        runs = [Decimal("0.81"), Decimal("0.43"), Decimal("0.76")]
        self.assertEqual(pages.cell_text({"value": Decimal("0.76"), "runs": runs, "at_most": Decimal("0.65")}), "**0.76** (0.43 to 0.81)")
        self.assertEqual(pages.cell_text({"value": Decimal("3.2"), "low": Decimal("2.8"), "high": Decimal("3.8")}, "s"), "3.2 s (2.8 to 3.8)")

    def test_times_are_shown_in_the_unit_that_fits(self):
        for seconds, text in [("0.0869", "86.9 ms"), ("0.475", "475 ms"), ("1.20", "1.20 s"), ("0.0000280", "28.0 µs"), ("70.6", "70.6 s")]:
            self.assertEqual(pages.cell_text(Decimal(seconds), "time"), text)

    def test_aims_are_written_as_bounds(self):
        self.assertEqual(pages.aim({"at_most": Decimal("20")}, "µs"), "≤ 20 µs")
        self.assertEqual(pages.aim({"at_least": Decimal("25"), "at_most": Decimal("35")}, "%"), "≥ 25 %, ≤ 35 %")


class Reports(unittest.TestCase):
    report = {"experiment": "x", "seeds": 20,
              "rows": [{"label": "a (s)", "paper": 284.0, "ours": 256.2, "p05": 207, "p95": 309},
                       {"label": "b", "paper": 1404.0, "ours": 1054, "p05": 854, "p95": 1198},
                       {"label": "hidden", "paper": None, "ours": 0.5, "p05": 0.4, "p95": 0.6}],
              "claims": [{"text": "one", "holds": True, "evidence": "e"}, {"text": "two", "holds": False, "evidence": "seen"}]}

    def test_figures_outside_the_papers_are_bold_and_failed_claims_are_listed(self):
        text = "\n".join(pages.report_lines({**read(self.report), "shown": "^[ab]"}))
        self.assertIn("| a (s) | 284 | 256 | 207 to 309 |", text)
        self.assertIn("| b | 1404 | **1054** | 854 to 1198 |", text)
        self.assertIn("1 of 2 claims hold, 1 of them unproven. **These fall short**:", text)
        self.assertIn("- two: seen", text)
        self.assertNotIn("hidden", text)
        self.assertNotIn("- one", text)

    def test_a_claim_is_proven_by_the_change_with_which_it_failed(self):
        proven = {"text": "three", "holds": True, "evidence": "e3", "fresh": {"held": 9, "of": 10},
                  "mutation": {"changed": "x.rs: 2 for 1", "seen": "e4"}}
        claims = [*self.report["claims"], proven]
        text = "\n".join(pages.claim_lines(claims, "how"))
        self.assertIn("2 of 3 claims hold, 1 of them unproven ([how the others fail](CLAIMS.md#how)). **These", text)
        text = "\n".join(pages.change_lines({"question": "How?", "report": {"claims": claims}}))
        self.assertIn("| three | e3 (9 of 10 fresh seeds) | x.rs: 2 for 1 | e4 |", text)
        self.assertIn("Unproven:\n\n- one: e", text)
        self.assertNotIn("two", text)
        sections = {"a-b": [(1, "x", {"report": {"claims": claims}}), (2, "y", {"tables": []})]}
        self.assertEqual(pages.tally(sections, ["a-b"], [])[-1], "| a b | 3 | 1 | 1 | 1 | 1 | 0 |")
        self.assertEqual(pages.claim_words(sections, [], "x", "thr"), "holds (9 of 10 fresh seeds); fails with *x.rs: 2 for 1*")
        self.assertEqual(pages.claim_words(sections, [], "x", "two"), "does not hold")
        for held, of, word in ((8, 10, "fails"), (9, 10, "holds"), (17, 20, "fails"), (18, 20, "holds"), (0, 9, "holds")):
            self.assertEqual(pages.verdict({**proven, "fresh": {"held": held, "of": of}}), word, f"{held} of {of}")
        rarely = {**proven, "fresh": {"held": 1, "of": 10}}
        self.assertEqual(pages.change_lines({"question": "How?", "report": {"claims": [rarely]}})[-1], "No claim holds.")
        self.assertIn("- three: e3 (1 of 10 fresh seeds)", "\n".join(pages.claim_lines([rarely])))
        with self.assertRaisesRegex(pages.Wrong, "2 claims of x begin with 't'"):
            pages.claim_words(sections, [], "x", "t")

    def test_claims_of_the_engine_count_beside_those_of_results(self):
        engine = [{"text": "one", "holds": True, "evidence": "e1", "command": "coscan bench a --x 1",
                   "mutation": {"changed": "x.rs: 2 for 1", "seen": "e2"}},
                  {"text": "two", "holds": True, "evidence": "e", "command": "coscan bench b"}]
        self.assertEqual(pages.tally({}, [], engine)[-1], "| on the engine | 2 | 1 | 0 | 1 | 0 | 0 |")
        entries = [{"of": "engine", "claims": ["on", "one", "three"]}, {"of": "x", "claims": ["two"]}]
        self.assertEqual(pages.tally({}, [], engine, entries)[-1], "| on the engine | 2 | 1 | 0 | 1 | 0 | 1 |", "a claim counts once")
        self.assertEqual(pages.claim_words({}, engine, "engine", "one"), "holds; fails with *x.rs: 2 for 1*")
        self.assertEqual(pages.claim_words({}, engine, "engine", "three"), "to be measured")
        text = "\n".join(pages.engine_lines(engine))
        self.assertIn("### `coscan bench a`\n\n| claim |", text)
        self.assertIn("| one | e1 | x.rs: 2 for 1 | e2 |\n\n```sh\ncoscan bench a --x 1\n```", text)
        self.assertIn("### `coscan bench b`\n\nUnproven:\n\n- two: e\n\n```sh\ncoscan bench b\n```", text)
        self.assertEqual(pages.engine_lines([]), ["None of these changes has been made yet."])

    def test_a_pivot_takes_its_places_from_the_labels(self):
        rows = [{"label": f"{place}, {policy}, {share} %: price", "paper": None, "ours": value, "p05": value, "p95": value}
                for place, policy, share, value in [("disk", "greedy", 1, 4), ("disk", "greedy", 5, 9), ("flash", "greedy", 1, 2),
                                                    ("flash", "elastic", 1, 1.5), ("disk", "elastic", 1, 3)]]
        pivot = {"title": "T", "pattern": "^(?P<column>disk|flash), (?P<row>[a-z]+), .*: price$", "of_many": "highest"}
        self.assertEqual(pages.pivot_lines(read(rows), pivot)[0::2], ["|  | disk | flash |", "| greedy | 9.00 | 2.00 |"])
        mean = pages.pivot_lines(read(rows), {**pivot, "of_many": "geometric mean"})
        self.assertIn("| greedy | 6.00 (4.00 to 9.00) | 2.00 (2.00 to 2.00) |", mean)
        self.assertEqual(pages.pivot_lines(read(rows[2:]), pivot)[-1], "| elastic | 1.50 | 3.00 |")
        self.assertIn("| greedy | 2.00 |  |", pages.pivot_lines(read(rows[2:]), pivot), "a place without a figure is empty")


class Pages(unittest.TestCase):
    def test_a_page_has_its_results_in_order_and_the_headline_links_to_them(self):
        first = result(question="First?", order=1, headline=[{"question": "the first", "row": "Q1", "ours": "ours"}])
        with tempfile.TemporaryDirectory() as folder:
            folder = docs(folder, {"s/b": first, "s/a": result(question="Second?")})
            text = pages.pages(folder)[folder / "BENCHMARKS.md"]
        self.assertLess(text.index("### First?"), text.index("### Second?"))
        self.assertIn("| [the first](#first) | **1.5 s** | ≤ 1.2 s |", text)
        self.assertIn("[s/b.json](results/s/b.json): 0123abc, 2026-11-23; one run; on here.", text)

    def test_a_headline_of_a_missing_row_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(pages.Wrong, "Q9"):
                pages.pages(docs(folder, {"s/a": result(headline=[{"question": "it", "row": "Q9", "ours": "ours"}])}))

    def test_a_result_that_no_page_shows_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(pages.Wrong, "P1.*other"):
                pages.pages(docs(folder, {"other/a": result()}))

    def test_the_readme_keeps_its_words_and_has_the_figures(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "docs"
            folder.mkdir()
            docs(folder, {"s/b": result(headline=[{"question": "it", "row": "Q1", "ours": "ours"}])})
            readme = Path(parent) / "README.md"
            readme.write_text("# R\n\n<!-- figures: s/b -->\n\n| old |\n|---|\n| 9 |\n\nWords.\n", encoding="utf-8")
            text = pages.pages(folder)[readme]
            self.assertIn("| [it](docs/BENCHMARKS.md#how-fast) | **1.5 s** | ≤ 1.2 s |\n\nWords.\n", text)
            self.assertNotIn("old", text)
            readme.write_text(text, encoding="utf-8")
            self.assertEqual(pages.pages(folder)[readme], text)
            readme.write_text("<!-- figures: s/c -->\n", encoding="utf-8")
            with self.assertRaisesRegex(pages.Wrong, "s/c"):
                pages.pages(folder)

    def test_the_roadmap_has_every_figure_that_falls_short(self):
        good = result(question="Fine?")
        good["tables"][0]["rows"][0]["ours"] = {"value": 1, "at_most": 1.2}
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "docs"
            folder.mkdir()
            docs(folder, {"s/b": result(), "s/c": good})
            (folder / "ROADMAP.md").write_text("<!-- figures that fall short -->\n\nMore.\n", encoding="utf-8")
            text = pages.pages(folder)[folder / "ROADMAP.md"]
        self.assertIn("| [How fast?](BENCHMARKS.md#how-fast) | Q1, Coscan | **1.5 s** | ≤ 1.2 s |\n\nMore.\n", text)
        self.assertNotIn("Fine?", text)

    def test_a_key_that_is_not_described_is_refused(self):
        wrong = [(result(speed=1), "P2"), (result(machine="there"), "machines.json"), (result(commit="new"), "commit"),
                 (result(notes=["One. Two."]), "notes"), (result(notes=["One."] * 3), "notes"), (result(commands=[]), "command")]
        for one, message in wrong:
            with tempfile.TemporaryDirectory() as folder:
                with self.assertRaisesRegex(pages.Wrong, message):
                    pages.pages(docs(folder, {"s/a": one}))

    def test_check_fails_if_a_page_was_edited(self):
        with tempfile.TemporaryDirectory() as folder:
            made = pages.pages(docs(folder, {"s/a": result()}))
            pages.write(made)
            self.assertEqual(pages.check(made), 0)
            path = next(iter(made))
            path.write_text(path.read_text(encoding="utf-8").replace("1.5 s", "1.1 s"), encoding="utf-8")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(pages.check(made), 1)
            self.assertIn("run docs/tools/pages.py", said.getvalue())

    def test_files_are_written_as_they_are_read(self):
        text = pages.pretty(read('{"a": 1.00, "b": ["long" ], "c": {"d": 0.0869}}'))
        self.assertEqual(pages.pretty(read(text)), text)
        self.assertIn("1.00", text)


if __name__ == "__main__":
    unittest.main()
