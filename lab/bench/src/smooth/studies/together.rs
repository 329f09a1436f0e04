//! What do concurrent index scans read, mixed with full scans?
//!
//! Idea: the same queries first run one after the other, each in its own engine with all the
//! memory, so that nothing is shared and no query evicts another's data. Then all run at once in
//! one engine. The bytes that devices delivered are compared.
//! M4: every query gives the same answer together as alone.

use std::time::{Duration, Instant};

use futures::future::try_join_all;

use super::experiment_run::Run;
use crate::error::{BenchError, Result};
use crate::running::answer::Answer;
use crate::smooth::outcome::figures::{Figure, Figures};
use crate::smooth::query::data::{COLUMNS, VALUES};
use crate::smooth::query::measure::{Case, Expected, Measured, TABLE, answer};

/// The number of index scans.
const SELECTIVE: u32 = 16;
/// The number of values that each selects, of 100,001.
const WIDTH: u32 = 10;
/// The number of full scans beside them.
const FULL: u32 = 4;

/// Requests, bytes and time of some queries.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    requests: u64,
    bytes: u64,
    time: Duration,
}

pub(crate) async fn run(run: &Run<'_>) -> Result<Figures> {
    let selective: Vec<Case> = (0..SELECTIVE).map(|n| selective(run, n)).collect();
    let full: Vec<Case> = (0..FULL).map(|n| full(run, n)).collect();
    let (selective_alone, mut answers) = alone(run, &selective).await?;
    let (full_alone, others) = alone(run, &full).await?;
    let selective_together = together(run, &selective, &answers).await?;
    answers.extend(others);
    let mixed = [selective, full].concat();
    let mixed_together = together(run, &mixed, &answers).await?;

    let mut figures = run.figures(&["time_s", "requests", "read_bytes", "table_ratio"]);
    for (label, cost) in [
        (SELECTIVE_ALONE, selective_alone),
        (FULL_ALONE, full_alone),
        ("16 by the index, at once in one engine", selective_together),
        (MIXED, mixed_together),
    ] {
        let mut figure = Figure {
            label: label.to_owned(),
            ..Figure::default()
        };
        figure.set("time_s", cost.time.as_secs_f64());
        figure.set("requests", cost.requests as f64);
        figure.set("read_bytes", cost.bytes as f64);
        figure.set(
            "table_ratio",
            cost.bytes as f64 / run.table.bytes.max(1) as f64,
        );
        figures.points.push(figure);
    }
    for (text, other) in [
        (
            "all at once read less than the selective ones alone",
            SELECTIVE_ALONE,
        ),
        (
            "all at once read less than the full scans alone",
            FULL_ALONE,
        ),
    ] {
        let ratio = figures.ratio(MIXED, other, "read_bytes");
        figures.at_most(text, ratio, 1.0);
    }
    Ok(figures)
}

const SELECTIVE_ALONE: &str = "16 by the index, each in an engine of its own";
const FULL_ALONE: &str = "4 full scans, each in an engine of its own";
const MIXED: &str = "all 20 at once in one engine";

/// Sums over all columns, for the rows of ten values of the key.
fn selective(run: &Run<'_>, number: u32) -> Case {
    let from = number * (VALUES / SELECTIVE);
    let sums = (1..=COLUMNS).map(|column| format!("sum(c{column})"));
    let sums = sums.collect::<Vec<_>>().join(", ");
    let to = from + WIDTH;
    case(
        run,
        format!("selective {number}"),
        format!("SELECT count(*), {sums} FROM {TABLE} WHERE c2 >= {from} AND c2 < {to}"),
    )
}

/// Sums over all columns for half of the rows, filtered by a column without an index.
fn full(run: &Run<'_>, number: u32) -> Case {
    let sums = (1..=COLUMNS).map(|column| format!("sum(c{column})"));
    let sums = sums.collect::<Vec<_>>().join(", ");
    let (filter, half) = (number + 3, VALUES / 2);
    case(
        run,
        format!("full scan {number}"),
        format!("SELECT count(*), {sums} FROM {TABLE} WHERE c{filter} < {half}"),
    )
}

fn case(run: &Run<'_>, label: String, sql: String) -> Case {
    Case {
        label,
        sql,
        settings: Vec::new(),
        memory_bytes: run.options.memory_bytes,
        answer: Expected::Kept,
    }
}

/// Runs each case by itself, one after the other.
async fn alone(run: &Run<'_>, cases: &[Case]) -> Result<(Cost, Vec<Answer>)> {
    let (mut cost, mut answers) = (Cost::default(), Vec::new());
    for case in cases {
        let measured = run.bench.once(case).await?;
        let Some(time) = measured.time else {
            return Err(did_not_end(case, &measured));
        };
        cost.requests += measured.requests;
        cost.bytes += measured.bytes;
        cost.time += time;
        answers.push(rows(case, &measured)?);
    }
    Ok((cost, answers))
}

/// Runs all cases at once, in one engine.
async fn together(run: &Run<'_>, cases: &[Case], expected: &[Answer]) -> Result<Cost> {
    let session = run.bench.session(run.options.memory_bytes).await?;
    let engine = session.engine();
    let before = engine.metrics();
    let begun = Instant::now();
    let all = cases.iter().map(|case| async move {
        let session = engine.session();
        case.set_up(&session)?;
        let mut measured = Measured::default();
        answer(&session, case, &mut None, &mut measured).await?;
        rows(case, &measured)
    });
    let answers = try_join_all(all).await?;
    let time = begun.elapsed();
    let after = engine.metrics();
    for ((case, answer), expected) in cases.iter().zip(&answers).zip(expected) {
        // M4: the answer is the same as alone.
        if let Some(difference) = answer.difference(expected) {
            return Err(BenchError::Mismatch {
                query: case.label.clone(),
                policy: "all at once".to_owned(),
                reference: "the same query alone".to_owned(),
                difference,
                sql: case.sql.clone(),
            });
        }
    }
    Ok(Cost {
        requests: after.io_requests - before.io_requests,
        bytes: after.io_bytes - before.io_bytes,
        time,
    })
}

fn rows(case: &Case, measured: &Measured) -> Result<Answer> {
    let rows = Answer::new(&measured.answer);
    rows.map_err(|error| BenchError::engine(case.label.clone(), error))
}

fn did_not_end(case: &Case, measured: &Measured) -> BenchError {
    let why = measured.error.clone();
    BenchError::engine(
        case.label.clone(),
        why.unwrap_or_else(|| "it took longer than the limit".to_owned()),
    )
}
