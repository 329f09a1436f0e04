"""Point 1, first part: are the rows of a cluster those of one process?

All 22 queries of TPC-H, on clusters of each size. `bytes_per_node` is small, so that small tables
too are divided among all workers; a cluster in which a worker has no part of any query would prove
nothing, so that is a miss.
Not here: workers that are killed (kills.py).
"""

import re
import time

import sessions
import texts
import workers

AIM = "all 22 TPC-H queries on a cluster give one process's rows"
NODE = re.compile(r"\bnode=([^\s,]+),")


def nodes_in(plan):
    """The addresses of the nodes that have a part in an EXPLAIN."""
    return set(NODE.findall(plan))


def nodes_of(connection, texts_by_name):
    """The nodes that run any of these statements."""
    found = set()
    for sql in texts_by_name.values():
        plan = sessions.ask(connection, f"explain {sql}")
        found |= nodes_in("\n".join(value or "" for row in plan for value in row))
    return found


def compared(connection, expected):
    """For each statement (name, seconds, what is wrong or None)."""
    for name, statement in expected.items():
        start = time.monotonic()
        try:
            rows = sessions.ask(connection, statement["sql"])
            wrong = sessions.difference(statement["sql"], statement["rows"], rows)
        except sessions.Failure as error:
            wrong = f"{type(error).__name__}: {error}".strip()
        yield name, time.monotonic() - start, wrong


def answers(options, tables, outcome):
    """Name -> {sql, rows} of one process: the 22 and the statements that kills.py asks too."""
    asked = {**texts.tpch(options.scale), **texts.streaming(options.scale)}
    with workers.Machine(options.coscan, options.data) as machine:
        server = machine.server(tables, options.rows_memory)
        expected = sessions.answers_of(server.dsn, asked)
        outcome.heard(machine)
    return expected


def on_workers(count, options, tables, expected, outcome):
    """The 22 on so many workers: a row of the table, and the misses."""
    with workers.Machine(options.coscan, options.data) as machine:
        started = machine.workers(count, options.rows_memory // count, options.port)
        coordinator = machine.coordinator(tables, started, options.rows_bytes_per_node)
        with sessions.connect(coordinator.dsn) as connection:
            asked = {name: of["sql"] for name, of in expected.items()}
            used = nodes_of(connection, asked)
            results = list(compared(connection, expected))
        outcome.heard(machine)
    idle = sorted({worker.address for worker in started} - used)
    outcome.misses.extend(f"{count} workers: {address} has no part in any query"
                          for address in idle)
    wrong = {name: why for name, _, why in results if why}
    outcome.misses.extend(f"{count} workers: {name}: {why}" for name, why in wrong.items())
    outcome.figures[f"on_{count}"] = {
        "nodes_used": len(used), "wrong": wrong,
        "seconds": {name: round(seconds, 4) for name, seconds, _ in results}}
    total = sum(seconds for _, seconds, _ in results)
    outcome.row(f"{count} workers", str(len(results)), str(len(wrong)), f"{total:.1f}",
                str(len(used)))


def run(options, tables, outcome):
    """Adds to the outcome; returns one process's answers, for kills.py."""
    outcome.tables.append([["on", "statements", "wrong", "seconds", "workers used"]])
    expected = answers(options, tables, outcome)
    for count in options.workers:
        on_workers(count, options, tables, expected, outcome)
    return expected
