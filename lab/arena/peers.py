#!/usr/bin/env python3
"""Runs a workload file against one engine, as concurrent users would, and writes each query's time.

    peers.py duckdb     --workload W --data FILE ... --json OUT [--memory-limit 1.2GB] [--set NAME=VALUE]
    peers.py datafusion --workload W --data FILE ... --json OUT [--memory-limit 1.2GB] [--set NAME=VALUE]
    peers.py pg         --workload W --dsn 'host=127.0.0.1 port=5432' --json OUT [--set NAME=VALUE]

Idea: one thread per stream, and the same measurement for all engines. `pg` is any server that
speaks PostgreSQL's protocol: Coscan itself is measured that way. --standalone measures each kind
of query by itself first, with cold caches: the base of the normalised latency of [CoopScans07
§5.2].

P1: a stream runs its queries in order, one at a time, and starts at its own `start_s`.
P2: a query that fails is recorded and its stream continues: an engine that refuses work is not faster, it
    has failures. A failure shortens its stream, and so `avg_stream_s`: read the failures first.
P3: latency is from sending the text to receiving the last row, in this process.
P4: each engine runs with its own defaults unless a setting is named; the settings are recorded.

Not here: limits (arena.py), whether results agree (compare.py).
"""

import argparse
import datetime
import decimal
import glob
import hashlib
import json
import math
import os
import statistics
import sys
import threading
import time

import arena
import workload as workloads

FORMAT = "coscan-peers"
VERSION = 1


# ---------------------------------------------------------------- engines

class DuckDb:
    """One in-memory database with a view of the files, and a cursor per stream, as its documentation
    recommends for threads."""

    def __init__(self, args):
        import duckdb
        self.version = duckdb.__version__
        self.args = args
        self.database = duckdb.connect(":memory:")
        for name, value in settings_of(args):
            self.database.execute(f"set {name} = {quoted(value)}")
        if args.memory_limit:
            self.database.execute(f"set memory_limit = '{args.memory_limit}B'")
        for table, files in args.tables.items():
            files = ", ".join(quoted(path) for path in files)
            self.database.execute(f"create view {table} as select * from read_parquet([{files}])")

    def session(self):
        cursor = self.database.cursor()
        return lambda sql: cursor.execute(sql).fetchall()

    def settings(self):
        names = ("memory_limit", "threads", "cache_local_files", "parquet_metadata_cache")
        return {name: self.database.execute(f"select current_setting('{name}')").fetchone()[0]
                for name in names}

    def close(self):
        self.database.close()


class DataFusion:
    """One SessionContext; its Python calls release the interpreter's lock while they run."""

    def __init__(self, args):
        import datafusion
        self.version = datafusion.__version__
        self.args = args
        config = datafusion.SessionConfig()
        for name, value in settings_of(args):
            config = config.set(name, value)
        runtime = datafusion.RuntimeEnvBuilder()
        if args.memory_limit:
            runtime = runtime.with_fair_spill_pool(args.memory_limit)
        self.context = datafusion.SessionContext(config, runtime)
        for table, files in args.tables.items():
            if len(files) == 1:
                self.context.register_parquet(table, files[0])
            else:
                self.context.register_listing_table(table, folder_of(files))

    def session(self):
        def query(sql):
            batches = self.context.sql(sql).collect()
            return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        return query

    def settings(self):
        return {"memory_pool": self.args.memory_limit or "unbounded"}

    def close(self):
        self.context = None


class Pg:
    """A connection per stream; a broken one is replaced for the stream's next query."""

    def __init__(self, args):
        import psycopg
        self.psycopg = psycopg
        self.args = args
        with self.connect() as connection:
            self.version = connection.info.parameter_status("server_version")

    def connect(self):
        connection = self.psycopg.connect(self.args.dsn, autocommit=True)
        for name, value in settings_of(self.args):
            connection.execute(f"set {name} = {quoted(value)}")
        return connection

    def session(self):
        held = {"connection": self.connect()}

        def query(sql):
            if held["connection"].closed:
                held["connection"] = self.connect()
            return held["connection"].execute(sql).fetchall()
        return query

    def settings(self):
        return {"dsn": self.args.dsn}

    def close(self):
        pass


ENGINES = {"duckdb": DuckDb, "datafusion": DataFusion, "pg": Pg}


def quoted(value):
    return "'" + str(value).replace("'", "''") + "'"


def settings_of(args):
    return [tuple(setting.split("=", 1)) for setting in args.set]


def folder_of(files):
    """DataFusion's listing table takes one folder."""
    folders = {os.path.dirname(path) for path in files}
    if len(folders) != 1:
        raise ValueError("datafusion takes one file, or all files of one folder")
    return folders.pop() + "/"


def files_of(patterns):
    """Files, folders and globs, in order, each file once."""
    found = []
    for pattern in patterns:
        if os.path.isdir(pattern):
            pattern = os.path.join(pattern, "*.parquet")
        matches = sorted(glob.glob(pattern))
        if not matches:
            raise ValueError(f"no such file: {pattern}")
        found.extend(matches)
    return list(dict.fromkeys(os.path.abspath(path) for path in found))


def tables_of(workload, files):
    """Table -> its files. A workload of several tables takes a file for each, named after it."""
    names = workload.get("tables")
    if not names:
        return {workload.get("table", "lineitem"): files}
    by_name = {os.path.basename(path).removesuffix(".parquet"): [path] for path in files}
    if missing := set(names) - set(by_name):
        raise ValueError(f"no file for {', '.join(sorted(missing))}")
    return {name: by_name[name] for name in names}


# ---------------------------------------------------------------- results

def plain(value):
    """A value for JSON: decimals and dates as text, so that no digit is lost."""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def summarise(records, standalone):
    """Averages over the records of `run_streams`; a figure that could not be computed is null."""
    done = [record for record in records if "error" not in record]
    for record in done:
        base = (standalone or {}).get(record["name"])
        record["normalized"] = round(record["latency_s"] / base, 4) if base else None
    streams = {}
    for record in records:
        first, last = streams.get(record["stream"], (float("inf"), 0.0))
        streams[record["stream"]] = (min(first, record["start_s"]),
                                     max(last, record["start_s"] + record["latency_s"]))
    normalized = [record["normalized"] for record in done if record["normalized"] is not None]
    starts = [first for first, _ in streams.values()]
    ends = [last for _, last in streams.values()]
    total_s = max(ends) - min(starts)
    latencies = sorted(record["latency_s"] for record in done)
    return {
        "queries_per_hour": round(3600 * len(done) / total_s, 1),
        "p95_s": percentile(latencies, 0.95),
        "avg_stream_s": rounded(statistics.fmean(last - first for first, last in streams.values())),
        "avg_normalized_latency": rounded(statistics.fmean(normalized)) if normalized else None,
        "total_s": rounded(total_s),
        "failures": [{key: record[key] for key in ("stream", "position", "name", "error")}
                     for record in records if "error" in record],
        "queries": sorted(records, key=lambda record: (record["stream"], record["position"])),
    }


def percentile(ascending, part):
    """The smallest value that at least this part of the values do not exceed; null if there is none."""
    return ascending[max(0, math.ceil(part * len(ascending)) - 1)] if ascending else None


def rounded(seconds):
    return round(seconds, 4)


def digest(workload):
    """Identifies the workload: two runs can be compared only if their digests agree."""
    return hashlib.sha256(json.dumps(workload["streams"], sort_keys=True).encode()).hexdigest()[:16]


# ---------------------------------------------------------------- runs

def timed(query, sql):
    """A record without its position: start and latency on the monotonic clock, rows or the error."""
    started = time.monotonic()
    try:
        rows = query(sql)
        latency = time.monotonic() - started
        result = [[plain(value) for value in row] for row in rows]
        return started, {"latency_s": rounded(latency), "rows": len(result), "result": result}
    except Exception as error:  # P2: an exception is a failure of the engine, not of this script
        latency = time.monotonic() - started
        return started, {"latency_s": rounded(latency), "rows": 0,
                         "error": f"{type(error).__name__}: {error}".strip()}


def run_streams(engine, workload, tell):
    """P1: a thread per stream. All sessions are open before the clock starts."""
    records, lock = [], threading.Lock()
    sessions = [open_session(engine) for _ in workload["streams"]]
    origin = time.monotonic()

    def stream(number, start_s, queries, session):
        time.sleep(max(0.0, origin + start_s - time.monotonic()))
        for position, query in enumerate(queries):
            started, outcome = timed(session, query["sql"])
            record = {"stream": number, "position": position, "name": query["name"],
                      "start_s": rounded(started - origin), **outcome}
            with lock:
                records.append(record)
            tell(record)

    threads = [threading.Thread(target=stream, args=(number, s["start_s"], s["queries"], session))
               for number, (s, session) in enumerate(zip(workload["streams"], sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return records


def open_session(engine):
    """A session; one that cannot be opened fails each of its queries with the reason (P2)."""
    try:
        return engine.session()
    except Exception as error:
        reason = error

        def refused(_sql):
            raise reason
        return refused


def measure_standalone(make_engine, workload, args, tell):
    """Seconds of each kind of query by itself: a fresh engine, and no pages of the files in the page cache.

    The first query of a name stands for all others: location and parameters hardly matter.
    """
    first = workloads.kinds(workload)
    names = args.names.split(",") if args.names else sorted(first)
    if unknown := set(names) - set(first):
        raise ValueError(f"the workload has no {', '.join(sorted(unknown))}")
    times = {}
    for name in names:
        runs = []
        for _ in range(args.standalone_runs):
            engine = make_engine()
            session = engine.session()
            for sql in args.before_each:
                session(sql)
            drop_pages(args.files)
            started, outcome = timed(session, first[name])
            if "error" in outcome:
                raise RuntimeError(f"{name} by itself: {outcome['error']}")
            runs.append(outcome["latency_s"])
            tell({"stream": "alone", "name": name, "start_s": 0.0, **outcome})
            engine.close()
        times[name] = rounded(statistics.median(runs))
    return times


def drop_pages(files):
    """Drops the files' pages from the page cache, without root and also from inside a control group."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def teller(quiet):
    def tell(record):
        if not quiet:
            what = record["error"].splitlines()[0] if "error" in record else f"{record['rows']} rows"
            sys.stderr.write(  # one write, so that threads' lines don't mix
                f"{record['start_s'] + record['latency_s']:8.1f} s  stream {record['stream']!s:>5}"
                f"  {record['name']:6}  {record['latency_s']:8.2f} s  {what}\n")
    return tell


def parse(argv):
    parser = argparse.ArgumentParser(description="Run a workload against one engine.")
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("--workload", required=True)
    parser.add_argument("--data", action="append", default=[], help="Parquet file, folder or glob")
    parser.add_argument("--dsn", default="host=127.0.0.1 port=5432 user=coscan dbname=coscan")
    parser.add_argument("--json", required=True, help="where the result goes")
    parser.add_argument("--memory-limit", type=arena.bytes_of, default=0,
                        help="the engine's own limit, such as 1.2GB [default: the engine's default]")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="an engine's setting")
    parser.add_argument("--standalone", action="store_true", help="measure each query by itself first")
    parser.add_argument("--standalone-only", action="store_true", help="and nothing else")
    parser.add_argument("--standalone-from", metavar="JSON", action="append", default=[],
                        help="take them from an earlier result (may be given several times)")
    parser.add_argument("--names", help="with --standalone: only these kinds, such as F-01,S-100")
    parser.add_argument("--standalone-runs", type=int, default=1, help="of which the median is taken")
    parser.add_argument("--before-each", action="append", default=[], metavar="SQL",
                        help="before each standalone run (such as: empty the server's buffers)")
    parser.add_argument("--warm-up", action="store_true", help="run the workload once before the run that counts")
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args(argv)
    if args.engine != "pg" and not args.data:
        parser.error(f"{args.engine} needs --data")
    if args.engine == "pg" and args.memory_limit:
        parser.error("a server's memory is set where it is started")
    if any("=" not in setting for setting in args.set):
        parser.error("--set takes NAME=VALUE")
    return args


def run(args):
    workload = workloads.load(args.workload)
    args.files = files_of(args.data)
    args.tables = tables_of(workload, args.files) if args.engine != "pg" else {}

    def make_engine():
        try:
            return ENGINES[args.engine](args)
        except Exception as error:  # exceptions differ by engine; no query ran, and the reason is enough
            raise RuntimeError(f"{args.engine} could not be opened: {error}") from error

    tell = teller(args.quiet)

    standalone = None
    if args.standalone_from:
        standalone = {}
        for path in args.standalone_from:
            with open(path) as file:
                standalone.update(json.load(file)["standalone"] or {})
    elif args.standalone or args.standalone_only:
        standalone = measure_standalone(make_engine, workload, args, tell)
        drop_pages(args.files)

    engine = make_engine()
    output = {
        "format": FORMAT, "version": VERSION, "engine": args.engine, "engine_version": engine.version,
        "settings": {**engine.settings(), **dict(settings_of(args))},
        "workload": {"digest": digest(workload), "mix": workload.get("mix"), "seed": workload.get("seed"),
                     "streams": len(workload["streams"])},
        "standalone": standalone,
    }
    if not args.standalone_only:
        if args.warm_up:
            failed = [record for record in run_streams(engine, workload, tell) if "error" in record]
            output["warm_up_failures"] = len(failed)
        output.update(summarise(run_streams(engine, workload, tell), standalone))
    engine.close()
    return output


def main(argv):
    args = parse(argv)
    try:
        output = run(args)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    partial = f"{args.json}.partial"
    with open(partial, "w") as file:
        json.dump(output, file)
        file.write("\n")
    os.replace(partial, args.json)
    if "failures" in output and not args.quiet:
        print(f"{output['engine']}: total {output['total_s']:.1f} s, mean stream {output['avg_stream_s']:.1f} s, "
              f"mean normalised latency {output['avg_normalized_latency']}, "
              f"{len(output['failures'])} failures", file=sys.stderr)
    return 1 if output.get("failures") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
