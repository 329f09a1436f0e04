"""Promised: only an error that both systems raise for the expression itself is of the kind `moment`."""

import types
import unittest

import asking
import moment
import tree
import wire
from test_judging import answer

BAD = answer(error=("22P02", "bad"))


class Server:
    """Answers by the statement's text; everything else succeeds."""

    def __init__(self, **said):
        self.said, self.last = said, ""

    def ask(self, sql, *_):
        return self.said.get(sql.replace(" ", "_"), answer((b"1",)))

    def send(self, sql, *_):
        self.last = sql

    def receive(self):
        return self.ask(self.last)


def judged(reference, tested, root):
    servers = types.SimpleNamespace(reference=Server(**reference), tested=Server(**tested))
    servers.answers = lambda one: (asking.ask(servers.reference, one), asking.ask(servers.tested, one))
    one = asking.Sent(tree.text(root), None, False, False)
    return moment.differs(servers, root, one, [types.SimpleNamespace(name="t")])


class Moment(unittest.TestCase):
    def setUp(self):
        self.part = tree.expr("int4", "f", "f(", tree.column("q1.x", "int4"), ")")
        select = tree.Node("select", ("SELECT ", tree.listed([tree.fixed("1")]), " FROM t q1 WHERE ", self.part))
        self.root = tree.Node("query", (tree.EMPTY, select))
        self.text = tree.text(self.root).replace(" ", "_")
        self.alone = "SELECT_(f(q1.x))_FROM_t_q1"

    def test_both_refuse_the_expression(self):
        self.assertTrue(judged({self.text: BAD, self.alone: BAD}, {self.alone: BAD}, self.root))

    def test_only_one_refuses_the_expression(self):
        self.assertFalse(judged({self.text: BAD, self.alone: BAD}, {}, self.root))

    def test_another_error_is_not_of_the_moment(self):
        other = answer(error=("22003", "other"))
        self.assertFalse(judged({self.text: BAD, self.alone: BAD}, {self.alone: other}, self.root))

    def test_a_parse_error_is_not_of_the_moment(self):
        prepare = "PREPARE_of_a_moment_AS_" + self.text
        self.assertFalse(judged({self.text: BAD, self.alone: BAD, prepare: BAD}, {self.alone: BAD}, self.root))

    def test_errors_of_types_and_names_are_not_of_the_moment(self):
        wrong = answer(error=("42883", "no such function"))
        self.assertFalse(judged({self.text: wrong, self.alone: wrong}, {self.alone: wrong}, self.root))

    def test_parameters_are_sent_as_literals(self):
        root = tree.substitute(
            self.root, self.part, tree.expr("int4", "f", "f(", tree.literal("int4", "7", "text?"), ")")
        )
        self.assertEqual(list(moment.parts(root, [])), ["SELECT (f('7'::int4))"])

    def test_a_lost_session_is_not_of_the_moment(self):
        pair = types.SimpleNamespace(answers=lambda _: (BAD, wire.Lost("gone")))
        self.assertFalse(moment.fails_alike(pair, "SELECT 1", "22P02"))


if __name__ == "__main__":
    unittest.main()
