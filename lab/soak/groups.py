"""The control group of a server, and the kernel's counts for it.

Version 1 (`/sys/fs/cgroup/memory`) and version 2 have the same figures under different names.
Needs root. G1: a group made here is removed, whatever happens.
"""

import os

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def read(path, default=""):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return default


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def field(text, name):
    """A number from a file with a name and a number per line."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name:
            return int(words[1])
    return 0


def number(text):
    return int(text) if text.isdigit() else 0


class Group:
    def __init__(self, limit, name=f"coscan-soak-{os.getpid()}"):
        self.first = os.path.isdir(V1)
        self.path = os.path.join(V1 if self.first else V2, name)
        os.makedirs(self.path)
        self.limit(limit)

    def file(self, first, second):
        return os.path.join(self.path, first if self.first else second)

    def limit(self, limit):
        write(self.file("memory.limit_in_bytes", "memory.max"), str(limit))

    def enter(self):
        """Moves the calling process into the group; for a child before it becomes the server."""
        write(os.path.join(self.path, "cgroup.procs"), str(os.getpid()))

    def sample(self):
        stat = read(self.file("memory.stat", "memory.stat"))
        events = read(os.path.join(self.path, "memory.events"))
        control = read(os.path.join(self.path, "memory.oom_control"))
        return {
            "usage": number(read(self.file("memory.usage_in_bytes", "memory.current"))),
            "most": number(read(self.file("memory.max_usage_in_bytes", "memory.peak"))),
            "limit": number(read(self.file("memory.limit_in_bytes", "memory.max"))),
            "resident": field(stat, "rss" if self.first else "anon"),
            "cache": field(stat, "cache" if self.first else "file"),
            "limit_met": number(read(self.file("memory.failcnt", "-"))) or field(events, "max"),
            "kills": field(control, "oom_kill") or field(events, "oom_kill"),
        }

    def remove(self):
        os.rmdir(self.path)
