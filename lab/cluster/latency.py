"""Points 5 and 6: what does the way over a worker cost?

Both compare a server on its own with a coordinator, on one machine and in one run. Both servers
are up, all data is in memory, and one statement runs at a time; the sides take turns in
alternating order. Each round has parameters of its own, so that no states of an earlier round
answer it, and both sides' rows must be equal.

Point 5: point queries and short aggregates cost at most 3 ms more: the median of the differences,
for each statement.
Point 6: a query over one worker takes at most 1.15 times as long: the ratio of the medians, for
each query. All processes may use all cores.
Not here: workers on other machines; their network is the loopback interface's.
"""

import itertools
import random
import statistics
import time

import report
import sessions
import texts
import workers

MORE_S_MAX = 0.003
RATIO_MAX = 1.15
SHORT_AIM = "point queries and short aggregates take at most 3 ms longer through a cluster"
WHOLE_AIM = f"a query over one worker takes at most {RATIO_MAX} times one process's time"
WARM_UP = 2  # rounds that do not count: the first reads from the device
SIDES = ("alone", "cluster")


def timed(connection, sql):
    """(seconds, rows): from sending the text to receiving the last row."""
    start = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return time.perf_counter() - start, rows


def round_of(connections, asked, turn, times, misses):
    """Asks each statement on both sides. `times` gets the seconds by name and side."""
    order = SIDES if turn % 2 == 0 else SIDES[::-1]
    for name, sql in asked.items():
        try:
            answers = {side: timed(connections[side], sql) for side in order}
        except sessions.Failure as error:
            misses.append(f"{name}: {type(error).__name__}: {error}")
            continue
        sides = times.setdefault(name, {side: [] for side in SIDES})
        for side, (seconds, _) in answers.items():
            sides[side].append(seconds)
        alone, cluster = (sessions.in_order(answers[side][1]) for side in SIDES)
        wrong = sessions.difference(sql, alone, cluster)
        if wrong:
            misses.append(f"{name}: rows differ: {wrong}")


def measured(options, tables, count, rounds, repeats, outcome):
    """Seconds by name and side, of `repeats` rounds of statements on `count` workers."""
    with workers.Machine(options.coscan, options.data) as machine:
        servers = {"alone": machine.server(tables, options.latency_memory)}
        started = machine.workers(count, options.latency_memory, options.port)
        servers["cluster"] = machine.coordinator(tables, started, options.latency_bytes_per_node)
        connections = {side: sessions.connect(server.dsn) for side, server in servers.items()}
        times = {}
        for turn, asked in enumerate(itertools.islice(rounds, WARM_UP + repeats)):
            if turn == WARM_UP:
                times.clear()
            round_of(connections, asked, turn, times, outcome.misses)
        for connection in connections.values():
            connection.close()
        outcome.heard(machine)
    return times


def figures_of(times):
    """For each statement the medians and the spread of the rounds' differences and ratios."""
    figures = {}
    for name, sides in times.items():
        pairs = list(zip(sides["alone"], sides["cluster"]))
        figures[name] = {
            **{f"{side}_s": report.spread(sides[side]) for side in SIDES},
            "more_s": report.spread([cluster - alone for alone, cluster in pairs]),
            "ratio": statistics.median(sides["cluster"]) / statistics.median(sides["alone"]),
        }
    return figures


def short_misses(figures):
    for name, of in figures.items():
        more = of["more_s"]["median"]
        if more > MORE_S_MAX:
            yield f"{name}: {more * 1e3:.1f} ms more"


def whole_misses(figures):
    for name, of in figures.items():
        if of["ratio"] > RATIO_MAX:
            yield f"{name}: {of['ratio']:.2f} times as long"


def table(figures):
    yield ["statement", "alone ms", "cluster ms", "ratio", "more ms", "least", "most"]
    for name, of in figures.items():
        more = of["more_s"]
        yield [name, *(f"{of[f'{side}_s']['median'] * 1e3:.2f}" for side in SIDES),
               f"{of['ratio']:.2f}",
               *(f"{more[key] * 1e3:.2f}" for key in ("median", "min", "max"))]


def short(options, tables, outcome):
    """Point 5."""
    draw = random.Random(options.seed)
    rounds = (texts.short(options.scale, draw) for _ in itertools.count())
    times = measured(options, tables, options.short_workers, rounds, options.repeats, outcome)
    outcome.figures["workers"] = options.short_workers
    judge(times, short_misses, outcome)


def whole(options, tables, outcome):
    """Point 6."""
    rounds = texts.drawn(options.seed)
    times = measured(options, tables, 1, rounds, options.whole_repeats, outcome)
    judge(times, whole_misses, outcome)
    totals = {side: sum(statistics.median(of[side]) for of in times.values()) for side in SIDES}
    outcome.figures["ratio_of_totals"] = totals["cluster"] / totals["alone"]
    outcome.row("total", *(f"{totals[side] * 1e3:.2f}" for side in SIDES),
                f"{totals['cluster'] / totals['alone']:.2f}", "", "", "")


def judge(times, misses_of, outcome):
    figures = figures_of(times)
    outcome.figures["statements"] = figures
    outcome.misses.extend(misses_of(figures))
    outcome.tables.append(list(table(figures)))
