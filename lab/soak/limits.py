"""How does the limit change while the server works?

A schedule is a list of sizes, repeated, and the seconds for which each is in force:
`200MiB,400MiB,800MiB,1500MiB/10`. The limit is `coscan.memory` (the server gets the right to
change it, see `engine.py`).
"""

import re

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9,
         "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def size(text):
    """Bytes of `200MiB` or `1.5GB`."""
    match = re.fullmatch(r"([\d.]+)\s*([A-Za-z]*)", text.strip())
    if not match or match[2].upper() not in UNITS:
        raise ValueError(f"not a size: {text}")
    return int(float(match[1]) * UNITS[match[2].upper()])


def schedule(text):
    """The sizes and the seconds of a schedule."""
    sizes, _, seconds = text.partition("/")
    return [size(one) for one in sizes.split(",")], float(seconds or 10)


def limit_at(changes, time_s):
    """The limit in force, and for how long; `changes` are pairs of a time and a limit, in order."""
    before = [(at, limit) for at, limit in changes if at <= time_s]
    return (before[-1][1], time_s - before[-1][0]) if before else (None, 0.0)
