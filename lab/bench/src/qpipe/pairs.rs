//! What does a query gain that starts some time after another?
//!
//! Figure 9: TPC-H Q4 twice, with orders and lineitem in key order, joined by a merge join. Figure
//! 11: the same with a hash join. Figure 10: two sort-merge joins of the Wisconsin benchmark's
//! three tables, which select different rows of the small one.
//! The paper's two Q4 are the same query. Beside them stand two Q4 of different months: what these
//! have in common is below their joins, so they share less.
//! Source: [QPipe05 §5.1.2, §5.2.1, §5.2.2, Figures 9 to 11].

use std::time::Duration;

use super::ground::{Case, Ground, Query};
use super::results::{Point, QpipeResults};
use super::variant::{ISOLATED, NO_OPERATORS, SHARED};
use super::{HASH_JOIN, MERGE_JOIN, QpipeOptions, SORT_MERGE, wisconsin};
use crate::error::Result;
use crate::progress::OnProgress;
use crate::random::Random;
use crate::running::arena::TableFile;
use crate::running::clients::Client;
use crate::workload::q4;

/// Two queries, and how they are run.
pub(crate) struct Pair {
    pub(crate) figure: &'static str,
    what: &'static str,
    queries: Queries,
    settings: &'static [(&'static str, &'static str)],
    /// Whether the tables' order by key is declared.
    ordered: bool,
    /// The second query becomes a satellite if it starts before this part of the first one's time.
    /// Two queries that select different rows have only scans in common.
    open_until: f64,
}

enum Queries {
    /// Q4 twice.
    Same,
    /// Q4 twice, with parameters drawn for each.
    Drawn,
    /// The Wisconsin benchmark's queries.
    Wisconsin,
}

/// Settings with which the plan keeps a declared order instead of sorting.
const MERGED_IN_ORDER: &[(&str, &str)] = &[
    ("datafusion.optimizer.prefer_hash_join", "false"),
    ("datafusion.optimizer.prefer_existing_sort", "true"),
];
const SORTED_AND_MERGED: &[(&str, &str)] = &[("datafusion.optimizer.prefer_hash_join", "false")];

pub(crate) const ALL: [Pair; 5] = [
    Pair {
        figure: MERGE_JOIN,
        what: "Q4 twice, merge join",
        queries: Queries::Same,
        settings: MERGED_IN_ORDER,
        ordered: true,
        open_until: 1.0,
    },
    Pair {
        figure: MERGE_JOIN,
        what: "Q4 of two quarters, merge join",
        queries: Queries::Drawn,
        settings: MERGED_IN_ORDER,
        ordered: true,
        open_until: 0.0,
    },
    Pair {
        figure: SORT_MERGE,
        what: "Wisconsin, three tables, sort-merge join",
        queries: Queries::Wisconsin,
        settings: SORTED_AND_MERGED,
        ordered: false,
        open_until: 1.0,
    },
    Pair {
        figure: HASH_JOIN,
        what: "Q4 twice, hash join",
        queries: Queries::Same,
        settings: &[],
        ordered: false,
        open_until: 1.0,
    },
    Pair {
        figure: HASH_JOIN,
        what: "Q4 of two quarters, hash join",
        queries: Queries::Drawn,
        settings: &[],
        ordered: false,
        open_until: 0.0,
    },
];

pub(crate) async fn run(
    pair: &Pair,
    options: &QpipeOptions,
    on_progress: &OnProgress,
    results: &mut QpipeResults,
) -> Result<()> {
    let (tables, queries) = match pair.queries {
        Queries::Wisconsin => {
            results.wisconsin_rows = wisconsin::rows(options.scale);
            let tables = options.wisconsin.iter();
            let tables = tables.map(|(name, path)| TableFile::new(name, path));
            (tables.collect(), wisconsin::QUERIES.map(named("Wisconsin")))
        }
        Queries::Same => (q4_tables(options, pair)?, {
            let sql = q4(&mut Random::new(options.seed));
            [sql.clone(), sql].map(named("Q4"))
        }),
        Queries::Drawn => (q4_tables(options, pair)?, {
            let mut random = Random::new(options.seed);
            let first = q4(&mut random);
            let mut second = q4(&mut random);
            while second == first {
                second = q4(&mut random);
            }
            [first, second].map(named("Q4"))
        }),
    };
    let title = format!("Figure {}", pair.figure);
    let queries = queries.to_vec();
    let settings = pair.settings;
    let mut ground = Ground::new(options, on_progress, &title, tables, settings, queries).await?;
    let alone_s = ground.alone_s();
    let case = |interarrival: &f64| Case {
        point: Point {
            figure: pair.figure.to_owned(),
            what: pair.what.to_owned(),
            clients: 2,
            interarrival_s: Some(interarrival * alone_s),
            interarrival: Some(*interarrival),
            alone_s,
            satellites_expected: u64::from(*interarrival < pair.open_until),
            ..Point::default()
        },
        clients: one_after_the_other(&ground, 2, interarrival * alone_s),
        variants: vec![ISOLATED, NO_OPERATORS, SHARED],
    };
    let cases = options.interarrivals.iter().map(case).collect();
    ground.measure(cases, results).await
}

fn named<T: Into<String>>(name: &str) -> impl Fn(T) -> Query {
    move |sql| Query {
        name: name.to_owned(),
        sql: sql.into(),
    }
}

fn q4_tables(options: &QpipeOptions, pair: &Pair) -> Result<Vec<TableFile>> {
    let mut tables = options.tables(&["orders", "lineitem"])?;
    if pair.ordered {
        for (table, key) in tables.iter_mut().zip(["o_orderkey", "l_orderkey"]) {
            table.order = Some(key);
        }
    }
    Ok(tables)
}

/// Clients that each send the next query, each starting this many seconds after its predecessor.
pub(crate) fn one_after_the_other(
    ground: &Ground<'_>,
    clients: usize,
    seconds: f64,
) -> Vec<Client> {
    let client = |number: usize| Client {
        start: Duration::from_secs_f64(seconds * number as f64),
        asks: vec![ground.ask(number)],
    };
    (0..clients).map(client).collect()
}
