"""Runs a statement on both systems, and classifies how their answers differ.

| kind | PostgreSQL | Coscan |
|---|---|---|
| rows | rows | other rows |
| type | rows | the same rows, described with other types |
| refused | rows | an error |
| answered | an error | rows |
| moment | an error | rows, though both refuse the expression by itself (`moment.py`) |
| state | an error | an error of another SQLSTATE class |
| lost | anything | the session ended, or no answer came in time |

`rows` and `lost` are faults; the others have limits (`causes.py`).
"""

import collections
import dataclasses
import re

import cells
import tree
import wire
from generator import pools

OIDS = {
    "bool": 16,
    "bytea": 17,
    "int8": 20,
    "int2": 21,
    "int4": 23,
    "text": 25,
    "json": 114,
    "float4": 700,
    "float8": 701,
    "date": 1082,
    "time": 1083,
    "timestamp": 1114,
    "timestamptz": 1184,
    "interval": 1186,
    "numeric": 1700,
    "uuid": 2950,
    "jsonb": 3802,
    "int4[]": 1007,
    "text[]": 1009,
    "int8[]": 1016,
    "float8[]": 1022,
    "numeric[]": 1231,
    "date[]": 1182,
    "bool[]": 1000,
}
READABLE = set(OIDS.values()) | {18, 19, 26, 1042, 1043, 1231, 1016, 1022}  # types whose binary form `cells` reads
FURTHER = re.compile(
    r"; (?=Error during|function |This feature|Arrow error|Schema error|Execution error)|\sDid you mean|\.\s+Valid fields are|(?<=one column): "
)
TIES = re.compile(r"\b(DISTINCT|GROUP BY|UNION|INTERSECT|EXCEPT|OVER|min\(|max\(|mode\(|greatest\(|least\(|percentile)")
POSTGRES_TIMEOUT_MS, COSCAN_TIMEOUT_MS, COSCAN_TIMEOUT_S = 5000, 20_000, 30
RESOURCE = ("57014", "53", "54", "58030")  # PostgreSQL gave up: there is no answer to compare


@dataclasses.dataclass
class Difference:
    kind: str
    detail: str
    reference: str  # PostgreSQL's answer, shortened
    tested: str

    def shape(self):
        """Equal for differences that look alike: numbers, names and values are replaced."""
        text = self.detail if self.kind in ("refused", "lost", "answered", "moment", "state") else self.kind
        text = re.sub(r"(?<!function )('[^']*'|\"[^\"]*\")", "_", FURTHER.split(text)[0])
        text = re.sub(r"(field named|field name|references:) \S+", r"\1 _", re.sub(r"\s+", " ", text))
        return re.sub(r"\bq\d+|\bc\d+|\d+", "#", text)[:110]


class Encoder:
    """Binary forms of literals, made by PostgreSQL itself."""

    def __init__(self, session):
        self.session, self.known = session, {}

    def binary(self, node):
        key = (node.type, node.value)
        if key not in self.known:
            answer = self.session.ask(
                f"select {tree.literal_text(dataclasses.replace(node, form='cast'))}", [], wire.BINARY
            )
            self.known[key] = None if answer.failed else answer.rows[0][0]
        return self.known[key]

    def parameter(self, node):
        """The literal as a parameter, declared or not, in text or binary; None if it cannot be one."""
        oid = 0 if node.form.endswith("?") else OIDS[node.type]
        if node.value is None:
            return wire.Parameter(None, wire.TEXT, oid)
        if node.form.startswith("text"):
            return wire.Parameter(node.value.encode(), wire.TEXT, oid)
        return wire.Parameter(self.binary(node), wire.BINARY, oid)


@dataclasses.dataclass
class Sent:
    """A statement in the form in which it is sent."""

    text: str
    parameters: list | None
    ordered: bool
    loose: bool
    result_format: int = wire.TEXT
    earlier: tuple = ()  # parameters of earlier executions of the prepared statement

    def send(self, session):
        session.send(self.text, self.parameters, self.result_format, self.earlier)


def sent(statement, encoder, result_format=wire.TEXT):
    """Parameters are sent with the extended protocol, as are statements that want binary rows."""
    text = tree.Text(statement.root)
    parameters = [encoder.parameter(node) for node in text.parameters]
    if not parameters and result_format == wire.TEXT:
        parameters = None
    earlier = ([encoder.parameter(other(node)) for node in text.parameters],) if statement.again and parameters else ()
    return Sent(text.text, parameters, tree.is_ordered(statement.root), statement.loose, result_format, earlier)


def other(node):
    """The parameter with another value, sent in the same way."""
    values = [value for value in pools.TAME[node.type] if value != node.value] or [None]
    return dataclasses.replace(node, value=values[len(node.value or "") % len(values)])


def ask(session, one):
    one.send(session)
    return session.receive()


def gave_up(answer):
    return answer.failed and answer.state.startswith(RESOURCE)


def compare(one, reference, tested):
    """A Difference, or None. `tested` is an answer or a wire.Lost."""
    if isinstance(tested, wire.Lost):
        return Difference("lost", str(tested), described(reference), str(tested))
    if tested.failed and tested.state == "57014":
        return difference("lost", f"no answer in {COSCAN_TIMEOUT_MS} ms", reference, tested)
    if reference.failed and tested.failed:
        if reference.state[:2] == tested.state[:2]:
            return None
        return difference("state", f"{reference.state} is {tested.state}: {tested.message}", reference, tested)
    if reference.failed:
        return difference("answered", f"{reference.state} {reference.message}", reference, tested)
    if tested.failed:
        return difference("refused", f"{tested.state} {tested.message}", reference, tested)
    if identical(one, reference, tested):
        return None
    try:
        tied = bool(TIES.search(one.text))
        rows = cells.table(reference, tied), cells.table(tested, tied)
    except (ValueError, IndexError, ArithmeticError) as error:
        return difference("rows", f"unreadable: {error}", reference, tested)
    found = cells.rows_differ(*rows, one.ordered, one.loose)
    if found:
        return difference("rows", found, reference, tested)
    kinds = [[cells.type_name(oid) for _, oid, _ in answer.columns] for answer in (reference, tested)]
    if kinds[0] != kinds[1]:
        wrong = next((a, b) for a, b in zip(*kinds) if a != b)
        return difference("type", f"{wrong[1]} instead of {wrong[0]}", reference, tested)
    return None


def identical(one, reference, tested):
    """Most answers are equal byte by byte: no cell needs to be read."""
    if [column[1:] for column in reference.columns] != [column[1:] for column in tested.columns]:
        return False
    if one.ordered:
        return reference.rows == tested.rows
    return collections.Counter(reference.rows) == collections.Counter(tested.rows)


def difference(kind, detail, reference, tested):
    kinds = [[cells.type_name(oid) for _, oid, _ in answer.columns] for answer in (reference, tested)]
    typed = not reference.failed and not tested.failed and kinds[0] != kinds[1]
    ends = [f" ({', '.join(names)})" if typed else "" for names in kinds]
    return Difference(kind, detail, described(reference) + ends[0], described(tested) + ends[1])


def described(answer, rows_max=4):
    """An answer in one line."""
    if answer.failed:
        return printable(f"error {answer.state} {answer.message}")[:300]
    rows = answer.rows[:rows_max]
    if any(form for _, _, form in answer.columns):
        text = [" | ".join(cells.shown(cell) for cell in row) for row in cells.table(dataclass_rows(answer, rows))]
    else:
        text = [" | ".join("NULL" if cell is None else cell.decode(errors="replace") for cell in row) for row in rows]
    more = f"; … {len(answer.rows)} rows" if len(answer.rows) > rows_max else ""
    return printable("; ".join(text) + more)[:300] if answer.rows else "no rows"


def printable(text):
    return "".join(
        letter if letter.isprintable() else " " if letter == "\n" else f"\\x{ord(letter):02x}" for letter in text
    )


def dataclass_rows(answer, rows):
    part = wire.Answer()
    part.columns, part.rows = answer.columns, rows
    return part
