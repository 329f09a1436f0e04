#!/usr/bin/env python3
"""Puts the figures of an experiment into docs/results, with today's date and commit, and makes the pages.

    docs/tools/take.py SECTION/NAME                  a result to fill in by hand
    docs/tools/take.py SECTION/NAME FILE ...         figures of one run, or of several: medians, and
                                                     each run's figure

Idea: what a result says about its figures stays (question, aims, commands, notes); the figures
come from the files. An aim stays with its row and column. FILE is the output of one of these:

    coscan sim run X --json FILE                     the report, rows and claims
    lab/arena/figure.sh, lab/arena/mix.sh                    figures.json: engines side by side
    lab/arena/alone.py, together.py, idle.py --json FILE Coscan beside plain DataFusion, or beside cursors
    lab/arena/small.py --json FILE                   small questions of two builds; files beside loops are rows of their own
    coscan bench qpipe --json FILE                   points and claims: a table a figure, variants side by side
    coscan bench parallel --json FILE                points and claims: a table an experiment, a row a setting
"""

import datetime
import statistics
import subprocess
import sys
from decimal import Decimal

import mutate_study
import mutations
import pages

ENGINES = {"coscan": "Coscan", "duckdb": "DuckDB 2.0", "datafusion": "DataFusion 55"}
# Figures of QPipe: what is shown, its key, unit and size.
QPIPE = {"8": ("bytes read", "io_bytes", "MB", 1_000_000), "12": ("queries an hour", "qph", "", 1),
         "13": ("mean response time", "mean_s", "s", 1), "open": ("P95", "p95_s", "s", 1)}
# Experiments on a table on several devices: title, and what is shown as (title, key, unit, size).
RATE = [("read a second", "bytes_per_second", "MB", 1_000_000), ("of what the devices give", "of_limit", "%", Decimal("0.01"))]
SCANS = [("scans answered", "scans", "", 1), ("mean of a scan", "scan_mean_s", "s", 1)]
PARALLEL = {"scan": ("One scan", [("time", "time_s", "s", 1), *RATE]),
            "mix": ("Point queries beside scans", [*RATE, *SCANS, ("P50 of a point query", "point_p50_s", "ms", Decimal("0.001")),
                                                   ("P95 of a point query", "point_p95_s", "ms", Decimal("0.001"))]),
            "changing": ("The same scans of many clients and of one in turn",
                         [("time", "time_s", "s", 1), ("phases of many clients", "many_s", "s", 1), ("phases of one", "one_s", "s", 1), *RATE, *SCANS,
                          ("P95 of a point query", "point_p95_s", "ms", Decimal("0.001"))]),
            "slow": ("Scans that avoid the last device, beside one that needs it",
                     [*RATE, *SCANS, ("mean of a wide scan that avoids it", "avoiding_wide_s", "s", 1),
                      ("mean of a narrow one", "avoiding_narrow_s", "s", 1)])}
# Keys of lab/arena/compare.py's figures, as rows.
FIGURES = [("mean stream s", "mean stream time", "s"), ("normalised", "mean normalized latency", ""),
           ("P95 s", "P95", "s"), ("total s", "total time", "s"), ("read GB", "bytes read", "GB"),
           ("CPU s", "processor time", "s"), ("anon GB", "memory of its own", "GB"), ("failures", "failures", "")]
PLAIN = [{"key": "what", "title": ""}, {"key": "coscan", "title": "Coscan", "unit": "s"},
         {"key": "plain", "title": "plain DataFusion", "unit": "s"}, {"key": "ratio", "title": "ratio"},
         {"aim_of": "ratio", "title": "aim"}]


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    name, *files = arguments
    path = pages.DOCS / "results" / f"{name}.json"
    try:
        result = pages.load(path) if path.exists() else skeleton()
        result.update(stamp())
        if files:
            result.pop("beside", None)
        taken = take([pages.load(pages.Path(file)) for file in files], result)
    except pages.Wrong as wrong:
        sys.exit(f"docs/tools/take.py: {wrong}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(pages.pretty(taken), encoding="utf-8")
    # The program that measured may be older than what was seen to fail.
    mutate_study.take_over(pages.DOCS, mutate_study.read_seen(mutations.ROOT))
    print(f"{path}: do its notes hold for these figures, and did anything run beside them?")
    return pages.main([])


def take(runs, result):
    """The result with the figures of these runs."""
    if not runs:
        return result
    for experiment, make in (("qpipe", taken_qpipe), ("parallel", taken_parallel)):
        if all(run.get("experiment") == experiment for run in runs):
            return make(runs, result)
    if "experiment" in runs[0]:
        return taken_report(runs[0], result)
    for knows, make in ((lambda run: "runs" in run and "base" in run, engines),
                        (lambda run: run.get("format") == "coscan-alone", alone),
                        (lambda run: run.get("format") == "coscan-together", together),
                        (lambda run: run.get("format") == "coscan-small", small),
                        (lambda run: "cursors" in run, idle)):
        if all(map(knows, runs)):
            table = make(runs)
            old = next(iter(result.get("tables", [])), {"rows": []})
            aims(old["rows"], table["rows"])
            counted = "one run" if len(runs) == 1 else f"medians of {len(runs)} runs, the least and the most"
            return {**result, "spread": counted, "tables": [table, *result.get("tables", [])[1:]]}
    raise pages.Wrong("no file of a known kind, or files of several kinds; the head of this program lists the kinds")


def taken_report(report, result):
    for row in report["rows"]:
        row.update({key: six(row[key]) for key in ("paper", "ours", "p05", "p95")})
    kept = {key: value for key, value in result.get("report", {}).items() if key in ("shown", "pivots")}
    rest = {key: value for key, value in result.items() if key not in ("report", "tables")}
    return {**rest, "spread": f"{report['seeds']} arrangements", "report": {**report, **kept}}


def engines(runs):
    """A column for each engine, and Coscan over DuckDB within a run."""
    names = [name for name in ENGINES if any(name in run["runs"] for run in runs)]
    rows = []
    for key, what, unit in FIGURES:
        row = {"what": what} | ({"unit": unit} if unit else {})
        for name in names:
            found = [run["runs"][name][key] for run in runs if run["runs"].get(name, {}).get(key) is not None]
            if found:
                row[name] = cell(found)
        both = [(run["runs"].get("coscan", {}).get(key), run["runs"].get("duckdb", {}).get(key)) for run in runs]
        ratios = [ours / theirs for ours, theirs in both if ours is not None and theirs]
        if ratios and key != "failures":
            row["ratio"] = {**as_cell(cell(ratios, 2)), "unit": ""}
        if len(row) > 1 + bool(unit):
            rows.append(row)
    states = {name: {run["runs"][name]["state"] for run in runs if run["runs"].get(name, {}).get("state")} for name in names}
    if any(states.values()):
        rows.append({"what": "ended"} | {name: ", ".join(sorted(said)) for name, said in states.items() if said})
    columns = [{"key": "what", "title": ""}, *({"key": name, "title": ENGINES[name]} for name in names)]
    if any("ratio" in row for row in rows):
        columns += [{"key": "ratio", "title": "Coscan / DuckDB"}, {"aim_of": "ratio", "title": "aim"}]
    return {"columns": columns, "rows": rows}


def taken_qpipe(runs, result):
    """A table for each figure and its queries, and one of the claims."""
    rest = {key: value for key, value in result.items() if key != "tables"}
    tables = [qpipe_table(runs, *of) for of in dict.fromkeys((point["figure"], point["what"]) for point in runs[0]["points"])]
    rows = []
    for claims in zip(*(run["claims"] for run in runs), strict=True):
        if len({claim["text"] for claim in claims}) > 1:
            raise pages.Wrong("these runs claim different things: take runs of the same figures and clients")
        ours = {"text": "; ".join(claim["ours"] for claim in claims)}
        if not all(claim["holds"] for claim in claims):
            ours["short"] = True
        rows.append({"what": claims[0]["text"], "figure": claims[0]["figure"], "paper": claims[0]["paper"], "ours": ours})
    columns = [("what", "what it must show"), ("figure", "figure"), ("paper", "paper"), ("ours", "ours")]
    claimed = {"columns": [{"key": key, "title": title} for key, title in columns], "rows": rows}
    counted = "one run" if len(runs) == 1 else f"medians of {len(runs)} runs, the least and the most"
    return {**rest, "spread": counted, "commands": [run["command"] for run in runs if run["command"]] or rest["commands"],
            "tables": ([claimed] if rows else []) + tables}


def taken_parallel(runs, result):
    """The claims, and a table for each experiment."""
    rest = {key: value for key, value in result.items() if key != "tables"}
    claims = [{"what": each[0]["text"], "ours": {"text": "; ".join(claim["evidence"] for claim in each)}
               | ({} if all(claim["holds"] for claim in each) else {"short": True})}
              for each in zip(*(run["claims"] for run in runs), strict=True)]
    claimed = {"columns": [{"key": "what", "title": "what it must show"}, {"key": "ours", "title": "ours"}], "rows": claims}
    tables = [parallel_table(runs, experiment) for experiment in dict.fromkeys(point["experiment"] for point in runs[0]["points"])]
    counted = "one run" if len(runs) == 1 else f"medians of {len(runs)} runs, the least and the most"
    return {**rest, "spread": counted, "commands": [run["command"] for run in runs if run["command"]] or rest["commands"],
            "tables": ([claimed] if claims else []) + tables}


def parallel_table(runs, experiment):
    """A row for each setting; a figure that no query of the setting has is left out."""
    title, shown = PARALLEL[experiment]
    settings = {}
    for run in runs:
        for point in run["points"]:
            if point["experiment"] == experiment:
                settings.setdefault(point["setting"], []).append(point)
    rows = [{"what": setting, **{key: cell([point[key] / size for point in points]) for _, key, _, size in shown if all(point[key] for point in points)}}
            for setting, points in settings.items()]
    columns = [{"key": key, "title": name} | ({"unit": unit} if unit else {}) for name, key, unit, _ in shown]
    return {"title": title, "columns": [{"key": "what", "title": ""}, *columns], "rows": rows}


def qpipe_table(runs, figure, what):
    """A row for each place of the figure; the ratio is taken within a run, shared over the same policy if it was measured."""
    title, key, unit, size = QPIPE.get(figure, ("total time", "total_s", "s", 1))
    variants, places = {}, {}
    for run in runs:
        for point in run["points"]:
            if (point["figure"], point["what"]) == (figure, what):
                variants[point["variant"]] = None
                places.setdefault(place(point), {}).setdefault(point["variant"], []).append(point)
    base = "apart" if "apart" in variants else "isolated"
    rows = []
    for at, by in places.items():
        row = {"what": at, **{variant.replace(" ", "_"): cell([point[key] / size for point in points]) for variant, points in by.items()}}
        if figure == "8":
            row["demand"] = cell([point["demand_bytes"] / size for point in next(iter(by.values()))])
        if "shared" in by and base in by:
            row["ratio"] = cell([ours[key] / without[key] for ours, without in zip(by["shared"], by[base], strict=True)], 2)
            row["satellites"] = cell([point["satellites"] for point in by["shared"]])
        rows.append(row)
    columns = [{"key": "what", "title": title}, *({"key": variant.replace(" ", "_"), "title": variant, "unit": unit} for variant in variants)]
    columns += [{"key": "demand", "title": "each by itself", "unit": unit}] if figure == "8" else []
    columns += [{"key": "ratio", "title": f"shared / {base}"}, {"key": "satellites", "title": "satellites"}]
    return {"title": f"Figure {figure}: {what}" if figure != "open" else f"Open arrivals: {what}", "columns": columns, "rows": rows}


def place(point):
    """A point's place in a figure, in times of a query alone, because seconds would differ in every run."""
    words = f"{point['clients']} clients"
    if point["figure"] == "open":
        return f"{words}, one query each"
    if point["interarrival"] is not None:
        return f"{words}, {point['interarrival']:g} of a query apart"
    if point["think_s"] is not None:
        return f"{words}, thinking {point['think_s'] / point['alone_s']:.1f} queries long"
    return words


def alone(runs):
    rows = []
    for name in ["total", *runs[0]["queries"]]:
        each = [run["total"] if name == "total" else run["queries"][name] for run in runs]
        label = f"{len(runs[0]['queries'])} queries" if name == "total" else name.upper()
        row = {"what": label, **{side: cell([one[side] for one in each], 3) for side in ("coscan", "plain")}}
        row["ratio"] = cell([one["ratio"] for one in each], 2)
        if name == "total" and len(runs) == 1:
            low, high = (cell([runs[0]["rounds"][key]], 2) for key in ("ratio_min", "ratio_max"))
            row["ratio"] = {"value": row["ratio"], "low": low, "high": high}
        rows.append(row)
    return {"columns": PLAIN, "rows": rows}


def together(runs):
    """A row for each query and number of them."""
    rows = {}
    for run in runs:
        rows.setdefault(f"{run['queries']} × {run['query'].upper()}", []).append(run)
    made = []
    for what, each in rows.items():
        row = {"what": what, **{side: cell([one[side]["user"] + one[side]["kernel"] for one in each]) for side in ("coscan", "plain")}}
        made.append({**row, "ratio": cell([one["cpu_ratio"]["median"] for one in each], 2)})
    return {"columns": [{"key": "what", "title": "processor time of"}, *PLAIN[1:]], "rows": made}


def small(runs):
    """A row for each statement and number of busy loops beside it."""
    rows = {}
    for run in runs:
        for name, of in run["statements"].items():
            rows.setdefault(f"{name}, beside {run['loops']} busy loops" if run["loops"] else name, []).append(of)
    made = []
    for what, each in rows.items():
        row = {"what": what, **{side: cell([of[side]["median_s"] for of in each], 5) for side in ("old", "coscan")}}
        row["ratio"] = cell([of["ratio"] for of in each], 2)
        made.append({**row, **{f"switches_{side}": cell([of[side]["switches"] for of in each], 1) for side in ("old", "coscan")}})
    columns = [{"key": "what", "title": ""}, {"key": "old", "title": "the earlier program", "unit": "time"},
               {"key": "coscan", "title": "Coscan", "unit": "time"}, {"key": "ratio", "title": "ratio"}, {"aim_of": "ratio", "title": "aim"},
               {"key": "switches_old", "title": "changes of threads, the earlier program"}, {"key": "switches_coscan", "title": "Coscan's"}]
    return {"columns": columns, "rows": made}


def idle(runs):
    row = {"what": f"{runs[0]['cursors']} cursors", "alone": cell([run["alone_s"] for run in runs]),
           "beside": cell([run["beside_s"] for run in runs]),
           "ratio": {**as_cell(cell([run["ratio"] for run in runs], 2)), "at_most": Decimal("1.2")}}
    return {"columns": [{"key": "what", "title": "a scan beside"}, {"key": "alone", "title": "alone", "unit": "s"},
                        {"key": "beside", "title": "beside them", "unit": "s"}, {"key": "ratio", "title": "ratio"},
                        {"aim_of": "ratio", "title": "aim"}], "rows": [row]}


def cell(values, places=None):
    """The median; with several runs also each run's value."""
    shown = [rounded(value, places) for value in values]
    middle = rounded(statistics.median(values), places)
    return middle if len(shown) == 1 else {"value": middle, "runs": shown}


def rounded(value, places):
    """The value with three significant digits, or with this many places."""
    value = Decimal(value)
    if places is None:
        places = 0 if abs(value) >= 1000 or value == value.to_integral_value() else 1 if abs(value) >= 100 else 2
    return Decimal(f"{value:.{places}f}")


def as_cell(value):
    return value if isinstance(value, dict) else {"value": value}


def aims(old, new):
    """An aim stays with its row and column."""
    by_name = {row.get("what"): row for row in old}
    for row in new:
        for key, was in by_name.get(row["what"], {}).items():
            kept = {bound: was[bound] for bound in ("at_most", "at_least") if isinstance(was, dict) and bound in was}
            if kept and key in row:
                row[key] = {**as_cell(row[key]), **kept}


def six(value):
    """Six significant digits: more than any reader needs, and enough for a test to compare."""
    return None if value is None else Decimal(f"{value:.6g}") if abs(value) < 1_000_000 else Decimal(f"{value:.0f}")


def skeleton():
    table = {"columns": [{"key": "what", "title": ""}, {"key": "ours", "title": "Coscan"}, {"aim_of": "ours", "title": "aim"}],
             "rows": [{"what": "?", "ours": {"value": 0, "at_most": 1}}]}
    return {"question": "?", "aims": [], "commands": ["?"], **stamp(), "machine": "vm2", "spread": "one run",
            "tables": [table], "notes": []}


def stamp():
    commit = subprocess.check_output(["git", "rev-parse", "--short=7", "HEAD"], text=True, cwd=pages.DOCS).strip()
    return {"commit": commit, "date": datetime.date.today().isoformat()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
