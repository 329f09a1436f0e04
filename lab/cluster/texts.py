"""Which statements are asked?

The 22 of TPC-H with the validation run's parameters (the engine's tests have them), statements of
which clients get rows long before the last one is known, passes over a working set, point queries
and short aggregates, scans of all that these read. Texts only: no file here knows a server.

Rows need no order, because `sessions.py` compares them as multisets.
"""

import glob
import os
import random

import shared
import statements

TABLES = tuple(statements.TABLES)
SHORT_TABLES = ("lineitem", "orders", "customer", "nation", "region")  # of `short` and `whole`
KEYS_PER_SCALE = 1_500_000  # orders; of 32 keys, 8 are used
CUSTOMERS_PER_SCALE = 150_000
NATIONS = 25
FRACTION = 0.0001  # of the value of all stock, in the eleventh query at scale 1
# Queries of lab/soak whose parameters are drawn. The eighth has the fewest, 20; the thirteenth is
# left out, because it has nine.
DRAWN = (1, 4, 6, 8, 12, 14, 18, 19)
DRAWN_MAX = 20
DRAWS_MAX = 1_000  # for a text that was not drawn yet

VOLUME = "l_extendedprice * (1 - l_discount)"


def tpch(scale, folder=shared.TPCH):
    """Name -> text of TPC-H's 22 queries. The parameter of the eleventh depends on the scale: with
    that of a smaller one it has no rows."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "q*.sql"))):
        with open(path, encoding="utf-8") as file:
            found[os.path.basename(path).removesuffix(".sql")] = file.read()
    if len(found) != 22:
        raise OSError(f"{folder} has {len(found)} of TPC-H's 22 queries")
    found["q11"] = found["q11"].replace("* 0.001", f"* {FRACTION / scale:.8f}")
    return found


def streaming(scale):
    """Statements that send some 15,000 rows, the first of them early."""
    part = max(1, round(400 * scale))
    customer = max(1, round(100 * scale))
    return {
        "rows-lineitem": "select l_orderkey, l_linenumber, l_extendedprice, l_comment "
                         f"from lineitem where l_partkey % {part} = {3 % part}",
        "rows-orders": "select o_orderkey, o_orderdate, o_comment "
                       f"from orders where o_custkey % {customer} = {7 % customer}",
        "rows-joined": "select l_orderkey, l_quantity, o_totalprice, o_clerk from lineitem, orders "
                       f"where l_orderkey = o_orderkey and l_suppkey % {part} = {5 % part}",
    }


def working_set(number):
    """A pass over seven columns of lineitem. Each pass has constants of its own, so that no
    states that an earlier one left answer it."""
    return (
        f"select l_returnflag, l_linestatus, sum(l_quantity), sum({VOLUME} * (1 + l_tax)), count(*)"
        f" from lineitem where l_shipdate <= date '1998-12-01' - interval '{60 + number}' day"
        " group by l_returnflag, l_linestatus",
        f"select sum(l_extendedprice * l_discount) from lineitem where l_quantity < {20 + number}"
        " and l_discount between 0.02 and 0.09 and l_shipdate >= date '1993-01-01'",
    )


def key(number):
    """The order key with this number, from 1 on: TPC-H uses the first 8 of each 32."""
    return (number >> 3 << 5) | (number & 7)


def short(scale, draw):
    """Name -> point query or short aggregate, with keys that `draw` chooses."""
    orders = round(KEYS_PER_SCALE * scale)
    first = key(draw.randint(1, orders - 10_000))
    return {
        "point-order": f"select * from orders where o_orderkey = {first}",
        "point-lineitem": "select l_linenumber, l_quantity, l_extendedprice, l_shipdate "
                          f"from lineitem where l_orderkey = {first}",
        "point-customer": "select c_name, c_acctbal, c_phone from customer where c_custkey = "
                          f"{draw.randint(1, round(CUSTOMERS_PER_SCALE * scale))}",
        "point-nation": "select n_name, r_name from nation, region where n_regionkey = r_regionkey "
                        f"and n_nationkey = {draw.randrange(NATIONS)}",
        "sum-1000": "select count(*), sum(l_extendedprice), max(l_shipdate) from lineitem "
                    f"where l_orderkey between {first} and {first + 1_000}",
        "groups-10000": "select l_returnflag, l_linestatus, count(*), sum(l_quantity) from lineitem"
                        f" where l_orderkey between {first} and {first + 10_000} group by 1, 2",
        "sum-orders": "select o_orderpriority, count(*), sum(o_totalprice) from orders "
                      f"where o_orderkey between {first} and {first + 10_000} group by 1",
    }


def whole(number):
    """A pass over every column of lineitem, orders and customer that `short` reads. Each pass has
    constants of its own, and each leaves out some rows of every chunk, so that no states of
    another pass answer it."""
    return (
        f"select l_returnflag, l_linestatus, sum(l_quantity), sum({VOLUME} * (1 + l_tax)),"
        f" max(l_shipdate) from lineitem where l_extendedprice > {1_000 + number}"
        " group by l_returnflag, l_linestatus",
        "select l_linenumber, count(*), max(l_orderkey) from lineitem"
        f" where l_extendedprice < {90_000 - number} group by l_linenumber",
        "select o_orderstatus, o_orderpriority, o_shippriority, count(*), max(o_orderkey),"
        " max(o_custkey), max(o_orderdate), max(o_clerk), max(o_comment) from orders"
        f" where o_totalprice > {2_000 + number}"
        " group by o_orderstatus, o_orderpriority, o_shippriority",
        "select count(*), max(c_custkey), max(c_name), max(c_phone) from customer"
        f" where c_acctbal > {number - 900}",
    )


def drawn(seed, numbers=DRAWN):
    """For each round a dict of name -> TPC-H query, without end. No text comes twice, so that no
    query is answered by states that an equal one left."""
    draw, given = random.Random(seed), set()
    while True:
        yield {f"q{number:02d}": fresh(number, draw, given) for number in numbers}


def fresh(number, draw, given):
    for _ in range(DRAWS_MAX):
        text = " ".join(statements.tpch(number, draw).split())
        if text not in given:
            given.add(text)
            return text
    raise ValueError(f"TPC-H {number} has too few parameters for so many rounds")
