"""The behaviour that programs written against ADBC's PostgreSQL driver expect.

Arrow tables by binary COPY, parameters, metadata.

Run with the server's port."""

import sys
from datetime import date
from decimal import Decimal

import adbc_driver_postgresql.dbapi as adbc
import pandas

URI = f"postgresql://tester@127.0.0.1:{sys.argv[1]}/datafusion"


def tables(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, name FROM people ORDER BY id")
        table = cursor.fetch_arrow_table()
        assert table.to_pydict() == {"id": [1, 2, 3], "name": ["Ada", "Barbara", None]}, table
        cursor.execute("SELECT * FROM kinds ORDER BY k")
        table = cursor.fetch_arrow_table()
        row = table.to_pylist()[0]
        assert row["numbers"] == [1, None, 3] and row["words"] == ["a", "b c"], row
        assert row["day"] == date(2024, 2, 29) and row["raw"] == b"ab" and row["flag"] is True, row
        assert str(row["price"]) in ("12.50", "12.5"), row
        cursor.execute("SELECT value FROM generate_series(1, 100000) AS g(value)")
        assert sum(cursor.fetch_arrow_table()["value"].to_pylist()) == 5000050000


def parameters(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM people WHERE id = $1", (2,))
        assert cursor.fetchone() == ("Barbara",)


def metadata(connection):
    assert "people" in str(connection.adbc_get_objects(depth="tables").read_all().to_pylist())
    objects = connection.adbc_get_objects(depth="all", table_name_filter="people")
    objects = objects.read_all().to_pylist()
    catalog = next(c for c in objects if c["catalog_name"] == "datafusion")
    public = next(s for s in catalog["catalog_db_schemas"] if s["db_schema_name"] == "public")
    table = next(t for t in public["db_schema_tables"] if t["table_name"] == "people")
    assert [c["column_name"] for c in table["table_columns"]] == ["id", "name"], table
    schema = connection.adbc_get_table_schema("people")
    assert schema.names == ["id", "name"], schema
    assert "table" in connection.adbc_get_table_types()
    assert connection.adbc_get_info()["vendor_name"] == "PostgreSQL"


def frames(connection):
    frame = pandas.read_sql("SELECT id, name FROM people ORDER BY id", connection)
    assert frame["id"].tolist() == [1, 2, 3], frame


for check in (tables, parameters, metadata, frames):
    with adbc.connect(URI) as connection:
        check(connection)
    print(f"{check.__name__}: ok")
print("done")
