#!/usr/bin/env python3
"""Makes TPC-DS: a Parquet file per table, and the 99 queries as files.

    tpcds_data.py FOLDER [--scale 5]

DuckDB's extension is the generator. Its package fits one version of DuckDB, which is not the
peers' (setup.sh), so this script wants a Python of its own:

    python3 -m venv V && V/bin/pip install duckdb==1.5.5 duckdb-extension-tpcds==1.5.5

FOLDER/queries/NN.sql are the extension's texts: the specification's queries with its default
parameters. A folder that is complete is left as it is.
"""

import argparse
import importlib.util
import os
import sys


def extension():
    """The path of the extension's program, which its Python package carries."""
    package = os.path.dirname(importlib.util.find_spec("duckdb_extension_tpcds").origin)
    for folder, _, names in os.walk(package):
        for name in names:
            if name.endswith(".duckdb_extension"):
                return os.path.join(folder, name)
    raise SystemExit("tpcds_data.py: no extension in duckdb-extension-tpcds")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--scale", type=float, default=5)
    args = parser.parse_args(argv)
    complete = os.path.join(args.folder, "complete")
    if os.path.exists(complete):
        return
    import duckdb
    os.makedirs(os.path.join(args.folder, "queries"), exist_ok=True)
    base = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    base.execute(f"load '{extension()}'")
    base.execute(f"call dsdgen(sf = {args.scale})")
    for (table,) in base.execute("select table_name from information_schema.tables").fetchall():
        path = os.path.join(args.folder, f"{table}.parquet")
        base.execute(f"copy {table} to '{path}' (format parquet, compression zstd)")
    for number, text in base.execute("select query_nr, query from tpcds_queries()").fetchall():
        with open(os.path.join(args.folder, "queries", f"{number:02}.sql"), "w", encoding="utf-8") as out:
            out.write(text)
    with open(complete, "w", encoding="utf-8") as out:
        out.write(f"scale {args.scale}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
