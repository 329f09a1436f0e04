"""Point 1, second part: what do 32 sessions see of workers that are killed?

A worker is killed (SIGKILL) at regular times, and started once more a third of that time later,
with the same address. Each query ends in one of these ways:

| outcome | when | is a miss |
|---|---|---|
| right | one process's rows | |
| allowed | an error that names a worker killed while the query ran, after rows had come | |
| wrong | other rows | yes |
| early | an error, of any kind, although no row had come | yes |
| unnamed | an error after rows that names no worker killed meanwhile | yes |
| closed | the connection ended, or could not be opened | yes |
| hang | no end for `sessions.HANG_S` | yes |

CL6: a run in which no query was under way at any kill shows nothing, and misses.
Not here: the sessions themselves (sessions.py).
"""

import collections
import random
import time

import report
import rows
import sessions
import texts
import workers

AIM = "while workers are killed, no row is wrong, no query hangs, and only queries that had sent " \
      "rows and used the killed worker fail, with its name"
ALLOWED = ("right", "allowed")
OUTCOMES = ("right", "allowed", "wrong", "early", "unnamed", "closed", "hang")
EXAMPLES_MAX = 3  # of each kind of miss
NOT_RIGHT_MAX = 1_000  # records of queries in the file
BACK_S = 1 / 3  # of the time between kills: until the worker is started once more


# ---------------------------------------------------------------- judging

def named(record, kills):
    """Whether the error names a worker that was killed while the query ran."""
    return any(record["start"] <= kill["at"] <= record["end"] and kill["worker"] in record["error"]
               for kill in kills)


def judged(record, kills):
    """One of `OUTCOMES`."""
    if "end" not in record or record["end"] - record["start"] > sessions.HANG_S:
        return "hang"
    if record["error"] is None:
        return "wrong" if record["wrong"] else "right"
    if record["closed"]:
        return "closed"
    if record["rows"] == 0:
        return "early"
    return "allowed" if named(record, kills) else "unnamed"


def under_way(records, at):
    """How many queries ran at a time."""
    return sum(record["start"] <= at <= record.get("end", at) for record in records)


def sentence(record, kind):
    what = record["error"] or record["wrong"] or "no end"
    return (f"{kind}: {record['name']} in session {record['session']}, after {record['rows']} "
            f"rows: {what.splitlines()[0]}")


def of_run(event, kind, begin):
    """An event with its times counted from the run's begin."""
    moments = {key: round(event[key] - begin, 3) for key in ("start", "end", "at", "back")
               if key in event}
    return {**event, **moments, "outcome": kind}


def summary(records, kills):
    """The figures and the misses of a run."""
    kinds = [(judged(record, kills), record) for record in records]
    counts = collections.Counter(kind for kind, _ in kinds)
    begin = min((record["start"] for record in records), default=0.0)
    misses = []
    for kind in OUTCOMES:
        if kind not in ALLOWED:
            found = [record for at, record in kinds if at == kind]
            misses.extend(sentence(record, kind) for record in found[:EXAMPLES_MAX])
            if len(found) > EXAMPLES_MAX:
                misses.append(f"{kind}: {len(found) - EXAMPLES_MAX} more")
    at_kills = [under_way(records, kill["at"]) for kill in kills]
    if not any(at_kills):
        misses.append("CL6: no query was under way when a worker was killed")
    took = sorted(record["end"] - record["start"] for record in records if "end" in record)
    figures = {"queries": len(records), "kills": len(kills), "under_way_at_kills": at_kills,
               **{kind: counts[kind] for kind in OUTCOMES},
               "not_right": [of_run(record, kind, begin) for kind, record in kinds
                             if kind != "right"][:NOT_RIGHT_MAX],
               "killed": [of_run(kill, kill["worker"], begin) for kill in kills]}
    if took:
        figures["seconds"] = {**report.spread(took), "p95": report.percentile(took, 0.95)}
    return figures, misses


# ---------------------------------------------------------------- killing

def times(seconds, every):
    """When workers are killed, from the start: in the middle of each interval."""
    return [every * number + every / 2 for number in range(int(seconds // every))]


def wait_until(moment, clients):
    """Sleeps, but not beyond the sessions' end."""
    while (left := moment - time.monotonic()) > 0 and not clients.have_ended():
        time.sleep(min(left, 0.2))


def kill_regularly(started, clients, options):
    """Kills a worker at each of the times, and starts it once more. Returns the kills."""
    draw, begin, kills = random.Random(options.seed), time.monotonic(), []
    for at in times(options.seconds, options.kill_every):
        wait_until(begin + at, clients)
        if clients.have_ended():
            break
        worker = draw.choice(started)
        kill = {"worker": worker.address, "at": time.monotonic()}
        worker.kill()
        wait_until(begin + at + BACK_S * options.kill_every, clients)
        worker.start()
        kills.append({**kill, "back": time.monotonic()})
    return kills


def under_load(machine, coordinator, started, expected, options):
    """Runs the sessions and the kills; returns the records and the kills."""
    with sessions.Clients(machine.folder, "kills", coordinator.dsn, expected, options.sessions,
                          options.seconds, options.seed) as clients:
        kills = kill_regularly(started, clients, options)
        return clients.records(), kills


def run(options, tables, expected, outcome):
    with workers.Machine(options.coscan, options.data) as machine:
        started = machine.workers(options.kill_workers, options.rows_memory, options.port)
        coordinator = machine.coordinator(tables, started, options.rows_bytes_per_node,
                                          options.rows_memory)
        records, kills = under_load(machine, coordinator, started, expected, options)
        with sessions.connect(coordinator.dsn) as connection:
            used = rows.nodes_of(connection, texts.tpch(options.scale))
        outcome.heard(machine)
        said = coordinator.said().splitlines()
        most = machine.memory_most()
    figures, misses = summary(records, kills)
    outcome.figures["kills"] = {**figures, "sessions": options.sessions,
                                "workers_used_at_the_end": len(used), "memory_most": most,
                                "coordinator_said": said[:20]}
    outcome.misses.extend(misses)
    outcome.tables.append([["kills", "queries", *OUTCOMES],
                           [str(figures[key]) for key in ("kills", "queries", *OUTCOMES)]])
