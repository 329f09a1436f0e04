"""A command runs once with each fresh seed, and a claim is judged over all of them."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import engine_claims
import mutate_fresh
import mutations
import pages

SMALL, RIVAL, QPIPE = "coscan bench smooth --x 1", "coscan bench smooth --experiment rival", "coscan bench qpipe"


def one(command, claims="^one", **more):
    return {"claims": claims, "command": command, "seconds": 9, **more}


class Machine:
    """Runs whose claim `one` holds but with seed 2000, which ends with an error in qpipe."""

    def __init__(self, listed):
        self.listed, self.asked, self.stamp = listed, [], {"commit": "1234567", "program": "89"}

    def run(self, command, number, _):
        self.asked.append(command)
        if "--data" in command:
            folder = Path(command.split("--data ")[1])
            assert number == 0 and not list(folder.iterdir()), "each seed has an empty folder, or the tables of its own"
        if command == f"{QPIPE} --seed 2000":
            return "exit 1"
        return [{"text": "one", "holds": "--seed 2000" not in command, "evidence": "e"}, {"text": "two", "holds": True, "evidence": "e"}]


class Fresh(unittest.TestCase):
    def run_all(self, root, machine, seen, count):
        said = io.StringIO()
        with mock.patch.object(mutations, "FOLDER", root / "mutants"), contextlib.redirect_stdout(said):
            mutate_fresh.run(root, machine, seen, machine.listed, count)
        self.assertFalse((root / "mutants/fresh").exists())
        return said.getvalue()

    def test_a_command_runs_once_with_each_seed_and_its_claims_are_counted(self):
        listed = [one(f"{SMALL}; {RIVAL}"), one(QPIPE, why="too slow")]
        with tempfile.TemporaryDirectory() as folder:
            root, machine, seen = Path(folder), Machine(listed), {}
            (root / engine_claims.SEEN).parent.mkdir(parents=True)
            said = self.run_all(root, machine, seen, 2)
            data = root / "mutants/fresh"
            self.assertEqual(machine.asked, [SMALL, SMALL, RIVAL, RIVAL, QPIPE, QPIPE, f"{SMALL} --seed 1000 --data {data}", f"{RIVAL} --seed 1000", f"{QPIPE} --seed 1000",
                                             f"{SMALL} --seed 2000 --data {data}", f"{RIVAL} --seed 2000", f"{QPIPE} --seed 2000"])
            self.assertIn(f"{SMALL}\n  held in 1 of 2: FALLS SHORT: one\n", said)
            self.assertIn(f"{QPIPE}\n  held in 1 of 1, as is known: one\n", said)
            self.assertNotIn("two", said, "no change is about it")
            kept = json.loads((root / engine_claims.SEEN).read_text(encoding="utf-8"))
            self.assertEqual([kept[SMALL]["fresh"]["1000"][key] for key in ("commit", "program")], ["1234567", "89"])
            again = Machine(listed)
            self.run_all(root, again, kept, 3)
            self.assertEqual(again.asked, [f"{QPIPE} --seed 2000", *(f"{command} --seed 3000" + (f" --data {data}" if command == SMALL else "")
                                                                     for command in (SMALL, RIVAL, QPIPE))])
            [first, _] = engine_claims.judged([one(f"{SMALL}; {RIVAL}")], {SMALL: kept[SMALL]})
            self.assertEqual(pages.fresh(first), " (2 of 3 fresh seeds)")

    def test_a_claim_that_a_run_does_not_have_did_not_hold(self):
        record = {"fresh": {"1000": {"claims": []}, "2000": {"claims": [{"text": "one", "holds": True}]}}}
        self.assertEqual(engine_claims.fresh(record, {"text": "one"}), {"fresh": {"held": 1, "of": 2}})
        self.assertEqual(engine_claims.fresh({}, {"text": "one"}), {})


if __name__ == "__main__":
    unittest.main()
