"""How is a statement represented before it is text?

A tree whose nodes say how they can be reduced, so that the reducer needs no parser:

| kind | parts | a reduction may |
|---|---|---|
| expr | text and nodes; `type` | put a descendant or a literal of the same type in its place |
| column, literal | one text; `type` | put a simpler literal in its place |
| list | nodes, `joint` between them, at least `least` | drop elements |
| option | text and nodes | drop the whole |
| fixed | text and nodes | reduce the nodes only |
| frozen | text and nodes | do nothing: a total order must stay total |
| query | with, body, a first key of the order; `tail` | reduce its parts; a subquery of the same width takes its place |
| select | items (a list), clauses | as fixed |
| setop | left, operator, right | put one side in its place; drop a column on both sides |
| tail | no parts; `tail` | drop ORDER BY, LIMIT or OFFSET |

A node may occur in several places (a GROUP BY key in the select list); substitution applies to all
of them. Trees are immutable: `substitute` makes a new one.
T1: a tail with LIMIT orders by every column of its query, so that the order is total.
"""

import dataclasses


@dataclasses.dataclass(eq=False)
class Node:
    kind: str
    parts: tuple = ()
    type: str = ""
    tag: str = ""
    joint: str = ""
    least: int = 0
    tail: "Tail | None" = None
    value: str | None = None  # of a literal, as text; None is NULL
    form: str = "plain"  # of a literal: plain, cast, or text, binary, text?, binary? as parameter

    def nodes(self):
        return [part for part in self.parts if isinstance(part, Node)]

    def walk(self):
        """This node and every node below, each once."""
        seen, todo = set(), [self]
        while todo:
            node = todo.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                todo.extend(reversed(node.nodes()))

    def with_parts(self, parts, **changes):
        return dataclasses.replace(self, parts=tuple(parts), **changes)


@dataclasses.dataclass(frozen=True)
class Tail:
    """ORDER BY all columns by position, each with its suffix, from the column after `turn` columns on; limit and
    offset as text."""

    suffixes: tuple
    limit: str = ""
    offset: str = ""
    turn: int = 0


def expr(type_, tag, *parts):
    return Node("expr", parts, type=type_, tag=tag)


def literal(type_, value, form="plain"):
    return Node("literal", (), type=type_, value=value, form=form)


def column(name, type_):
    return Node("column", (name,), type=type_)


def listed(nodes, joint=", ", least=1):
    return Node("list", tuple(nodes), joint=joint, least=least)


def option(*parts, tag=""):
    return Node("option", parts, tag=tag)


def fixed(*parts, tag=""):
    return Node("fixed", parts, tag=tag)


def frozen(*parts, tag=""):
    return Node("frozen", parts, tag=tag)


EMPTY = Node("fixed")


# ---------------------------------------------------------------- text


class Text:
    """The statement's text and the literals that became `$1`, `$2`, … in order."""

    def __init__(self, root):
        self.parameters = []
        self.text = self._of(root).strip()

    def _of(self, node):
        if node.kind == "literal":
            return self._literal(node)
        if node.kind == "list":
            return node.joint.join(self._of(part) for part in node.parts)
        if node.kind == "query":
            head, body, *first = (self._of(part) for part in node.parts)
            return head + body + (tail_text(node.tail, width(node), "".join(first)) if node.tail else "")
        return "".join(part if isinstance(part, str) else self._of(part) for part in node.parts)

    def _literal(self, node):
        if node.form in ("plain", "cast"):
            return literal_text(node)
        for number, known in enumerate(self.parameters):
            if known is node:
                return f"${number + 1}"
        self.parameters.append(node)
        return f"${len(self.parameters)}"


def text(root):
    return Text(root).text


BARE = {"int4", "numeric", "text", "bool"}  # types that a literal has without a cast


def literal_text(node):
    if node.value is None:
        return "NULL" if node.form == "plain" else f"NULL::{node.type}"
    quoted = "'" + node.value.replace("'", "''") + "'"
    if node.type == "text" and node.form == "plain":
        return quoted
    if node.form == "plain" and node.type in BARE and plain_value(node):
        return f"({node.value})" if node.value.startswith("-") else node.value
    if node.form == "plain" and node.type in ("date", "time", "timestamp", "timestamptz", "interval"):
        return f"{node.type} {quoted}"
    return f"{quoted}::{node.type}"


def plain_value(node):
    if node.type == "bool":
        return node.value in ("true", "false")
    digits = node.value.lstrip("-")
    if node.type == "int4":
        return digits.isdigit() and node.value != "-2147483648"
    return digits.replace(".", "", 1).isdigit() and "." in digits and not digits.endswith(".")


def tail_text(tail, count, first=""):
    parts = []
    if tail.suffixes:
        suffixes = [tail.suffixes[i % len(tail.suffixes)] for i in range(count)]
        keys = [f"{i + 1}{suffix}" for i, suffix in enumerate(suffixes)]
        turn = tail.turn % max(count, 1)
        keys = [first] * bool(first) + keys[turn:] + keys[:turn]
        parts.append(" ORDER BY " + ", ".join(keys))
    limit = tail.limit if tail.limit.startswith("FETCH") else f"LIMIT {tail.limit}" if tail.limit else ""
    parts.append(f" {limit}" if limit else "")
    parts.append(f" OFFSET {tail.offset}" if tail.offset else "")
    return "".join(parts)


# ---------------------------------------------------------------- questions


def width(node):
    """The number of columns of a query, select or setop."""
    if node.kind == "query":
        return width(node.parts[1])
    if node.kind == "setop":
        return width(node.parts[0])
    if node.kind == "select":
        return len(next(part for part in node.nodes() if part.kind == "list").parts)
    return width(node.nodes()[0])


def is_ordered(root):
    """Is the order of the rows total?"""
    return root.kind == "query" and root.tail is not None and bool(root.tail.suffixes)


def tags(root):
    """What the statement is made of: functions, operators, clauses."""
    return {node.tag for node in root.walk() if node.tag}


def size(root):
    return sum(1 for _ in root.walk())


# ---------------------------------------------------------------- changes


def substitute(root, old, new):
    """The tree with `new` in all places of `old`; shared nodes stay shared."""
    memo = {id(old): new}

    def of(node):
        if id(node) in memo:
            return memo[id(node)]
        parts = [of(part) if isinstance(part, Node) else part for part in node.parts]
        same = all(a is b for a, b in zip(parts, node.parts))
        memo[id(node)] = node if same else node.with_parts(parts)
        return memo[id(node)]

    return of(root)
