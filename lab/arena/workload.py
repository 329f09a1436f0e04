#!/usr/bin/env python3
"""Reads a workload: which stream runs which SQL, and when it starts.

    workload.py --show w.json        print the streams
    workload.py --names w.json       print the kinds of queries

Idea: engines can be compared only if they run exactly the same text, so a workload is a file, made
once, by `coscan bench workload` (the paper's queries) or `coscan bench mix` (whole TPC-H queries).
README.md describes the format. Not here: drawing the queries (`lab/bench/src/workload`), running
them (`peers.py`).
"""

import argparse
import json
import sys

FORMAT = "coscan-workload"
VERSION = 1

STREAMS_MAX = 1024
QUERIES_MAX = 1024


def check(workload):
    """Raises ValueError if the workload is malformed, and says where."""
    if not isinstance(workload, dict) or workload.get("format") != FORMAT:
        raise ValueError(f"not a workload: \"format\" is not {FORMAT!r}")
    if workload.get("version") != VERSION:
        raise ValueError(f"workload version {workload.get('version')!r}, this reads {VERSION}")
    streams = workload.get("streams")
    if not isinstance(streams, list) or not 1 <= len(streams) <= STREAMS_MAX:
        raise ValueError(f"\"streams\" is a list of 1 to {STREAMS_MAX}")
    for number, stream in enumerate(streams):
        start = stream.get("start_s")
        if not isinstance(start, (int, float)) or start < 0:
            raise ValueError(f"stream {number}: \"start_s\" is not a time")
        queries = stream.get("queries")
        if not isinstance(queries, list) or not 1 <= len(queries) <= QUERIES_MAX:
            raise ValueError(f"stream {number}: \"queries\" is a list of 1 to {QUERIES_MAX}")
        for query in queries:
            for field in ("name", "sql"):
                if not isinstance(query.get(field), str) or not query[field]:
                    raise ValueError(f"stream {number}: a query without {field!r}")
    return workload


def load(path):
    with open(path) as file:
        return check(json.load(file))


def kinds(workload):
    """Name -> SQL of the first query of that name."""
    first = {}
    for stream in workload["streams"]:
        for query in stream["queries"]:
            first.setdefault(query["name"], query["sql"])
    return first


def show(workload):
    """Prints one line per stream."""
    names = [query["name"] for stream in workload["streams"] for query in stream["queries"]]
    for number, stream in enumerate(workload["streams"]):
        marks = " ".join(f"{q['name']}@{q.get('from_percent', 0):.1f}" for q in stream["queries"])
        yield f"{number:4d}  {stream['start_s']:7.1f} s  {marks}"
    counts = ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
    yield f"{len(names)} queries: {counts}"


def main(argv):
    parser = argparse.ArgumentParser(description="Show a workload.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--show", metavar="FILE", help="print the streams of a workload")
    what.add_argument("--names", metavar="FILE", help="print the kinds of queries in a workload")
    args = parser.parse_args(argv)
    try:
        lines = show(load(args.show)) if args.show else sorted(kinds(load(args.names)))
        print("\n".join(lines))
    except (ValueError, OSError) as error:
        print(f"workload: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
