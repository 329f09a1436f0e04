#!/usr/bin/env python3
"""Makes docs/BENCHMARKS.md, docs/REPRODUCTION.md and docs/CLAIMS.md from docs/results.

    docs/tools/pages.py                          write the pages
    docs/tools/pages.py --check                  exit 1 if a page differs from its results

Idea: a figure stands in one place, a file of results. Whether it meets its aim is computed, never
typed: figures that fall short are bold. docs/results/README.md describes the files, and take.py
makes them. A template in docs/templates is a page with lines of the form

    <!-- results: SECTION -->                    every result of docs/results/SECTION, in order,
                                                 or that nothing is measured yet
    <!-- headline -->                            one line for each result with a headline
    <!-- claims -->                              how many claims of each section of the page hold
    <!-- changes: SECTION -->                    the changes of the code with which each claim failed
    <!-- changes of the engine -->               the same of `coscan bench` (engine_claims.py)
    <!-- corrected -->                           the claims that had another check (corrected.py)
    <!-- claim: NAME/TEXT -->                    in a line: whether the claim of result NAME that begins
                                                 with TEXT holds, and with which change it failed;
                                                 NAME `engine`: a claim of `coscan bench`
    <!-- machine: NAME -->                       a machine of docs/machines.json, the page's default

README.md and docs/ROADMAP.md are written by hand, except for the tables below two marks:

    <!-- figures: SECTION/NAME ... -->           the headlines of these results (SECTION/NAME:0 the first)
    <!-- figures that fall short -->             every figure that misses its aim

P1: every result is on exactly one page. P2: a result has only keys that are described. P3: no two
results of a page have the same question, because links use it.
"""

import argparse
import difflib
import json
import math
import re
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path

import corrected
import engine_claims

DOCS = Path(__file__).resolve().parent.parent
PAGES = ("BENCHMARKS.md", "REPRODUCTION.md", "CLAIMS.md")
WIDTH = 100
NOTES_MAX = 2
JSON_WIDTH = 140  # A table's row takes one line.

RESULT = {"question", "order", "aims", "commands", "commit", "date", "machine", "beside", "spread",
          "tables", "report", "image", "notes", "headline"}
REQUIRED = {"question", "commands", "commit", "date", "machine", "spread"}
TABLE = {"title", "columns", "rows"}
COLUMN = {"key", "title", "unit", "aim_of"}
CELL = {"value", "unit", "low", "high", "runs", "at_most", "at_least", "text", "short", "paper"}
REPORT = {"experiment", "seeds", "rows", "claims", "shown", "pivots"}
PIVOT = {"title", "pattern", "of_many"}
HEADLINE = {"question", "table", "row", "ours", "against", "against_title", "ratio"}

UNITS_OF_TIME = ((Decimal(1), "s"), (Decimal("1e-3"), "ms"), (Decimal("1e-6"), "µs"), (Decimal("1e-9"), "ns"))
WIDENED = Decimal("0.15")  # As in lab/study/src/coop/verdict.rs.


NUMBERED = re.compile(r"\w+ = (\d+)")


class Wrong(Exception):
    """A result that cannot be shown; the message names the file and the remedy."""


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    try:
        made = pages(DOCS)
    except Wrong as wrong:
        print(f"docs/tools/pages.py: {wrong}", file=sys.stderr)
        return 1
    return check(made) if options.check else write(made)


def write(made):
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return 0


def check(made):
    wrong = 0
    for path, text in made.items():
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if there != text:
            wrong = 1
            print(f"{path.name} is not what docs/results say: run docs/tools/pages.py", file=sys.stderr)
            lines = difflib.unified_diff(there.splitlines(), text.splitlines(), "committed", "made", n=0, lineterm="")
            print("\n".join(list(lines)[:40]), file=sys.stderr)
    return wrong


def pages(docs):
    """The text of every page, by path."""
    machines = load(docs / "machines.json")
    sections = {}
    for path in sorted((docs / "results").glob("*/*.json")):
        result = load(path)
        validate(result, path.relative_to(docs), machines)
        sections.setdefault(path.parent.name, []).append((result.get("order", 50), path.stem, result))
    shown, made, engine = [], {}, engine_claims.read(docs.parent)
    entries = corrections(docs.parent, sections)
    for name in PAGES:
        template = (docs / "templates" / f"{name}.in").read_text(encoding="utf-8")
        made[docs / name] = page(template, sections, machines, shown, engine, entries)
    for path, page_from_there in ((docs.parent / "README.md", "docs/BENCHMARKS.md"), (docs / "ROADMAP.md", "BENCHMARKS.md")):
        if path.exists():
            made[path] = figures(path.read_text(encoding="utf-8"), sections, page_from_there)
    hidden = set(sections) - set(shown)
    twice = {section for section in shown if shown.count(section) > 1}
    if hidden or twice:
        raise Wrong(f"P1: sections on no page: {sorted(hidden)}; on two: {sorted(twice)}; see docs/templates")
    return made


def corrections(root, sections):
    """The claims that had another check, each of a result that is there."""
    entries = corrected.read(root)
    recorded = [claim for record in engine_claims.read_seen(root).values() for claim in record["claims"]]
    claims = {name: claims_of(result) for results in sections.values() for _, name, result in results}
    try:
        corrected.check(entries, {**claims, corrected.ENGINE: recorded})
    except corrected.Unknown as unknown:
        raise Wrong(str(unknown)) from None
    return entries


def claims_of(result):
    return result.get("report", {}).get("claims", [])


def page(template, sections, machines, shown, engine, entries):
    machine = re.search(r"<!-- machine: (\S+) -->", template)
    machine = machine.group(1) if machine else None
    names = re.findall(r"<!-- results: (\S+) -->", template)
    lines = []
    for line in template.splitlines():
        if line == "<!-- headline -->":
            lines += headline([one for name in names for one in sorted(sections.get(name, []), key=lambda x: x[:2])])
        elif found := re.fullmatch(r"<!-- results: (\S+) -->", line):
            section = found.group(1)
            shown.append(section)
            if section not in sections:
                lines.append("Not measured yet.")
            for _, name, result in sorted(sections.get(section, []), key=lambda one: one[:2]):
                lines += [*show(result, f"results/{section}/{name}.json", machine), ""]
            while lines and not lines[-1]:
                lines.pop()
        elif line == "<!-- claims -->":
            lines += tally(sections, names, engine, entries)
        elif found := re.fullmatch(r"<!-- changes: (\S+) -->", line):
            for _, _, result in sorted(sections.get(found.group(1), []), key=lambda one: one[:2]):
                lines += [*change_lines(result), ""] if "report" in result else []
            while lines and not lines[-1]:
                lines.pop()
        elif line == "<!-- changes of the engine -->":
            lines += engine_lines(engine)
        elif line == "<!-- corrected -->":
            lines += grid(["of", "claims", "what was wrong", "corrected on"], corrected.rows(entries))
        elif re.fullmatch(r"<!-- machine: \S+ -->", line):
            lines += fill(f"Machine, unless a result names another: {machines[machine]}.")
        else:
            lines.append(re.sub(r"<!-- claim: ([\w-]+)/(.+?) -->", lambda found: claim_words(sections, engine, *found.groups()), line))
    headings = [anchor(line.lstrip("# ")) for line in lines if line.startswith("#")]
    twice = {heading for heading in headings if headings.count(heading) > 1}
    if twice:
        raise Wrong(f"P3: headings that occur twice: {sorted(twice)}")
    return "\n".join(lines).rstrip() + "\n"


# What a result looks like


def show(result, path, machine):
    lines = [f"### {result['question']}", ""]
    for table in result.get("tables", []):
        if "title" in table:
            lines += [f"**{table['title']}**", ""]
        lines += [*table_lines(table), ""]
    if "report" in result:
        lines += [*report_lines(result["report"], anchor(result["question"])), ""]
    if "image" in result:
        lines += [f"![{result['question']}]({result['image']})", ""]
    if result.get("aims"):
        lines += [*fill("Aims: " + "; ".join(result["aims"]) + "."), ""]
    if result.get("notes"):
        lines += [*fill(" ".join(result["notes"])), ""]
    lines += ["```sh", *result["commands"], "```", ""]
    place = f"[{path.split('/', 1)[1]}]({path})"
    run = [f"{result['commit']}, {result['date']}", result["spread"]]
    if result["machine"] != machine:
        run.append(f"on {result['machine']}")
    if "beside" in result:
        run.append(f"beside {result['beside']}")
    return lines + fill(f"{place}: {'; '.join(run)}.")


def table_lines(table):
    columns = table["columns"]
    units = {column["key"]: column.get("unit", "") for column in columns if "key" in column}
    rows = [[cell_of(row, column, units) for column in columns] for row in table["rows"]]
    return grid([column["title"] for column in columns], rows)


def cell_of(row, column, units):
    key = column.get("key", column.get("aim_of"))
    cell = row.get(key)
    unit = row.get("unit", units.get(key, ""))
    if isinstance(cell, dict):
        unit = cell.get("unit", unit)
    return aim(cell, unit) if "aim_of" in column else cell_text(cell, unit)


def cell_text(cell, unit=""):
    """A cell as the table shows it; a figure that falls short is bold."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if not isinstance(cell, dict):
        return quantity(cell, unit)
    text = quantity(cell["value"], unit) if "value" in cell else ""
    words = cell.get("text", "")
    if falls_short(cell):
        text, words = (f"**{text}**", words) if text else ("", f"**{words}**")
    low, high = spread_of(cell)
    if low is not None:
        text += f" ({quantity(low, '' if unit != 'time' else unit)} to {quantity(high, '' if unit != 'time' else unit)})"
    return f"{text} {words}".strip()


def falls_short(cell):
    if cell.get("short"):
        return True
    value = cell.get("value")
    return value is not None and (
        ("at_most" in cell and value > cell["at_most"]) or ("at_least" in cell and value < cell["at_least"]))


def spread_of(cell):
    runs = cell.get("runs")
    if runs:
        return (min(runs), max(runs)) if len(runs) > 1 else (None, None)
    return cell.get("low"), cell.get("high")


def aim(cell, unit=""):
    if not isinstance(cell, dict):
        return ""
    parts = [f"≤ {quantity(cell['at_most'], unit)}"] if "at_most" in cell else []
    parts += [f"≥ {quantity(cell['at_least'], unit)}"] if "at_least" in cell else []
    return ", ".join(reversed(parts))


def quantity(value, unit=""):
    if unit == "time":
        return time(Decimal(value))
    return f"{number(value)} {unit}".strip() if unit != "×" else f"{number(value)} ×"


def number(value):
    """All digits that the file has; thousands apart from 10,000 on."""
    value = Decimal(value)
    return f"{value:,f}" if abs(value) >= 10_000 else f"{value:f}"


def time(seconds):
    """Seconds as s, ms, µs or ns, with the digits that the file has."""
    for size, name in UNITS_OF_TIME:
        if abs(seconds) >= size or name == "ns":
            return f"{number(scaled(seconds, size))} {name}"
    return ""


def scaled(value, size):
    return value.scaleb(-size.adjusted()) if size != 1 else value


def three(value):
    """A figure of the simulator with its significant digits."""
    value = Decimal(value)
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{places}f}"


def report_lines(report, place=""):
    """What `coscan sim run X --json` wrote: figures beside the paper's, and the claims that fail. `place` is its anchor."""
    lines = []
    if report["rows"] and "pivots" not in report:
        lines += [*figure_lines(report), ""]
    for pivot in report.get("pivots", []):
        lines += [f"**{pivot['title']}**", "", *pivot_lines(report["rows"], pivot), ""]
    return lines + claim_lines(report["claims"], place)


def claim_lines(claims, place=""):
    """The number of claims that hold, and those that fall short."""
    if not claims:
        return []
    failed = [claim for claim in claims if verdict(claim) == "fails"]
    unproven = sum(verdict(claim) == "unproven" for claim in claims)
    held = f"{len(claims) - len(failed)} of {len(claims)} claims hold"
    held += f", {unproven} of them unproven" if unproven else ""
    if any("mutation" in claim for claim in claims):
        held += f" ([how the others fail](CLAIMS.md#{place}))" if unproven else f" ([how they fail](CLAIMS.md#{place}))"
    lines = fill(f"{held}. **These fall short**:" if failed else f"{held}.")
    if failed:
        lines.append("")
        for claim in failed:
            lines += fill(f"- {claim['text']}: {claim['evidence']}{fresh(claim)}", "  ")
    return lines


def change_lines(result):
    """The claims of a report that hold, each with the change with which it failed."""
    claims = [claim for claim in result["report"]["claims"] if verdict(claim) != "fails"]
    rows = [[claim["text"], claim["evidence"] + fresh(claim), claim["mutation"]["changed"], claim["mutation"]["seen"]]
            for claim in claims if "mutation" in claim]
    lines = [f"### {result['question']}", ""]
    lines += [*grid(["claim", "ours", "fails with this change", "ours then"], rows), ""] if rows else []
    unproven = [claim for claim in claims if "mutation" not in claim]
    if unproven:
        lines += ["Unproven:", ""]
        for claim in unproven:
            made = claim.get("survived")
            words = f" (held with *{'*, *'.join(made)}* too)" if made else ""
            lines += fill(f"- {claim['text']}: {claim['evidence']}{fresh(claim)}{words}", "  ")
        lines.append("")
    return lines[:-1] if rows or unproven else [*lines, "No claim holds."]


def engine_lines(engine):
    """The claims of `coscan bench`, each with the change with which it failed, those that do not hold, and the commands."""
    lines = []
    for about in dict.fromkeys(engine_claims.about(claim["command"]) for claim in engine):
        claims = [claim for claim in engine if engine_claims.about(claim["command"]) == about]
        commands = dict.fromkeys(claim["command"] for claim in claims)
        lines += [*change_lines({"question": f"`{about}`", "report": {"claims": claims}}), ""]
        if failed := [claim for claim in claims if verdict(claim) == "fails"]:
            lines += ["Does not hold:", ""]
            for claim in failed:
                why = f" ({claim['why']})" if "why" in claim else ""
                lines += fill(f"- {claim['text']}: {claim['evidence']}{fresh(claim)}{why}", "  ")
            lines.append("")
        lines += ["```sh", *commands, "```", ""]
    return lines[:-1] or ["None of these changes has been made yet."]


def claim_words(sections, engine, name, text):
    """Whether a claim holds, in how many fresh seeds, and with which change it failed."""
    all_of = engine if name == "engine" else [claim for results in sections.values() for _, stem, result in results if stem == name
                                              for claim in result.get("report", {}).get("claims", [])]
    claims = [claim for claim in all_of if claim["text"].startswith(text)]
    if name == "engine" and not claims:
        return "to be measured"
    if len(claims) != 1:
        raise Wrong(f"{len(claims)} claims of {name} begin with {text!r}")
    claim = claims[0]
    words = {"fails": "does not hold", "holds": "holds", "unproven": "unproven"}[verdict(claim)] + fresh(claim)
    return f"{words}; fails with *{claim['mutation']['changed']}*" if "mutation" in claim else words


def verdict(claim):
    """As `Claim::verdict` of lab/study/src/report/claim.rs."""
    if not claim["holds"] or engine_claims.falls_short(claim):
        return "fails"
    return "holds" if "mutation" in claim else "unproven"


def fresh(claim):
    of = claim.get("fresh")
    if not of:
        return ""
    seeds = of.get("seeds", 1)
    return f" ({of['held']} of {of['of']} fresh {'seeds' if seeds == 1 else f'sets of {seeds} seeds'})"


def tally(sections, names, engine, entries=()):
    """The numbers of claims of each section's reports and of the engine: held and seen to fail, unproven, failed, corrected."""
    rows = []
    of_sections = [(name, [(stem, claims_of(result)) for _, stem, result in sections.get(name, [])]) for name in names]
    for name, results in [*of_sections, *([("on the engine", [(corrected.ENGINE, engine)])] if engine else [])]:
        claims = [claim for _, claims in results for claim in claims]
        verdicts = [verdict(claim) for claim in claims]
        counted = [sum(one == word for one in verdicts) for word in ("holds", "unproven", "fails")]
        tried = sum(one == "holds" and claim.get("fresh", {}).get("of", 0) >= engine_claims.FRESH_MIN
                    for one, claim in zip(verdicts, claims, strict=True))
        counted.insert(1, tried)
        counted.append(sum(corrected.count(entries, stem, claims) for stem, claims in results))
        rows.append([name.replace("-", " "), *(str(number) for number in (len(verdicts), *counted))])
    return grid(["section", "claims", "hold, and were seen to fail", "of these, in ten fresh seeds too", "unproven", "do not hold", "corrected"], rows)


def figure_lines(report):
    shown = re.compile(report.get("shown", ""))
    rows = []
    for row in report["rows"]:
        if shown.search(row["label"]):
            paper = "" if row["paper"] is None else three(row["paper"])
            rows.append([row["label"], paper, ours(row), f"{three(row['p05'])} to {three(row['p95'])}"])
    return grid(["figure", "paper", "ours", "5 % to 95 %"], rows)


def pivot_lines(rows, pivot):
    """A table of our means: the groups of the pattern that begin with `row` and `column` give each one's place."""
    cells, heads, names = {}, [], []
    for row in rows:
        if found := re.search(pivot["pattern"], row["label"]):
            parts = found.groupdict()
            head, name = (", ".join(parts[key] for key in sorted(parts) if key.startswith(kind)) for kind in ("column", "row"))
            heads += [head] if head not in heads else []
            names += [name] if name not in names else []
            cells.setdefault((name, head), []).append(row["ours"])
    if all(NUMBERED.fullmatch(head) for head in heads):  # A row may lack the first of them.
        heads.sort(key=lambda head: int(NUMBERED.fullmatch(head)[1]))
    show = {"highest": lambda values: three(max(values)), "geometric mean": geometric}.get(pivot.get("of_many"))
    show = show or (lambda values: three(values[0]))
    return grid(["", *heads], [[name, *(show(cells[name, head]) if (name, head) in cells else "" for head in heads)] for name in names])


def geometric(values):
    mean = math.exp(sum(math.log(value) for value in values) / len(values))
    return f"{three(mean)} ({three(min(values))} to {three(max(values))})"


def ours(row):
    """Our mean; bold where the paper's figure lies outside of ours, widened."""
    text, paper = three(row["ours"]), row["paper"]
    if paper is None or row["p05"] * (1 - WIDENED) <= paper <= row["p95"] * (1 + WIDENED):
        return text
    return f"**{text}**"


def figures(text, sections, benchmarks):
    """A page written by hand with its tables of figures; a table ends at the first line that is not part of one."""
    lines, skipping = [], False
    for line in text.splitlines():
        skipping = skipping and (line.startswith("|") or not line)
        if found := re.fullmatch(r"<!-- figures: (.+) -->", line):
            lines += [line, "", *headline(chosen(found.group(1).split(), sections), benchmarks), ""]
            skipping = True
        elif line == "<!-- figures that fall short -->":
            lines += [line, "", *short(sections, benchmarks), ""]
            skipping = True
        elif not skipping:
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"


def chosen(names, sections):
    """The results with the named headlines: SECTION/NAME has all, SECTION/NAME:0 the first."""
    by_name = {f"{section}/{name}": result for section, results in sections.items() for _, name, result in results}
    for name in names:
        name, _, at = name.partition(":")
        if name not in by_name:
            raise Wrong(f"there is no result {name}")
        lines = by_name[name].get("headline", [])
        yield 0, name, {**by_name[name], "headline": [lines[int(at)]] if at else lines}


def short(sections, benchmarks):
    """Every figure of a table that misses its aim."""
    rows = []
    for section, results in sorted(sections.items()):
        for _, _, result in sorted(results, key=lambda one: one[:2]):
            where = benchmarks.replace("BENCHMARKS", "REPRODUCTION") if "report" in result else benchmarks
            link = f"[{result['question']}]({where}#{anchor(result['question'])})"
            for table in result.get("tables", []):
                rows += [[link, *line] for line in short_cells(table)]
    return grid(["question", "of what", "figure", "aim"], rows)


def short_cells(table):
    units = {column["key"]: column.get("unit", "") for column in table["columns"] if "key" in column}
    titles = {column["key"]: column["title"] for column in table["columns"] if "key" in column}
    first = next(iter(titles))
    for row in table["rows"]:
        for key, cell in row.items():
            if isinstance(cell, dict) and falls_short(cell):
                yield [f"{row[first]}, {titles[key]}", cell_of(row, {"key": key}, units), cell_of(row, {"aim_of": key}, units)]


def headline(results, page=""):
    rows = [headline_row(result, line, page) for _, _, result in results for line in result.get("headline", [])]
    return grid(["question", "Coscan", "against", "ratio", "aim"], rows)


def headline_row(result, line, page):
    table = result["tables"][line.get("table", 0)]
    first = table["columns"][0]["key"]
    row = next((row for row in table["rows"] if row.get(first) == line["row"]), None)
    if row is None:
        raise Wrong(f"{result['question']} has a headline of the row {line['row']!r}, which its table lacks")
    titles = {column["key"]: column["title"] for column in table["columns"] if "key" in column}
    units = {column["key"]: column.get("unit", "") for column in table["columns"] if "key" in column}

    def text(name):
        return cell_of(row, {"key": line[name]}, units) if name in line else ""

    against = text("against")
    if against:
        against = f"{line.get('against_title', titles[line['against']])}: {against}"
    link = f"[{line['question']}]({page}#{anchor(result['question'])})"
    return [link, text("ours"), against, text("ratio"), cell_of(row, {"aim_of": line.get("ratio", line["ours"])}, units)]


def anchor(heading):
    """GitHub's id of a heading."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def grid(head, rows):
    """A Markdown table. Columns without any value are left out."""
    used = [at for at in range(len(head)) if at == 0 or any(row[at] for row in rows)]
    line = lambda cells: "| " + " | ".join(cells[at] for at in used) + " |"
    return [line(head), "|" + "---|" * len(used), *(line(row) for row in rows)]


def fill(text, indent=""):
    return textwrap.wrap(text, WIDTH - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


# What a result must be


def load(path):
    """Reads JSON; numbers keep the digits with which they are written."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal, parse_int=Decimal)
    except ValueError as error:
        raise Wrong(f"{path}: {error}") from error


def validate(result, path, machines):
    def need(holds, what):
        if not holds:
            raise Wrong(f"docs/{path}: {what}")

    def keys(found, known, where):
        need(set(found) <= known, f"P2: {where} has {sorted(set(found) - known)}; known are {sorted(known)}")

    keys(result, RESULT, "the result")
    need(not REQUIRED - set(result), f"it lacks {sorted(REQUIRED - set(result))}")
    need(result.get("tables") or "report" in result, "it has neither tables nor a report")
    need(result["commands"], "no command says how it is run")
    need(re.match(r"[0-9a-f]{7}\b", result["commit"]), "commit begins with seven digits of a commit's id")
    need(re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"]), "date is YYYY-MM-DD")
    need(result["machine"] in machines, f"docs/machines.json has no {result['machine']}")
    notes = result.get("notes", [])
    need(len(notes) <= NOTES_MAX and all(sentences(note) == 1 for note in notes),
         f"notes are at most {NOTES_MAX} strings of one sentence each; reasons and tries go to docs/decisions")
    for table in result.get("tables", []):
        keys(table, TABLE, "a table")
        known = {"unit"}
        for column in table["columns"]:
            keys(column, COLUMN, "a column")
            need(("key" in column) != ("aim_of" in column), f"column {column['title']} has a key or aim_of")
            known |= {column.get("key", column.get("aim_of"))}
        for row in table["rows"]:
            keys(row, known, f"row {list(row.values())[0]}")
            for cell in row.values():
                if isinstance(cell, dict):
                    keys(cell, CELL, "a cell")
                    need(("low" in cell) == ("high" in cell), "a cell has low and high, or neither")
    if "report" in result:
        keys(result["report"], REPORT, "the report")
        for pivot in result["report"].get("pivots", []):
            keys(pivot, PIVOT, "a pivot")
    for line in result.get("headline", []):
        keys(line, HEADLINE, "a headline")
        line["table"] = int(line.get("table", 0))


def sentences(text):
    return len(re.findall(r"[.!?](?:\s+(?=[A-Z`*])|$)", text.strip()))


# Files of results


def pretty(value, depth=0):
    """JSON with one line for each value that fits on one, and every digit of a Decimal."""
    text = flat(value)
    if depth and len(text) + depth <= JSON_WIDTH or not isinstance(value, (dict, list)):
        return text
    inner = " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{inner}{flat(key)}: {pretty(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * depth + "}" + ("" if depth else "\n")
    items = [inner + pretty(item, depth + 1) for item in value]
    return "[\n" + ",\n".join(items) + "\n" + " " * depth + "]"


def flat(value):
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flat(key)}: {flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flat(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
