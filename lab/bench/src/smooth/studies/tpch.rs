//! Does a smooth scan make TPC-H's queries robust?
//!
//! Five queries whose predicate on an indexed column leaves 1 to 98 % of the rows, each by a full
//! scan, two index scans (`../query/paths.rs`) and a smooth scan.
//! Indexes: `l_shipdate` and the keys by which these queries join, as in the paper, and
//! `o_orderdate`, by which Q4 filters. Lineitem and orders are rewritten so that pages begin at
//! the same rows in every column (`coscan_rewrite`).
//! Source: [SmoothScan18 §7.2, Figure 13].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coscan::{Engine, EngineConfig};
use coscan_rewrite::{RewriteOptions, rewrite};
use coscan_study::Claim;

use crate::error::{BenchError, Result};
use crate::progress::{OnProgress, Progress};
use crate::running::answer::Answer;
use crate::smooth::outcome::figures::{Figure, Figures};
use crate::smooth::query::measure::{Bench, Case, DeviceKind, Expected, Median};
use crate::smooth::query::paths::{self, INDEX, INDEX_PLAIN, Rivals};
use crate::tpch::{self, Generate, Table};
use coscan_quantities as quantities;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct TpchOptions {
    /// TPC-H's scale factor.
    pub scale: f64,
    /// The seed of the ranges in `rival.rs`. TPC-H's queries have the specification's values.
    pub seed: u64,
    /// The engine's memory in bytes.
    pub memory_bytes: u64,
    /// The device to read from: the machine's own, or the same with limited bandwidth and a
    /// latency per request.
    pub device: DeviceKind,
    /// How often each query is measured; at least once.
    pub repeats: usize,
    /// The time limit of a query.
    pub limit: Duration,
}

/// The queries' names and texts, by the share of the rows that their predicate on an indexed column
/// leaves.
const QUERIES: [(&str, &str); 5] = [
    (
        "Q1",
        include_str!("../../../../../crates/engine/tests/tpch/q01.sql"),
    ),
    (
        "Q4",
        include_str!("../../../../../crates/engine/tests/tpch/q04.sql"),
    ),
    (
        "Q6",
        include_str!("../../../../../crates/engine/tests/tpch/q06.sql"),
    ),
    (
        "Q7",
        include_str!("../../../../../crates/engine/tests/tpch/q07.sql"),
    ),
    (
        "Q14",
        include_str!("../../../../../crates/engine/tests/tpch/q14.sql"),
    ),
];
const WAYS: [&str; 4] = ["full", INDEX_PLAIN, INDEX, "smooth"];
const INDEXED: [(&str, &str); 6] = [
    ("lineitem", "l_shipdate"),
    ("lineitem", "l_orderkey"),
    ("lineitem", "l_partkey"),
    ("orders", "o_orderdate"),
    ("orders", "o_orderkey"),
    ("part", "p_partkey"),
];
/// The tables that the queries read, and whether each is large enough to be rewritten.
const TABLES: [(Table, bool); 6] = [
    (Table::Lineitem, true),
    (Table::Orders, true),
    (Table::Part, true),
    (Table::Customer, false),
    (Table::Supplier, false),
    (Table::Nation, false),
];
/// The row groups of generated files; rewritten files have their own size.
const ROW_GROUP_BYTES: u64 = 16 << 20;

/// Runs the queries on tables below `root`, made if they are missing.
///
/// # Errors
/// The tables or indexes cannot be made, or a query's answer depends on the path.
pub async fn run(options: &TpchOptions, root: &Path, on_progress: OnProgress) -> Result<Figures> {
    let begin = |phase: &str, steps| on_progress(Progress::begun(phase, steps));
    begin("tables", TABLES.len());
    let mut tables = Vec::new();
    for (table, rewritten) in TABLES {
        let path = make(options, root, table, rewritten).await?;
        tables.push((table.name().to_owned(), path));
        on_progress(Progress::Advanced);
    }
    let bench = Bench {
        tables,
        bandwidth: options.device.bandwidth(),
        latency: options.device.latency(0),
        limit: options.limit,
        repeats: options.repeats,
        traced: false,
    };
    begin("indexes", INDEXED.len());
    for (table, column) in INDEXED {
        let name = format!("bench_{column}");
        bench.make_index(&name, table, column).await?;
        on_progress(Progress::Advanced);
    }
    let mut figures = figures(options);
    begin("queries", QUERIES.len() * WAYS.len() * options.repeats);
    for (name, sql) in QUERIES {
        let cases = WAYS.map(|path| Case {
            label: format!("{name}, {path}"),
            sql: sql.to_owned(),
            settings: paths::settings(path, options.memory_bytes),
            memory_bytes: options.memory_bytes,
            answer: Expected::Kept,
        });
        let medians = bench.measure(&cases, &on_progress).await?;
        same_rows(&cases, &medians)?;
        for (case, median) in cases.iter().zip(&medians) {
            let mut figure = Figure::measured(case.label.clone(), median);
            figure.set("pages", median.of.pages() as f64);
            figures.points.push(figure);
        }
        claims(&mut figures, name, options.limit);
    }
    Ok(figures)
}

fn figures(options: &TpchOptions) -> Figures {
    Figures::new(
        "tpch",
        about(options),
        &["time_s", "max_s", "pages", "requests", "read_bytes"],
    )
}

/// The conditions of a run, in words.
pub(super) fn about(options: &TpchOptions) -> String {
    let held = options.device.bandwidth().map(quantities::rate);
    format!(
        "TPC-H, scale {}, device {}{}; {} of memory; medians of {}",
        options.scale,
        options.device.name(),
        held.map_or_else(String::new, |rate| format!(" ({rate})")),
        quantities::bytes(options.memory_bytes),
        options.repeats,
    )
}

/// Adds the paper's claims about a query, beside the faster one of the index scans. A scan that was
/// given up took at least the limit. That the index scan is the mistake is part of the claim for
/// each of the queries: were it the condition, a claim whose times change would vanish, not fail.
fn claims(figures: &mut Figures, name: &str, limit: Duration) {
    let time = |path: &str| figures.figure(&format!("{name}, {path}"), "time_s");
    let rivals = Rivals::new(time, limit);
    let (full, smooth, index_at_least) = (time("full"), time("smooth"), rivals.fastest_s());
    let best = full.map(|full| full.min(index_at_least));
    // Without pages the scan was not a smooth one.
    let pages = figures.figure(&format!("{name}, smooth"), "pages");
    let smooth = smooth.filter(|_| pages.is_some_and(|pages| pages > 0.0));
    let over_best = smooth.zip(best).map(|(smooth, best)| smooth / best);
    let mistake = full.is_some_and(|full| index_at_least > MISTAKE * full);
    figures.at_most(
        format!("{name}: smooth within 1.2 times the better of full scan and index scan"),
        over_best,
        1.2,
    );
    let mut gain = smooth.map_or_else(|| "not measured".to_owned(), |smooth| rivals.gain(smooth));
    if !mistake {
        gain += "; the index scan is no mistake";
    }
    figures.claims.push(Claim::new(
        format!("{name}: smooth at least 5 times faster than the better index scan, which is the mistake here"),
        mistake && smooth.is_some_and(|smooth| index_at_least / smooth >= 5.0),
        gain,
    ));
}

/// An index scan is a mistake if it takes this many times the full scan's time.
const MISTAKE: f64 = 6.0;

/// Fails if a case that ended has another answer than the first one that did.
pub(super) fn same_rows(cases: &[Case], medians: &[Median]) -> Result<()> {
    let mut first: Option<(&Case, Answer)> = None;
    for (case, median) in cases.iter().zip(medians) {
        if median.of.time.is_none() {
            continue;
        }
        let answer = Answer::new(&median.of.answer)
            .map_err(|error| BenchError::engine(case.label.clone(), error))?;
        let Some((reference, expected)) = &first else {
            first = Some((case, answer));
            continue;
        };
        if let Some(difference) = answer.difference(expected) {
            return Err(BenchError::Mismatch {
                query: case.label.clone(),
                policy: "this path".to_owned(),
                reference: reference.label.clone(),
                difference,
                sql: case.sql.clone(),
            });
        }
    }
    Ok(())
}

/// The file of a table.
pub(super) async fn make(
    options: &TpchOptions,
    root: &Path,
    table: Table,
    rewritten: bool,
) -> Result<PathBuf> {
    let generate = Generate {
        scale: options.scale,
        row_group_bytes: ROW_GROUP_BYTES,
        threads: crate::running::cpu::cores(),
    };
    let pages = tpch::folder(root, &generate).join(format!("{}-pages.parquet", table.name()));
    if rewritten && pages.is_file() {
        return Ok(pages);
    }
    let made = {
        let (root, generate) = (root.to_owned(), generate.clone());
        let made = tokio::task::spawn_blocking(move || {
            tpch::ensure(&root, table, &generate, &|_, _| ControlFlow::Continue(()))
        });
        made.await
            .map_err(|_| BenchError::WorkerLost("the generator"))??
    };
    if !rewritten {
        return Ok(made);
    }
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        BenchError::engine(format!("rewriting {}", table.name()), error)
    };
    let engine = Engine::new(EngineConfig::default()).map_err(|error| failed(error.into()))?;
    let (from, to) = (made.to_string_lossy(), pages.to_string_lossy());
    rewrite(&engine, &from, &to, &RewriteOptions::default(), |_| ())
        .await
        .map_err(|error| failed(error.into()))?;
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The queries give the same answer by every path. Times mean nothing at this size.
    #[tokio::test(flavor = "multi_thread")]
    async fn queries_answer_the_same_by_every_path() {
        let root = tempfile::tempdir().unwrap();
        let options = TpchOptions {
            scale: 0.01,
            seed: 1,
            memory_bytes: 128 << 20,
            device: DeviceKind::Plain,
            repeats: 1,
            limit: Duration::from_secs(100),
        };
        let figures = run(&options, root.path(), Arc::new(|_| ())).await.unwrap();
        assert_eq!(figures.points.len(), QUERIES.len() * WAYS.len());
        let failed = figures.points.iter().find(|point| point.error.is_some());
        assert_eq!(failed, None);
        let pages = |label| figures.figure(label, "pages").unwrap();
        assert!(pages("Q6, full") == 0.0 && pages("Q6, smooth") > 0.0);
        assert_eq!(figures.claims.len(), 2 * QUERIES.len());
    }

    #[test]
    fn a_query_whose_index_scan_is_no_mistake_fails_its_claim() {
        let claimed = |index_s: f64, smooth_s: Option<f64>| {
            let mut figures = Figures::new("tpch", String::new(), &[]);
            let times = [
                ("full", Some(1.0)),
                (INDEX, Some(index_s)),
                ("smooth", smooth_s),
            ];
            for (path, time) in times {
                let mut figure = Figure {
                    label: format!("Q7, {path}"),
                    ..Figure::default()
                };
                figure.set("pages", 9.0);
                if let Some(time) = time {
                    figure.set("time_s", time);
                }
                figures.points.push(figure);
            }
            claims(&mut figures, "Q7", Duration::from_secs(30));
            let claim = figures.claims.pop().unwrap();
            (claim.holds, claim.evidence)
        };
        let gain = "8.00 over index, over 30.0 over index-plain";
        assert_eq!(claimed(8.0, Some(1.0)), (true, gain.to_owned()));
        let gain = "5.50 over index, over 30.0 over index-plain; the index scan is no mistake";
        assert_eq!(claimed(5.5, Some(1.0)), (false, gain.to_owned()));
        assert_eq!(claimed(8.0, None), (false, "not measured".to_owned()));
    }
}
