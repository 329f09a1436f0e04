//! Which queries share operators when several people look at the same dashboard?
//!
//! Idea: viewers come one after the other and ask TPC-H's queries with joins, with one of a few
//! sets of parameters each: some queries are equal, some only alike. The engine has its defaults,
//! and records which query ran an operator and which other queries took its output. A second run
//! has shared operators switched off.
//! Not here: drawing (`report/operators.rs`); throughput (`qpipe`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Result};
use crate::progress::{OnProgress, Progress};
use crate::running::answer::Answer;
use crate::running::arena::{Arena, ArenaConfig, OperatorRun, Oracle, Sharing, TableFile};
use crate::running::clients::{self, Ask, Client, Done};
use crate::workload::WholeSpec;

/// The options of a dashboard.
#[derive(Clone, Debug)]
pub struct DashboardOptions {
    /// TPC-H's tables by name, all those of [`tpch_tables`](crate::qpipe::tpch_tables).
    pub tables: Vec<(String, PathBuf)>,
    /// The number of viewers.
    pub viewers: usize,
    /// Queries per viewer, one after the other.
    pub queries: usize,
    /// Sets of parameters of each query.
    pub sets: usize,
    /// The seed of the queries.
    pub seed: u64,
    /// Time between one viewer and the next.
    pub apart: Duration,
    /// The device's limit in bytes per second.
    pub bandwidth: Option<u64>,
    /// Memory for chunks; None: all the memory there is.
    pub buffer_bytes: Option<u64>,
    /// The target size of a chunk on disk.
    pub chunk_bytes: u64,
    /// Whether plain DataFusion answers every query too.
    pub verify: bool,
}

/// The queries of the viewers, and what they shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dashboard {
    /// The number of viewers.
    pub viewers: usize,
    /// Sets of parameters of each query.
    pub sets: usize,
    /// Seconds between one viewer and the next.
    pub apart_s: f64,
    /// The device's limit in bytes per second; none if it had no limit.
    pub bandwidth: Option<u64>,
    /// Memory for chunks; none if it was all the memory there was.
    pub buffer_bytes: Option<u64>,
    /// Whether plain DataFusion gave the same rows.
    pub verified: bool,
    /// Seconds until the last answer.
    pub total_s: f64,
    /// The same without shared operators.
    pub unshared_total_s: f64,
    /// The queries, viewer by viewer.
    pub queries: Vec<Viewed>,
    /// The runs whose output more than one query took.
    pub runs: Vec<SharedRun>,
}

/// A query of a viewer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Viewed {
    /// The viewer's number, from 0.
    pub viewer: usize,
    /// The query's name in TPC-H.
    pub name: String,
    /// Seconds since the first viewer came.
    pub start_s: f64,
    /// Seconds until its last row.
    pub latency_s: f64,
}

/// A run of an operator, and the queries that took its output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedRun {
    /// The kind of operator, as in `coscan.operators`.
    pub kind: String,
    /// The query that started it, an index into the queries.
    pub query: usize,
    /// The other queries that took its output, and when they requested it.
    pub takers: Vec<(usize, f64)>,
}

/// Runs the dashboard with operators shared, then without.
///
/// Cancel safety: dropping the future cancels all queries.
///
/// # Errors
/// A query fails, or its rows differ between the runs or from plain DataFusion's.
pub async fn run(options: &DashboardOptions, on_progress: &OnProgress) -> Result<Dashboard> {
    let drawn = WholeSpec {
        clients: options.viewers,
        queries: options.queries,
        sets: options.sets,
        seed: options.seed,
    };
    let drawn = drawn.draw();
    let asked: Vec<Vec<(&str, &str)>> = drawn.by_client();
    let steps = options.viewers * options.queries;
    on_progress(Progress::begun(
        "a dashboard",
        steps * if options.verify { 3 } else { 2 },
    ));
    let (shared, runs) = once(options, &asked, true, on_progress).await?;
    let (unshared, _) = once(options, &asked, false, on_progress).await?;
    let all: Vec<(usize, &str, &str)> = (0..)
        .zip(&asked)
        .flat_map(|(viewer, asks)| asks.iter().map(move |&(name, sql)| (viewer, name, sql)))
        .collect();
    for ((_, name, sql), (one, other)) in all.iter().zip(shared.iter().zip(&unshared)) {
        compare(name, sql, &one.answer, &other.answer, "operators off")?;
    }
    if options.verify {
        let oracle = Oracle::open(&tables(options)).await?;
        for ((_, name, sql), done) in all.iter().zip(&shared) {
            let right = oracle.run(sql).await?;
            compare(name, sql, &done.answer, &right, "plain DataFusion")?;
            on_progress(Progress::Advanced);
        }
    }
    let viewed = |(&(viewer, name, _), done): (&(usize, &str, &str), &Done)| Viewed {
        viewer,
        name: name.to_owned(),
        start_s: done.start.as_secs_f64(),
        latency_s: done.latency.as_secs_f64(),
    };
    Ok(Dashboard {
        viewers: options.viewers,
        sets: options.sets,
        apart_s: options.apart.as_secs_f64(),
        bandwidth: options.bandwidth,
        buffer_bytes: options.buffer_bytes,
        verified: options.verify,
        total_s: total_s(&shared),
        unshared_total_s: total_s(&unshared),
        queries: all.iter().zip(&shared).map(viewed).collect(),
        runs,
    })
}

/// Runs all viewers once on an engine of their own; also returns the runs that more than one query
/// read.
async fn once(
    options: &DashboardOptions,
    asked: &[Vec<(&str, &str)>],
    operators: bool,
    on_progress: &OnProgress,
) -> Result<(Vec<Done>, Vec<SharedRun>)> {
    let config = ArenaConfig {
        sharing: Sharing {
            policy: "relevance".to_owned(),
            fragments: true,
            operators,
        },
        model: "dsm".to_owned(),
        buffer_bytes: options.buffer_bytes,
        bandwidth: options.bandwidth,
        latency: Duration::ZERO,
        devices: Vec::new(),
        parallelism: None,
        page_reserve: true,
        chunk_bytes: options.chunk_bytes,
        target_partitions: None,
        record: None,
        settings: Vec::new(),
        in_turn: false,
    };
    let arena = Arc::new(Arena::open(&config, &tables(options)).await?);
    let mut number = 0;
    let mut client = |(at, asks): (u32, &Vec<(&str, &str)>)| Client {
        start: options.apart * at,
        asks: asks
            .iter()
            .map(|(_, sql)| {
                number += 1;
                Ask::new((number - 1).to_string(), sql)
            })
            .collect(),
    };
    let clients: Vec<Client> = (0..).zip(asked).map(&mut client).collect();
    let origin = Instant::now();
    let done = clients::run(&arena, &clients, on_progress).await?;
    let runs = arena.operators();
    let shared = runs.iter().filter_map(|run| shared(run, origin));
    Ok((done, shared.collect()))
}

/// The run, if more than one query took its output. A query's label is its number.
fn shared(run: &OperatorRun, origin: Instant) -> Option<SharedRun> {
    let since = |time: Instant| time.saturating_duration_since(origin).as_secs_f64();
    let takers = run.takers.iter();
    let takers = takers.filter_map(|of| Some((of.0.parse().ok()?, since(of.1))));
    let takers: Vec<(usize, f64)> = takers.collect();
    if takers.is_empty() {
        return None;
    }
    Some(SharedRun {
        kind: run.kind.to_owned(),
        query: run.label.parse().ok()?,
        takers,
    })
}

fn tables(options: &DashboardOptions) -> Vec<TableFile> {
    let tables = options.tables.iter();
    tables
        .map(|(name, path)| TableFile::new(name, path))
        .collect()
}

fn total_s(done: &[Done]) -> f64 {
    let ends = done.iter().map(|done| done.start + done.latency);
    ends.max().unwrap_or_default().as_secs_f64()
}

fn compare(name: &str, sql: &str, ours: &Answer, other: &Answer, by: &str) -> Result<()> {
    let Some(difference) = ours.difference(other) else {
        return Ok(());
    };
    Err(BenchError::Mismatch {
        query: format!("a dashboard, {name}"),
        policy: "operators shared".to_owned(),
        reference: by.to_owned(),
        difference,
        sql: sql.to_owned(),
    })
}
