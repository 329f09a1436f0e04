//! Under which conditions are points measured, and are the rows the same?
//!
//! Idea: a ground is what the points of an experiment have in common: tables, queries, the buffer,
//! and how long each query takes alone. Everything else belongs to a point's clients and variants.
//! Variants take turns within a repeat, so that a slow minute of the machine hits all of them.
//!
//! G1: a query's rows are the same whenever it runs, in every variant, and the same as plain
//! DataFusion's; otherwise the run fails.
//! G2: every run has an engine of its own that starts with nothing in memory.
//! G3: nothing else runs while the clients are measured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::QpipeOptions;
use super::own_tables::{OwnTables, on_own_tables};
use super::results::{Point, QpipeResults};
use super::variant::{ISOLATED, Variant};
use crate::error::{BenchError, Result};
use crate::progress::{OnProgress, Progress};
use crate::results::mean;
use crate::running::answer::Answer;
use crate::running::arena::{Arena, ArenaConfig, Counters, Oracle, TableFile, answer, log_of};
use crate::running::clients::{self, Ask, Client, Done};
use crate::running::cpu;

/// A query: its name in TPC-H, and its statement.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) sql: String,
}

/// A measurement that is planned: its clients and variants.
pub(crate) struct Case {
    /// The point, with everything that is known before the measurement.
    pub(crate) point: Point,
    /// The clients; the label of an ask is an index into the list of queries.
    pub(crate) clients: Vec<Client>,
    pub(crate) variants: Vec<Variant>,
}

/// What an experiment's points have in common.
pub(crate) struct Ground<'a> {
    options: &'a QpipeOptions,
    on_progress: &'a OnProgress,
    /// The experiment's name in progress and errors.
    title: String,
    tables: Vec<TableFile>,
    settings: Vec<(&'static str, &'static str)>,
    pub(crate) queries: Vec<Query>,
    touched_bytes: u64,
    buffer_bytes: u64,
    /// The cost of each query alone, by name.
    alone: BTreeMap<String, Alone>,
    /// For each query the source of its first answer (plain DataFusion or a variant), and the
    /// rows.
    answers: Vec<Option<(String, Answer)>>,
}

/// A query's cost when it runs alone with nothing in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alone {
    time: Duration,
    /// Bytes read from the device.
    bytes: u64,
}

/// One run of a case.
struct Outcome {
    done: Vec<Done>,
    total: Duration,
    counters: Counters,
    cpu: Duration,
}

impl<'a> Ground<'a> {
    /// Runs the queries in plain DataFusion, then measures what they read in all (the buffer may
    /// be a fraction of that) and how long each takes alone.
    pub(crate) async fn new(
        options: &'a QpipeOptions,
        on_progress: &'a OnProgress,
        title: &str,
        tables: Vec<TableFile>,
        settings: &[(&'static str, &'static str)],
        queries: Vec<Query>,
    ) -> Result<Self> {
        let mut ground = Self {
            options,
            on_progress,
            title: title.to_owned(),
            tables,
            settings: [&[STATE_CACHE_OFF][..], settings].concat(),
            answers: vec![None; queries.len()],
            queries,
            touched_bytes: 0,
            buffer_bytes: 0,
            alone: BTreeMap::new(),
        };
        if options.verify {
            ground.ask_oracle().await?;
        }
        ground.touched_bytes = ground.read_all().await?;
        ground.buffer_bytes = options.buffer.of(ground.touched_bytes);
        ground.alone = ground.each_alone().await?;
        Ok(ground)
    }

    async fn ask_oracle(&mut self) -> Result<()> {
        self.begin("plain DataFusion", self.queries.len());
        let oracle = Oracle::open(&self.tables).await?;
        for (query, known) in self.queries.iter().zip(&mut self.answers) {
            let answer = oracle.run(&query.sql).await?;
            *known = Some(("plain DataFusion".to_owned(), answer));
            (self.on_progress)(Progress::Advanced);
        }
        Ok(())
    }

    /// The bytes read if every query runs once and everything is kept. This run also loads the
    /// code and fills the allocator, so that no timed query pays for that.
    async fn read_all(&mut self) -> Result<u64> {
        self.begin("what is read", self.queries.len());
        let config = ArenaConfig {
            buffer_bytes: None,
            bandwidth: None,
            latency: Duration::ZERO,
            ..self.config(ISOLATED)
        };
        let arena = Arena::open(&config, &self.tables).await?;
        for number in 0..self.queries.len() {
            let query = &self.queries[number];
            let batches = arena.run(&query.name, &query.sql).await?;
            self.compare(number, "each once", answer(&batches)?)?;
            (self.on_progress)(Progress::Advanced);
        }
        Ok(arena.counters().io_bytes)
    }

    /// Measures the first query of each name alone; it stands for all queries of the name.
    async fn each_alone(&self) -> Result<BTreeMap<String, Alone>> {
        let mut first: BTreeMap<&str, &Query> = BTreeMap::new();
        for query in &self.queries {
            first.entry(&query.name).or_insert(query);
        }
        self.begin("alone", first.len() * ALONE_RUNS);
        let mut alone = BTreeMap::new();
        for (name, query) in first {
            let mut runs = Vec::with_capacity(ALONE_RUNS);
            for _ in 0..ALONE_RUNS {
                let arena = self.arena(ISOLATED).await?;
                let start = Instant::now();
                arena.run(name, &query.sql).await?;
                runs.push(Alone {
                    time: start.elapsed(),
                    bytes: arena.counters().io_bytes,
                });
                (self.on_progress)(Progress::Advanced);
            }
            runs.sort_unstable();
            alone.insert(name.to_owned(), runs[ALONE_RUNS / 2]);
        }
        Ok(alone)
    }

    /// The mean time of a query alone, in seconds.
    pub(crate) fn alone_s(&self) -> f64 {
        let queries = self.queries.iter();
        mean(queries.map(|query| self.alone[&query.name].time.as_secs_f64()))
    }

    /// The bytes that the clients' queries read, each by itself.
    fn demand_bytes(&self, clients: &[Client]) -> Result<u64> {
        let asks = clients.iter().flat_map(|client| &client.asks);
        let bytes = asks.map(|ask| Ok(self.alone[&self.queries[place(ask)?].name].bytes));
        bytes.sum()
    }

    /// The ask of that query, without thinking.
    pub(crate) fn ask(&self, query: usize) -> Ask {
        Ask::new(query.to_string(), &self.queries[query].sql)
    }

    /// Measures the cases and adds their points to the results.
    pub(crate) async fn measure(
        &mut self,
        cases: Vec<Case>,
        results: &mut QpipeResults,
    ) -> Result<()> {
        let asks = |case: &Case| case.clients.iter().map(|c| c.asks.len()).sum::<usize>();
        let steps = cases.iter().map(|case| case.variants.len() * asks(case));
        self.begin(&self.title, steps.sum::<usize>() * self.options.repeats);
        for case in cases {
            let mut outcomes: Vec<Vec<Outcome>> = case.variants.iter().map(|_| vec![]).collect();
            for _ in 0..self.options.repeats.max(1) {
                for (variant, outcomes) in case.variants.iter().zip(&mut outcomes) {
                    outcomes.push(self.once(*variant, &case.clients).await?);
                }
            }
            for (variant, outcomes) in case.variants.iter().zip(outcomes) {
                let mut point = case.point.clone();
                variant.name.clone_into(&mut point.variant);
                point.buffer_bytes = self.buffer_bytes;
                point.touched_bytes = self.touched_bytes;
                point.demand_bytes = self.demand_bytes(&case.clients)?;
                results.points.extend(measured(point, outcomes));
            }
        }
        Ok(())
    }

    async fn once(&mut self, variant: Variant, clients: &[Client]) -> Result<Outcome> {
        // G2: an engine for this run alone.
        let record = self.options.record.as_deref();
        let config = ArenaConfig {
            record: record.map(|record| log_of(variant.name, record)),
            ..self.config(variant)
        };
        let (_links, tables, clients) = if variant.own_tables {
            let (links, tables) = OwnTables::link(&self.tables, clients.len())?;
            (Some(links), tables, on_own_tables(clients, &self.tables))
        } else {
            (None, self.tables.clone(), clients.to_vec())
        };
        let arena = Arc::new(Arena::open(&config, &tables).await?);
        let (before, cpu_before) = (arena.counters(), cpu::process_time());
        let start = Instant::now();
        let mut done = clients::run(&arena, &clients, self.on_progress).await?;
        let outcome = Outcome {
            total: start.elapsed(),
            counters: arena.counters().since(before),
            cpu: cpu::process_time().saturating_sub(cpu_before),
            done: Vec::new(),
        };
        arena.finish_recording();
        let asks = clients.iter().flat_map(|client| &client.asks);
        for (ask, done) in asks.zip(&mut done) {
            let answer = std::mem::take(&mut done.answer);
            self.compare(place(ask)?, variant.name, answer)?;
        }
        Ok(Outcome { done, ..outcome })
    }

    /// Compares an answer with the query's first one (G1).
    fn compare(&mut self, query: usize, by: &str, answer: Answer) -> Result<()> {
        let Some((reference, expected)) = &self.answers[query] else {
            self.answers[query] = Some((by.to_owned(), answer));
            return Ok(());
        };
        let Some(difference) = answer.difference(expected) else {
            return Ok(());
        };
        Err(BenchError::Mismatch {
            query: format!("{}, {}", self.title, self.queries[query].name),
            policy: by.to_owned(),
            reference: reference.clone(),
            difference,
            sql: self.queries[query].sql.clone(),
        })
    }

    async fn arena(&self, variant: Variant) -> Result<Arena> {
        Arena::open(&self.config(variant), &self.tables).await
    }

    fn config(&self, variant: Variant) -> ArenaConfig {
        let options = self.options;
        ArenaConfig {
            sharing: variant.sharing(),
            model: options.model.clone(),
            buffer_bytes: Some(self.buffer_bytes),
            bandwidth: options.bandwidth,
            latency: options.latency,
            devices: Vec::new(),
            parallelism: None,
            page_reserve: true,
            chunk_bytes: options.chunk_bytes,
            target_partitions: Some(options.partitions),
            record: None,
            settings: self.settings.clone(),
            in_turn: false,
        }
    }

    fn begin(&self, phase: &str, steps: usize) {
        (self.on_progress)(Progress::begun(phase, steps));
    }
}

/// The index of an ask's query, parsed from its label.
fn place(ask: &Ask) -> Result<usize> {
    let place = ask.label.parse();
    place.map_err(|_| BenchError::WorkerLost("a client"))
}

/// The repeat with the median time; of an even number of repeats the shorter of the two in the
/// middle. None if there is no repeat.
fn measured(mut point: Point, mut outcomes: Vec<Outcome>) -> Option<Point> {
    outcomes.sort_by_key(|outcome| outcome.total);
    point.total_min_s = outcomes.first()?.total.as_secs_f64();
    point.total_max_s = outcomes.last()?.total.as_secs_f64();
    let outcome = outcomes.swap_remove((outcomes.len() - 1) / 2);
    point.total_s = outcome.total.as_secs_f64();
    point.cpu_s = outcome.cpu.as_secs_f64();
    point.io_requests = outcome.counters.io_requests;
    point.io_bytes = outcome.counters.io_bytes;
    point.decode_bytes = outcome.counters.decode_bytes;
    point.satellites = outcome.counters.satellites;
    let latencies = outcome.done.iter().map(|done| done.latency.as_secs_f64());
    point.summarize(&latencies.collect::<Vec<f64>>());
    Some(point)
}

/// The paper shares only between queries in flight, so nothing is kept for later queries.
const STATE_CACHE_OFF: (&str, &str) = ("coscan.state_cache", "0");
/// How often a query is timed alone. The median counts, because interarrival times are given as
/// parts of it.
const ALONE_RUNS: usize = 3;
