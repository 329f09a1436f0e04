#!/usr/bin/env python3
"""Writes the workload of [CoopScans07 §5.1] as data: which stream runs which SQL, and when it starts.

    workload.py --scale 40 [--mix FS-T] [--streams 16] [--queries 4] [--delay 3] [--seed 1] > w.json
    workload.py --show w.json

Idea: engines are compared only if they run the very same text, so the workload is a file, made once.
`peers.py` runs such a file; `coscan bench coop --dump-workload` writes the same format, which
README.md defines. A mix is SPEED-SIZE, as in the paper's Figure 5:

    SPEED  letters drawn from with equal chance: F, S, FS, FFS, FSS ...
           F = FAST = TPC-H Q6.  S = SLOW = TPC-H Q1 with extra arithmetic.
    SIZE   percent of the table: S = 1,2,5,10,20  M = 1,2,10,50,100  L = 10,30,50,100
           T = 1,10,50,100 (the paper's Table 2), or a list such as 5,25

W1: the same arguments give the same bytes, on every machine and every version of Python.
W2: the first k streams of a workload do not depend on how many follow.
W3: the SQL means the same in DuckDB, DataFusion and PostgreSQL's dialect, and no literal makes an
    engine compare decimals as floats: DataFusion reads a bare 0.05 as a float, so decimal
    literals are cast from text, and dates are computed here, not by interval arithmetic.

We differ from the paper: TPC-H's substitution parameters are drawn for each query, so that no
engine gains from having seen the very same query before. A query over 100 % carries no range
predicate, as no user would write it: peers need not read the key column for it.
"""

import argparse
import datetime
import json
import sys

FORMAT = "coscan-workload"
VERSION = 1

SIZES = {"S": (1, 2, 5, 10, 20), "M": (1, 2, 10, 50, 100), "L": (10, 30, 50, 100), "T": (1, 10, 50, 100)}
SPEEDS = "FS"
STREAMS_MAX = 1024
QUERIES_MAX = 1024

# TPC-H's keys are sparse, 8 used of every 32: scale x 1,500,000 orders end at scale x 6,000,000.
KEYS_PER_SCALE = 6_000_000

# Extra sums in SLOW. One keeps the 64 queries of Table 2's mix at the processor time that
# docs/BENCHMARKS.md's arena was set for (some 225 s in DuckDB 2.0 at scale 40): SLOW then takes 2.7
# times FAST's processor time, but not the paper's 1.7 times its elapsed time, because at 200 MB/s the
# device is what both wait for. That ratio takes about 16.
SLOW_TERMS = 1


class SplitMix64:
    """Steele, Lea, Flood 2014: a few lines in any language, so that W1 holds across languages too."""

    MASK = (1 << 64) - 1

    def __init__(self, seed):
        self.state = seed & self.MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & self.MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & self.MASK
        return z ^ (z >> 31)

    def below(self, n):
        """In [0, n), by multiply and shift: the bias is under n / 2^64."""
        return (self.next() * n) >> 64


def parse_mix(mix):
    """'FFS-M' -> ('FFS', (1, 2, 10, 50, 100)); 'F-5,25' -> ('F', (5, 25))."""
    speed, _, size = mix.partition("-")
    if not speed or set(speed) - set(SPEEDS):
        raise ValueError(f"mix {mix!r}: the speed is made of the letters F and S")
    if size in SIZES:
        return speed, SIZES[size]
    try:
        percents = tuple(int(part) for part in size.split(","))
    except ValueError:
        percents = ()
    if not percents or min(percents) < 1 or max(percents) > 100:
        raise ValueError(f"mix {mix!r}: the size is one of {', '.join(SIZES)} or percents such as 5,25")
    return speed, percents


def decimal(text):
    """W3."""
    return f"cast('{text}' as decimal(15,2))"


def key_range(key, low, high, percent):
    return "" if percent == 100 else f" and {key} between {low} and {high}"


class Constants:
    """The constants of the queries: TPC-H's substitution parameters, or, if `distinct`, such that no two
    queries of a workload have a constant in common but for discounts, of which TPC-H has eleven."""

    def __init__(self, rng, distinct):
        self.rng = rng
        self.distinct = distinct
        self.dates = set()

    def date(self, first, days):
        """A date of the `days` days from `first` on that no query has had."""
        if all(first + datetime.timedelta(days=day) in self.dates for day in range(days)):
            raise ValueError(f"{len(self.dates)} dates are taken: fewer queries can all have dates of their own")
        while True:
            date = first + datetime.timedelta(days=self.rng.below(days))
            if date not in self.dates:
                self.dates.add(date)
                return date

    def fast(self):
        """First day, day after the last, least and greatest discount in percent, quantity."""
        if self.distinct:
            first = self.date(datetime.date(1993, 1, 1), 1500)
            last = self.date(first + datetime.timedelta(days=300), 200)
            low = self.rng.below(8)
            return first, last, low, low + 1 + self.rng.below(3), 20 + self.rng.below(10)
        year = 1993 + self.rng.below(5)
        discount = 2 + self.rng.below(8)
        quantity = 24 + self.rng.below(2)
        return (datetime.date(year, 1, 1), datetime.date(year + 1, 1, 1),
                discount - 1, discount + 1, quantity)

    def slow(self):
        """The last day."""
        if self.distinct:
            return self.date(datetime.date(1996, 1, 1), 1000)
        return datetime.date(1998, 12, 1) - datetime.timedelta(days=60 + self.rng.below(61))


def fast_sql(constants, table, where):
    """TPC-H Q6. Draws: year, discount, quantity."""
    first, last, low, high, quantity = constants.fast()
    return (
        f"select sum(l_extendedprice * l_discount) as revenue from {table}"
        f" where l_shipdate >= date '{first}' and l_shipdate < date '{last}'"
        f" and l_discount between {decimal(f'0.{low:02d}')} and {decimal(f'0.{high:02d}')}"
        f" and l_quantity < {decimal(quantity)}{where}"
    )


def slow_sql(constants, table, where, terms):
    """TPC-H Q1 and `terms` sums more. Draws: delta."""
    last = constants.slow()
    extra = "".join(
        f", sum(sqrt(cast(l_extendedprice as double precision) * (1 + cast(l_tax as double precision))"
        f" + {n})) as extra_{n}"
        for n in range(1, terms + 1)
    )
    return (
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty,"
        " sum(l_extendedprice) as sum_base_price,"
        " sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,"
        " sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,"
        " avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price,"
        f" avg(l_discount) as avg_disc{extra}, count(*) as count_order from {table}"
        f" where l_shipdate <= date '{last.isoformat()}'{where}"
        " group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"
    )


def generate(mix="FS-T", streams=16, queries=4, delay_s=3.0, seed=1, key_min=1,
             key_max=KEYS_PER_SCALE, table="lineitem", key="l_orderkey", slow_terms=SLOW_TERMS,
             distinct=False):
    """The workload as a dict. Draws, in order, for each query of each stream: speed, percent,
    location, then the query's own parameters."""
    speeds, percents = parse_mix(mix)
    if not (1 <= streams <= STREAMS_MAX and 1 <= queries <= QUERIES_MAX):
        raise ValueError(f"streams 1 to {STREAMS_MAX}, queries 1 to {QUERIES_MAX}")
    if delay_s < 0 or slow_terms < 0 or key_max < key_min:
        raise ValueError("delay and slow terms are not negative, keys run upwards")
    rng = SplitMix64(seed)
    constants = Constants(rng, distinct)
    span = key_max - key_min + 1
    out = []
    for number in range(streams):
        stream = []
        for _ in range(queries):
            speed = speeds[rng.below(len(speeds))]
            percent = percents[rng.below(len(percents))]
            width = max(1, span * percent // 100)
            low = key_min + rng.below(span - width + 1)
            where = key_range(key, low, low + width - 1, percent)
            sql = (fast_sql(constants, table, where) if speed == "F"
                   else slow_sql(constants, table, where, slow_terms))
            stream.append({
                "name": f"{speed}-{percent:02d}",
                "percent": percent,
                "from_percent": round(100 * (low - key_min) / span, 4),
                "key_low": low,
                "key_high": low + width - 1,
                "sql": sql,
            })
        out.append({"start_s": round(number * delay_s, 6), "queries": stream})
    return {
        "format": FORMAT, "version": VERSION, "mix": mix, "seed": seed, "delay_s": delay_s,
        "table": table, "key": key, "key_min": key_min, "key_max": key_max,
        "slow_terms": slow_terms, **({"distinct": True} if distinct else {}), "streams": out,
    }


def check(workload):
    """Raises ValueError with what is wrong: for whoever reads a file that somebody else wrote."""
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
    """One line per stream, for people."""
    names = [query["name"] for stream in workload["streams"] for query in stream["queries"]]
    for number, stream in enumerate(workload["streams"]):
        marks = " ".join(f"{q['name']}@{q.get('from_percent', 0):.1f}" for q in stream["queries"])
        yield f"{number:4d}  {stream['start_s']:7.1f} s  {marks}"
    counts = ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
    yield f"{len(names)} queries: {counts}"


def main(argv):
    parser = argparse.ArgumentParser(description="Generate or show a workload.")
    parser.add_argument("--show", metavar="FILE", help="print a workload for people and end")
    parser.add_argument("--names", metavar="FILE", help="print the kinds of queries in a workload and end")
    parser.add_argument("--mix", default="FS-T")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--queries", type=int, default=4, help="queries per stream")
    parser.add_argument("--delay", type=float, default=3.0, help="seconds between streams' starts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale of the table")
    parser.add_argument("--table", default="lineitem", help="its name in the SQL")
    parser.add_argument("--slow-terms", type=int, default=SLOW_TERMS, help="extra sums in SLOW")
    parser.add_argument("--distinct", action="store_true",
                        help="no two queries have a date in common: nothing that one computed is another's")
    parser.add_argument("--out", help="file to write [default: standard output]")
    args = parser.parse_args(argv)
    try:
        if args.show:
            print("\n".join(show(load(args.show))))
            return 0
        if args.names:
            print("\n".join(sorted(kinds(load(args.names)))))
            return 0
        workload = generate(args.mix, args.streams, args.queries, args.delay, args.seed,
                            key_max=int(args.scale * KEYS_PER_SCALE), table=args.table,
                            slow_terms=args.slow_terms, distinct=args.distinct)
    except (ValueError, OSError) as error:
        print(f"workload: {error}", file=sys.stderr)
        return 2
    text = json.dumps(workload, indent=1) + "\n"
    if args.out:
        with open(args.out, "w") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
