"""Promised: quantities, devices and the kernel's files are parsed correctly. No root, no control group."""

import os
import tempfile
import types
import unittest

import arena


class Quantities(unittest.TestCase):
    def test_units(self):
        for text, count in (("2.5GB", 2_500_000_000), ("200MB/s", 200_000_000), ("1536MiB", 1_610_612_736),
                            ("1g", 10**9), ("4096", 4096), (" 1.5 gib ", 1_610_612_736)):
            self.assertEqual(arena.bytes_of(text), count, text)

    def test_refused(self):
        for text in ("", "fast", "3GBs", "-1GB", "1 0GB"):
            with self.subTest(text), self.assertRaises(arena.ArenaError):
                arena.bytes_of(text)


class Files(unittest.TestCase):
    def test_mounts(self):
        hybrid = ("cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
                  "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
                  "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n")
        controllers, unified = arena.mounts_of(hybrid)
        self.assertEqual(controllers["memory"], "/sys/fs/cgroup/memory")
        self.assertEqual(controllers["cpuacct"], "/sys/fs/cgroup/cpu,cpuacct")
        self.assertEqual(unified, "/sys/fs/cgroup/unified")

    def test_no_groups_is_a_clear_error(self):
        with self.assertRaisesRegex(arena.ArenaError, "no control groups"):
            arena.group_for("254:0", "proc /proc proc rw 0 0\n")
        with self.assertRaisesRegex(arena.ArenaError, "without memory, cpuacct"):
            arena.group_for("254:0", "cgroup /x cgroup rw,blkio 0 0\n")

    def test_v2_without_its_controllers_is_a_clear_error(self):
        with tempfile.TemporaryDirectory() as root:
            put(root, "cgroup.controllers", "cpu memory\n")
            with self.assertRaisesRegex(arena.ArenaError, "without io"):
                arena.group_for("254:0", f"cgroup2 {root} cgroup2 rw 0 0\n")

    def test_io_counters(self):
        v1 = "254:0 Read 4096\n254:0 Write 7\n254:0 Total 4103\n8:0 Read 1\nTotal 4104\n"
        self.assertEqual(arena.v1_io(v1, "254:0", "Read"), 4096)
        self.assertEqual(arena.v1_io(v1, "9:0", "Read"), 0)
        v2 = "8:0 rbytes=1 wbytes=2\n254:0 rbytes=4096 wbytes=0 rios=3 wios=0 dbytes=0 dios=0\n"
        self.assertEqual(arena.v2_io(v2, "254:0", "rbytes"), 4096)
        self.assertEqual(arena.v2_io(v2, "254:0", "rios"), 3)
        self.assertEqual(arena.v2_io("", "254:0", "rbytes"), 0)

    def test_keyed(self):
        self.assertEqual(arena.keyed("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")["oom_kill"], 2)


class Devices(unittest.TestCase):
    def test_partition_gives_its_disk(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(f"{root}/devices/sda/sda1")
            put(root, "devices/sda/dev", "8:0\n")
            put(root, "devices/sda/sda1/dev", "8:1\n")
            put(root, "devices/sda/sda1/partition", "1\n")
            os.makedirs(f"{root}/dev/block")
            os.symlink(f"{root}/devices/sda", f"{root}/dev/block/8:0")
            os.symlink(f"{root}/devices/sda/sda1", f"{root}/dev/block/8:1")
            self.assertEqual(arena.whole_disk("8:1", root), "8:0")
            self.assertEqual(arena.whole_disk("8:0", root), "8:0")
            with self.assertRaisesRegex(arena.ArenaError, "no block device"):
                arena.whole_disk("9:9", root)

    def test_longest_mount_wins(self):
        with tempfile.TemporaryDirectory() as root:
            put(root, "mountinfo", "1 0 254:0 / / rw - ext4 /dev/root rw\n"
                                   "2 1 0:9 / /data rw shared:1 - btrfs /dev/vdb rw\n"
                                   "3 1 0:9 / /database rw - tmpfs tmpfs rw\n")
            self.assertEqual(arena.mount_source("/data/x", f"{root}/mountinfo"), "/dev/vdb")
            self.assertEqual(arena.mount_source("/database", f"{root}/mountinfo"), "tmpfs")
            self.assertEqual(arena.mount_source("/etc", f"{root}/mountinfo"), "/dev/root")


class GroupFiles(unittest.TestCase):
    """The v2 adapter on a folder that imitates v2, because the kernel here has no v2."""

    def test_v2_limits_and_usage(self):
        with tempfile.TemporaryDirectory() as root:
            put(root, "cgroup.controllers", "cpu io memory pids\n")
            group = arena.GroupV2(root, "g", "254:0")
            group.make(200_000_000, 2_500_000_000)
            self.assertEqual(arena.read(f"{root}/cgroup.subtree_control"), "+io +memory +cpu")
            self.assertEqual(arena.read(f"{root}/g/io.max"), "254:0 rbps=200000000")
            self.assertEqual(group.memory_limit(), 2_500_000_000)
            put(root, "g/io.stat", "254:0 rbytes=10 wbytes=1 rios=2 wios=1\n")
            put(root, "g/cpu.stat", "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n")
            put(root, "g/memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 1\n")
            put(root, "g/memory.stat", "anon 77\nfile 5\n")
            usage = group.usage()
            self.assertEqual((usage["cpu_s"], usage["read_bytes"], usage["oom_kills"]), (1.5, 10, 1))
            self.assertEqual(group.anonymous(), 77)


class Verdicts(unittest.TestCase):
    def report(self, **changes):
        return {"killed_for_memory": False, "timed_out": False, "exit_code": 0, "client_exit_code": None, **changes}

    def test_exit_codes(self):
        for changes, code in (({}, 0), ({"exit_code": 3}, 3), ({"timed_out": True, "exit_code": 137}, 124),
                              ({"killed_for_memory": True, "exit_code": 0}, 137),
                              ({"client_exit_code": 1}, 1), ({"client_exit_code": 0, "exit_code": 143}, 0)):
            self.assertEqual(arena.overall_code(self.report(**changes)), code, changes)

    def test_signals_are_reported_as_in_a_shell(self):
        self.assertEqual(arena.exit_code(types.SimpleNamespace(returncode=-9)), 137)
        self.assertEqual(arena.exit_code(types.SimpleNamespace(returncode=2)), 2)


def put(root, path, text):
    with open(f"{root}/{path}", "w") as file:
        file.write(text)


if __name__ == "__main__":
    unittest.main()
