#!/usr/bin/env python3
"""Writes a workload of whole TPC-H queries over several tables: dashboards and reports, not the paper's ranges.

    mix.py [--clients 12] [--queries 4] [--sets 0] [--seed 1] --out w.json

Idea: TPC-H 1, 4, 6, 8, 12, 13, 14 and 19 are the queries that read much of lineitem or orders and give few rows.
Each client draws its queries, and each query its substitution parameters (TPC-H 2.4.x.3). With --sets N a query
has N sets of parameters for all clients: dashboards, whose users look at the same few pictures.
The file is that of `workload.py`, with `tables`; `peers.py` runs it. All clients begin at once.

W1 to W3 as in workload.py. No drawn number of `workload.py` is used, so that neither changes the other.
"""

import argparse
import datetime
import json
import sys

from workload import FORMAT, VERSION, SplitMix64, check, decimal

TABLES = ["customer", "lineitem", "nation", "orders", "part", "region", "supplier"]

# TPC-H 4.2.3: what the generator draws from, in its order.
NATIONS = [("ALGERIA", "AFRICA"), ("ARGENTINA", "AMERICA"), ("BRAZIL", "AMERICA"), ("CANADA", "AMERICA"),
           ("EGYPT", "MIDDLE EAST"), ("ETHIOPIA", "AFRICA"), ("FRANCE", "EUROPE"), ("GERMANY", "EUROPE"),
           ("INDIA", "ASIA"), ("INDONESIA", "ASIA"), ("IRAN", "MIDDLE EAST"), ("IRAQ", "MIDDLE EAST"),
           ("JAPAN", "ASIA"), ("JORDAN", "MIDDLE EAST"), ("KENYA", "AFRICA"), ("MOROCCO", "AFRICA"),
           ("MOZAMBIQUE", "AFRICA"), ("PERU", "AMERICA"), ("CHINA", "ASIA"), ("ROMANIA", "EUROPE"),
           ("SAUDI ARABIA", "MIDDLE EAST"), ("VIETNAM", "ASIA"), ("RUSSIA", "EUROPE"),
           ("UNITED KINGDOM", "EUROPE"), ("UNITED STATES", "AMERICA")]
TYPES = [["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
         ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
         ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
WORDS = [["special", "pending", "unusual", "express"], ["packages", "requests", "accounts", "deposits"]]


def one_of(rng, list):
    return list[rng.below(len(list))]


def months_on(first, months):
    month = first.month - 1 + months
    return datetime.date(first.year + month // 12, month % 12 + 1, first.day)


def q1(rng):
    last = datetime.date(1998, 12, 1) - datetime.timedelta(days=60 + rng.below(61))
    return f"""select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
 sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
 sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
 avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
 from lineitem where l_shipdate <= date '{last}'
 group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"""


def q4(rng):
    first = months_on(datetime.date(1993, 1, 1), rng.below(58))
    return f"""select o_orderpriority, count(*) as order_count from orders
 where o_orderdate >= date '{first}' and o_orderdate < date '{months_on(first, 3)}' and exists
 (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
 group by o_orderpriority order by o_orderpriority"""


def q6(rng):
    year, discount, quantity = 1993 + rng.below(5), 2 + rng.below(8), 24 + rng.below(2)
    return f"""select sum(l_extendedprice * l_discount) as revenue from lineitem
 where l_shipdate >= date '{year}-01-01' and l_shipdate < date '{year + 1}-01-01'
 and l_discount between {decimal(f"0.{discount - 1:02d}")} and {decimal(f"0.{discount + 1:02d}")}
 and l_quantity < {decimal(quantity)}"""


def q8(rng):
    nation, region = one_of(rng, NATIONS)
    kind = " ".join(one_of(rng, syllables) for syllables in TYPES)
    return f"""select o_year, sum(case when nation = '{nation}' then volume else 0 end) / sum(volume) as mkt_share from
 (select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation
 from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
 where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
 and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = '{region}'
 and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31'
 and p_type = '{kind}') as all_nations group by o_year order by o_year"""


def q12(rng):
    first = one_of(rng, MODES)
    second = one_of(rng, [mode for mode in MODES if mode != first])
    year = 1993 + rng.below(5)
    return f"""select l_shipmode,
 sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end) as high_line_count,
 sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low_line_count
 from orders, lineitem where o_orderkey = l_orderkey and l_shipmode in ('{first}', '{second}')
 and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
 and l_receiptdate >= date '{year}-01-01' and l_receiptdate < date '{year + 1}-01-01'
 group by l_shipmode order by l_shipmode"""


def q13(rng):
    first, second = (one_of(rng, words) for words in WORDS)
    return f"""select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) as c_count
 from customer left outer join orders on c_custkey = o_custkey and o_comment not like '%{first}%{second}%'
 group by c_custkey) as c_orders group by c_count order by custdist desc, c_count desc"""


def q14(rng):
    first = months_on(datetime.date(1993, 1, 1), rng.below(60))
    return f"""select cast('100.00' as decimal(5,2)) * sum(case when p_type like 'PROMO%'
 then l_extendedprice * (1 - l_discount) else 0 end) / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
 from lineitem, part where l_partkey = p_partkey
 and l_shipdate >= date '{first}' and l_shipdate < date '{months_on(first, 1)}'"""


def q19(rng):
    quantities = [low + rng.below(10) for low in (1, 10, 20)]
    brands = [f"Brand#{1 + rng.below(5)}{1 + rng.below(5)}" for _ in quantities]
    kinds = [("SM", ("CASE", "BOX", "PACK", "PKG"), 5), ("MED", ("BAG", "BOX", "PKG", "PACK"), 10),
             ("LG", ("CASE", "BOX", "PACK", "PKG"), 15)]
    ways = []
    for quantity, brand, (size, boxes, most) in zip(quantities, brands, kinds):
        containers = ", ".join(f"'{size} {box}'" for box in boxes)
        ways.append(f"(p_partkey = l_partkey and p_brand = '{brand}' and p_container in ({containers})"
                    f" and l_quantity >= {decimal(quantity)} and l_quantity <= {decimal(quantity + 10)}"
                    f" and p_size between 1 and {most}"
                    " and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')")
    return ("select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part where "
            + " or ".join(ways))


QUERIES = {"Q1": q1, "Q4": q4, "Q6": q6, "Q8": q8, "Q12": q12, "Q13": q13, "Q14": q14, "Q19": q19}


def generate(clients=12, queries=4, sets=0, seed=1):
    """The workload as a dict. Draws, in order: the sets, if there are any; for each query of each client its kind,
    then its parameters or its set."""
    rng = SplitMix64(seed)
    known = {name: [make(rng) for _ in range(sets)] for name, make in QUERIES.items()}
    streams = []
    for _ in range(clients):
        stream = []
        for _ in range(queries):
            name = one_of(rng, list(QUERIES))
            sql = one_of(rng, known[name]) if sets else QUERIES[name](rng)
            stream.append({"name": name, "sql": sql})
        streams.append({"start_s": 0.0, "queries": stream})
    return check({"format": FORMAT, "version": VERSION, "mix": f"tpch{f'-{sets}-sets' if sets else ''}",
                  "seed": seed, "tables": TABLES, "streams": streams})


def main(argv):
    parser = argparse.ArgumentParser(description="Write a workload of TPC-H queries.")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--queries", type=int, default=4, help="queries per client")
    parser.add_argument("--sets", type=int, default=0, help="sets of parameters per query [default: drawn for each]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    args = parser.parse_args(argv)
    try:
        workload = generate(args.clients, args.queries, args.sets, args.seed)
    except ValueError as error:
        print(f"mix: {error}", file=sys.stderr)
        return 2
    with open(args.out, "w") as file:
        json.dump(workload, file, indent=1)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
