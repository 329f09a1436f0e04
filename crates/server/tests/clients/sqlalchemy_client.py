"""The behaviour that programs written against SQLAlchemy expect.

Inspection, reflection, queries by the ORM's core, pandas on top.

Run with the server's port and a driver's name (psycopg, psycopg2, asyncpg)."""

import asyncio
import sys
from datetime import date
from decimal import Decimal

import sqlalchemy as sa

PORT, DRIVER = int(sys.argv[1]), sys.argv[2]
URL = f"postgresql+{DRIVER}://tester@127.0.0.1:{PORT}/datafusion"


def inspector(connection):
    look = sa.inspect(connection)
    assert "public" in look.get_schema_names(), look.get_schema_names()
    assert look.default_schema_name == "public"
    tables = look.get_table_names()
    assert {"people", "kinds", "endless"} <= set(tables), tables
    assert look.get_view_names() == ["grown"], look.get_view_names()
    assert look.has_table("people") and not look.has_table("nothing")
    assert look.get_materialized_view_names() == []
    columns = {column["name"]: column for column in look.get_columns("people")}
    assert list(columns) == ["id", "name"], columns
    assert isinstance(columns["id"]["type"], sa.INTEGER) and not columns["id"]["nullable"]
    assert isinstance(columns["name"]["type"], sa.TEXT) and columns["name"]["nullable"]
    assert columns["id"]["default"] is None and columns["id"]["comment"] is None
    kinds = {column["name"]: column["type"] for column in look.get_columns("kinds")}
    price, numbers, at = kinds["price"], kinds["numbers"], kinds["at"]
    assert isinstance(price, sa.NUMERIC) and (price.precision, price.scale) == (12, 2)
    assert isinstance(numbers, sa.ARRAY) and isinstance(numbers.item_type, sa.INTEGER)
    assert isinstance(at, sa.TIMESTAMP) and not at.timezone and kinds["atz"].timezone
    assert isinstance(kinds["day"], sa.DATE) and isinstance(kinds["raw"], sa.types.LargeBinary)
    assert look.get_pk_constraint("people")["constrained_columns"] == []
    assert look.get_foreign_keys("people") == [] and look.get_unique_constraints("people") == []
    assert look.get_indexes("people") == [] and look.get_check_constraints("people") == []
    assert look.get_table_comment("people") == {"text": None}
    assert look.get_sequence_names() == [] and look.get_enums() == []
    many = look.get_multi_columns()
    assert (None, "people") in many and (None, "kinds") in many, many
    text = look.get_view_definition("grown")
    assert "people" in text, text


def reflection(connection):
    meta = sa.MetaData()
    meta.reflect(connection, only=["people", "kinds"])
    people, kinds = meta.tables["people"], meta.tables["kinds"]
    rows = connection.execute(sa.select(people).where(people.c.id < 3).order_by(people.c.id)).all()
    assert rows == [(1, "Ada"), (2, "Barbara")], rows
    one = connection.execute(sa.select(kinds).where(kinds.c.k == 1)).mappings().one()
    assert one["price"] == Decimal("12.50") and one["day"] == date(2024, 2, 29), one
    assert one["numbers"] == [1, None, 3] and one["words"] == ["a", "b c"], one
    some = sa.select(people.c.name).where(people.c.id.in_([1, 3]))
    found = connection.execute(some).scalars().all()
    assert sorted(found, key=str) == ["Ada", None], found
    counted = connection.execute(sa.select(sa.func.count()).select_from(people)).scalar()
    assert counted == 3
    # Duplicate names, as from SELECT people.*, other.*.
    a, b = people.alias("a"), people.alias("b")
    pairs = connection.execute(sa.select(a, b).join(b, a.c.id == b.c.id).order_by(a.c.id)).all()
    assert pairs[0] == (1, "Ada", 1, "Ada"), pairs
    assert connection.execute(sa.text("SELECT 1, 1")).one() == (1, 1)


def check(connection):
    for look in (inspector, reflection):
        look(connection)
        print(f"{look.__name__}: ok")


async def with_asyncio():
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(URL)
    async with engine.connect() as connection:
        await connection.run_sync(check)
    await engine.dispose()


if DRIVER == "asyncpg":
    asyncio.run(with_asyncio())
else:
    with sa.create_engine(URL).connect() as connection:
        check(connection)
        if DRIVER == "psycopg":
            import pandas

            frame = pandas.read_sql("SELECT id, name FROM people ORDER BY id", connection)
            assert frame["id"].tolist() == [1, 2, 3], frame
            frame = pandas.read_sql_table("people", connection)
            assert len(frame) == 3, frame
            print("pandas: ok")
print("done")
