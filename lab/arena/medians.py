#!/usr/bin/env python3
"""Medians over several runs of `coscan bench coop --json`: each policy over `relevance`, as in the paper's tables.

    lab/arena/medians.py nsm-1.json nsm-2.json ...

The runs must have the same policies, `relevance` among them. Ratios are taken within a run, so that changes of the machine's speed
cancel out."""

import json
import statistics
import sys

BASE = "relevance"
RATIOS = [
    ("stream time", "avg_stream_s"),
    ("normalized latency", "avg_normalized_latency"),
    ("total time", "total_s"),
    ("bytes read", "io_bytes"),
]
SHARES = [("CPU use", "cpu_fraction"), ("scheduler's share of CPU", "sched_cpu_fraction")]


def spread(values):
    """Median, smallest and largest value."""
    return statistics.median(values), min(values), max(values)


def medians(runs):
    """Rows of (figure, policy, median, least, largest)."""
    policies = list(runs[0]["policies"])
    if any(list(run["policies"]) != policies for run in runs):
        raise ValueError("the runs have different policies")
    others = [policy for policy in policies if policy != BASE]
    rows = []
    for label, key in RATIOS:
        for policy in others:
            ratios = [run["policies"][policy][key] / run["policies"][BASE][key] for run in runs]
            rows.append((f"{label} / {BASE}'s", policy, *spread(ratios)))
        rows.append((label, BASE, *spread([run["policies"][BASE][key] for run in runs])))
    for label, key in SHARES:
        for policy in policies:
            rows.append((label, policy, *spread([run["policies"][policy][key] for run in runs])))
    union = [run["policies"][BASE]["io_bytes"] / run["union_bytes"] for run in runs]
    rows.append(("bytes read / union", BASE, *spread(union)))
    return rows


def main(paths):
    if not paths:
        sys.exit(__doc__)
    runs = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            runs.append(json.load(file))
    print(f"{len(runs)} runs, seeds {', '.join(str(run['seed']) for run in runs)}")
    for figure, policy, median, least, largest in medians(runs):
        print(f"{figure:36} {policy:16} {median:12.4g}   {least:.4g} to {largest:.4g}")


if __name__ == "__main__":
    main(sys.argv[1:])
