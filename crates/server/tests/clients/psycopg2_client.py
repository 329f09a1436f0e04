"""The behaviour that programs written against psycopg2 and psycopg 3 expect beyond plain queries.

Arrays, COPY out, cursors by name. `psycopg_client.py`, which always runs, covers psycopg 3's
queries. Run with the server's port."""

import io
import sys

import psycopg
import psycopg2

ARGUMENTS = {
    "host": "127.0.0.1",
    "port": int(sys.argv[1]),
    "user": "tester",
    "dbname": "datafusion",
}
PEOPLE = b"1\tAda\n2\tBarbara\n3\t\\N\n"


def two():
    connection = psycopg2.connect(**ARGUMENTS)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT numbers, words FROM kinds WHERE k = 1")
        assert cursor.fetchone() == ([1, None, 3], ["a", "b c"])
        cursor.execute("SELECT id FROM people WHERE id = ANY(%s) ORDER BY id", ([1, 3],))
        assert cursor.fetchall() == [(1,), (3,)]
        out = io.BytesIO()
        cursor.copy_expert("COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT", out)
        assert out.getvalue() == PEOPLE, out.getvalue()
        text = io.StringIO()
        cursor.copy_to(text, "people", columns=("id",))
        assert sorted(text.getvalue().split()) == ["1", "2", "3"]
        out = io.BytesIO()
        options = "(FORMAT csv, HEADER, DELIMITER ';', NULL 'none')"
        cursor.copy_expert(f"COPY people (id, name) TO STDOUT WITH {options}", out)
        lines = sorted(out.getvalue().splitlines())
        assert lines == [b"1;Ada", b"2;Barbara", b"3;none", b"id;name"], lines
        named = connection.cursor("rows")
        named.execute("SELECT value FROM generate_series(1, 5000) AS g(value)")
        assert sum(value for (value,) in named) == 12502500
    connection.close()


def three():
    with psycopg.connect(**ARGUMENTS) as connection:
        with connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT id, name FROM people ORDER BY id) TO STDOUT") as copy:
                assert b"".join(copy) == PEOPLE
            people = "SELECT id, name FROM people ORDER BY id"
            with cursor.copy(f"COPY ({people}) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int4", "text"])
                assert list(copy.rows()) == [(1, "Ada"), (2, "Barbara"), (3, None)]
            with cursor.copy("COPY (SELECT id FROM people WHERE id = %s) TO STDOUT", (2,)) as copy:
                assert list(copy.rows()) == [("2",)]
            some = "SELECT id FROM people WHERE id = ANY(%s) ORDER BY id"
            found = cursor.execute(some, ([1, 3],)).fetchall()
            assert found == [(1,), (3,)], found
            row = cursor.execute("SELECT 1, 1").fetchone()
            assert row == (1, 1)
            assert [c.name for c in cursor.description] == ["?column?", "?column?"]
            # A failed COPY leaves the connection usable.
            connection.rollback()
            try:
                with cursor.copy("COPY (SELECT 1 / (id - 2) FROM people) TO STDOUT") as copy:
                    list(copy)
                raise AssertionError("no error")
            except psycopg.errors.DivisionByZero:
                connection.rollback()
            assert cursor.execute("SELECT 1").fetchone() == (1,)
        info = psycopg.types.TypeInfo.fetch(connection, "int4")
        assert info is not None and info.oid == 23 and info.array_oid == 1007, info


for check in (two, three):
    check()
    print(f"{check.__name__}: ok")
print("done")
