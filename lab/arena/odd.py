#!/usr/bin/env python3
"""What do the first queries of odd_data.py's tables cost? Time, processor time and memory, by step.

    odd.py FOLDER [--coscan BINARY] [--old BINARY] [--only many,wide,small] [--rounds 3] [--json OUT]

Idea: every round starts each engine in turn and sends it the same statements in the same order:
the first row, a plan, the first sum and the second one. Processor time and peak memory are the
process's own, the latter above its memory before the first statement (which opens the table in
DuckDB; a server has opened it at its start). The rows of all engines must be equal (compare.py).
Files are in the page cache: DuckDB and DataFusion read them there, Coscan's scans bypass it.
"""

import argparse
import glob
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time

import alone
import arena
import compare

WIDE_SUM = "select " + ", ".join(f"sum(c{at})" for at in range(250)) + " from t"
STATEMENTS = {
    "many": {"first row": "select * from t order by id limit 1",
             "limit": "select id, note from t limit 1",
             "plan": "explain select sum(amount) from t",
             "first sum": "select sum(amount), sum(quantity), count(*) from t",
             "second sum": "select sum(amount), sum(quantity), count(*) from t",
             "where": "select sum(amount) from t where customer < 500",
             "day": "select sum(amount) from t where day = date '2020-03-01'",
             "group": "select kind, sum(amount) from t group by kind order by kind"},
    "wide": {"first row": "select id, c0 from t order by id limit 1",
             "plan": f"explain {WIDE_SUM}",
             "first sum": WIDE_SUM, "second sum": WIDE_SUM},
    "small": {f"limit {at}": f"select * from small{at} limit 1" for at in range(20)},
}


def of_process(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def used_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / alone.TICKS_S


def tables_of(folder, kind):
    if kind == "small":
        files = glob.glob(os.path.join(folder, kind, "*.parquet"))
        return {os.path.basename(path).removesuffix(".parquet"): path for path in sorted(files)}
    return {"t": os.path.join(folder, kind)}


class Coscan:
    def __init__(self, program, tables):
        import psycopg
        self.port, self.process = arena.serve(program, tables)
        self.pid = self.process.pid
        self.connection = psycopg.connect(host="127.0.0.1", port=self.port, user="coscan", autocommit=True)
        self.connection.execute("set coscan.state_cache = '0'")

    def query(self, sql):
        return self.connection.execute(sql).fetchall()

    def stop(self):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def answer_by_duckdb(pipe, tables):
    import duckdb
    base = duckdb.connect()
    for name, path in tables.items():
        files = f"{path}/**/*.parquet" if os.path.isdir(path) else path
        base.execute(f"create view {name} as select * from read_parquet('{files}')")
    pipe.send("ready")
    for sql in iter(pipe.recv, None):
        try:
            pipe.send(base.execute(sql).fetchall())
        except duckdb.Error as error:
            pipe.send(error)


class DuckDB:
    def __init__(self, tables):
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=answer_by_duckdb, args=(other, tables))
        self.process.start()
        self.pid = self.process.pid
        self.pipe.recv()

    def query(self, sql):
        self.pipe.send(sql)
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self):
        self.pipe.send(None)
        self.process.join()


def measured(engine, statements):
    """Per statement: seconds, processor seconds, peak bytes above the idle process, rows."""
    idle, of = of_process(engine.pid, "VmRSS"), {}
    for name, sql in statements.items():
        with open(f"/proc/{engine.pid}/clear_refs", "w", encoding="ascii") as reset:
            reset.write("5")
        before, begun = used_s(engine.pid), time.perf_counter()
        rows = engine.query(sql)
        took = time.perf_counter() - begun
        time.sleep(0.05)
        of[name] = (took, used_s(engine.pid) - before, of_process(engine.pid, "VmHWM") - idle,
                    [] if sql.startswith("explain") else rows)
    return of


def require_equal(kind, name, sides):
    first, *others = sides.items()
    for other, rows in others:
        texts = [[[alone.text(cell) for cell in row] for row in of] for of in (first[1], rows)]
        why = compare.rows_differ(*texts)
        if why and "limit" not in name:
            raise SystemExit(f"odd.py: {kind}, {name}: rows of {first[0]} and {other} differ: {why}")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--coscan", default=os.path.join(alone.HERE, "../../target/release/coscan"))
    parser.add_argument("--old")
    parser.add_argument("--only", default=",".join(STATEMENTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    engines = {"coscan": lambda tables: Coscan(args.coscan, tables), "duckdb": DuckDB}
    if args.old:
        engines["old"] = lambda tables: Coscan(args.old, tables)
    report = {}
    for kind in args.only.split(","):
        statements, rounds = STATEMENTS[kind], []
        for _ in range(args.rounds):
            one = {}
            for name, start in engines.items():
                engine = start(tables_of(args.folder, kind))
                one[name] = measured(engine, statements)
                engine.stop()
            for statement in statements:
                require_equal(kind, statement, {name: of[statement][3] for name, of in one.items()})
            rounds.append(one)
        for statement in statements:
            for name in engines:
                of = [one[name][statement][:3] for one in rounds]
                medians = [statistics.median(values) for values in zip(*of)]
                report.setdefault(kind, {}).setdefault(statement, {})[name] = medians
                print(f"{kind:6} {statement:11} {name:7} {medians[0]:8.3f} s {medians[1]:8.2f} CPU-s "
                      f"{medians[2] / 1e6:8.0f} MB", flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"format": "coscan-odd", "version": 1, "rounds": args.rounds, "median": report}, out, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
