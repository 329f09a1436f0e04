"""What happened, and how often?

A refusal is an error because the server lacks a resource: memory, disk, a place. Its reason is its
SQLSTATE and its words without numbers and names. T1: every statement ends in exactly
one of *answered*, *wrong*, *refused*, *expected* (an error that the client provoked), *lost* or *odd*.
"""

import collections
import re
import threading

# SQLSTATEs of refusals: memory, disk, connections, limits of the configuration.
REFUSALS = ("53000", "53100", "53200", "53300", "53400")
EXAMPLES_MAX = 5
REASONS_MAX = 8


def shape(code, message):
    """An error's words without the parts that differ between occurrences."""
    first = (message or "").strip().split("\n")[0]
    first = re.sub(r"'[^']*'|\"[^\"]*\"", "_", first)
    first = re.sub(r"\d[\d.,]*", "#", first)
    return f"{code or '-'} {first[:140]}"


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.kinds = collections.Counter()
        self.ends = collections.Counter()
        self.refused = collections.Counter()
        self.free_refused = collections.Counter()
        self.odd = collections.Counter()
        self.losses = collections.Counter()
        self.examples = {}  # of refused queries: one whole message for each shape
        self.wrong = []
        self.latencies = []

    def does(self, kind):
        with self.lock:
            self.kinds[kind] += 1

    def answered(self, seconds):
        with self.lock:
            self.ends["answered"] += 1
            self.latencies.append(seconds)

    def differs(self, text, rows, expected):
        with self.lock:
            self.ends["wrong"] += 1
            self.wrong.append((text, rows[:2], expected[:2]))

    def failed(self, code, message, expected=(), free=False):
        """An error. `expected`: codes that the client provoked. `free`: the statement needs almost no
        memory, so that a refusal is a fault."""
        with self.lock:
            if code in expected:
                self.ends["expected"] += 1
            elif code in REFUSALS and free:
                self.ends["refused"] += 1
                self.free_refused[shape(code, message)] += 1
            elif code in REFUSALS:
                self.ends["refused"] += 1
                self.refused[shape(code, message)] += 1
                self.examples.setdefault(shape(code, message), message)
            else:
                self.ends["odd"] += 1
                self.odd[shape(code, message)] += 1

    def lost(self, message):
        """A connection ended or failed without an error from the server."""
        with self.lock:
            self.ends["lost"] += 1
            self.losses[shape(None, message)] += 1

    def refused_share(self):
        """The share of refused queries among those answered or refused."""
        refused, answered = sum(self.refused.values()), self.ends["answered"] + self.ends["wrong"]
        return refused / max(1, refused + answered)

    def latency_s(self, share):
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None

    def summary(self, samples, broken):
        """What `matrix.py` keeps of a run; sizes in bytes, times in seconds."""
        resident = [sample["resident"] for sample in samples if "resident" in sample]
        in_group = [sample["group"]["usage"] for sample in samples if sample.get("group")]
        return {
            "ends": dict(self.ends),
            "refusals": dict((self.refused + self.free_refused).most_common(REASONS_MAX)),
            "examples": [self.examples[words] for words, _ in self.refused.most_common(REASONS_MAX)],
            "odd": dict(self.odd.most_common(REASONS_MAX)),
            "refused_share": self.refused_share(),
            "p95_s": self.latency_s(0.95),
            "resident": max(resident, default=None),
            "group_usage": max(in_group, default=None),
            "broken": broken,
        }

    def lines(self):
        yield "did: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        yield "ended: " + ", ".join(f"{end} {count}" for end, count in sorted(self.ends.items()))
        if self.latencies:
            p50, p95, most = (self.latency_s(share) for share in (0.5, 0.95, 1))
            yield f"latency of questions: P50 {p50:.2f} s, P95 {p95:.2f} s, the longest {most:.2f} s"
        for name, counts in (
            ("refused", self.refused),
            ("refused though it needs nothing", self.free_refused),
            ("other errors", self.odd),
            ("lost without a word", self.losses),
        ):
            if counts:
                yield f"{name}:"
                yield from (f"  {count:6} {self.examples.get(words, words)}" for words, count in counts.most_common(20))
        for text, rows, expected in self.wrong[:EXAMPLES_MAX]:
            yield f"wrong: {text}\n  has      {rows}\n  expected {expected}"
