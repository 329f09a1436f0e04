"""Do DuckDB and pyarrow find each row of a folder's files twice?

`check.py FOLDER`, for files that Coscan wrote (`tests/engine/files/matrix.rs`).
"""

import sys

import duckdb
import pyarrow.dataset

import make


def main(folder):
    expected = make.table().sort_by("k")
    plain = [name for name in expected.column_names if name not in ("kind", "tod")]
    by_arrow = pyarrow.dataset.dataset(folder, format="parquet").to_table(columns=["k", "word", "i64", "atz", "price"])
    if by_arrow.num_rows != 6:
        sys.exit(f"pyarrow finds {by_arrow.num_rows} rows")
    for name in by_arrow.column_names:
        twice = [value for value in expected.column(name).to_pylist() for _ in range(2)]
        found = by_arrow.sort_by("k").column(name).to_pylist()
        if found != twice:
            sys.exit(f"pyarrow, {name}: {found}")
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")
    connection.register("given", expected)
    columns = ", ".join(f'"{name}"::VARCHAR' for name in plain if name not in ("at_ms", "raw"))
    files = f"read_parquet('{folder}/*.parquet', union_by_name = true)"
    wrong = connection.execute(
        f"SELECT count(*) FROM (SELECT {columns} FROM {files} EXCEPT SELECT {columns} FROM given)"
    ).fetchone()[0]
    rows = connection.execute(f"SELECT count(*) FROM {files}").fetchone()[0]
    if wrong or rows != 6:
        sys.exit(f"DuckDB finds {rows} rows, {wrong} of them wrong")


if __name__ == "__main__":
    main(sys.argv[1])
