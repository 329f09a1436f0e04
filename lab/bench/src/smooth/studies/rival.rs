//! How much of a smooth scan's gain over an index scan is the index scan's weakness?
//!
//! TPC-H's lineitem as it was generated: pages of 20,000 rows over all columns, each decoded for a
//! row or two. Queries for few rows that lie at random (by part) and for rows that lie together
//! (by order), by both index scans (`../query/paths.rs`), a full scan and a smooth scan. The
//! queries need every column. Where their ranges begin is drawn from a seed.
//! Source: ours.

use std::path::Path;

use coscan_study::Claim;

use super::tpch::{TpchOptions, about, make, same_rows};
use crate::error::Result;
use crate::progress::{OnProgress, Progress};
use crate::random::Random;
use crate::smooth::outcome::figures::{Figure, Figures};
use crate::smooth::query::measure::{Bench, Case, Expected, Median};
use crate::smooth::query::paths::{self, INDEX, INDEX_PLAIN, Rivals};
use crate::tpch::Table;

/// A condition on the rows: a range of numbers of parts or orders.
#[derive(Clone, Copy)]
struct Condition {
    name: &'static str,
    numbers: u64,
    /// Whether the rows lie together: those of orders.
    together: bool,
}

/// A part has some 30 rows anywhere in the table, whatever the scale. Numbers of orders ascend with
/// the rows, one a row on average.
const CONDITIONS: [Condition; 4] = [
    Condition {
        name: "1,600 rows at random",
        numbers: 52,
        together: false,
    },
    Condition {
        name: "15,000 rows at random",
        numbers: 500,
        together: false,
    },
    Condition {
        name: "1,600 rows together",
        numbers: 1600,
        together: true,
    },
    Condition {
        name: "5,000 rows together",
        numbers: 5000,
        together: true,
    },
];
const PART: &str = "l_partkey";
const ORDER: &str = "l_orderkey";
const INDEXED: [&str; 2] = [PART, ORDER];
/// Numbers of parts and of orders at scale factor 1.
const PARTS: f64 = 2e5;
const ORDERS: f64 = 6e6;
/// Of so many numbers the first eight are orders. A range of orders begins with them.
const ORDERS_STEP: u64 = 32;
const WAYS: [&str; 4] = ["full", INDEX_PLAIN, INDEX, "smooth"];

/// Runs the queries on lineitem below `root`, made if it is missing.
///
/// # Errors
/// The table or an index cannot be made, or a query's answer depends on the path.
pub async fn run(options: &TpchOptions, root: &Path, on_progress: OnProgress) -> Result<Figures> {
    let bench = ground(options, root, &on_progress).await?;
    let mut figures = figures(options);
    let steps = CONDITIONS.len() * WAYS.len() * options.repeats;
    on_progress(Progress::begun("queries", steps));
    let queries = queries(options);
    bench.warm_up(&cases(options, &queries[0])).await?;
    for query in &queries {
        measure(options, &bench, query, &mut figures, &on_progress).await?;
    }
    Ok(figures)
}

/// A condition with a drawn range.
struct Query {
    condition: Condition,
    sql: String,
}

fn queries(options: &TpchOptions) -> [Query; CONDITIONS.len()] {
    let mut random = Random::new(options.seed);
    CONDITIONS.map(|condition| Query {
        condition,
        sql: sums(&condition.drawn(options.scale, &mut random)),
    })
}

impl Condition {
    /// The condition in SQL, with a range that begins anywhere.
    fn drawn(&self, scale: f64, random: &mut Random) -> String {
        let (column, all, step) = if self.together {
            (ORDER, ORDERS, ORDERS_STEP)
        } else {
            (PART, PARTS, 1)
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Far below 2^64.
        let all = (all * scale) as u64;
        let places = all.saturating_sub(self.numbers) / step + 1;
        let before = random.below(places) * step;
        let last = before + self.numbers;
        format!("{column} > {before} AND {column} <= {last}")
    }
}

/// The table, with an index on each column.
async fn ground(options: &TpchOptions, root: &Path, on_progress: &OnProgress) -> Result<Bench> {
    on_progress(Progress::begun("table and indexes", 1 + INDEXED.len()));
    let path = make(options, root, Table::Lineitem, false).await?;
    on_progress(Progress::Advanced);
    let bench = Bench {
        tables: vec![(Table::Lineitem.name().to_owned(), path)],
        bandwidth: options.device.bandwidth(),
        latency: options.device.latency(0),
        limit: options.limit,
        repeats: options.repeats,
        traced: false,
    };
    for column in INDEXED {
        // The folder has indexes of the rewritten table too.
        let name = format!("plain_{column}");
        bench
            .make_index(&name, Table::Lineitem.name(), column)
            .await?;
        on_progress(Progress::Advanced);
    }
    Ok(bench)
}

fn figures(options: &TpchOptions) -> Figures {
    let columns = [
        "time_s",
        "max_s",
        "pages_read",
        "pages_found",
        "requests",
        "read_bytes",
    ];
    Figures::new("rival", about(options), &columns)
}

fn cases(options: &TpchOptions, query: &Query) -> [Case; WAYS.len()] {
    WAYS.map(|path| Case {
        label: label(&query.condition, path),
        sql: query.sql.clone(),
        settings: paths::settings(path, options.memory_bytes),
        memory_bytes: options.memory_bytes,
        answer: Expected::Kept,
    })
}

fn label(condition: &Condition, path: &str) -> String {
    format!("{}, {path}", condition.name)
}

/// Measures a query by every path, and adds its figures and claims.
async fn measure(
    options: &TpchOptions,
    bench: &Bench,
    query: &Query,
    figures: &mut Figures,
    on_progress: &OnProgress,
) -> Result<()> {
    let (condition, cases) = (&query.condition, cases(options, query));
    let medians = bench.measure(&cases, on_progress).await?;
    same_rows(&cases, &medians)?;
    let points = cases.iter().zip(&medians);
    let points = points.map(|(case, median)| point(case, median));
    figures.points.extend(points);
    let time = |path: &str| figures.figure(&label(condition, path), "time_s");
    let rivals = Rivals::new(time, options.limit);
    claims(figures, condition, rivals);
    Ok(())
}

fn point(case: &Case, median: &Median) -> Figure {
    let mut figure = Figure::measured(case.label.clone(), median);
    figure.set("pages_read", median.of.pages() as f64);
    let found = median.of.metric("pages_found_decoded");
    figure.set("pages_found", found as f64);
    figure
}

/// A row that depends on every column of the rows.
fn sums(condition: &str) -> String {
    let numbers = [
        "l_orderkey",
        "l_partkey",
        "l_suppkey",
        "l_linenumber",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
    ];
    let others = [
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
        "l_commitdate",
        "l_receiptdate",
        "l_shipinstruct",
        "l_shipmode",
        "l_comment",
    ];
    let sums = numbers.iter().map(|column| format!("sum({column})"));
    let greatest = others.iter().map(|column| format!("max({column})"));
    let all: Vec<String> = sums.chain(greatest).collect();
    let all = all.join(", ");
    format!("SELECT count(*), {all} FROM lineitem WHERE {condition}")
}

/// The claims about a query. Those about the index scan say what makes it a rival: without them a
/// smooth scan would be compared with a scan that does the same work several times.
fn claims(figures: &mut Figures, condition: &Condition, rivals: Rivals) {
    let name = condition.name;
    let figure = |path: &str, of: &str| figures.figure(&label(condition, path), of);
    let smooth = figure("smooth", "time_s");
    // A plain scan that was given up would have read more pages; one that failed has few.
    let pages = figure(INDEX, "pages_read").zip(figure(INDEX_PLAIN, "pages_read"));
    let pages = rivals.index.and(pages);
    let gain = smooth.map_or_else(|| "not measured".to_owned(), |smooth| rivals.gain(smooth));
    figures.claims.push(Claim::new(
        format!("{name}: smooth takes at most {SMOOTH_OVER_INDEX} times the better index scan"),
        smooth.is_some_and(|smooth| smooth <= SMOOTH_OVER_INDEX * rivals.fastest_s()),
        gain,
    ));
    if condition.together {
        // A job of 16 rows reads their page itself; 20,000 rows have one.
        figures.at_most(
            format!("{name}: the index scan that keeps pages reads at most a tenth of the pages"),
            pages.map(|(kept, plain)| kept / plain.max(1.0)),
            0.1,
        );
    }
    // Also where both were given up: it was not measured then, and must not vanish.
    figures.at_most(
        format!("{name}: the index scan that keeps pages takes at most 1.2 times the plain one"),
        rivals.index_over_plain(),
        1.2,
    );
}

/// How much longer than the better index scan a smooth scan may take for few rows: as promised
/// below 1 % of the rows (`../outcome/verdict.rs`).
const SMOOTH_OVER_INDEX: f64 = 2.0;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::smooth::DeviceKind;

    /// Times mean nothing at this size.
    #[tokio::test(flavor = "multi_thread")]
    async fn kept_pages_are_read_once_and_others_for_every_job() {
        let root = tempfile::tempdir().unwrap();
        let options = TpchOptions {
            scale: 0.02,
            seed: 1,
            memory_bytes: 256 << 20,
            device: DeviceKind::Plain,
            repeats: 1,
            limit: Duration::from_secs(100),
        };
        let quiet: OnProgress = Arc::new(|_| ());
        let bench = ground(&options, root.path(), &quiet).await.unwrap();
        let mut figures = figures(&options);
        let [_, _, query, _] = queries(&options);
        let condition = &query.condition;
        assert!(condition.together);
        measure(&options, &bench, &query, &mut figures, &quiet)
            .await
            .unwrap();
        assert_eq!(figures.points.len(), WAYS.len());
        let failed = figures.points.iter().find(|point| point.error.is_some());
        assert_eq!(failed, None);
        let of = |path, figure| figures.figure(&label(condition, path), figure).unwrap();
        assert!(of(INDEX, "pages_read") * 10.0 <= of(INDEX_PLAIN, "pages_read"));
        assert!(of(INDEX_PLAIN, "pages_found") < 1.0);
        let kept = figures.claims.iter();
        let mut kept = kept.filter(|claim| claim.text.contains("a tenth of the pages"));
        assert!(kept.next().is_some_and(|claim| claim.holds), "{figures:?}");
    }

    #[test]
    fn claims_about_index_scans_that_were_given_up_do_not_hold() {
        for (condition, expected) in [(&CONDITIONS[0], 2), (&CONDITIONS[2], 3)] {
            let mut figures = Figures::new("rival", String::new(), &[]);
            let rivals = Rivals::new(|_| None, Duration::from_secs(10));
            claims(&mut figures, condition, rivals);
            assert_eq!(figures.claims.len(), expected, "{}", condition.name);
            let fails = |claim: &Claim| !claim.holds && claim.evidence == "not measured";
            assert!(figures.claims.iter().all(fails), "{figures:?}");
        }
    }

    #[test]
    fn a_seed_draws_where_ranges_begin() {
        let drawn = |seed| CONDITIONS.map(|of| of.drawn(0.1, &mut Random::new(seed)));
        let [parts, _, orders, _] = drawn(7);
        let [other_parts, _, other_orders, _] = drawn(8);
        assert!(parts != other_parts && orders != other_orders);
        let numbers = |range: &str| {
            let words = range.split(' ').filter_map(|word| word.parse::<u64>().ok());
            words.collect::<Vec<_>>()
        };
        let of = numbers(&parts);
        assert!(of[1] == of[0] + 52 && of[1] <= 20_000, "{parts}");
        let of = numbers(&orders);
        assert!(of[0].is_multiple_of(32) && of[1] <= 600_000, "{orders}");
    }
}
