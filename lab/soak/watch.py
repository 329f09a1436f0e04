"""How much memory is taken, by which holder, and what does the kernel count?

Three views of one server, sampled together: the group's (cgroup v1 or v2), the process's
(`/proc`), and the engine's own by holder (`coscan.memory`, see `engine.py`). Holders overlap only
in that `arrays_in_use` is part of `arrays`, so the others add up to the accounted memory. An
older program may not tell the last two holders.
"""

import os
import threading
import time

HOLDERS = ("operators", "frames", "pages", "arrays", "metadata", "statements", "connections")
EVERY_S = 0.25
FRESH_S = 2.0
MIB = 1 << 20


class Process:
    def __init__(self, pid):
        self.pid = pid

    def sample(self):
        """Resident bytes, the most so far, those of files (the program's code), threads, open files;
        nothing if it has ended."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:
                fields = dict(line.split(":", 1) for line in status if ":" in line)
            if "VmRSS" not in fields:
                return {}
            kib = {name: int(fields[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM", "RssFile")}
            files = len(os.listdir(f"/proc/{self.pid}/fd"))
        except (OSError, KeyError):
            return {}
        return {
            "resident": kib["VmRSS"], "resident_max": kib["VmHWM"], "code": kib["RssFile"],
            "threads": int(fields["Threads"]), "files": files,
        }


class Watch:
    """Samples all three until it is stopped. `samples`: one dict each, times in seconds since the
    start. A busy engine answers late, so a separate thread queries it, and a sample has its latest
    answer if that is fresh."""

    def __init__(self, process, group, engine):
        self.process, self.group, self.engine = process, group, engine
        self.samples, self.told, self.began = [], (0.0, {}), time.monotonic()
        self.stopped = threading.Event()
        self.threads = [
            threading.Thread(target=self.repeat, args=(what,), daemon=True) for what in (self.ask, self.sample)
        ]

    def start(self):
        for thread in self.threads:
            thread.start()

    def repeat(self, what):
        while not self.stopped.wait(EVERY_S):
            what()

    def ask(self):
        answer = self.engine.sample()
        self.told = (self.time(), answer)

    def sample(self):
        sample = {"time": self.time(), **self.process.sample()}
        if self.group is not None:
            sample["group"] = self.group.sample()
        at, answer = self.told
        if answer and sample["time"] - at < FRESH_S:
            sample["engine"] = answer
        self.samples.append(sample)

    def time(self):
        return time.monotonic() - self.began

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        self.engine.close()


def accounted(sample):
    """The memory that the engine accounts for; `None` if the sample lacks it."""
    engine = sample.get("engine")
    return sum(engine.get(holder, 0) for holder in HOLDERS) if engine else None


def most(samples, of):
    """The largest value of a function of a sample, and when."""
    values = [(of(sample), sample["time"]) for sample in samples]
    return max((pair for pair in values if pair[0] is not None), default=(None, None))


def lines(samples):
    """The lines of the report about memory."""
    def mib(value):
        return "-" if value is None else f"{value / MIB:.0f} MiB"

    for name, of in (
        ("the process", lambda s: s.get("resident")),
        ("  its code", lambda s: s.get("code")),
        ("accounted", accounted),
        ("the group's usage", lambda s: s["group"]["usage"] if s.get("group") else None),
        ("the group's resident", lambda s: s["group"]["resident"] if s.get("group") else None),
        *((f"  {holder}", lambda s, holder=holder: (s.get("engine") or {}).get(holder)) for holder in HOLDERS),
    ):
        value, time_s = most(samples, of)
        if value is not None:
            yield f"{name}: at most {mib(value)}, after {time_s:.0f} s"
    def beyond(sample):
        known = accounted(sample)
        return sample["resident"] - known if known is not None and "resident" in sample else None

    gap, time_s = most(samples, beyond)
    if gap is not None:
        yield f"taken beyond what is accounted: at most {mib(gap)}, after {time_s:.0f} s"
    last = next((s["group"] for s in reversed(samples) if s.get("group")), None)
    if last is not None:
        yield (
            f"the group: most {mib(last['most'])} of {mib(last['limit'])}, "
            f"limit met {last['limit_met']} times, kills {last['kills']}"
        )
