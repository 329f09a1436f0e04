"""Figures come from the files, aims and words stay those of the result."""

import json
import unittest
from decimal import Decimal

import pages
import take


def read(value):
    return json.loads(json.dumps(value), parse_float=Decimal, parse_int=Decimal)


def figures(coscan, duckdb):
    run = lambda s: {"mean stream s": s, "total s": 2 * s, "read GB": None, "failures": 0, "state": ""}
    return read({"base": "duckdb", "differences": 0, "runs": {"duckdb": run(duckdb), "coscan": run(coscan),
                                                              "datafusion": {"state": "killed for memory"}}})


OLD = {"question": "How long?", "commit": "0123abc", "tables": [{"columns": [], "rows": [
    {"what": "mean stream time", "ratio": {"value": Decimal("0.9"), "at_most": Decimal("0.65")}}]}]}


class Take(unittest.TestCase):
    def test_an_aim_stays_with_its_row_and_the_ratio_is_of_one_run(self):
        table = take.take([figures(108.1, 142.9)], OLD)["tables"][0]
        self.assertEqual(table["rows"][0], {"what": "mean stream time", "unit": "s", "coscan": Decimal("108.1"), "duckdb": Decimal("142.9"),
                                            "ratio": {"value": Decimal("0.76"), "unit": "", "at_most": Decimal("0.65")}})
        self.assertEqual(table["rows"][-1], {"what": "ended", "datafusion": "killed for memory"})
        self.assertIn("| mean stream time | 108.1 s | 142.9 s |  | **0.76** | ≤ 0.65 |", pages.table_lines(table))

    def test_several_runs_give_their_median_and_each_value(self):
        result = take.take([figures(100, 200), figures(120, 100), figures(110, 200)], OLD)
        row = result["tables"][0]["rows"][0]
        self.assertEqual(row["coscan"], {"value": Decimal("110"), "runs": [Decimal("100"), Decimal("120"), Decimal("110")]})
        self.assertEqual(row["ratio"]["value"], Decimal("0.55"))
        self.assertEqual(result["spread"], "medians of 3 runs, the least and the most")
        self.assertEqual(result["question"], "How long?")

    def test_lone_queries_begin_with_all_of_them(self):
        query = {"coscan": 0.5, "plain": 1.0, "ratio": 0.5}
        run = read({"format": "coscan-alone", "queries": {"q1": query}, "total": query, "rounds": {"ratio_min": 0.4, "ratio_max": 0.6}})
        rows = take.take([run], {})["tables"][0]["rows"]
        self.assertEqual([row["what"] for row in rows], ["1 queries", "Q1"])
        self.assertEqual(rows[0]["ratio"], {"value": Decimal("0.50"), "low": Decimal("0.40"), "high": Decimal("0.60")})

    def test_results_of_cursors_and_of_queries_at_once_are_taken(self):
        run = read({"cursors": 64, "fresh_s": 1.1, "alone_s": 1.0, "beside_s": 1.3, "ratio": 1.3, "within": False})
        self.assertIn("**1.30**", pages.table_lines(take.take([run], {})["tables"][0])[2])
        side = {"user": 2.0, "kernel": 0.5, "wall": 1.0}
        run = read({"format": "coscan-together", "query": "q6", "queries": 8, "coscan": side, "plain": side,
                    "cpu_ratio": {"median": 1.0, "min": 1.0, "max": 1.0}})
        self.assertEqual(take.take([run], {})["tables"][0]["rows"][0]["coscan"], Decimal("2.50"))

    def test_small_questions_beside_loops_are_rows_of_their_own(self):
        def run(loops, median_s):
            sides = {"old": {"median_s": 0.004, "switches": 26.04}, "coscan": {"median_s": median_s, "switches": 15}}
            return read({"format": "coscan-small", "loops": loops, "statements": {"a join": {**sides, "ratio": median_s / 0.004}}})
        lines = pages.table_lines(take.take([run(0, 0.003), run(2, 0.00351)], {})["tables"][0])
        self.assertEqual(lines[2], "| a join | 4.00 ms | 3.00 ms | 0.75 | 26.0 | 15.0 |")
        self.assertEqual(lines[3], "| a join, beside 2 busy loops | 4.00 ms | 3.51 ms | 0.88 | 26.0 | 15.0 |")

    def test_settings_of_several_devices_are_rows_and_a_claim_that_fails_is_bold(self):
        point = lambda setting, p95: {"experiment": "mix", "setting": setting, "bytes_per_second": 197_000_000, "of_limit": 0.985,
                                      "scans": 12, "scan_mean_s": 2.5, "point_p50_s": 0.01, "point_p95_s": p95}
        run = read({"experiment": "parallel", "command": "coscan bench parallel", "points": [point("chosen", 0.025), {**point("fixed 4", 0.1), "scans": 0}],
                    "claims": [{"text": "twice", "holds": False, "evidence": "2.50"}]})
        taken = take.take([run], {"question": "Which?"})
        self.assertEqual(taken["commands"], ["coscan bench parallel"])
        claimed, mix = taken["tables"]
        self.assertEqual(claimed["rows"], [{"what": "twice", "ours": {"text": "2.50", "short": True}}])
        self.assertEqual((mix["rows"][0]["what"], mix["rows"][0]["point_p95_s"]), ("chosen", Decimal("25")))
        self.assertEqual(mix["rows"][0]["of_limit"], Decimal("98.50"))
        self.assertNotIn("scans", mix["rows"][1])

    def test_a_report_keeps_its_shown_rows_and_six_digits(self):
        report = read({"experiment": "x", "seeds": 20, "rows": [{"label": "a", "paper": None, "ours": 99.9090909090909, "p05": 1, "p95": 2}], "claims": []})
        taken = take.take([report], {"report": {"shown": "^a", "rows": []}})
        self.assertEqual(taken["report"]["shown"], "^a")
        self.assertEqual(str(taken["report"]["rows"][0]["ours"]), "99.9091")

    def test_variants_of_qpipe_stand_side_by_side_and_failures_fall_short(self):
        point = lambda variant, total: {"figure": "9", "what": "Q4 twice", "clients": 2, "variant": variant, "interarrival": 0.2,
                                        "think_s": None, "alone_s": 1.0, "total_s": total, "satellites": 3}
        run = lambda total: read({"experiment": "qpipe", "command": "coscan bench qpipe", "points": [point("isolated", 2.0), point("shared", total)],
                                  "claims": [{"text": "twice as fast", "figure": "9", "paper": "2", "ours": f"{2 / total}", "holds": total <= 1}]})
        result = take.take([run(1.0), run(1.25), run(1.0)], dict(OLD))
        claimed, table = result["tables"]
        self.assertEqual(claimed["rows"][0]["ours"], {"text": "2.0; 1.6; 2.0", "short": True})
        row = table["rows"][0]
        self.assertEqual((row["what"], row["isolated"]["value"], row["shared"]["runs"][1]), ("2 clients, 0.2 of a query apart", Decimal("2.00"), Decimal("1.25")))
        self.assertEqual(row["ratio"]["value"], Decimal("0.50"))
        self.assertIn("| twice as fast | 9 | 2 | **2.0; 1.6; 2.0** |", pages.table_lines(claimed))
        self.assertIn("| 2 clients, 0.2 of a query apart | 2 s (2 to 2) |", "\n".join(pages.table_lines(table)))

    def test_an_unknown_file_is_refused(self):
        with self.assertRaises(pages.Wrong):
            take.take([{"speed": 1}], {})


if __name__ == "__main__":
    unittest.main()
