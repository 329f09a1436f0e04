//! What is asked?
//!
//! Scans of many bytes a row and little arithmetic, so that the devices are what they wait for, as
//! in the paper; some over all devices, some over the range of a few. Point queries ask for the
//! lines of one order, by an index.
//! Keys are TPC-H's: of each 32 numbers the first eight are orders.

use std::ops::RangeInclusive;

use crate::random::Random;

/// A query, and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) sql: String,
}

/// All queries; what each is for, as its place among them.
#[derive(Clone, Debug)]
pub(crate) struct Queries {
    pub(crate) all: Vec<Query>,
    /// Reads most bytes of all devices.
    pub(crate) whole: usize,
    /// What clients ask, beginning at different ones.
    pub(crate) scans: Vec<usize>,
    /// Asked in turn.
    pub(crate) points: Vec<usize>,
    /// Scans that need nothing of the last device.
    pub(crate) avoiding: Vec<usize>,
}

/// The table in SQL.
pub(crate) const TABLE: &str = "lineitem";

/// Point queries that differ. They come back after some seconds; most pages are not kept for so
/// long, and those that are serve an idle system too.
const POINTS: usize = 100;

/// Of each 32 numbers so many are keys of orders.
const KEYS_USED: u64 = 8;
const KEYS: u64 = 32;

impl Queries {
    /// On a table of these keys, of which the last device has those above `last`.
    pub(crate) fn draw(keys: &RangeInclusive<i64>, last: i64, seed: u64) -> Self {
        let (first, end) = (*keys.start(), *keys.end());
        let at = |quarters: i64| first + (end - first) / 4 * quarters;
        let mut all = Vec::new();
        let mut add = |name: String, sql: String| {
            all.push(Query { name, sql });
            all.len() - 1
        };
        let mut scan =
            |name: &str, rest: String| add(name.to_owned(), format!("SELECT count(*), {rest}"));
        let wide = "sum(l_partkey), max(l_suppkey), sum(l_extendedprice), max(l_comment)";
        let whole = scan("whole", format!("{wide} FROM {TABLE}"));
        let scans = vec![
            whole,
            scan(
                "revenue",
                format!(
                    "sum(l_extendedprice * l_discount) FROM {TABLE} \
                     WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' \
                     AND l_discount >= 0.05 AND l_quantity < 24"
                ),
            ),
            scan(
                "comments",
                format!("min(l_comment), max(l_comment) FROM {TABLE}"),
            ),
            scan(
                "lower half",
                format!("{wide} FROM {TABLE} WHERE l_orderkey < {}", at(2)),
            ),
            scan(
                "parts",
                format!("sum(l_partkey), sum(l_suppkey) FROM {TABLE} WHERE l_quantity < 40"),
            ),
            scan(
                "upper three quarters",
                format!("{wide} FROM {TABLE} WHERE l_orderkey >= {}", at(1)),
            ),
            scan(
                "dates",
                format!(
                    "min(l_shipdate), max(l_commitdate), max(l_receiptdate), \
                     max(l_extendedprice) FROM {TABLE}"
                ),
            ),
            scan(
                "middle half",
                format!(
                    "max(l_comment), sum(l_extendedprice) FROM {TABLE} \
                     WHERE l_orderkey >= {} AND l_orderkey < {}",
                    at(1),
                    at(3)
                ),
            ),
        ];
        let avoiding = vec![
            scan(
                "avoiding, wide",
                format!("{wide} FROM {TABLE} WHERE l_orderkey <= {last}"),
            ),
            scan(
                "avoiding, narrow",
                format!("sum(l_partkey), max(l_tax) FROM {TABLE} WHERE l_orderkey <= {last}"),
            ),
        ];
        let mut random = Random::new(seed);
        let orders = end.unsigned_abs() / KEYS * KEYS_USED;
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
        Self {
            all,
            whole,
            scans,
            points,
            avoiding,
        }
    }

    /// What each of so many clients asks, over and over.
    pub(crate) fn dealt(&self, clients: usize) -> Vec<Vec<usize>> {
        let client = |number: usize| {
            let mut scans = self.scans.clone();
            let count = scans.len().max(1);
            scans.rotate_left(number % count);
            scans
        };
        (0..clients).map(client).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_begin_with_scans_of_their_own() {
        let queries = Queries::draw(&(1..=60_000), 45_000, 1);
        let first: BTreeSet<usize> = queries.dealt(8).iter().map(|scans| scans[0]).collect();
        assert_eq!(first.len(), 8);
        assert_eq!((queries.points.len(), queries.avoiding.len()), (POINTS, 2));
        let sql = &queries.all[queries.avoiding[0]].sql;
        assert!(sql.ends_with("l_orderkey <= 45000"), "{sql}");
        let sql: BTreeSet<&str> = queries.all.iter().map(|query| query.sql.as_str()).collect();
        assert!(sql.len() > 100, "most differ");
    }
}
