"""Point 3: does a working set stay in the memory of four workers that are each too small for it?

What a working set needs is measured, not computed: the least memory with which one process reads
at most `AGAIN_MAX` of the first pass's bytes in each later pass. The steps are a tenth, so the
figure is at most a tenth too high. Each of the four workers then gets 0.3 of it.
A pass is two aggregates over seven columns of lineitem (texts.py); each has its own constants, so
that kept states answer none of it. Bytes are the device's, between the first statement of a pass
and the last row.
"""

import report
import sessions
import texts
import workers
import arena

WORKERS = 4
SHARE = 0.3
AGAIN_MAX = 0.02
AIM = f"{WORKERS} workers with {SHARE} of the needed memory read at most {AGAIN_MAX:.0%} of the " \
      "bytes again"
STEP = 1.1
STEPS_MAX = 24  # to ten times the bytes of a pass
OUT_OF_MEMORY = "53200"


def passes(machine, server, count):
    """The device's bytes of each pass."""
    read = []
    with sessions.connect(server.dsn) as connection:
        for number in range(count):
            before = machine.read_bytes()
            for sql in texts.working_set(number):
                sessions.ask(connection, sql)
            read.append(machine.read_bytes() - before)
    return read


def again(read):
    """The largest part of the first pass's bytes that a later one reads."""
    return max(read[1:]) / max(1, read[0])


def alone(memory, options, tables, outcome):
    """The bytes of each pass of one process; None if it has too little memory to answer."""
    with workers.Machine(options.coscan, options.data, options.bandwidth) as machine:
        server = machine.server(tables, memory)
        try:
            return passes(machine, server, options.passes)
        except sessions.Failure as error:
            if error.sqlstate != OUT_OF_MEMORY:
                raise
            return None
        finally:
            outcome.heard(machine)


def needed(measure, first):
    """(memory, passes) of the least memory that is enough, from `first` bytes on in steps."""
    memory = float(first)
    for _ in range(STEPS_MAX):
        read = measure(int(memory))
        if read is not None and again(read) <= AGAIN_MAX:
            return int(memory), read
        memory *= STEP
    raise arena.ArenaError(f"one process reads again with {memory / STEP / 1e6:.0f} MB")


def on_workers(memory, options, tables, outcome):
    """The bytes of each pass of the workers; None if they do not answer, which is a miss."""
    with workers.Machine(options.coscan, options.data, options.bandwidth) as machine:
        started = machine.workers(WORKERS, memory, options.port)
        coordinator = machine.coordinator(tables, started, options.bytes_per_node)
        try:
            return passes(machine, coordinator, options.passes)
        except sessions.Failure as error:
            outcome.misses.append(f"the workers do not answer: {error}")
            return None
        finally:
            outcome.figures["memory_most"] = machine.memory_most()
            outcome.heard(machine)


def run(options, tables, outcome):
    ample = alone(options.ample, options, tables, outcome)
    if ample is None:
        raise arena.ArenaError(f"one process cannot answer with {options.ample / 1e6:.0f} MB")
    need, least = needed(lambda memory: alone(memory, options, tables, outcome), ample[0])
    share = int(SHARE * need)
    read = on_workers(share, options, tables, outcome)
    outcome.figures.update(pass_bytes=ample[0], needed_bytes=need, worker_bytes=share,
                           passes={"ample": ample, "needed": least, "workers": read})
    measured = [("one, ample", options.ample, ample), ("one, needed", need, least)]
    if read is not None:
        measured.append((f"{WORKERS} workers, each", share, read))
        judge(read, outcome)
    outcome.tables.append(list(table(measured)))


def judge(read, outcome):
    part = again(read)
    outcome.figures["again"] = part
    if part > AGAIN_MAX:
        outcome.misses.append(f"{part:.1%} of the bytes are read again")


def table(measured):
    yield ["passes", "memory MB", "first MB", "later MB (most)", "read again"]
    for name, memory, read in measured:
        yield [name, report.megabytes(memory), report.megabytes(read[0]),
               report.megabytes(max(read[1:])), f"{again(read):.1%}"]
