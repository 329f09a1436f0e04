//! Whole TPC-H queries of concurrent clients over several tables: dashboards and reports, not the
//! papers' ranges.
//!
//! Idea: TPC-H 1, 4, 6, 8, 12, 13, 14 and 19 are the queries that read much of lineitem or orders
//! and return few rows. Each client draws its queries, and each query its substitution parameters
//! (TPC-H 2.4.x.3). With sets, each query has a fixed number of parameter sets for all clients, as
//! on dashboards, whose users look at the same few pictures. All clients start at once.
//! W3 as in `mod.rs`. The order of the draws, and the text, are part of the format: compared
//! results name a seed.
//! are compared name a seed.

use serde::Serialize;

use super::constants::{Fast, last_of_tpch};
use super::date::Date;
use super::file::{FORMAT, VERSION};
use super::{decimal, fast};
use crate::random::Random;

/// Everything that determines such a workload.
#[derive(Clone, Copy, Debug)]
pub struct WholeSpec {
    /// The number of clients.
    pub clients: usize,
    /// Queries per client, one after the other.
    pub queries: usize,
    /// Sets of parameters of each query; 0: parameters are drawn for every query.
    pub sets: usize,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The workload, in the form that `lab/arena/peers.py` runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WholeFile {
    format: &'static str,
    version: u32,
    mix: String,
    seed: u64,
    tables: Vec<&'static str>,
    streams: Vec<Client>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Client {
    start_s: f64,
    queries: Vec<Asked>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Asked {
    name: &'static str,
    sql: String,
}

impl WholeSpec {
    /// Draws the sets, if there are any. Then draws, for each query of each client, which query it
    /// is and its parameters or its set.
    #[must_use]
    pub fn draw(&self) -> WholeFile {
        let mut random = Random::new(self.seed);
        let sets = QUERIES.map(|(_, query)| {
            let drawn = (0..self.sets).map(|_| query(&mut random));
            drawn.collect::<Vec<String>>()
        });
        let mut ask = || {
            let at = index(&mut random, QUERIES.len());
            let (name, query) = QUERIES[at];
            let sql = match sets[at].len() {
                0 => query(&mut random),
                sets_of_it => sets[at][index(&mut random, sets_of_it)].clone(),
            };
            Asked { name, sql }
        };
        let mut client = || Client {
            start_s: 0.0,
            queries: (0..self.queries).map(|_| ask()).collect(),
        };
        WholeFile {
            format: FORMAT,
            version: VERSION,
            mix: match self.sets {
                0 => "tpch".to_owned(),
                sets => format!("tpch-{sets}-sets"),
            },
            seed: self.seed,
            tables: TABLES.to_vec(),
            streams: (0..self.clients).map(|_| client()).collect(),
        }
    }
}

/// The tables that the queries read.
pub(crate) const TABLES: [&str; 7] = [
    "customer", "lineitem", "nation", "orders", "part", "region", "supplier",
];

impl WholeFile {
    /// Names and statements of each client.
    pub(crate) fn by_client(&self) -> Vec<Vec<(&'static str, &str)>> {
        let clients = self.streams.iter();
        let asked = clients.map(|client| client.queries.iter());
        let asked = asked.map(|queries| queries.map(|query| (query.name, query.sql.as_str())));
        asked.map(Iterator::collect).collect()
    }

    /// Names and statements in turn: all clients' first queries before their second ones.
    pub(crate) fn in_turn(&self) -> Vec<(&'static str, &str)> {
        let most = self.streams.iter().map(|client| client.queries.len()).max();
        let turn = |at: usize| {
            let asked = self
                .streams
                .iter()
                .filter_map(move |client: &Client| client.queries.get(at));
            asked.map(|query: &Asked| (query.name, query.sql.as_str()))
        };
        (0..most.unwrap_or(0)).flat_map(turn).collect()
    }
}

/// Draws a query of one kind.
type Draw = fn(&mut Random) -> String;
const QUERIES: [(&str, Draw); 8] = [
    ("Q1", q1),
    ("Q4", q4),
    ("Q6", q6),
    ("Q8", q8),
    ("Q12", q12),
    ("Q13", q13),
    ("Q14", q14),
    ("Q19", q19),
];

/// TPC-H 4.2.3: the lists from which the data generator draws, in its order. Nations with their
/// regions.
const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];
const TYPES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
const WORDS: [[&str; 4]; 2] = [
    ["special", "pending", "unusual", "express"],
    ["packages", "requests", "accounts", "deposits"],
];
/// The container size, container types and largest part size of Q19's three alternatives.
const CONTAINERS: [(&str, [&str; 4], u32); 3] = [
    ("SM", ["CASE", "BOX", "PACK", "PKG"], 5),
    ("MED", ["BAG", "BOX", "PKG", "PACK"], 10),
    ("LG", ["CASE", "BOX", "PACK", "PKG"], 15),
];

/// A random index below `length`.
fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap_or(0)
}

fn q1(random: &mut Random) -> String {
    let last = last_of_tpch(random);
    format!(
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
 sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
 sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
 avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
 from lineitem where l_shipdate <= date '{last}'
 group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"
    )
}

/// TPC-H Q4 with drawn parameters.
pub(crate) fn q4(random: &mut Random) -> String {
    let month = random.below(58);
    let (first, end) = (
        Date::month_from_1993(month),
        Date::month_from_1993(month + 3),
    );
    format!(
        "select o_orderpriority, count(*) as order_count from orders
 where o_orderdate >= date '{first}' and o_orderdate < date '{end}' and exists
 (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
 group by o_orderpriority order by o_orderpriority"
    )
}

/// TPC-H Q6 with drawn parameters.
pub(crate) fn q6(random: &mut Random) -> String {
    fast(&Fast::of_tpch(random), "lineitem", "", "\n")
}

fn q8(random: &mut Random) -> String {
    let (nation, region) = NATIONS[index(random, NATIONS.len())];
    let kind = TYPES
        .map(|syllables| syllables[index(random, syllables.len())])
        .join(" ");
    format!(
        "select o_year, sum(case when nation = '{nation}' then volume else 0 end) / sum(volume) as mkt_share from
 (select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation
 from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
 where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
 and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = '{region}'
 and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31'
 and p_type = '{kind}') as all_nations group by o_year order by o_year"
    )
}

fn q12(random: &mut Random) -> String {
    let first = MODES[index(random, MODES.len())];
    let others: Vec<&str> = MODES.into_iter().filter(|mode| *mode != first).collect();
    let second = others[index(random, others.len())];
    let year = 12 * random.below(5);
    let (begin, end) = (
        Date::month_from_1993(year),
        Date::month_from_1993(year + 12),
    );
    format!(
        "select l_shipmode,
 sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end) as high_line_count,
 sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low_line_count
 from orders, lineitem where o_orderkey = l_orderkey and l_shipmode in ('{first}', '{second}')
 and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
 and l_receiptdate >= date '{begin}' and l_receiptdate < date '{end}'
 group by l_shipmode order by l_shipmode"
    )
}

fn q13(random: &mut Random) -> String {
    let [first, second] = WORDS.map(|words| words[index(random, words.len())]);
    format!(
        "select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) as c_count
 from customer left outer join orders on c_custkey = o_custkey and o_comment not like '%{first}%{second}%'
 group by c_custkey) as c_orders group by c_count order by custdist desc, c_count desc"
    )
}

fn q14(random: &mut Random) -> String {
    let month = random.below(60);
    let (first, end) = (
        Date::month_from_1993(month),
        Date::month_from_1993(month + 1),
    );
    format!(
        "select cast('100.00' as decimal(5,2)) * sum(case when p_type like 'PROMO%'
 then l_extendedprice * (1 - l_discount) else 0 end) / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
 from lineitem, part where l_partkey = p_partkey
 and l_shipdate >= date '{first}' and l_shipdate < date '{end}'"
    )
}

fn q19(random: &mut Random) -> String {
    let quantities = [1, 10, 20].map(|low| low + random.below(10));
    let brands = quantities.map(|_| (1 + random.below(5), 1 + random.below(5)));
    let ways = CONTAINERS.iter().zip(quantities).zip(brands);
    let ways = ways.map(|(((size, boxes, most), quantity), (maker, brand))| {
        let containers = boxes.map(|of| format!("'{size} {of}'")).join(", ");
        let (low, high) = (decimal(&quantity.to_string()), decimal(&(quantity + 10).to_string()));
        format!(
            "(p_partkey = l_partkey and p_brand = 'Brand#{maker}{brand}' and p_container in ({containers}) \
             and l_quantity >= {low} and l_quantity <= {high} \
             and p_size between 1 and {most} \
             and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')"
        )
    });
    let ways: Vec<String> = ways.collect();
    format!(
        "select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part where {}",
        ways.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn drawn(clients: usize, queries: usize, sets: usize, seed: u64) -> WholeFile {
        let spec = WholeSpec {
            clients,
            queries,
            sets,
            seed,
        };
        spec.draw()
    }

    /// Published results name seeds: changing what a seed draws makes them incomparable.
    #[test]
    fn draws_what_was_drawn_for_published_results() {
        for (file, expected) in [
            (
                drawn(3, 4, 0, 3),
                include_str!("../../testdata/whole-seed-3.json"),
            ),
            (
                drawn(2, 4, 2, 5),
                include_str!("../../testdata/whole-seed-5-sets-2.json"),
            ),
        ] {
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            assert_eq!(serde_json::to_value(file).unwrap(), expected);
        }
    }

    #[test]
    fn sets_are_shared_by_all_clients() {
        let mut texts: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for client in drawn(40, 8, 4, 1).streams {
            for Asked { name, sql } in client.queries {
                texts.entry(name).or_default().insert(sql);
            }
        }
        assert_eq!(texts.len(), QUERIES.len());
        assert!(
            texts.values().all(|sql| (2..=4).contains(&sql.len())),
            "{texts:?}"
        );
    }

    #[test]
    fn every_table_is_named() {
        let clients = drawn(40, 4, 0, 1).streams;
        let queries = clients.iter().flat_map(|client| &client.queries);
        let sql: String = queries.map(|query| query.sql.as_str()).collect();
        assert!(TABLES.iter().all(|table| sql.contains(table)));
    }
}
