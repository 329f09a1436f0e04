#!/usr/bin/env python3
"""Do the engines' rows agree, and what are the ratios of their figures?

    compare.py BASE.json OTHER.json ... [--json OUT]

Takes results of peers.py over one workload. First every query's rows are compared with the base's,
then the tables are printed: each figure, and its ratio to the base's in brackets. If the arena's
report lies beside a result (`duckdb.json`, `duckdb.arena.json`), its figures are shown too, and a
run that was killed, which has only the report, is shown as killed.

Exit status 1 if rows differ, 2 if the runs can't be compared.

C1: rows are compared as multisets: an engine may order ties in any way.
C2: numbers agree within REL_TOL, because sums of floats depend on their order. A decimal that was
    cut to fewer digits than the other number agrees within one unit of its last digit: DataFusion
    cuts an average of decimal(15,2) to six digits, DuckDB gives a float. Two decimals of one scale
    are both exact: REL_TOL alone counts.
C3: a failed query is not a difference; failures have a column of their own.
"""

import argparse
import decimal
import json
import os
import sys

REL_TOL = decimal.Decimal("1e-9")
DIFFERENCES_SHOWN_MAX = 10


# ---------------------------------------------------------------- rows

def number(value):
    """(value, scale) of a number or of text that is one, scale None for floats; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float):
        return decimal.Decimal(repr(value)), None
    try:
        exact = decimal.Decimal(value)
    except (decimal.InvalidOperation, TypeError, ValueError):
        return None
    return (exact, max(0, -exact.as_tuple().exponent)) if exact.is_finite() else None


def same(left, right, rel_tol=REL_TOL):
    """C2."""
    if left == right:
        return True
    a, b = number(left), number(right)
    if a is None or b is None:
        return False
    (x, x_scale), (y, y_scale) = a, b
    tolerance = rel_tol * max(abs(x), abs(y))
    if x_scale != y_scale:
        cut = [scale for scale in (x_scale, y_scale) if scale]  # an integer was not cut
        if cut:
            tolerance = max(tolerance, decimal.Decimal(10) ** -min(cut))
    return abs(x - y) <= tolerance


def order_key(row):
    """C1: text first and numbers by few digits, so that nearly equal rows get the same place."""
    key = []
    for value in row:
        parsed = number(value)
        key.append((0, "", str(value)) if parsed is None else (1, f"{float(parsed[0]):.4e}", ""))
    return sorted(part for part in key if part[0] == 0), key


def rows_differ(left, right):
    """The first difference; None if there is none."""
    if len(left) != len(right):
        return f"{len(left)} rows against {len(right)}"
    if all(map(rows_same, left, right)):  # the usual case; and sorting could separate nearly equal rows
        return None
    for a, b in zip(sorted(left, key=order_key), sorted(right, key=order_key)):
        if len(a) != len(b):
            return f"{len(a)} columns against {len(b)}"
        for column, (x, y) in enumerate(zip(a, b)):
            if not same(x, y):
                return f"column {column}: {x} against {y}"
    return None


def rows_same(left, right):
    return len(left) == len(right) and all(map(same, left, right))


def differences(base, other):
    """'stream 3 query 1 (F-10): ...' for each query of both runs whose rows differ."""
    theirs = {(q["stream"], q["position"]): q for q in other["queries"]}
    for query in base["queries"]:
        match = theirs.get((query["stream"], query["position"]))
        if match is None:
            yield f"stream {query['stream']} query {query['position']}: missing"
        elif "error" not in query and "error" not in match:  # C3
            what = rows_differ(query["result"], match["result"])
            if what:
                yield f"stream {query['stream']} query {query['position']} ({query['name']}): {what}"


# ---------------------------------------------------------------- tables

def figures(run):
    """Name -> value of one run, None where it has none."""
    result, report = run["result"] or {}, run["arena"] or {}
    return {
        "total s": result.get("total_s"),
        "mean stream s": result.get("avg_stream_s"),
        "P95 s": result.get("p95_s"),
        "normalised": result.get("avg_normalized_latency"),
        "read GB": scaled(report.get("read_bytes")),
        "CPU s": report.get("cpu_s"),
        "anon GB": scaled(report.get("anonymous_bytes_max")),
        "failures": len(result["failures"]) if "failures" in result else None,
    }


def scaled(count):
    return None if count is None else count / 1e9


def state(run):
    report = run["arena"] or {}
    if report.get("killed_for_memory"):
        return "killed for memory"
    if report.get("timed_out"):
        return "ended for time"
    if run["result"] is None:
        return f"ended with {report.get('exit_code')}"
    return ""


def cell(value, base):
    """A figure and its ratio to the base's."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f} ({value / base:.2f})" if base else f"{value:.2f}"


def table(rows):
    """Columns as wide as their widest cell; a row is a list of texts."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                        for i, (text, width) in enumerate(zip(row, widths))).rstrip()


def overall(runs):
    base = figures(runs[0])
    yield ["run", *base, ""]
    for run in runs:
        have = figures(run)
        yield [run["name"], *(cell(have[key], base[key]) for key in base), state(run)]


def by_name(runs):
    """Mean latency of each kind of query."""
    means = []
    for run in runs:
        groups = {}
        for query in (run["result"] or {}).get("queries", []):
            if "error" not in query:
                groups.setdefault(query["name"], []).append(query["latency_s"])
        means.append({name: sum(all_) / len(all_) for name, all_ in groups.items()})
    yield ["mean latency s", *(run["name"] for run in runs)]
    for name in sorted({name for mean in means for name in mean}):
        yield [name, *(cell(mean.get(name), means[0].get(name)) for mean in means)]


# ---------------------------------------------------------------- files

def load(path):
    """A run: its name, result and arena report, of which one may be missing."""
    stem = path[:-len(".json")] if path.endswith(".json") else path
    run = {"name": os.path.basename(stem), "result": read(path), "arena": read(f"{stem}.arena.json")}
    if run["result"] is None and run["arena"] is None:
        raise ValueError(f"{path}: neither a result nor an arena's report")
    if run["result"] is not None and run["result"].get("format") != "coscan-peers":
        raise ValueError(f"{path}: not a result of peers.py")
    return run


def read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def main(argv):
    parser = argparse.ArgumentParser(description="Compare results of peers.py.")
    parser.add_argument("runs", nargs="+", metavar="JSON", help="the first is the base of the ratios")
    parser.add_argument("--json", help="write the figures here as well")
    args = parser.parse_args(argv)
    try:
        runs = [load(path) for path in args.runs]
        finished = [run for run in runs if run["result"] is not None and "queries" in run["result"]]
        if len({run["result"]["workload"]["digest"] for run in finished}) > 1:
            raise ValueError("the runs are of different workloads")
    except (ValueError, OSError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2

    wrong = 0
    for run in finished[1:]:
        found = list(differences(finished[0]["result"], run["result"]))
        wrong += len(found)
        verdict = f"{len(found)} queries differ" if found else "same rows"
        print(f"{run['name']} against {finished[0]['name']}: {verdict}")
        for line in found[:DIFFERENCES_SHOWN_MAX]:
            print(f"  {line}")
    print()
    print("\n".join(table(list(overall(runs)))))
    if finished:
        print()
        print("\n".join(table(list(by_name(runs)))))
    if args.json:
        with open(args.json, "w") as out:
            json.dump({"base": runs[0]["name"], "differences": wrong,
                       "runs": {run["name"]: {**figures(run), "state": state(run)} for run in runs}}, out)
            out.write("\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
