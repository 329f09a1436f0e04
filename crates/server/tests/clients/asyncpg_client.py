"""The behaviour that programs written against asyncpg expect.

Types by introspection, arrays both ways, cursors, COPY out.

Run with the server's port."""

import asyncio
import io
import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import asyncpg


async def types(connection):
    row = await connection.fetchrow("SELECT * FROM kinds WHERE k = $1", 1)
    at = datetime(2024, 2, 29, 12, 34, 56, 789000)
    expected = {
        "k": 1,
        "flag": True,
        "small": 2,
        "big": 3,
        "r": 0.5,
        "d": 0.25,
        "price": Decimal("12.50"),
        "word": "word",
        "day": date(2024, 2, 29),
        "at": at,
        "atz": at.replace(tzinfo=timezone.utc),
        "tod": time(1, 2, 3),
        "raw": b"ab",
        "numbers": [1, None, 3],
        "words": ["a", "b c"],
        "span": timedelta(days=32),
    }
    assert dict(row) == expected, dict(row)
    row = await connection.fetchrow("SELECT * FROM kinds WHERE k = 2")
    assert all(value is None for name, value in row.items() if name != "k"), row


async def arrays(connection):
    some = "SELECT id FROM people WHERE id = ANY($1::int[]) ORDER BY id"
    rows = await connection.fetch(some, [1, 3])
    assert [row["id"] for row in rows] == [1, 3], rows
    some = "SELECT id FROM people WHERE name = ANY($1::text[])"
    rows = await connection.fetch(some, ["Ada", "nobody"])
    assert [row["id"] for row in rows] == [1], rows
    for kind, value in (
        ("int[]", [1, None, 2]),
        ("bigint[]", [1 << 40]),
        ("text[]", ["a", "b,c", None]),
        ("double precision[]", [0.5, 1.5]),
        ("bool[]", [True, False]),
        ("date[]", [date(2024, 2, 29)]),
    ):
        back = await connection.fetchval(f"SELECT $1::{kind}", value)
        assert back == value, (kind, back)
    assert await connection.fetchval("SELECT ARRAY[1, 2, 3]") == [1, 2, 3]
    names = await connection.fetchval("SELECT array_agg(name ORDER BY id) FROM people")
    assert names == ["Ada", "Barbara", None], names


async def introspection(connection):
    statement = await connection.prepare("SELECT numbers, words, word FROM kinds WHERE k = $1")
    names = [(a.name, a.type.name) for a in statement.get_attributes()]
    assert names == [("numbers", "int4[]"), ("words", "text[]"), ("word", "text")], names
    assert [p.name for p in statement.get_parameters()] == ["int4"]
    # The driver's own table lacks this type, so it queries pg_type.
    found = await connection.fetchval("SELECT oid FROM pg_type WHERE typname = 'int4'")
    assert found == 23, found
    assert await connection.fetchval("SELECT current_setting('server_version_num')::int") > 90000
    set_name = "SELECT set_config('application_name', 'mine', false)"
    assert await connection.fetchval(set_name) == "mine"
    assert await connection.fetchval("SELECT current_setting('application_name')") == "mine"
    await connection.reset()
    assert connection.get_settings().server_encoding is not None
    await connection.reload_schema_state()
    # asyncpg's query for a type that it does not know.
    described = await connection._introspect_types({600, 2276}, 5.0)
    assert described


async def transactions(connection):
    async with connection.transaction(readonly=True):
        await connection.execute("SET LOCAL statement_timeout = '5s'")
        assert await connection.fetchval("SHOW statement_timeout") == "5s"
        sums = 0
        many = "SELECT value FROM generate_series(1, 1000) AS g(value)"
        async for record in connection.cursor(many):
            sums += record["value"]
        assert sums == 500500
    assert await connection.fetchval("SHOW statement_timeout") == "0"
    row = await connection.fetchrow("SELECT 1, 1")
    assert tuple(row) == (1, 1) and list(row.keys()) == ["?column?", "?column?"], row


async def copying(connection):
    out = io.BytesIO()
    await connection.copy_from_query("SELECT id, name FROM people ORDER BY id", output=out)
    assert out.getvalue() == b"1\tAda\n2\tBarbara\n3\t\\N\n", out.getvalue()
    out = io.BytesIO()
    tag = await connection.copy_from_table(
        "people", columns=["name"], output=out, format="csv", header=True
    )
    lines = sorted(out.getvalue().split(b"\n"))
    assert tag == "COPY 3" and lines == [b"", b"", b"Ada", b"Barbara", b"name"], lines
    out = io.BytesIO()
    one = "SELECT id FROM people WHERE id = $1"
    await connection.copy_from_query(one, 2, output=out, format="binary")
    assert out.getvalue().startswith(b"PGCOPY\n\xff\r\n\0")
    assert out.getvalue().endswith(b"\0\0\0\2\xff\xff")


async def pool(connection):
    async with asyncpg.create_pool(**ARGUMENTS, min_size=1, max_size=3) as many:
        values = await asyncio.gather(*(many.fetchval("SELECT $1::int + 1", i) for i in range(20)))
        assert values == list(range(1, 21)), values


ARGUMENTS = {
    "host": "127.0.0.1",
    "port": int(sys.argv[1]),
    "user": "tester",
    "database": "datafusion",
}


async def main():
    for check in (types, arrays, introspection, transactions, copying, pool):
        connection = await asyncpg.connect(**ARGUMENTS)
        await check(connection)
        await connection.close()
        print(f"{check.__name__}: ok")


asyncio.run(main())
print("done")
