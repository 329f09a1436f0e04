"""What is the value of a cell, and do two answers have the same rows?

A cell becomes a value that does not depend on its format: integers, Decimals, floats, booleans,
bytes, lists for arrays, text for everything else (dates and times as PostgreSQL prints them).

C1: rows are compared as multisets, or as lists where the statement's order is total.
C2: numbers are compared by value: trailing zeros of a numeric may differ.
C3: floats are equal exactly, except in statements with float aggregates (`loose`), whose result
    depends on the order of addition: there within REL_TOL.
C4: -0 and 0 differ as values, but not as positions in an order, nor where a statement keeps one of
    several equal values (`tied`: DISTINCT, GROUP BY, min, …). Intervals of equal length are such
    values too.
"""

import collections
import datetime
import decimal
import math
import re
import struct

REL_TOL = 1e-9
ABS_TOL = 1e-9  # for variances of equal values, which are 0 up to rounding

BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 19, 20, 21, 23, 25, 26
JSON, JSONB, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 114, 3802, 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ = 1082, 1083, 1114, 1184, 1186, 1266
NUMERIC, UUID, RECORD = 1700, 2950, 2249
ARRAYS = {
    1000: BOOL,
    1001: BYTEA,
    1005: INT2,
    1007: INT4,
    1009: TEXT,
    1015: VARCHAR,
    1016: INT8,
    1021: FLOAT4,
    1022: FLOAT8,
    1115: TIMESTAMP,
    1182: DATE,
    1183: TIME,
    1185: TIMESTAMPTZ,
    1187: INTERVAL,
    1231: NUMERIC,
    2951: UUID,
    199: JSON,
    3807: JSONB,
    1014: BPCHAR,
}
WHOLE, FLOATS, STRINGS = {INT2, INT4, INT8, OID}, {FLOAT4, FLOAT8}, {TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN}
NAMES = {
    BOOL: "boolean",
    BYTEA: "bytea",
    NAME: "name",
    INT8: "bigint",
    INT2: "smallint",
    INT4: "integer",
    TEXT: "text",
    OID: "oid",
    JSON: "json",
    JSONB: "jsonb",
    FLOAT4: "real",
    FLOAT8: "double precision",
    UNKNOWN: "unknown",
    BPCHAR: "character",
    VARCHAR: "character varying",
    DATE: "date",
    TIME: "time",
    TIMESTAMP: "timestamp",
    TIMESTAMPTZ: "timestamptz",
    INTERVAL: "interval",
    NUMERIC: "numeric",
    UUID: "uuid",
    RECORD: "record",
    TIMETZ: "timetz",
}
EPOCH = datetime.datetime(2000, 1, 1)
DAY_US = 86_400_000_000


def type_name(oid):
    if oid in ARRAYS:
        return NAMES[ARRAYS[oid]] + "[]"
    return NAMES.get(oid, f"type {oid}")


# ---------------------------------------------------------------- values


def value(cell, oid, form):
    """The value of a cell of a column of type `oid`, in text (form 0) or binary (1)."""
    if cell is None:
        return None
    if form == 1:
        return from_binary(cell, oid)
    return from_text(cell.decode(errors="surrogateescape"), oid)


def from_text(text, oid):
    if oid in WHOLE:
        return int(text)
    if oid in FLOATS:
        return float(text)
    if oid == NUMERIC:
        return decimal.Decimal(text)
    if oid == BOOL:
        return {"t": True, "f": False}.get(text, text)
    if oid == BYTEA:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else text
    if oid in ARRAYS and text.startswith(("{", "[")):
        return array(text, ARRAYS[oid])
    return text


def array(text, oid):
    """An array's text as nested lists; bounds other than 1 stay as text in front."""
    start = text.index("{")
    items, _ = array_from(text, start, oid)
    return [text[:start], items] if start else items


def array_from(text, at, oid):
    items, at = [], at + 1
    while text[at] != "}":
        if text[at] == ",":
            at += 1
        elif text[at] == "{":
            inner, at = array_from(text, at, oid)
            items.append(inner)
        elif text[at] == '"':
            word, at = quoted(text, at + 1)
            items.append(from_text(word, oid))
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            word, at = text[at:end], end
            items.append(None if word == "NULL" else from_text(word, oid))
    return items, at + 1


def quoted(text, at):
    word = []
    while text[at] != '"':
        at += text[at] == "\\"
        word.append(text[at])
        at += 1
    return "".join(word), at + 1


def from_binary(cell, oid):
    if oid in (INT2, INT4, INT8):
        return int.from_bytes(cell, "big", signed=True)
    if oid == OID:
        return int.from_bytes(cell, "big")
    if oid in FLOATS:
        return struct.unpack("!f" if oid == FLOAT4 else "!d", cell)[0]
    if oid == BOOL:
        return cell != b"\0"
    if oid == BYTEA:
        return bytes(cell)
    if oid == NUMERIC:
        return numeric_from(cell)
    if oid == DATE:
        return date_text(int.from_bytes(cell, "big", signed=True))
    if oid == TIME:
        return clock(int.from_bytes(cell, "big"))
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return stamp_text(int.from_bytes(cell, "big", signed=True), oid == TIMESTAMPTZ)
    if oid == INTERVAL:
        return interval_text(*struct.unpack("!qii", cell))
    if oid == UUID:
        digits = cell.hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if oid == JSONB:
        return cell[1:].decode()
    if oid in ARRAYS:
        return array_from_binary(cell)
    return cell.decode(errors="surrogateescape")


DIGITS = decimal.Context(prec=200_000)  # a numeric's: 131,072 before the point, 16,383 behind it


def numeric_from(cell):
    count, weight, sign, scale = struct.unpack_from("!HhHH", cell)
    special = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(sign)
    if special:
        return decimal.Decimal(special)
    whole = 0
    for digit in struct.unpack_from(f"!{count}H", cell, 8):
        whole = whole * 10000 + digit
    exponent = 4 * (weight - count + 1)
    number = decimal.Decimal((0, tuple(map(int, str(whole))), exponent))
    number = number.quantize(decimal.Decimal((0, (1,), -scale)), context=DIGITS)
    return -number if sign == 0x4000 else number


def array_from_binary(cell):
    dimensions, _nulls, oid = struct.unpack_from("!iiI", cell)
    shape = [struct.unpack_from("!ii", cell, 12 + 8 * i) for i in range(dimensions)]
    at, flat = 12 + 8 * dimensions, []
    while at < len(cell):
        (length,) = struct.unpack_from("!i", cell, at)
        at += 4
        flat.append(None if length < 0 else from_binary(cell[at : at + length], oid))
        at += max(length, 0)
    for size, _ in reversed(shape[1:]):
        flat = [flat[i : i + size] for i in range(0, len(flat), size)]
    if any(lower != 1 for _, lower in shape):
        return ["".join(f"[{low}:{low + size - 1}]" for size, low in shape) + "=", flat]
    return flat


def date_text(days):
    if days in (2**31 - 1, -(2**31)):
        return "infinity" if days > 0 else "-infinity"
    year, month, day = civil(days + 10957)
    era = "" if year > 0 else " BC"
    return f"{year if year > 0 else 1 - year:04}-{month:02}-{day:02}{era}"


def civil(days):
    """Year, month and day from days since 1970, for years outside `datetime`'s range."""
    days += 719468
    era, day = divmod(days, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    rest = day - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    return (year + era * 400 + (month >= 10), month + 3 if month < 10 else month - 9, rest - (153 * month + 2) // 5 + 1)


def clock(microseconds):
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def stamp_text(microseconds, zoned):
    """In UTC; timestamps of a session in another zone are compared in text format only."""
    if microseconds in (2**63 - 1, -(2**63)):
        return "infinity" if microseconds > 0 else "-infinity"
    days, rest = divmod(microseconds, DAY_US)
    date, _, era = date_text(days).partition(" ")
    return f"{date} {clock(rest)}{'+00' if zoned else ''}{' BC' if era else ''}"


def interval_text(microseconds, days, months):
    parts, negative = [], False
    years, months = int(months / 12), int(math.fmod(months, 12))
    for count, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if count:
            sign = "+" if negative and count > 0 else ""
            parts.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
            negative = count < 0
    if microseconds or not parts:
        sign = "-" if microseconds < 0 else "+" if negative else ""
        parts.append(sign + clock(abs(microseconds)))
    return " ".join(parts)


# ---------------------------------------------------------------- comparison


def table(answer, tied=False):
    """The rows of an answer as values; C4."""
    kinds = [(oid, form) for _, oid, form in answer.columns]
    rows = [tuple(value(cell, *kind) for cell, kind in zip(row, kinds)) for row in answer.rows]
    if not tied:
        return rows
    return [tuple(tie(cell, oid) for cell, (oid, _) in zip(row, kinds)) for row in rows]


def tie(value, oid):
    """One value for all values that are equal in PostgreSQL."""
    if oid == INTERVAL and value is not None:
        return f"{length_us(value)} us"
    if isinstance(value, list):
        return [tie(item, oid) for item in value]
    return 0.0 if isinstance(value, float) and value == 0 else value


LENGTHS_US = {"year": 360 * DAY_US, "mon": 30 * DAY_US, "day": DAY_US}


def length_us(text):
    """The length of an interval by which PostgreSQL compares it: months of 30 days, days of 24 hours."""
    total = sum(int(count) * LENGTHS_US[unit] for count, unit in re.findall(r"([+-]?\d+) (year|mon|day)s?", text))
    for sign, hours, minutes, seconds, fraction in re.findall(r"([+-]?)(\d+):(\d+):(\d+)(?:\.(\d+))?", text):
        clock_us = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int(
            (fraction or "0").ljust(6, "0")
        )
        total += -clock_us if sign == "-" else clock_us
    return total


def same(left, right, loose=False):
    """C2, C3."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b, loose) for a, b in zip(left, right))
    if is_number(left) and is_number(right):
        return same_number(left, right, loose)
    return type(left) is type(right) and left == right


def is_number(value):
    return isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)


def same_number(left, right, loose):
    if is_nan(left) or is_nan(right):
        return is_nan(left) and is_nan(right)
    if left == right:
        both = isinstance(left, float) and isinstance(right, float)
        return loose or not both or math.copysign(1, left) == math.copysign(1, right)
    if not loose or math.isinf(left) or math.isinf(right):
        return False
    with decimal.localcontext() as context:
        context.prec = 400
        a, b = decimal.Decimal(left), decimal.Decimal(right)
        return abs(a - b) <= max(abs(a), abs(b)) * decimal.Decimal(REL_TOL) + decimal.Decimal(ABS_TOL)


def is_nan(value):
    return value != value


def key(value):
    """Equal values have equal keys, and keys have an order: rows are paired by them."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if is_number(value):
        return (2, "NaN") if is_nan(value) else (2, f"{float_of(value):+.6e}")
    if isinstance(value, list):
        return (3, tuple(key(item) for item in value))
    return (4, value if isinstance(value, str) else value.hex())


def float_of(value):
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def rows_differ(left, right, ordered=False, loose=False):
    """None, or the first difference in words."""
    if len(left) != len(right):
        return f"{len(right)} rows instead of {len(left)}"
    if left and len(left[0]) != len(right[0]):
        return f"{len(right[0])} columns instead of {len(left[0])}"
    if not ordered:
        left, right = paired(left), paired(right)
    for number, (a, b) in enumerate(zip(left, right)):
        for column, (x, y) in enumerate(zip(a, b)):
            if not same(x, y, loose or (ordered and x == 0)):
                return unequal(left, right, number, column, ordered, loose)
    return None


def unequal(left, right, number, column, ordered, loose):
    """Describes rows that differ at a position; None if only the pairing of close floats was wrong."""
    if not ordered:
        rest = list(right)
        for row in left:
            found = next(
                (i for i, other in enumerate(rest) if all(same(x, y, loose) for x, y in zip(row, other))), None
            )
            if found is None:
                x, y = left[number][column], right[number][column]
                return f"column {column + 1}: {shown(y)} instead of {shown(x)}"
            del rest[found]
        return None
    if rows_differ(left, right, False, loose) is None:
        return f"order: row {number + 1}"
    return f"column {column + 1}: {shown(right[number][column])} instead of {shown(left[number][column])}"


def paired(rows):
    return sorted(rows, key=lambda row: tuple(key(cell) for cell in row))


def shown(value):
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "{" + ",".join(map(shown, value)) + "}"
    return repr(value) if isinstance(value, str) else str(value)


def counted(rows):
    """Rows as a multiset of keys, for rewrites whose parts are combined."""
    return collections.Counter(tuple(key(cell) for cell in row) for row in rows)
