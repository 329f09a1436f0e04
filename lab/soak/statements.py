"""Which queries do clients run, and what does DuckDB answer?

TPC-H's queries with parameters that a seed fixes, and shapes that TPC-H does not have: top-k,
distinct counts, windows, groupings by many values. Every query orders its rows totally, or has one
row, so that rows can be compared as lists.
"""

import random

TABLES = "lineitem orders customer part supplier nation region partsupp".split()
NATIONS = (("BRAZIL", "AMERICA"), ("FRANCE", "EUROPE"), ("CHINA", "ASIA"), ("KENYA", "AFRICA"), ("IRAN", "MIDDLE EAST"))
TYPES = ("ECONOMY ANODIZED STEEL", "STANDARD POLISHED TIN", "PROMO BRUSHED COPPER", "SMALL PLATED BRASS")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
CONTAINERS = (("SM", 5, "CASE BOX PACK PKG"), ("MED", 10, "BAG BOX PKG PACK"), ("LG", 15, "CASE BOX PACK PKG"))
VOLUME = "l_extendedprice * (1 - l_discount)"

FIXED = (
    "select l_orderkey, l_partkey, l_comment from lineitem order by l_extendedprice desc, l_orderkey, l_linenumber limit 50",
    "select count(distinct l_suppkey), min(l_comment), max(l_comment) from lineitem where l_tax > 0.03",
    "select o_custkey, count(*), sum(o_totalprice) from orders group by 1 order by 3 desc, 1 limit 20",
    "select n_name, count(*) from customer, nation where c_nationkey = n_nationkey group by 1 order by 1",
    "select p_brand, rank() over (order by sum(l_quantity) desc, p_brand) from lineitem, part where l_partkey = p_partkey group by p_brand order by 2, 1",
    "select l_shipmode, avg(l_discount), stddev(l_quantity) from lineitem group by 1 order by 1",
    "select l_partkey, l_suppkey, count(*), sum(l_quantity) from lineitem group by 1, 2 order by 4 desc, 1, 2 limit 30",
    "select count(*), sum(n) from (select o_orderkey, row_number() over (partition by o_custkey order by o_orderkey) as n from orders) t",
    "select o_orderkey, o_totalprice from orders order by o_totalprice desc, o_orderkey limit 10 offset 200000",
)

# Texts with one parameter each, and its values.
PARAMETRIC = (
    ("select count(*), sum(l_quantity) from lineitem where l_quantity < $1", (5, 17, 50)),
    ("select o_orderpriority, count(*) from orders where o_custkey < $1 group by 1 order by 1", (1000, 20000, 150000)),
    ("select count(*), min(l_comment) from lineitem where l_orderkey = $1", (1, 7, 599971)),
)

# The numbers of orders in a client's own table.
OWN = (1_000, 50_000, 400_000)
OWN_SUM = "select count(*), sum(o_totalprice) from orders where o_orderkey < {} and o_orderkey % 2 = 1"

CURSOR = "select o_orderkey, o_comment from orders order by o_orderkey"
CURSOR_ROWS_MAX = 5_000


def tpch(number, draw):
    """TPC-H's query with this number and drawn parameters."""
    year, month = draw.randint(1993, 1997), draw.randint(1, 12)
    begin = f"date '{year}-{month:02d}-01'"
    if number == 1:
        return f"""select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum({VOLUME}),
            sum({VOLUME} * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
            from lineitem where l_shipdate <= date '1998-12-01' - interval '{draw.randint(60, 120)}' day
            group by l_returnflag, l_linestatus order by 1, 2"""
    if number == 4:
        return f"""select o_orderpriority, count(*) from orders
            where o_orderdate >= {begin} and o_orderdate < {begin} + interval '3' month and exists
            (select 1 from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
            group by o_orderpriority order by 1"""
    if number == 6:
        discount = draw.randint(2, 9)
        return f"""select sum(l_extendedprice * l_discount) from lineitem
            where l_shipdate >= date '{year}-01-01' and l_shipdate < date '{year + 1}-01-01'
            and l_discount between {discount / 100 - 0.01:.2f} and {discount / 100 + 0.01:.2f}
            and l_quantity < {draw.randint(24, 25)}"""
    if number == 8:
        nation, region = draw.choice(NATIONS)
        return f"""select o_year, sum(case when nation = '{nation}' then volume else 0 end) / sum(volume) from
            (select extract(year from o_orderdate) as o_year, {VOLUME} as volume, n2.n_name as nation
            from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey
            and o_custkey = c_custkey and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey
            and r_name = '{region}' and s_nationkey = n2.n_nationkey
            and o_orderdate between date '1995-01-01' and date '1996-12-31' and p_type = '{draw.choice(TYPES)}') x
            group by o_year order by 1"""
    if number == 12:
        one, other = draw.sample(MODES, 2)
        high = "o_orderpriority in ('1-URGENT', '2-HIGH')"
        return f"""select l_shipmode, sum(case when {high} then 1 else 0 end), sum(case when {high} then 0 else 1 end)
            from orders, lineitem where o_orderkey = l_orderkey and l_shipmode in ('{one}', '{other}')
            and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
            and l_receiptdate >= date '{year}-01-01' and l_receiptdate < date '{year + 1}-01-01'
            group by l_shipmode order by 1"""
    if number == 13:
        words = f"%{draw.choice(('special', 'pending', 'unusual'))}%{draw.choice(('packages', 'requests', 'accounts'))}%"
        return f"""select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) as c_count
            from customer left join orders on c_custkey = o_custkey and o_comment not like '{words}'
            group by c_custkey) t group by c_count order by custdist desc, c_count desc"""
    if number == 14:
        return f"""select 100.00 * sum(case when p_type like 'PROMO%' then {VOLUME} else 0 end) / sum({VOLUME})
            from lineitem, part where l_partkey = p_partkey
            and l_shipdate >= {begin} and l_shipdate < {begin} + interval '1' month"""
    if number == 18:
        return f"""select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
            from customer, orders, lineitem where o_orderkey in
            (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > {draw.randint(290, 315)})
            and c_custkey = o_custkey and o_orderkey = l_orderkey
            group by 1, 2, 3, 4, 5 order by o_totalprice desc, o_orderdate, o_orderkey limit 100"""
    assert number == 19, number
    quantity = (draw.randint(1, 10), draw.randint(10, 20), draw.randint(20, 30))
    kinds = []
    for least, (size, most, boxes) in zip(quantity, CONTAINERS):
        containers = ", ".join(f"'{size} {box}'" for box in boxes.split())
        kinds.append(f"""(p_brand = 'Brand#{draw.randint(1, 5)}{draw.randint(1, 5)}' and p_container in ({containers})
            and l_quantity between {least} and {least + 10} and p_size between 1 and {most})""")
    return f"""select sum({VOLUME}) from lineitem, part where p_partkey = l_partkey
        and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON' and ({" or ".join(kinds)})"""


def questions(seed):
    """The queries of a run."""
    draw = random.Random(seed)
    drawn = [tpch(number, draw) for number in (1, 4, 6, 8, 12, 13, 14, 18, 19) for _ in range(3)]
    return [" ".join(text.split()) for text in drawn] + list(FIXED)
