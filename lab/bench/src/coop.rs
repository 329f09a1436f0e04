//! Runs the cooperative-scan benchmark: the same workload under one policy after the other.
//!
//! Idea: the runs of two policies differ only in the policy. The workload is drawn once; each
//! policy gets a new engine with an empty buffer and the same device. Each class of query is first
//! measured alone, because a latency means something only beside that time.
//!
//! B1: every query's rows are the same under all policies, and the same as plain DataFusion's;
//! otherwise the run fails.
//! B2: nothing else runs while the streams are measured: neither the oracle nor another policy.
//! Not here: the queries (`workload/mod.rs`), when a client sends them (`running/clients.rs`), what
//! the figures mean (`results.rs`), the engine (`running/arena.rs`).
//! Source: [CoopScans07 §5.1, §5.2].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{BenchError, Result};
use crate::layout::Layout;
use crate::progress::{OnProgress, Progress};
use crate::results::{CoopResults, JobResults, POLICIES, PolicyResults, QueryResults};
use crate::running::answer::Answer;
use crate::running::arena::{
    Arena, ArenaConfig, Job, Oracle, Sharing, TableFile, log_of, reads_whole_rows,
};
use crate::running::clients::{self, Ask, Client};
use crate::running::cpu;
use crate::workload::{Mix, Query, Speed, Workload, WorkloadSpec};
use coscan_quantities::Share;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct CoopOptions {
    /// A Parquet file, or a folder of them, with TPC-H's lineitem in key order.
    pub table: PathBuf,
    /// The table's name in titles.
    pub title: String,
    /// `nsm` or `dsm`.
    pub model: String,
    /// The policies, in this order.
    pub policies: Vec<String>,
    /// Which queries are drawn.
    pub mix: Mix,
    /// Streams at once.
    pub streams: usize,
    /// Queries of each stream.
    pub queries: usize,
    /// Time between two streams' starts.
    pub delay: Duration,
    /// The seed of the workload.
    pub seed: u64,
    /// The buffer: bytes, or a fraction of what the workload could touch. Under `nsm` that is the
    /// table; under `dsm` the columns that its queries name, because a quarter of the table would
    /// hold most of those columns and leave nothing to schedule.
    pub buffer: Share,
    /// The device's limit in bytes per second.
    pub bandwidth: Option<u64>,
    /// Time added to each request.
    pub latency: Duration,
    /// The size of a chunk in bytes on disk.
    pub chunk_bytes: u64,
    /// Threads per query; None is the engine's default. The paper's queries were single-threaded,
    /// and concurrency came from the streams: that is 1.
    pub partitions: Option<usize>,
    /// Terms of extra arithmetic in SLOW.
    pub slow_arithmetic: u32,
    /// Whether plain DataFusion answers every query too.
    pub verify: bool,
    /// Where the scheduler's log is written, for `coscan sim replay`; with several policies,
    /// `.POLICY` is added.
    pub record: Option<PathBuf>,
}

impl Default for CoopOptions {
    fn default() -> Self {
        Self {
            table: PathBuf::new(),
            title: String::new(),
            model: "dsm".to_owned(),
            policies: POLICIES.map(str::to_owned).to_vec(),
            mix: Mix::table_2(),
            streams: 16,
            queries: 4,
            delay: Duration::from_secs(3),
            seed: 1,
            buffer: Share::Fraction(0.25),
            bandwidth: Some(200_000_000),
            latency: Duration::ZERO,
            chunk_bytes: 16 << 20,
            partitions: Some(1),
            slow_arithmetic: SLOW_ARITHMETIC_DEFAULT,
            verify: true,
            record: None,
        }
    }
}

/// Runs the benchmark.
///
/// Cancel safety: dropping the future cancels all queries.
///
/// # Errors
/// The table cannot be read, a query fails, or two results differ (B1).
pub async fn run(options: &CoopOptions, on_progress: OnProgress) -> Result<CoopResults> {
    let plan = Plan::new(options)?;
    let mut results = plan.empty_results();
    let begin = |phase: &str, steps| on_progress(Progress::begun(phase, steps));

    let representatives = plan.workload.representatives();
    begin("standalone", representatives.len());
    if let Some(query) = representatives.first() {
        // A process's first query also pays for loading code and filling the allocator.
        plan.alone_once(query).await?;
    }
    for query in representatives {
        let alone = plan.standalone(query).await?;
        results
            .standalone
            .insert(query.class.to_string(), alone.as_secs_f64());
        on_progress(Progress::Advanced);
    }

    let mut answers: Option<(String, Vec<Answer>)> = None;
    if options.verify {
        begin(ORACLE, plan.queries.len());
        answers = Some((ORACLE.to_owned(), plan.oracle(&on_progress).await?));
    }
    for policy in &options.policies {
        begin(policy, plan.queries.len());
        let (mut measured, rows) = plan.policy(policy, &on_progress).await?;
        match &answers {
            Some((reference, expected)) => plan.compare(policy, &rows, reference, expected)?,
            None => answers = Some((policy.clone(), rows)),
        }
        measured.summarize(&results.standalone);
        let available = measured.total_s * cpu::cores() as f64;
        // Until here `cpu_fraction` holds the CPU time in seconds; the available CPU time is known
        // only now.
        measured.cpu_fraction /= available.max(f64::MIN_POSITIVE);
        results.policies.insert(policy.clone(), measured);
    }
    Ok(results)
}

/// The result of `--calibrate-slow`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Terms of extra arithmetic.
    pub slow_arithmetic: u32,
    /// SLOW's standalone time over FAST's with these terms, both over the whole table.
    pub ratio: f64,
}

/// Finds the arithmetic with which SLOW takes `ratio` times FAST's standalone time.
///
/// # Errors
/// A query fails, or [`BenchError::Calibration`] if no number of terms comes within
/// [`CALIBRATION_TOLERANCE`].
pub async fn calibrate_slow(
    options: &CoopOptions,
    ratio: f64,
    on_progress: OnProgress,
) -> Result<Calibration> {
    on_progress(Progress::begun("calibration", CALIBRATIONS_MAX));
    let plan = Plan::new(options)?;
    let fast = plan.whole_table("F-100", 0).await?.as_secs_f64();
    // The time is flat while the device hides the arithmetic, then linear. So the terms are
    // doubled until they suffice, then the interval is halved. Each step scans the table once.
    let (mut low, mut high) = (0_u32, None::<u32>);
    let mut best = Calibration {
        slow_arithmetic: 0,
        ratio: f64::INFINITY,
    };
    let mut terms = options.slow_arithmetic;
    for _ in 0..CALIBRATIONS_MAX {
        let measured = plan.whole_table("S-100", terms).await?.as_secs_f64() / fast;
        on_progress(Progress::Advanced);
        if (measured - ratio).abs() < (best.ratio - ratio).abs() {
            best = Calibration {
                slow_arithmetic: terms,
                ratio: measured,
            };
        }
        if (best.ratio / ratio - 1.0).abs() <= CALIBRATION_TOLERANCE / 2.0 {
            break;
        }
        if measured < ratio {
            low = terms;
        } else {
            high = Some(terms);
        }
        let next = match high {
            None => (terms * 2).clamp(1, crate::workload::ARITHMETIC_TERMS_MAX),
            Some(high) => u32::midpoint(low, high),
        };
        if next == terms || high.is_some_and(|high| high <= low + 1) {
            break;
        }
        terms = next;
    }
    if (best.ratio / ratio - 1.0).abs() > CALIBRATION_TOLERANCE {
        return Err(BenchError::Calibration {
            slow_arithmetic: best.slow_arithmetic,
            ratio: best.ratio,
            wanted: ratio,
        });
    }
    Ok(best)
}

/// The workload that `options` describe, without running it.
///
/// # Errors
/// The table cannot be read.
pub fn workload(options: &CoopOptions) -> Result<Workload> {
    Ok(Plan::new(options)?.workload)
}

/// Bytes that FAST reads of the whole table; they determine a full scan's duration.
///
/// # Errors
/// The table cannot be read, or the model's name is unknown.
pub fn full_scan_bytes(table: &std::path::Path, model: &str) -> Result<u64> {
    Ok(Layout::read(table)?.scan_bytes(Speed::Fast, reads_whole_rows(model)?))
}

/// What is decided before the first query runs.
struct Plan<'a> {
    options: &'a CoopOptions,
    layout: Layout,
    workload: Workload,
    /// (stream, query), stream by stream: a query's index here is its label.
    queries: Vec<(usize, Query)>,
    whole_rows: bool,
    buffer_bytes: u64,
}

impl<'a> Plan<'a> {
    fn new(options: &'a CoopOptions) -> Result<Self> {
        let whole_rows = reads_whole_rows(&options.model)?;
        let layout = Layout::read(&options.table)?;
        let workload = Workload::draw(WorkloadSpec {
            mix: options.mix.clone(),
            streams: options.streams,
            queries: options.queries,
            delay: options.delay,
            seed: options.seed,
            keys: layout.keys.clone(),
            slow_arithmetic: options.slow_arithmetic,
            table: TABLE.to_owned(),
            distinct: false,
        })?;
        let queries = workload
            .queries()
            .map(|(stream, query)| (stream, query.clone()))
            .collect();
        let buffer_bytes = options
            .buffer
            .of(layout.bytes_needed(&workload, whole_rows).workload_bytes);
        Ok(Self {
            options,
            layout,
            workload,
            queries,
            whole_rows,
            buffer_bytes,
        })
    }

    fn empty_results(&self) -> CoopResults {
        let needs = self.layout.bytes_needed(&self.workload, self.whole_rows);
        CoopResults {
            model: self.options.model.clone(),
            table_bytes: self.layout.table_bytes,
            buffer_bytes: self.buffer_bytes,
            bandwidth: self.options.bandwidth,
            streams: self.options.streams,
            queries_per_stream: self.options.queries,
            seed: self.options.seed,
            table: self.options.title.clone(),
            mix: self.options.mix.to_string(),
            delay_s: self.options.delay.as_secs_f64(),
            slow_arithmetic: self.options.slow_arithmetic,
            chunks: self.layout.row_groups(),
            workload_bytes: needs.workload_bytes,
            union_bytes: needs.union_bytes,
            demand_bytes: needs.demand_bytes,
            cores: cpu::cores(),
            verified: self.options.verify,
            standalone: BTreeMap::new(),
            policies: BTreeMap::new(),
        }
    }

    /// Where the log of a policy's run is written.
    fn log_of(&self, policy: &str) -> Option<PathBuf> {
        let record = self.options.record.as_ref()?;
        let is_only = self.options.policies.len() == 1;
        Some(if is_only {
            record.clone()
        } else {
            log_of(policy, record)
        })
    }

    fn tables(&self) -> [TableFile; 1] {
        [TableFile::new(TABLE, &self.options.table)]
    }

    async fn arena(&self, policy: &str, record: Option<PathBuf>) -> Result<Arena> {
        let config = ArenaConfig {
            // The paper's policies share reads and nothing else; a remembered state would save the
            // second read.
            sharing: Sharing::of_scans(policy),
            model: self.options.model.clone(),
            buffer_bytes: Some(self.buffer_bytes),
            bandwidth: self.options.bandwidth,
            latency: self.options.latency,
            devices: Vec::new(),
            parallelism: None,
            page_reserve: true,
            chunk_bytes: self.options.chunk_bytes,
            target_partitions: self.options.partitions,
            record,
            settings: Vec::new(),
            in_turn: false,
        };
        Arena::open(&config, &self.tables()).await
    }

    /// The query's time alone, with an empty buffer. A short query is measured several times and
    /// the median counts, because all latencies of its class are divided by this time.
    async fn standalone(&self, query: &Query) -> Result<Duration> {
        let mut times = vec![self.alone_once(query).await?];
        while times.len() < STANDALONE_RUNS_MAX
            && times.iter().sum::<Duration>() < STANDALONE_ENOUGH
        {
            times.push(self.alone_once(query).await?);
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    async fn alone_once(&self, query: &Query) -> Result<Duration> {
        let arena = self.arena(STANDALONE_POLICY, None).await?;
        let start = Instant::now();
        arena.run(&query.class.to_string(), &query.sql).await?;
        Ok(start.elapsed())
    }

    /// The time of a query of the class over the whole table, alone.
    async fn whole_table(&self, class: &str, slow_arithmetic: u32) -> Result<Duration> {
        let spec = WorkloadSpec {
            mix: class.parse()?,
            streams: 1,
            queries: 1,
            slow_arithmetic,
            ..self.workload.spec.clone()
        };
        match Workload::draw(spec)?.representatives().first() {
            Some(query) => self.standalone(query).await,
            None => Err(BenchError::WorkerLost("the workload generator")),
        }
    }

    async fn oracle(&self, on_progress: &OnProgress) -> Result<Vec<Answer>> {
        let oracle = Oracle::open(&self.tables()).await?;
        let mut answers = Vec::with_capacity(self.queries.len());
        for (_, query) in &self.queries {
            answers.push(oracle.run(&query.sql).await?);
            on_progress(Progress::Advanced);
        }
        Ok(answers)
    }

    /// Runs all streams under one policy. In the result `cpu_fraction` is still the CPU time in
    /// seconds.
    async fn policy(
        &self,
        name: &str,
        on_progress: &OnProgress,
    ) -> Result<(PolicyResults, Vec<Answer>)> {
        let arena = Arc::new(self.arena(name, self.log_of(name)).await?);
        let before = arena.counters();
        let cpu_before = cpu::process_time();
        let done = clients::run(&arena, &self.clients(), on_progress).await?;
        let cpu = cpu::process_time().saturating_sub(cpu_before);
        let counters = arena.counters().since(before);
        arena.finish_recording();

        let mut results = PolicyResults {
            cpu_fraction: cpu.as_secs_f64(),
            io_requests: counters.io_requests,
            io_bytes: counters.io_bytes,
            sched_cpu_fraction: counters.sched_cpu.as_secs_f64()
                / cpu.as_secs_f64().max(f64::MIN_POSITIVE),
            decode_bytes: counters.decode_bytes,
            trace: trace(&arena),
            jobs: jobs(&arena),
            states_remembered: counters.states_remembered,
            ..Default::default()
        };
        let mut answers = Vec::with_capacity(done.len());
        for ((stream, query), done) in self.queries.iter().zip(done) {
            results.queries.push(QueryResults {
                stream: *stream,
                name: query.class.to_string(),
                start_s: done.start.as_secs_f64(),
                latency_s: done.latency.as_secs_f64(),
                ..Default::default()
            });
            answers.push(done.answer);
        }
        Ok((results, answers))
    }

    /// The streams as clients; a query's label is its index in the list of queries.
    fn clients(&self) -> Vec<Client> {
        let mut queries = self.queries.iter().enumerate();
        let streams = self.workload.streams.iter().enumerate();
        let client = |(stream, asked): (usize, &Vec<Query>)| Client {
            start: self.options.delay * u32::try_from(stream).unwrap_or(u32::MAX),
            asks: queries
                .by_ref()
                .take(asked.len())
                .map(|(at, (_, query))| Ask::new(at.to_string(), &query.sql))
                .collect(),
        };
        streams.map(client).collect()
    }

    /// B1.
    fn compare(
        &self,
        policy: &str,
        rows: &[Answer],
        reference: &str,
        expected: &[Answer],
    ) -> Result<()> {
        for (((_, query), rows), expected) in self.queries.iter().zip(rows).zip(expected) {
            if let Some(difference) = rows.difference(expected) {
                return Err(BenchError::Mismatch {
                    query: query.class.to_string(),
                    policy: policy.to_owned(),
                    reference: reference.to_owned(),
                    difference,
                    sql: query.sql.clone(),
                });
            }
        }
        Ok(())
    }
}

/// A time rounded to a tenth of a millisecond: the file holds thousands of them.
fn short(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 1e4
}

/// The arena's chunk jobs, with labels turned back into indexes into the list of queries.
fn jobs(arena: &Arena) -> Vec<JobResults> {
    let job = |job: Job| {
        let served = job.served.iter().filter_map(|label| label.parse().ok());
        Some(JobResults {
            begun_s: short(job.begun),
            ended_s: short(job.ended),
            chunk: job.chunk,
            query: job.label.parse().ok()?,
            served: served.collect(),
        })
    };
    let mut jobs: Vec<JobResults> = arena.jobs().into_iter().filter_map(job).collect();
    jobs.sort_by(|a, b| a.begun_s.total_cmp(&b.begun_s));
    jobs
}

/// The arena's loads, with labels turned back into indexes into the list of queries.
fn trace(arena: &Arena) -> Vec<(f64, u32, u32)> {
    let mut trace: Vec<(f64, u32, u32)> = arena
        .trace()
        .into_iter()
        .filter_map(|load| Some((short(load.time), load.chunk, load.label.parse().ok()?)))
        .collect();
    trace.sort_by(|a, b| a.0.total_cmp(&b.0));
    trace
}

/// The name under which the table is registered.
const TABLE: &str = "lineitem";
/// Alone, all policies but `relevance` read the same chunks in the same order. So the standalone
/// time is measured under the simplest policy.
const STANDALONE_POLICY: &str = "normal";
/// A class is measured until its runs have taken this long together, or this many times.
const STANDALONE_ENOUGH: Duration = Duration::from_secs(1);
const STANDALONE_RUNS_MAX: usize = 5;
const ORACLE: &str = "plain DataFusion";
/// Extra sums in SLOW. With one, the 64 queries of Table 2's mix take the processor time that the
/// arena of docs/BENCHMARKS.md was sized for (some 225 s in `DuckDB` 2.0 at scale 40). SLOW then
/// takes 2.7 times FAST's processor time, but not the paper's 1.7 times its elapsed time, because
/// at 200 MB/s both wait for the device. The paper's ratio takes about 16 sums.
pub const SLOW_ARITHMETIC_DEFAULT: u32 = 1;
/// How far from the wanted ratio a calibration may end, relative to it.
pub const CALIBRATION_TOLERANCE: f64 = 0.1;
/// Each calibration step is a scan of the whole table.
const CALIBRATIONS_MAX: usize = 12;
