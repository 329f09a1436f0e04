"""Which rows do both systems hold?

Tables of every type that Parquet and PostgreSQL share, drawn from a seed: tame columns, whose sums
and products stay in their types, and extreme ones (`x…`). The rows go to PostgreSQL by COPY and to
Coscan as Parquet: several files per table, and row groups of a few rows, so that small tables have
many chunks.

D1: float columns other than `xf` hold multiples of 1/4, so that their sums do not depend on order.
D2: `k` is unique and not NULL in every table that has it.
Needs pyarrow, only to write the Parquet files.
"""

import datetime
import decimal
import os
import random
import uuid

# fmt: off
# name, PostgreSQL's type, Arrow's type as an expression over pyarrow
WIDE = [
    ("k", "int8", "int64()"), ("g", "int4", "int32()"), ("h", "text", "string()"),
    ("i2", "int2", "int16()"), ("i4", "int4", "int32()"), ("i8", "int8", "int64()"),
    ("f4", "float4", "float32()"), ("f8", "float8", "float64()"),
    ("n2", "numeric(10,2)", "decimal128(10, 2)"), ("n4", "numeric(18,4)", "decimal128(18, 4)"),
    ("n0", "numeric(5,0)", "decimal128(5, 0)"), ("nl", "numeric(38,10)", "decimal128(38, 10)"),
    ("t", "text", "string()"), ("u", "text", "large_string()"), ("b", "bool", "bool_()"),
    ("d", "date", "date32()"), ("tm", "time", "time64('us')"), ("ts", "timestamp", "timestamp('us')"),
    ("tz", "timestamptz", "timestamp('us', 'UTC')"), ("by", "bytea", "binary()"),
    ("ai", "int4[]", "list_(int32())"), ("at", "text[]", "list_(string())"),
    ("x2", "int2", "int16()"), ("x4", "int4", "int32()"), ("x8", "int8", "int64()"),
    ("xf", "float8", "float64()"), ("xn", "numeric(38,0)", "decimal128(38, 0)"),
    ("xd", "date", "date32()"), ("xts", "timestamp", "timestamp('us')"),
]
A = [("id", "int4", "int32()"), ("z", "int4", "int32()"), ("k8", "int8", "int64()"),
     ("kf", "float8", "float64()"), ("kn", "numeric(10,2)", "decimal128(10, 2)"),
     ("name", "text", "string()"), ("day", "date", "date32()")]
B = [("id", "int8", "int64()"), ("z", "int2", "int16()"), ("k8", "numeric(12,0)", "decimal128(12, 0)"),
     ("kf", "float4", "float32()"), ("kn", "numeric(14,4)", "decimal128(14, 4)"),
     ("name", "text", "dictionary(int32(), string())"), ("day", "timestamp", "timestamp('us')")]
IDS = [("k", "int8", "int64()"), ("id", "uuid", "uuid()"), ("doc", "json", "json_()"), ("n", "int4", "int32()")]
NATION = [("n_nationkey", "int4", "int32()"), ("n_name", "text", "string()"), ("n_regionkey", "int4", "int32()")]
CUSTOMER = [("c_custkey", "int8", "int64()"), ("c_nationkey", "int4", "int32()"),
            ("c_name", "text", "string()"), ("c_acctbal", "numeric(15,2)", "decimal128(15, 2)"),
            ("c_mktsegment", "text", "string()")]
ORDERS = [("o_orderkey", "int8", "int64()"), ("o_custkey", "int8", "int64()"),
          ("o_orderstatus", "text", "string()"), ("o_totalprice", "numeric(15,2)", "decimal128(15, 2)"),
          ("o_orderdate", "date", "date32()"), ("o_orderpriority", "text", "string()")]
LINEITEM = [("l_orderkey", "int8", "int64()"), ("l_linenumber", "int4", "int32()"),
            ("l_suppkey", "int8", "int64()"), ("l_quantity", "numeric(15,2)", "decimal128(15, 2)"),
            ("l_extendedprice", "numeric(15,2)", "decimal128(15, 2)"),
            ("l_discount", "numeric(15,2)", "decimal128(15, 2)"), ("l_tax", "numeric(15,2)", "decimal128(15, 2)"),
            ("l_returnflag", "text", "string()"), ("l_shipdate", "date", "date32()"),
            ("l_commitdate", "date", "date32()"), ("l_shipmode", "text", "string()")]
# fmt: on


class Table:
    """`unique` names the columns that together identify a row; () if none do."""

    def __init__(self, name, columns, rows, unique=(), files=1, group_rows=1000, sort=None):
        self.name, self.columns, self.rows, self.unique = name, columns, rows, unique
        self.files, self.group_rows, self.sort = files, group_rows, sort

    def ddl(self):
        return f"create table {self.name} ({', '.join(f'{c} {t}' for c, t, _ in self.columns)})"


WORDS = [
    "",
    "a",
    "b",
    "abc",
    "ABC",
    "Abc",
    "hello world",
    " pad ",
    "a%b",
    "a_b",
    "a\\b",
    "12",
    "-3.5",
    "é",
    "ß",
    "日本",
    "zz",
    "x'y",
    'q"r',
    "{1,2}",
    "NULL",
    "foo.bar",
    "2024-02-29",
    "tail  ",
    "\t",
    "😀x",
    "true",
    "0x1F",
    "aXbXc",
]


def tables(seed=1, scale=1):
    """All tables; `scale` multiplies the rows of the large ones."""
    draw = random.Random(seed)
    wide = lambda count: [wide_row(draw, k + 1) for k in range(count)]
    shuffled = wide(int(400 * scale))
    draw.shuffle(shuffled)
    dates = lambda: datetime.date(1995, 1, 1) + datetime.timedelta(draw.randrange(900))
    cents = lambda low, high: decimal.Decimal(draw.randrange(low, high)).scaleb(-2)
    nation = [(i, name, i % 3) for i, name in enumerate("BRAZIL FRANCE CHINA KENYA IRAN PERU JAPAN".split())]
    customer = [
        (
            i + 1,
            draw.choice([None, *range(7)]),
            f"Customer#{i + 1:03}",
            cents(-99999, 999999),
            draw.choice(["BUILDING", "MACHINERY", "HOUSEHOLD"]),
        )
        for i in range(40)
    ]
    orders = [
        (
            i * 3 + 1,
            draw.randrange(1, 50),
            draw.choice("FOP"),
            cents(10000, 40000000),
            dates(),
            draw.choice(["1-URGENT", "2-HIGH", "5-LOW"]),
        )
        for i in range(int(150 * scale))
    ]
    lineitem = [
        (
            orders[i // 4][0],
            i % 4 + 1,
            draw.randrange(1, 20),
            cents(100, 5000),
            cents(90000, 9000000),
            cents(0, 11),
            cents(0, 9),
            draw.choice("ANR"),
            dates(),
            dates(),
            draw.choice(["AIR", "RAIL", "SHIP", "TRUCK"]),
        )
        for i in range(int(600 * scale))
    ]
    return [
        Table("t", WIDE, shuffled, ("k",), files=3, group_rows=32),
        Table("s", WIDE, wide(int(150 * scale)), ("k",), files=2, group_rows=20, sort="k"),
        Table("w", WIDE, wide(12), ("k",), files=2, group_rows=3),
        Table("e", WIDE, [], ("k",)),
        Table("a", A, [key_row(draw, False) for _ in range(24)], files=2, group_rows=5),
        Table("b", B, [key_row(draw, True) for _ in range(18)], files=2, group_rows=4),
        Table("ids", IDS, [id_row(draw, k + 1) for k in range(10)], ("k",), files=2, group_rows=3),
        Table("nation", NATION, nation, ("n_nationkey",)),
        Table("customer", CUSTOMER, customer, ("c_custkey",), files=2, group_rows=8),
        Table("orders", ORDERS, orders, ("o_orderkey",), files=2, group_rows=16, sort="o_orderkey"),
        Table("lineitem", LINEITEM, lineitem, ("l_orderkey", "l_linenumber"), files=3, group_rows=32),
    ]


def wide_row(draw, k):
    null = lambda value, share=0.12: None if draw.random() < share else value
    cents = lambda low, high, scale: decimal.Decimal(draw.randint(low, high)).scaleb(-scale)
    quarter = lambda bound: draw.randint(-4 * bound, 4 * bound) / 4
    day = datetime.date(2024, 2, 20) + datetime.timedelta(
        draw.choice([draw.randint(-20, 20), draw.randint(-9000, 9000)])
    )
    clock = draw.choice(
        [
            datetime.time(),
            datetime.time(23, 59, 59, 999999),
            datetime.time(12),
            datetime.time(
                draw.randrange(24),
                draw.randrange(60),
                draw.randrange(60),
                draw.choice([0, 500000, draw.randrange(10**6)]),
            ),
        ]
    )
    stamp = datetime.datetime.combine(day, clock)
    zoned = datetime.datetime.combine(day, clock) + datetime.timedelta(hours=draw.randint(-40, 40))
    return (
        k,
        null(draw.randrange(5)),
        null(draw.choice(["a", "b", "c", ""])),
        null(draw.randint(-20, 100)),
        null(draw.choice([draw.randint(-5, 10), draw.randint(-1000, 1000)])),
        null(draw.randint(-10, 100000)),
        null(quarter(8)),
        null(draw.choice([quarter(4), quarter(1000)])),
        null(cents(-500, 5000, 2)),
        null(cents(-(10**6), 10**6, 4)),
        null(cents(-50, 50, 0)),
        null(cents(-(10**13), 10**13, 10)),
        null(draw.choice(WORDS)),
        null(draw.choice(WORDS) + draw.choice(WORDS)),
        null(draw.random() < 0.5, 0.2),
        null(day),
        null(clock),
        null(stamp),
        null(zoned),
        null(draw.choice([b"", b"ab", b"\0\xff", b"\\", b"abc", b"hello"])),
        null([null(draw.randint(0, 5)) for _ in range(draw.randrange(4))]),
        null([null(draw.choice(WORDS)) for _ in range(draw.randrange(4))]),
        null(draw.choice([-32768, 32767, -1, 0, 1])),
        null(draw.choice([-(2**31), 2**31 - 1, -1, 0, 1, 46341])),
        null(draw.choice([-(2**63), 2**63 - 1, -1, 0, 1, 2**62, 2**53 + 1, 3037000500])),
        null(
            draw.choice(
                [
                    float("nan"),
                    float("inf"),
                    float("-inf"),
                    0.0,
                    -0.0,
                    1.0,
                    -1.5,
                    1e300,
                    5e-324,
                    1.7976931348623157e308,
                    0.1,
                    2.5,
                    3.5,
                ]
            )
        ),
        null(
            draw.choice(
                [
                    decimal.Decimal("9" * 38),
                    decimal.Decimal("-" + "9" * 38),
                    decimal.Decimal(0),
                    decimal.Decimal(1),
                    decimal.Decimal("5" + "0" * 37),
                ]
            )
        ),
        null(
            draw.choice(
                [
                    datetime.date(1, 1, 1),
                    datetime.date(9999, 12, 31),
                    datetime.date(1582, 10, 15),
                    datetime.date(1970, 1, 1),
                    datetime.date(1900, 2, 28),
                ]
            )
        ),
        null(
            draw.choice(
                [
                    datetime.datetime(1, 1, 1),
                    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
                    datetime.datetime(1677, 9, 21, 0, 12, 43),
                    datetime.datetime(2262, 4, 11, 23, 47, 17),
                    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
                ]
            )
        ),
    )


def key_row(draw, other):
    """Keys that repeat, are NULL, and have different types in `a` and `b`."""
    null = lambda value: None if draw.random() < 0.15 else value
    number = lambda: draw.choice([0, 1, 1, 2, 3, 5, 8])
    day = datetime.date(2024, 1, draw.randint(1, 5))
    if other:
        day = datetime.datetime.combine(day, datetime.time(draw.choice([0, 0, 7])))
    return (
        null(number()),
        null(draw.choice([10, 20, 30, 40])),
        null(decimal.Decimal(number()) if other else number()),
        null(number() / 2),
        null(decimal.Decimal(number() * 50).scaleb(-2)),
        null(draw.choice(["x", "y", "z", ""])),
        null(day),
    )


DOCUMENTS = [
    '{"a": 1, "b": [1, 2, {"c": null}]}',
    '{"a": "x", "b": {}}',
    '[1, "two", 3.50, true, null]',
    "null",
    '"text"',
    "12.5",
    "{}",
    '{"a": {"b": {"c": "deep"}}}',
]


def id_row(draw, k):
    null = lambda value: None if draw.random() < 0.15 else value
    return (
        k,
        null(uuid.UUID(int=draw.choice([0, 1, 2**128 - 1, draw.getrandbits(128)]))),
        null(draw.choice(DOCUMENTS)),
        null(draw.randint(-9, 9)),
    )


# ---------------------------------------------------------------- to PostgreSQL


def copy_text(rows):
    return "".join("\t".join(map(cell_text, row)) + "\n" for row in rows).encode()


def cell_text(value):
    if value is None:
        return "\\N"
    text = literal_text(value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def literal_text(value):
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, list):
        return "{" + ",".join("NULL" if v is None else quoted(literal_text(v)) for v in value) + "}"
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f").zfill(26)
    if isinstance(value, datetime.date):
        return f"{value.year:04}-{value.month:02}-{value.day:02}"
    return str(value)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def load(session, all_tables):
    """Makes and fills the tables in PostgreSQL."""
    for table in all_tables:
        answer = session.ask(f"drop table if exists {table.name}; {table.ddl()}")
        if answer.failed:
            raise ValueError(answer.message)
        session.copy_in(f"copy {table.name} from stdin", copy_text(table.rows))
    session.ask("analyze")


# ---------------------------------------------------------------- to Parquet


def write(folder, all_tables):
    """A folder per table; a sorted table's files follow each other in its order."""
    import pyarrow
    import pyarrow.parquet as parquet

    for table in all_tables:
        path = os.path.join(folder, table.name)
        os.makedirs(path, exist_ok=True)
        schema = pyarrow.schema(
            [
                (name, eval(f"pyarrow.{kind}", {"pyarrow": pyarrow, **vars(pyarrow)}))  # noqa: S307
                for name, _, kind in table.columns
            ]
        )
        size = max(1, -(-len(table.rows) // table.files))
        order = table.sort and [parquet.SortingColumn([c for c, _, _ in table.columns].index(table.sort))]
        for number in range(table.files):
            rows = table.rows[number * size : (number + 1) * size]
            columns = zip(*rows) if rows else [[] for _ in schema]
            arrays = [parquet_array(list(column), field.type) for column, field in zip(columns, schema)]
            parquet.write_table(
                pyarrow.Table.from_arrays(arrays, schema=schema),
                os.path.join(path, f"{number}.parquet"),
                row_group_size=table.group_rows,
                sorting_columns=order or None,
                compression="zstd",
                write_page_index=number % 2 == 0,
            )


def parquet_array(values, kind):
    import pyarrow

    if isinstance(kind, pyarrow.BaseExtensionType):
        stored = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
        return pyarrow.ExtensionArray.from_storage(kind, pyarrow.array(stored, kind.storage_type))
    return pyarrow.array(values, kind)
