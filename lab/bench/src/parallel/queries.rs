//! Which queries run?
//!
//! Scans of many bytes per row and little arithmetic, so that they wait for the devices, as in the
//! paper; some over all rows, some over ranges of keys. No two scans of the mix are alike, so that
//! clients share reads but not results. A point query selects the lines of one order by an index.
//! Keys are TPC-H's: of each 32 numbers the first eight are orders.

use std::ops::RangeInclusive;

use crate::random::Random;

/// A query and its name.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) sql: String,
}

/// All queries; the other fields are indexes into `all`.
#[derive(Clone, Debug)]
pub(crate) struct Queries {
    pub(crate) all: Vec<Query>,
    /// The scan that reads most bytes from all devices.
    pub(crate) whole: usize,
    /// The queries of each client of the mix, one after the other.
    pub(crate) clients: Vec<Vec<usize>>,
    /// Point queries, run in turn.
    pub(crate) points: Vec<usize>,
    /// Scans that need nothing from the last device: a wide one and a narrow one.
    pub(crate) avoiding: [usize; 2],
    /// A scan that needs the last device.
    pub(crate) needing: usize,
}

/// The table in SQL; each device has an equal part of any rows.
pub(crate) const TABLE: &str = "lineitem";
/// The same rows with a range of keys on each device.
pub(crate) const BY_KEY: &str = "lineitem_by_key";

/// The number of different point queries. Each is repeated after some seconds; most pages are not
/// kept that long, and those that are also serve the idle system.
const POINTS: usize = 100;

/// Of each `KEYS` numbers the first `KEYS_USED` are keys of orders.
const KEYS_USED: u64 = 8;
const KEYS: u64 = 32;

const WIDE: &str = "sum(l_partkey), max(l_suppkey), sum(l_extendedprice), max(l_comment)";

impl Queries {
    /// Queries over a table with these keys, for this many clients that scan. In the table by key
    /// ranges the last device has the keys above `last`.
    pub(crate) fn draw(keys: &RangeInclusive<i64>, last: i64, clients: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut all = Vec::new();
        let mut add = |name: String, sql: String| {
            all.push(Query { name, sql });
            all.len() - 1
        };
        let whole = add(
            "whole".to_owned(),
            format!("SELECT count(*), {WIDE} FROM {TABLE}"),
        );
        let clients = (0..clients).map(|client| {
            let mut scans = scans(keys, &mut random);
            let count = scans.len();
            scans.rotate_left(client % count);
            let scans = scans.into_iter();
            let scans = scans.map(|(name, rest)| {
                add(
                    format!("client {client}, {name}"),
                    format!("SELECT count(*), {rest}"),
                )
            });
            scans.collect()
        });
        let clients = clients.collect();
        let orders = keys.end().unsigned_abs() / KEYS * KEYS_USED;
        let points = (0..POINTS).map(|number| {
            let order = random.below(orders.max(1));
            let key = order / KEYS_USED * KEYS + order % KEYS_USED + 1;
            let sql = format!(
                "SELECT count(*), sum(l_quantity), sum(l_extendedprice), max(l_shipdate) \
                 FROM {TABLE} WHERE l_orderkey = {key}"
            );
            add(format!("point {number}"), sql)
        });
        let points = points.collect();
        let avoiding = [
            ("avoiding, wide", WIDE),
            ("avoiding, narrow", "sum(l_partkey), max(l_tax)"),
        ];
        let avoiding = avoiding.map(|(name, sums)| {
            let sql = format!("SELECT count(*), {sums} FROM {BY_KEY} WHERE l_orderkey <= {last}");
            add(name.to_owned(), sql)
        });
        let needing = add(
            "needing".to_owned(),
            format!("SELECT count(*), {WIDE} FROM {BY_KEY}"),
        );
        Self {
            all,
            whole,
            clients,
            points,
            avoiding,
            needing,
        }
    }
}

/// One scan of each kind with its own constants: its name, and the statement after the count.
fn scans(keys: &RangeInclusive<i64>, random: &mut Random) -> Vec<(&'static str, String)> {
    let (first, end) = (*keys.start(), *keys.end());
    // A range of this many hundredths of the keys.
    let range = |random: &mut Random, hundredths: i64| {
        let width = (end - first) / 100 * hundredths;
        let room = (end - first - width).unsigned_abs();
        let from = first + i64::try_from(random.below(room + 1)).unwrap_or(0);
        format!("l_orderkey BETWEEN {from} AND {}", from + width)
    };
    let year = 1993 + random.below(5);
    let discount = 2 + random.below(7);
    let quantity = 20 + random.below(30);
    let (all, most, three, half, middle) = (
        range(random, 98),
        range(random, 95),
        range(random, 75),
        range(random, 50),
        range(random, 50),
    );
    vec![
        ("whole", format!("{WIDE} FROM {TABLE} WHERE {all}")),
        (
            "revenue",
            format!(
                "sum(l_extendedprice * l_discount) FROM {TABLE} \
                 WHERE l_shipdate >= date '{year}-01-01' AND l_shipdate < date '{}-01-01' \
                 AND l_discount >= 0.0{discount} AND l_quantity < {quantity}",
                year + 1
            ),
        ),
        (
            "comments",
            format!("min(l_comment), max(l_comment) FROM {TABLE} WHERE {most}"),
        ),
        ("half", format!("{WIDE} FROM {TABLE} WHERE {half}")),
        (
            "parts",
            format!("sum(l_partkey), sum(l_suppkey) FROM {TABLE} WHERE l_quantity < {quantity}"),
        ),
        (
            "three quarters",
            format!("{WIDE} FROM {TABLE} WHERE {three}"),
        ),
        (
            "dates",
            format!(
                "min(l_shipdate), max(l_commitdate), max(l_receiptdate), max(l_extendedprice) \
                 FROM {TABLE} WHERE l_discount < 0.0{discount}"
            ),
        ),
        (
            "prices",
            format!("max(l_comment), sum(l_extendedprice) FROM {TABLE} WHERE {middle}"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_queries_are_alike() {
        let queries = Queries::draw(&(1..=6_000_000), 4_500_000, 8, 1);
        assert_eq!(queries.clients.len(), 8);
        assert!(queries.clients.iter().all(|scans| scans.len() == 8));
        let kind = |client: usize| {
            let name = &queries.all[queries.clients[client][0]].name;
            name.split_once(", ").map(|(_, kind)| kind.to_owned())
        };
        let first: BTreeSet<_> = (0..8).map(kind).collect();
        assert_eq!(first.len(), 8, "clients begin with different kinds");
        assert_eq!((queries.points.len(), queries.avoiding.len()), (POINTS, 2));
        let sql = &queries.all[queries.avoiding[0]].sql;
        assert!(sql.ends_with("l_orderkey <= 4500000"), "{sql}");
        let scans: Vec<&str> = queries
            .clients
            .iter()
            .flatten()
            .map(|&query| queries.all[query].sql.as_str())
            .collect();
        let differ: BTreeSet<&str> = scans.iter().copied().collect();
        // There are few years, discounts and quantities, so a few scans are drawn twice.
        assert!(differ.len() * 20 > scans.len() * 19, "{}", differ.len());
    }
}
