"""The behaviour that programs written against psycopg expect of a PostgreSQL server. Run by psycopg.rs, with the server's port."""

import sys
import threading
from datetime import date
from decimal import Decimal

import psycopg
from psycopg import errors

# Runs for minutes in operators that rarely yield.
LONG = """SELECT count(*) FROM generate_series(1, 2000000) a(x), generate_series(1, 2000000) b(y) WHERE x * y % 7 = 3"""


def connect(autocommit=True):
    return psycopg.connect(
        host="127.0.0.1", port=int(sys.argv[1]), user="tester", dbname="datafusion", autocommit=autocommit
    )


def fails(connection, sql, error, parameters=None):
    try:
        connection.execute(sql, parameters)
    except error:
        return
    raise AssertionError(f"no error: {sql}")


def queries():
    with connect() as connection:
        people = [(1, "Ada"), (2, "Barbara"), (3, None)]
        sql = "SELECT id, name FROM people ORDER BY id"
        values = "SELECT CAST(7 AS BIGINT) a, CAST(1.50 AS DECIMAL(9, 2)) b, DATE '2026-01-02' c, true d, CAST(0.5 AS DOUBLE) e"
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                assert cursor.execute(sql).fetchall() == people, binary
                assert [column.name for column in cursor.description] == ["id", "name"]
                assert cursor.rowcount == 3
                row = cursor.execute(values).fetchone()
                assert row == (7, Decimal("1.50"), date(2026, 1, 2), True, 0.5), row
        streamed = connection.cursor().stream("SELECT value FROM generate_series(1, 10000) AS g(value)")
        assert sum(value for (value,) in streamed) == 50_005_000


def parameters():
    with connect() as connection:
        # From the fifth execution on psycopg prepares the statement itself.
        for _ in range(7):
            found = connection.execute("SELECT name FROM people WHERE id = %s", (2,)).fetchall()
            assert found == [("Barbara",)], found
        by_name = "SELECT id FROM people WHERE name = %(name)s"
        assert connection.execute(by_name, {"name": "Ada"}, prepare=True).fetchall() == [(1,)]
        assert connection.execute(by_name, {"name": "'; DROP TABLE people"}).fetchall() == []
        assert connection.execute(by_name, {"name": None}).fetchall() == []
        with connection.cursor(binary=True) as cursor:
            sql = "SELECT count(*) FROM people WHERE id BETWEEN %b AND %b"
            assert cursor.execute(sql, (2, 3)).fetchone() == (2,)


def failures():
    with connect() as connection:
        fails(connection, "SELECT nothing FROM people", errors.UndefinedColumn)
        fails(connection, "SELECT 1 FROM nowhere", errors.UndefinedTable)
        fails(connection, "SELEC 1", errors.SyntaxError)
        fails(connection, "SELECT 1 / (id - 2) FROM people", errors.DivisionByZero)
        fails(connection, "SELECT 1 / (id - %s) FROM people", errors.DivisionByZero, (2,))
        assert connection.execute("SELECT 1").fetchone() == (1,)
    # In a transaction every statement after an error fails until the transaction ends.
    with connect(autocommit=False) as connection:
        fails(connection, "SELECT 1 FROM nowhere", errors.UndefinedTable)
        fails(connection, "SELECT 1", errors.InFailedSqlTransaction)
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def cancel():
    with connect() as connection:
        outcome = []

        def run():
            try:
                outcome.append(connection.execute(LONG).fetchone())
            except errors.QueryCanceled as error:
                outcome.append(error)

        query = threading.Thread(target=run)
        query.start()
        # As in PostgreSQL, a request that arrives before the query has begun has no effect.
        while query.is_alive():
            connection.cancel()
            query.join(0.1)
        assert isinstance(outcome[0], errors.QueryCanceled), outcome
        # A late request may hit the next query.
        for _ in range(100):
            try:
                assert connection.execute("SELECT 1").fetchone() == (1,)
                return
            except errors.QueryCanceled:
                pass
        raise AssertionError("cancelled again and again")


def settings():
    with connect() as one, connect() as other:
        one.execute("SET coscan.policy = 'elevator'")
        shown = [c.execute("SHOW coscan.policy").fetchone()[-1] for c in (one, other)]
        assert shown == ["elevator", "relevance"], shown


for check in (queries, parameters, failures, cancel, settings):
    check()
    print(f"{check.__name__}: ok")
