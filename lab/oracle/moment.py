"""Do both systems refuse the same expression, and differ only in whether a plan computes it?

It is undefined for which rows an expression is computed: PostgreSQL folds some constants when it
plans, drops columns that are not read, and orders conditions by cost. So a difference of this kind
is no fault of the expression.
M1: the statement passes PostgreSQL's parser and type checks (PREPARE): a bad literal, type or name
    does not depend on the plan.
M2: a part of the statement, run by itself over all rows of its tables, fails in both systems
    with PostgreSQL's SQLSTATE.
"""

import dataclasses

import asking
import tree
import wire

DATA_EXCEPTIONS = ("21", "22", "2F")  # classes of errors that are caused by values


def differs(pair, root, one, tables):
    """Does PostgreSQL's error depend on the plan? `root` and `one` are the minimal statement."""
    reference = asking.ask(pair.reference, one)
    if not reference.failed or reference.state[:2] not in DATA_EXCEPTIONS or one.text.startswith("DROP"):
        return False
    if not is_prepared(pair.reference, root):
        return False
    return any(fails_alike(pair, part, reference.state) for part in parts(root, tables))


def is_prepared(session, root):
    answer = session.ask(f"PREPARE of_a_moment AS {tree.text(without_parameters(root))}")
    if not answer.failed:
        session.ask("DEALLOCATE of_a_moment")
    return not answer.failed


def without_parameters(root):
    for node in list(root.walk()):
        if node.kind == "literal" and node.form not in ("plain", "cast"):
            root = tree.substitute(root, node, dataclasses.replace(node, form="cast"))
    return root


def parts(root, tables):
    """The expressions of the statement, each as a statement over its own tables."""
    root = without_parameters(root)
    sources = aliases(tree.text(root), tables)
    for node in root.walk():
        if node.kind != "expr" or any(inner.kind == "query" for inner in node.walk()):
            continue
        used = {inner.parts[0].partition(".")[0] for inner in node.walk() if inner.kind == "column"}
        if used <= sources.keys():
            scan = ", ".join(f"{sources[alias]} {alias}" for alias in sorted(used))
            yield f"SELECT ({tree.text(node)}){' FROM ' * bool(used)}{scan}"


def aliases(text, tables):
    """Which table each alias of the statement's text stands for."""
    names, words = {table.name for table in tables}, text.replace(",", " ").replace(")", " ").split()
    return {alias: name for name, alias in zip(words, words[1:]) if name in names}


def fails_alike(pair, text, state):
    asked = asking.Sent(text, None, False, False)
    reference, tested = pair.answers(asked)
    return reference.failed and reference.state == state and not isinstance(tested, wire.Lost) and tested.state == state
