"""Are the rows those of DuckDB?

Numbers are compared by value: sums of floats depend on the order of addition, and the two systems
return quotients with different numbers of digits.
"""

import datetime
import decimal

import statements

RELATIVE = 1e-6


def same(rows, expected):
    return len(rows) == len(expected) and all(map(same_row, rows, expected))


def same_row(row, expected):
    return len(row) == len(expected) and all(map(same_cell, row, expected))


def same_cell(cell, expected):
    cell, expected = plain(cell), plain(expected)
    if isinstance(cell, float) and isinstance(expected, float):
        return abs(cell - expected) <= RELATIVE * max(abs(cell), abs(expected))
    return cell == expected


def plain(cell):
    """A number as a float, a date as text, everything else as it is."""
    if isinstance(cell, (int, float, decimal.Decimal)) and not isinstance(cell, bool):
        return float(cell)
    if isinstance(cell, datetime.date):
        return cell.isoformat()[:10]
    return cell


class Expected:
    """DuckDB's answers to the queries of a run."""

    def __init__(self, folder, seed):
        import duckdb

        database = duckdb.connect()
        for table in statements.TABLES:
            database.execute(f"create view {table} as select * from '{folder}/{table}.parquet'")

        def rows(text, *values):
            return database.execute(text, list(values)).fetchall()

        self.questions = {text: rows(text) for text in statements.questions(seed)}
        self.parametric = {
            (text, value): rows(text, value) for text, values in statements.PARAMETRIC for value in values
        }
        self.own = {most: rows(statements.OWN_SUM.format(most)) for most in statements.OWN}
        self.cursor = rows(f"{statements.CURSOR} limit {statements.CURSOR_ROWS_MAX + 100}")
        self.orders = rows("select count(*) from orders")[0][0]
        database.close()
