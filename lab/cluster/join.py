"""Point 4: what does a worker cost that joins under load?

The coordinator's list names four workers. One of them is not started, so it counts as lost until
it answers. Sessions ask short queries all the while, others scan whole tables, and so does the lab:
pass after pass over every column that the short queries read (texts.py).

| phase | what is taken down |
|---|---|
| fill | the resident bytes: all that the device gives. The last pass must read nothing |
| before | the short queries' latencies; no byte should be read |
| after | begins with the start of the fourth worker: all bytes of the device, the latencies |

The cluster has settled at the end of the first pass that began with the newcomer present and read
nothing. The latencies after the start are those of the queries that end until then, and in
`WINDOW_S` at least; those before are of as many seconds. A query that waits while the worker starts
is one of them. All bytes of the phase are read again, also those after the cluster has settled,
those of the newcomer's footers, and what workers read through the page cache: it is emptied at the
phase's begin, but for the program.
`joins` rounds have different newcomers, because what moves depends on the newcomer's place in the
order: queries on few nodes run on the first ones. The worst round counts.

CL7: a round in which the newcomer has no part, or a window has less than `QUERIES_MIN` short
queries, shows nothing, and misses.
Not here: what a worker that leaves costs.
"""

import dataclasses
import itertools
import random
import statistics
import time

import kills
import report
import rows
import sessions
import texts
import workers
import arena

WORKERS = 4
AGAIN_MAX = 1 / WORKERS + 0.1
RATIO_MAX = 1.5
AIM = f"a worker joins {WORKERS - 1} under load: at most {AGAIN_MAX:.0%} of the resident bytes " \
      f"are read again, and P95 of short queries is at most {RATIO_MAX} times that before"
WINDOW_S = 10.0
QUERIES_MIN = 100  # in a window: its P95 has five above it
PHASE_MAX = 4  # times the seconds that a phase takes, until a pass reads nothing
PRESENT_S = 10.0  # the coordinator asks a lost worker each second
SHORT_ROUNDS = 200  # of seven texts each; answers that a session gets twice may come from states
SCANS_FIRST, SCANS = 2_000, 500  # passes of the sessions that scan; the lab's begin with 0
EXAMPLES_MAX = 3  # of failed queries, in the misses


@dataclasses.dataclass
class Pass:
    """The lab's scans of all tables once."""

    begin: float
    end: float
    read_bytes: int


# ---------------------------------------------------------------- judging

def settled(passes, present):
    """When the first pass has ended that began with the newcomer present and read nothing."""
    if present is None:
        return None
    return next((one.end for one in passes if one.begin >= present and one.read_bytes == 0), None)


def took(records, begin, end):
    """How long the queries took that ended in this time, ascending."""
    return sorted(record["end"] - record["start"] for record in records
                  if begin < record.get("end", end + 1) <= end)


def latencies(records, before, after):
    """Of both windows, which are (begin, end): the number of queries, the median and the P95."""
    found = {}
    for name, window in (("before", before), ("after", after)):
        ascending = took(records, *window)
        found[name] = {"count": len(ascending)}
        if ascending:
            found[name].update(median_s=statistics.median(ascending),
                               p95_s=report.percentile(ascending, 0.95))
    if all(found[name]["count"] for name in ("before", "after")):
        found["ratio"] = found["after"]["p95_s"] / found["before"]["p95_s"]
    return found


def by_statement(records, before, after):
    """The same for each of the short statements."""
    kinds = {}
    for record in records:
        kinds.setdefault(record["name"].partition("/")[0], []).append(record)
    return {kind: latencies(of, before, after) for kind, of in sorted(kinds.items())}


def failures(records):
    """What is wrong with queries of the sessions: no failure is allowed."""
    kinds = [(kills.judged(record, []), record) for record in records]
    found = [kills.sentence(record, kind) for kind, record in kinds if kind != "right"]
    yield from found[:EXAMPLES_MAX]
    if len(found) > EXAMPLES_MAX:
        yield f"{len(found) - EXAMPLES_MAX} more queries are not right"


def misses_of(one):
    """Why a round misses."""
    if not one["has_part"]:
        yield "CL7: the newcomer has no part in a scan"
    if one["settled_s"] is None:
        yield "no pass reads nothing until the end"
    fewest = min(one["short"][name]["count"] for name in ("before", "after"))
    if fewest < QUERIES_MIN:
        yield f"CL7: a window has {fewest} short queries"
    if one["again"] > AGAIN_MAX:
        yield f"{one['again']:.1%} of the resident bytes are read again"
    if one["short"].get("ratio", 0.0) > RATIO_MAX:
        yield f"P95 of short queries is {one['short']['ratio']:.2f} times that before"


def judge(rounds, outcome):
    for one in rounds:
        outcome.misses.extend(f"{one['joiner']}: {miss}" for miss in misses_of(one))
    outcome.tables.append([["figure, the worst round's", "aim", "measured", "verdict"]])
    again = [one["again"] for one in rounds]
    ratios = [one["short"]["ratio"] for one in rounds if "ratio" in one["short"]]
    for name, title, values, most, shown in (
            ("again", "read again", again, AGAIN_MAX, "{:.1%}"),
            ("p95_ratio", "P95, ratio", ratios, RATIO_MAX, "{:.2f}")):
        if values:
            outcome.figures[name] = {**report.spread(values), "aim": most}
            verdict = "met" if max(values) <= most else "missed"
            outcome.row(title, shown.format(most), shown.format(max(values)), verdict)


HEAD = ["newcomer", "place", "resident MB", "before MB", "again MB", "again", "settled s",
        "queries before", "after", "P95 before ms", "after ms", "ratio"]


def row(one):
    short = one["short"]
    settled_s = "-" if one["settled_s"] is None else f"{one['settled_s']:.1f}"
    p95 = (f"{short[name]['p95_s'] * 1e3:.1f}" if short[name]["count"] else "-"
           for name in ("before", "after"))
    return [one["joiner"], str(one["place"]),
            *(report.megabytes(one[key])
              for key in ("resident_bytes", "before_read_bytes", "again_bytes")),
            f"{one['again']:.1%}", settled_s,
            *(str(short[name]["count"]) for name in ("before", "after")), *p95,
            f"{short['ratio']:.2f}" if "ratio" in short else "-"]


# ---------------------------------------------------------------- asking

def short_texts(options):
    """Name -> text: short queries with drawn keys."""
    draw = random.Random(options.seed)
    return {f"{name}/{number}": sql for number in range(SHORT_ROUNDS)
            for name, sql in texts.short(options.scale, draw).items()}


def scan_statements():
    """What the sessions that scan ask; the answers are not compared."""
    return {f"scan-{at}/{number}": {"sql": sql, "rows": None}
            for number in range(SCANS_FIRST, SCANS_FIRST + SCANS)
            for at, sql in enumerate(texts.whole(number))}


def answers(options, tables, outcome):
    """The short statements with one process's rows."""
    with workers.Machine(options.coscan, options.data) as machine:
        server = machine.server(tables, options.join_memory)
        expected = sessions.answers_of(server.dsn, short_texts(options))
        outcome.heard(machine)
    return expected


def passes(machine, connection, numbers, until):
    """Passes, one at least, until one ends at this time or later."""
    done = []
    while not done or done[-1].end < until:
        begin, before = time.monotonic(), machine.read_bytes()
        for sql in texts.whole(next(numbers)):
            sessions.ask(connection, sql)
        done.append(Pass(begin, time.monotonic(), machine.read_bytes() - before))
    return done


def quiet_passes(machine, connection, numbers, begin, seconds):
    """Passes until the time, and on until one reads nothing; not beyond `PHASE_MAX`."""
    done = passes(machine, connection, numbers, begin + seconds)
    while done[-1].read_bytes and done[-1].end < begin + PHASE_MAX * seconds:
        done.extend(passes(machine, connection, numbers, 0.0))
    return done


def nodes(connection):
    """Address -> (place in the order, state), as the coordinator knows them."""
    found = sessions.ask(connection, "select node, place, state from coscan.nodes")
    return {node: (int(place), state) for node, place, state in found}


def when_present(connection, address):
    """When the coordinator knows that the node is present; None if it does not learn it."""
    deadline = time.monotonic() + PRESENT_S
    while nodes(connection)[address][1] != "present":
        if time.monotonic() > deadline:
            return None
        time.sleep(0.02)
    return time.monotonic()


# ---------------------------------------------------------------- a round

def filled(machine, connection, numbers, seconds):
    """The passes that make all bytes resident, and these bytes."""
    before = machine.read_bytes()
    done = quiet_passes(machine, connection, numbers, time.monotonic(), seconds)
    if done[-1].read_bytes:
        read = ", ".join(report.megabytes(one.read_bytes) for one in done)
        raise arena.ArenaError("three workers do not keep all in their memory (--join-memory): "
                               f"passes read {read} MB")
    return done, machine.read_bytes() - before


def joined(machine, connection, joiner, numbers, options):
    """What happens in the three phases, without the sessions' records."""
    fill, resident = filled(machine, connection, numbers, options.fill)
    place, state = nodes(connection)[joiner.address]
    if state == "present":
        raise arena.ArenaError(f"{joiner.address} answers before it is started")
    at_rest, begin = machine.read_bytes(), time.monotonic()
    before = passes(machine, connection, numbers, begin + options.load)
    end = time.monotonic()
    at_end = machine.read_bytes()
    machine.forget_pages()
    start = time.monotonic()
    joiner.start()
    ready = time.monotonic()
    present = when_present(connection, joiner.address)
    after = quiet_passes(machine, connection, numbers, start, options.load)
    again = machine.read_bytes() - at_end
    quiet = settled(after, present)
    window = max(WINDOW_S, options.load if quiet is None else quiet - start)
    window = min(window, end - begin)  # the phase before has no more
    used = rows.nodes_of(connection, dict(enumerate(texts.whole(next(numbers)))))
    return {
        "joiner": joiner.address, "place": place, "has_part": joiner.address in used,
        "resident_bytes": resident, "before_read_bytes": at_end - at_rest, "again_bytes": again,
        "again": again / max(1, resident), "ready_s": ready - start,
        "present_s": None if present is None else present - start,
        "settled_s": None if quiet is None else quiet - start, "window_s": window,
        "windows": {"before": (end - window, end), "after": (start, start + window)},
        "passes": {name: [{"seconds": one.end - one.begin, "read_bytes": one.read_bytes}
                          for one in of]
                   for name, of in (("fill", fill), ("before", before), ("after", after))},
    }


def one_round(at, options, tables, expected, outcome):
    """A round in which the worker with this number joins the others."""
    with workers.Machine(options.coscan, options.data, options.bandwidth) as machine:
        listed = [machine.worker(options.join_memory, options.port + number)
                  for number in range(WORKERS)]
        joiner = listed[at]
        for worker in listed:
            if worker is not joiner:
                worker.start()
        coordinator = machine.coordinator(tables, listed, options.join_bytes_per_node)
        seconds = 2 * PHASE_MAX * (options.fill + 2 * options.load)  # they end with the round
        load = [sessions.Clients(machine.folder, name, coordinator.dsn, asked, count, seconds,
                                 options.seed)
                for name, asked, count in (
                    ("short", expected, options.short_sessions),
                    ("scans", scan_statements(), options.scan_sessions))]
        short, scans = load
        try:
            with short, scans, sessions.connect(coordinator.dsn) as connection:
                one = joined(machine, connection, joiner, itertools.count(), options)
                for clients in load:
                    clients.end()
                records, scanned = short.records(), scans.records()
        finally:
            outcome.heard(machine)
        windows = one.pop("windows")
        one.update(short=latencies(records, **windows), scans=latencies(scanned, **windows),
                   by_statement=by_statement(records, **windows),
                   memory_most=machine.memory_most())
        outcome.misses.extend(f"{joiner.address}: {miss}"
                              for miss in failures(records + scanned))
    return one


def run(options, tables, outcome):
    expected = answers(options, tables, outcome)
    rounds = []
    outcome.tables.append([HEAD])
    for number in range(options.joins):
        at = (WORKERS - 1 - number) % WORKERS
        try:
            rounds.append(one_round(at, options, tables, expected, outcome))
        except sessions.Failure as error:
            outcome.misses.append(f"round {number + 1}: a scan fails: {error}")
            continue
        outcome.row(*row(rounds[-1]))
    outcome.figures["rounds"] = rounds
    judge(rounds, outcome)
