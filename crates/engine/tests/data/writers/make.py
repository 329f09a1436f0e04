"""Which files do other programs write from the same rows?

Writes one Parquet file per writer (DuckDB, pyarrow, polars) with a column of each type that the
writer has: an ordinary row, a row of extreme values, a row of NULLs. The files are committed, so
that the tests need neither the writers nor a network. `python make.py` rewrites them, and
`versions.txt` with the versions used.
"""

import datetime
import decimal
import pathlib

import duckdb
import polars
import pyarrow
import pyarrow.parquet

HERE = pathlib.Path(__file__).parent
D, T, DT = datetime.date, datetime.time, datetime.datetime
UTC = datetime.timezone.utc

# name: (pyarrow type, ordinary value, extreme value)
COLUMNS = {
    "flag": (pyarrow.bool_(), True, False),
    "i8": (pyarrow.int8(), 1, -(2**7)),
    "i16": (pyarrow.int16(), 1, -(2**15)),
    "i32": (pyarrow.int32(), 1, -(2**31)),
    "i64": (pyarrow.int64(), 1, -(2**63)),
    "u8": (pyarrow.uint8(), 1, 2**8 - 1),
    "u16": (pyarrow.uint16(), 1, 2**16 - 1),
    "u32": (pyarrow.uint32(), 1, 2**32 - 1),
    "u64": (pyarrow.uint64(), 1, 2**64 - 1),
    "f32": (pyarrow.float32(), 0.5, float("-inf")),
    "f64": (pyarrow.float64(), 0.25, float("nan")),
    "price": (pyarrow.decimal128(12, 2), decimal.Decimal("12.50"), decimal.Decimal("-9999999999.99")),
    "wide": (pyarrow.decimal128(38, 4), decimal.Decimal("0.0001"), decimal.Decimal(10) ** 33),
    "word": (pyarrow.string(), "word", "é\t\"'\\"),
    "raw": (pyarrow.binary(), b"ab", b"\x00\xff"),
    "day": (pyarrow.date32(), D(2024, 2, 29), D(9999, 12, 31)),
    "tod": (pyarrow.time64("us"), T(1, 2, 3, 4), T(23, 59, 59, 999999)),
    "at": (pyarrow.timestamp("us"), DT(2024, 2, 29, 12, 34, 56, 789000), DT(9999, 12, 31)),
    "at_ms": (pyarrow.timestamp("ms"), DT(2024, 2, 29, 12, 34, 56, 789000), DT(1, 1, 1)),
    "at_ns": (pyarrow.timestamp("ns"), DT(2024, 2, 29, 12, 34, 56, 789000), DT(1900, 1, 1)),
    "atz": (
        pyarrow.timestamp("us", "UTC"),
        DT(2024, 2, 29, 12, 34, 56, 789000, UTC),
        DT(9999, 12, 31, tzinfo=UTC),
    ),
    "kind": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), "a", "b"),
    "numbers": (pyarrow.list_(pyarrow.int32()), [1, None, 3], []),
    "words": (pyarrow.list_(pyarrow.string()), ["a", "b c"], [None]),
    "pair": (pyarrow.struct([("n", pyarrow.int64()), ("s", pyarrow.string())]), {"n": 1, "s": "x"}, {"n": None, "s": ""}),
}

DUCKDB = {
    "flag": "BOOLEAN", "i8": "TINYINT", "i16": "SMALLINT", "i32": "INTEGER", "i64": "BIGINT",
    "u8": "UTINYINT", "u16": "USMALLINT", "u32": "UINTEGER", "u64": "UBIGINT",
    "f32": "FLOAT", "f64": "DOUBLE", "price": "DECIMAL(12,2)", "wide": "DECIMAL(38,4)",
    "word": "VARCHAR", "raw": "BLOB", "day": "DATE", "tod": "TIME", "at": "TIMESTAMP",
    "at_ms": "TIMESTAMP_MS", "at_ns": "TIMESTAMP_NS", "atz": "TIMESTAMPTZ",
    "kind": "ENUM('a', 'b')", "numbers": "INTEGER[]", "words": "VARCHAR[]",
    "pair": "STRUCT(n BIGINT, s VARCHAR)",
}


def table():
    columns = {"k": pyarrow.array([1, 2, 3], pyarrow.int64())}
    for name, (kind, ordinary, extreme) in COLUMNS.items():
        columns[name] = pyarrow.array([ordinary, extreme, None], kind)
    return pyarrow.table(columns)


def with_duckdb(rows):
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")
    connection.register("given", rows)
    plain = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in DUCKDB.items())
    own = (
        "CASE k WHEN 1 THEN '0b9f1f6a-8f0e-4c5b-9d1a-3c2f1e0d9c8b'::uuid WHEN 2 THEN "
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid END AS id, "
        "CASE k WHEN 1 THEN MAP {'a': 1} WHEN 2 THEN MAP {}::MAP(VARCHAR, INTEGER) END AS names"
    )
    query = f"SELECT k, {plain}, {own} FROM given ORDER BY k"
    connection.execute(f"COPY ({query}) TO '{HERE / 'duckdb.parquet'}' (FORMAT parquet)")
    spans = (
        "SELECT * FROM (VALUES (1, INTERVAL '14 months 3 days 4.5 seconds'), "
        "(2, INTERVAL '100 years'), (3, NULL)) spans(k, span)"
    )
    connection.execute(f"COPY ({spans}) TO '{HERE / 'duckdb-interval.parquet'}' (FORMAT parquet)")


def with_polars(rows):
    frame = polars.from_arrow(rows).with_columns(polars.col("kind").cast(polars.Categorical))
    frame.write_parquet(HERE / "polars.parquet")
    wide = polars.DataFrame({"k": [1], "huge": polars.Series([1], dtype=polars.Int128)})
    wide.write_parquet(HERE / "polars-int128.parquet")


def main():
    rows = table()
    pyarrow.parquet.write_table(rows, HERE / "pyarrow.parquet", write_page_checksum=True)
    with_duckdb(rows)
    with_polars(rows)
    versions = [f"{made.__name__} {made.__version__}" for made in (duckdb, pyarrow, polars)]
    (HERE / "versions.txt").write_text("\n".join(versions) + "\n")


if __name__ == "__main__":
    main()
