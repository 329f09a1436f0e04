"""Did the server keep its promises?

K1: it is alive when the run ends, and the kernel killed nothing in its group.
K2: no row was wrong.
K3: no client hangs: each ends within `HANG_S` of the run's end.
K4: no statement that needs almost no memory was refused: connecting, ROLLBACK, SET, SHOW, DISCARD,
    `coscan.*`.
K5: at most `REFUSED_MAX` of the queries were refused for lack of memory.
K6: without a group the process takes at most the limit and `BEYOND`; after the limit was lowered it
    has `LOWER_S` to get there.
K7: no connection ended without an error, unless its client hung up.
K8: after the load no scan is left, and operators hold no more than what is kept for later
    queries.
"""

import limits
import watch

HANG_S = 90
REFUSED_MAX = 0.01
BEYOND = 200 << 20
LOWER_S = 2.0
# `coscan.state_cache` is at most 64 MiB, and results of shared operators may take as much.
KEPT_MAX = 128 << 20


def beyond(samples, changes):
    """The most that the process took beyond a limit that had been in force for long enough, and
    the time of it. `changes` are pairs of a time and a limit. `None` if it never took more than
    the limit."""
    found = (None, None)
    for sample in samples:
        limit, for_s = limits.limit_at(changes, sample["time"])
        if limit is None or for_s < LOWER_S or "resident" not in sample:
            continue
        over = sample["resident"] - limit
        if over > 0 and (found[0] is None or over > found[0]):
            found = (over, sample["time"])
    return found


def is_left(left):
    """Whether scans, or more bytes than are kept for later queries, are left after the load."""
    scans, operators = left
    return scans > 0 or operators > KEPT_MAX


def faults(tally, samples, *, alive, hung, left, changes=()):
    """The broken promises, a line each. `left`: rows of `coscan.scans` and operators' bytes after the
    load, or `None` if they are unknown. `changes`: the times and limits, if the process must keep to
    them."""
    kills = max((s["group"]["kills"] for s in samples if s.get("group")), default=0)
    if not alive or kills:
        yield f"K1: the server has ended ({kills} kills in its group)"
    if tally.wrong:
        yield f"K2: {len(tally.wrong)} answers were wrong"
    if hung:
        yield f"K3: {hung} clients hang"
    if tally.free_refused:
        yield f"K4: {sum(tally.free_refused.values())} statements that need no memory were refused"
    if tally.refused_share() > REFUSED_MAX:
        yield f"K5: {tally.refused_share():.1%} of the questions were refused"
    over, time_s = beyond(samples, changes)
    if over is not None and over > BEYOND:
        yield f"K6: the process took {over / watch.MIB:.0f} MiB more than its limit, after {time_s:.0f} s"
    if tally.losses:
        yield f"K7: {sum(tally.losses.values())} connections were lost without a word"
    if alive and left is None:
        yield "K8: the server does not say what is left"
    elif left and is_left(left):
        yield f"K8: {left[0]} scans and {left[1] / watch.MIB:.0f} MiB of operators are left"
    if not tally.ends["answered"]:
        yield "nothing was answered"
