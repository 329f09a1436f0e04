"""Promised: a process is ready when it says its address, may be killed and started once more with
the same command (CL3), and its faults are told. A shell script stands in for the program: no
engine, no root, no control group."""

import os
import signal
import tempfile
import types
import unittest
from unittest import mock

import up
import workers
import arena

SAYS_ADDRESS = 'echo "coscan: worker on 127.0.0.1:5$#" >&2; exec sleep 60'
REFUSES = 'echo "coscan: the port is taken" >&2; exit 3'


def process(folder, script, kills=0):
    group = types.SimpleNamespace(sample=lambda: {"kills": kills})
    entered = os.path.join(folder, "cgroup.procs")
    return workers.Process("worker-1", ["/bin/sh", "-c", script, "sh", "a", "b"], group, [entered],
                           os.path.join(folder, "log"))


class Processes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def started(self, script=SAYS_ADDRESS, **options):
        one = process(self.folder, script, **options)
        self.addCleanup(one.stop)
        return one.start()

    def test_ready_with_its_address_and_in_its_group(self):
        one = self.started()
        self.assertEqual((one.address, one.port), ("127.0.0.1:52", 52))
        with open(os.path.join(self.folder, "cgroup.procs"), encoding="ascii") as file:
            self.assertEqual(file.read(), str(one.child.pid))
        self.assertIsNone(one.fault())

    def test_killed_and_started_once_more(self):
        one = self.started()
        first = one.child.pid
        one.kill()
        self.assertEqual(one.child.returncode, -signal.SIGKILL)
        self.assertIsNone(one.fault(), "the lab asked for it")
        one.start()
        self.assertEqual(one.address, "127.0.0.1:52")
        self.assertNotEqual(one.child.pid, first)
        self.assertFalse(one.was_killed)

    def test_what_it_said_before_does_not_make_it_ready(self):
        once = os.path.join(self.folder, "once")
        one = self.started(f"[ -e {once} ] && exit 4; touch {once}; {SAYS_ADDRESS}")
        one.kill()
        with self.assertRaisesRegex(arena.ArenaError, "ended with 4"):
            one.start()

    def test_a_start_that_fails_has_the_programs_words(self):
        with self.assertRaisesRegex(arena.ArenaError, "ended with 3: .*the port is taken"):
            process(self.folder, REFUSES).start()

    def test_faults(self):
        one = self.started()
        os.kill(one.child.pid, signal.SIGKILL)
        one.child.wait()
        self.assertIn("worker-1 ended with 137", one.fault())
        two = self.started(kills=1)
        self.assertIn("killed for memory", two.fault())

    def test_up_tells_each_end_once_and_stops_when_none_is_left(self):
        told = []
        faults = {"a": ["a ended"] * 3, "b": [None, None, "b ended"]}
        processes = [types.SimpleNamespace(name=name, fault=mock.Mock(side_effect=of))
                     for name, of in faults.items()]
        with mock.patch.object(up, "WATCH_S", 0.0):
            up.watch(types.SimpleNamespace(processes=processes), told.append)
        self.assertEqual(told, ["a ended", "b ended"])


class Texts(unittest.TestCase):
    def test_list_of_nodes(self):
        import tomllib
        read = tomllib.loads(workers.nodes_toml(["127.0.0.1:1", "127.0.0.1:2"], 4096))
        self.assertEqual(read["nodes"], ["127.0.0.1:1", "127.0.0.1:2"])
        self.assertEqual(read["bytes_per_node"], "4096B")

    def test_address(self):
        self.assertIsNone(workers.address_in("coscan: warning: slow\n"))
        self.assertEqual(workers.address_in("x\ncoscan: listening on 127.0.0.1:77\n"),
                         "127.0.0.1:77")

    def test_a_list_may_name_a_worker_that_is_not_started(self):
        machine = workers.Machine("/program", "/data")
        self.addCleanup(setattr, machine, "group", None)
        machine.group = types.SimpleNamespace(memory="/groups/all", procs_files=list)
        machine.folder = "/logs"
        with mock.patch.object(workers.groups, "Group") as group:
            group.return_value.path = "/groups/all/worker-7"
            group.return_value.sample.return_value = {"kills": 0}
            worker = machine.worker(4096, 7)
        self.assertEqual((worker.address, worker.child), ("127.0.0.1:7", None))
        self.assertEqual(machine.processes, [worker])
        self.assertEqual(machine.faults(), [])
        worker.stop()

    def test_room_beside_the_limit(self):
        self.assertEqual(workers.group_bytes(0), 512 << 20)
        self.assertEqual(workers.group_bytes(4 << 30), (5 << 30) + (192 << 20))

    def test_tables(self):
        self.assertEqual(workers.table_options({"b": "/2", "a": "/1"}),
                         ["-t", "a=/1", "-t", "b=/2"])


class Groups(unittest.TestCase):
    def test_folders_below_are_removed_and_others_are_not_looked_for(self):
        self.assertEqual(workers.folders_below("/nowhere/at/all"), [])
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "worker-1"))
            with open(os.path.join(folder, "memory.stat"), "w", encoding="ascii"):
                pass
            found = workers.folders_below(folder)
            self.assertEqual(found, [os.path.join(folder, "worker-1")])
            workers.remove(found[0])
            self.assertFalse(os.path.exists(found[0]))

    def test_a_group_that_stays_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "member"))
            with self.assertRaisesRegex(arena.ArenaError, "stays"):
                workers.remove(folder, limit_s=0.0)


if __name__ == "__main__":
    unittest.main()
