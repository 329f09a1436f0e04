//! How long does one query take from an empty buffer, and what does it read?
//!
//! Idea: two measurements differ only in their [`Case`]s. Each case is measured in its own engine;
//! local reads bypass the system's cache. Cases take turns within a repeat, so that a slow minute
//! of the machine hits all of them, and the median counts.
//!
//! M1: the rows of every case are those of its query, in the order of the query; otherwise the run
//! fails.
//! M2: a query that takes longer than the limit, or fails, is reported as such and not repeated;
//! the run goes on.
//! M3: nothing else runs while a query is measured.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use coscan::{Engine, EngineConfig, Session};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use tokio::time::{Instant, timeout};

use super::checksum::{Checker, Checksum};
use super::data::{COLUMNS, Table};
use crate::error::{BenchError, Result};
use crate::progress::{OnProgress, Progress};

/// The device to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The machine's own device, as it is.
    Plain,
    /// The machine's own device, made to jump as a disk does: a page by itself costs ten times a
    /// page in sequence. A page of a columnar file takes a request per column, so each request
    /// gets its share of the nine pages of a jump.
    Disk {
        /// Bytes per second.
        bandwidth: u64,
        /// Time added to each request. None: chosen so that a page by itself costs ten times a
        /// page in sequence.
        latency: Option<Duration>,
    },
}

/// What a jump costs, in pages read in sequence [SmoothScan18 §7.1].
const JUMP_PAGES: u64 = 9;

impl DeviceKind {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Disk { .. } => "disk",
        }
    }

    /// The device's limit in bytes per second.
    pub(crate) fn bandwidth(self) -> Option<u64> {
        match self {
            Self::Plain => None,
            Self::Disk { bandwidth, .. } => Some(bandwidth),
        }
    }

    /// The time added to each request, for a table whose pages have this many bytes over all
    /// columns.
    pub(crate) fn latency(self, page_bytes: u64) -> Duration {
        match self {
            Self::Plain => Duration::ZERO,
            Self::Disk {
                latency: Some(latency),
                ..
            } => latency,
            Self::Disk { bandwidth, .. } => {
                let page_s = page_bytes as f64 / bandwidth.max(1) as f64;
                Duration::from_secs_f64(page_s * JUMP_PAGES as f64 / COLUMNS as f64)
            }
        }
    }
}

/// A query, how it is run, and the expected answer.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The case's label in results and errors.
    pub(crate) label: String,
    pub(crate) sql: String,
    /// Settings of the session, by their names after `coscan.`.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// The engine's memory in bytes.
    pub(crate) memory_bytes: u64,
    pub(crate) answer: Expected,
}

/// The expected answer.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// These rows of the micro-benchmark's table, with ascending keys if `ordered`.
    Rows { checksum: Checksum, ordered: bool },
    /// The same as other cases: few rows, which are kept ([`Measured::answer`]).
    Kept,
}

/// What all cases are measured on.
pub(crate) struct Bench {
    /// Names and files of the tables.
    pub(crate) tables: Vec<(String, PathBuf)>,
    /// The device's bandwidth, if it has a limit.
    pub(crate) bandwidth: Option<u64>,
    /// Added to each request.
    pub(crate) latency: Duration,
    /// The time limit of a query.
    pub(crate) limit: Duration,
    /// How often a case is measured; at least once.
    pub(crate) repeats: usize,
    /// Whether reads are recorded with their times; the table must then be one file.
    pub(crate) traced: bool,
}

/// One case, once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// From the query's text to its last row. None if the query was given up or failed.
    pub(crate) time: Option<Duration>,
    pub(crate) error: Option<String>,
    pub(crate) rows: u64,
    /// Requests to devices, including those for the index file.
    pub(crate) requests: u64,
    /// Bytes that devices delivered.
    pub(crate) bytes: u64,
    /// The plan's metrics by name, summed over its operators; times in nanoseconds.
    pub(crate) operators: BTreeMap<String, u64>,
    /// The rows, for [`Expected::Kept`].
    pub(crate) answer: Vec<RecordBatch>,
    /// What was read of the table and when, if the bench is traced, until the query ended or was
    /// given up.
    pub(crate) reads: Vec<Read>,
}

/// Neighbouring rows of the table that were read together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    /// Since the query was planned. For a chunk: when its load began. For pages: when their read
    /// was complete.
    pub(crate) time: Duration,
    /// Rows, counted from the table's first.
    pub(crate) rows: Range<u64>,
    /// True for a chunk of a cooperative scan, false for pages.
    pub(crate) chunk: bool,
}

/// A case over its repeats.
#[derive(Clone, Debug)]
pub(crate) struct Median {
    /// The repeat with the median time; of an even number, the shorter of the two in the middle.
    /// If a repeat did not end, that one.
    pub(crate) of: Measured,
    /// The shortest repeat.
    pub(crate) min: Option<Duration>,
    /// The longest repeat; None if it did not end.
    pub(crate) max: Option<Duration>,
    pub(crate) repeats: usize,
}

impl Measured {
    /// A metric of the plan's operators; 0 if none has it.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        self.operators.get(name).copied().unwrap_or(0)
    }

    /// Pages read by the index, or in whole chunks by the scan that took over from it.
    pub(crate) fn pages(&self) -> u64 {
        self.metric("pages_read") + self.metric("pages_of_full_scan")
    }
}

impl Median {
    /// None if nothing was measured.
    pub(crate) fn new(mut measured: Vec<Measured>) -> Option<Self> {
        // A repeat that did not end sorts last and is the one that counts.
        measured.sort_by_key(|once| once.time.unwrap_or(Duration::MAX));
        let repeats = measured.len();
        let (min, max) = (measured.first()?.time, measured.last()?.time);
        let counts = match max {
            Some(_) => (repeats - 1) / 2,
            None => repeats - 1,
        };
        Some(Self {
            of: measured.swap_remove(counts),
            min,
            max,
            repeats,
        })
    }

    /// The median time in seconds; None if that repeat did not end.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.of.time.map(|time| time.as_secs_f64())
    }
}

impl Bench {
    /// A bench on the micro-benchmark's table.
    pub(crate) fn new(table: &Table, device: DeviceKind, limit: Duration, repeats: usize) -> Self {
        Self {
            tables: vec![(TABLE.to_owned(), table.path.clone())],
            bandwidth: device.bandwidth(),
            latency: device.latency(table.page_bytes),
            limit,
            repeats,
            traced: false,
        }
    }

    /// Makes an index of this name if it is missing, with all the memory and no limit on the
    /// device.
    pub(crate) async fn make_index(&self, name: &str, table: &str, column: &str) -> Result<()> {
        let session = self.open(EngineConfig::default()).await?;
        let failed = |error| BenchError::engine(format!("making the index on {column}"), error);
        let sql = format!("CREATE INDEX IF NOT EXISTS {name} ON {table} ({column})");
        let said = session.sql(&sql).await.map_err(failed)?;
        let said: Result<Vec<_>, _> = said.try_collect().await;
        said.map_err(|error| failed(error.into()))?;
        Ok(())
    }

    /// Makes the index on the micro-benchmark's key, as a phase of its own.
    pub(crate) async fn index(&self, on_progress: &OnProgress) -> Result<()> {
        on_progress(Progress::begun("index", 1));
        self.make_index(INDEX_NAME, TABLE, "c2").await?;
        on_progress(Progress::Advanced);
        Ok(())
    }

    /// Runs the first case without measuring it: a process's first query also pays for loading
    /// code and filling the allocator.
    pub(crate) async fn warm_up(&self, cases: &[Case]) -> Result<()> {
        if let Some(first) = cases.first() {
            self.once(first).await?;
        }
        Ok(())
    }

    /// Runs every case as often as there are repeats; cases take turns.
    pub(crate) async fn measure(
        &self,
        cases: &[Case],
        on_progress: &OnProgress,
    ) -> Result<Vec<Median>> {
        let mut measured: Vec<Vec<Measured>> = cases.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.repeats {
            for (case, measured) in cases.iter().zip(&mut measured) {
                // M2: a case that did not end is not repeated.
                if measured.iter().all(|once| once.time.is_some()) {
                    measured.push(self.once(case).await?);
                }
                on_progress(Progress::Advanced);
            }
        }
        Ok(measured.into_iter().filter_map(Median::new).collect())
    }

    /// Runs the case once, with nothing in memory.
    pub(crate) async fn once(&self, case: &Case) -> Result<Measured> {
        let session = self.session(case.memory_bytes).await?;
        case.set_up(&session)?;
        let before = session.engine().metrics();
        let mut plan = None;
        let start = Instant::now();
        let mut measured = Measured::default();
        let answered = answer(&session, case, &mut plan, &mut measured);
        let answered = timeout(self.limit, answered).await;
        let time = start.elapsed();
        match answered {
            Ok(Ok(())) => measured.time = Some(time),
            Ok(Err(wrong @ BenchError::Mismatch { .. })) => return Err(wrong),
            Ok(Err(failed)) => measured.error = Some(failed.to_string()),
            Err(_) => {}
        }
        let after = session.engine().metrics();
        measured.requests = after.io_requests - before.io_requests;
        measured.bytes = after.io_bytes - before.io_bytes;
        measured.reads = reads(session.engine());
        if let Some(plan) = plan {
            add_metrics(plan.as_ref(), &mut measured.operators);
        }
        Ok(measured)
    }

    /// A session of a new engine with this much memory and the tables.
    pub(crate) async fn session(&self, memory_bytes: u64) -> Result<Session> {
        let config = EngineConfig {
            // Access paths are compared, so nothing may be remembered between them.
            share_fragments: false,
            share_operators: false,
            memory_bytes: Some(memory_bytes),
            // The engine's own devices must read every scan, however small.
            small_table_bytes: 0,
            bandwidth: self.bandwidth,
            latency: self.latency,
            record_trace: self.traced,
            ..EngineConfig::default()
        };
        self.open(config).await
    }

    async fn open(&self, config: EngineConfig) -> Result<Session> {
        let failed = |error| BenchError::engine("opening the table", error);
        let session = Engine::new(config).map_err(failed)?.session();
        for (name, path) in &self.tables {
            let path = path.to_string_lossy();
            session.register(name, &path).await.map_err(failed)?;
        }
        Ok(session)
    }
}

/// The micro-benchmark's table in SQL.
pub(crate) const TABLE: &str = "t";

/// The name of the index on its key.
pub(crate) const INDEX_NAME: &str = "bench_c2";

/// All columns of the rows below a bound.
pub(crate) fn select(bound: u32, order_by: bool) -> String {
    let order = if order_by { " ORDER BY c2" } else { "" };
    format!("SELECT * FROM {TABLE} WHERE c2 >= 0 AND c2 < {bound}{order}")
}

impl Case {
    /// Applies the case's settings to a session.
    pub(crate) fn set_up(&self, session: &Session) -> Result<()> {
        for (name, value) in &self.settings {
            let set = session.set(&format!("coscan.{name}"), value);
            set.map_err(|error| BenchError::engine(self.label.clone(), error))?;
        }
        Ok(())
    }

    /// The error of a case whose rows are wrong (M1).
    fn mismatch(&self, difference: String) -> BenchError {
        BenchError::Mismatch {
            query: "the query".to_owned(),
            policy: self.label.clone(),
            reference: "the table as it was drawn".to_owned(),
            difference,
            sql: self.sql.clone(),
        }
    }
}

/// Reads all rows of a case and checks them. `plan` is set as soon as the plan is made.
pub(crate) async fn answer(
    session: &Session,
    case: &Case,
    plan: &mut Option<Arc<dyn ExecutionPlan>>,
    measured: &mut Measured,
) -> Result<()> {
    let failed = |error| BenchError::engine(case.label.clone(), coscan::Error::from(error));
    let frame = session.context().sql(&case.sql).await.map_err(failed)?;
    let context = Arc::new(frame.task_ctx());
    let planned = frame.create_physical_plan().await.map_err(failed)?;
    let plan = plan.insert(planned);
    let mut rows = execute_stream(Arc::clone(plan), context).map_err(failed)?;
    let mut checker = match case.answer {
        Expected::Rows { ordered, .. } => Some(Checker::new(ordered)),
        Expected::Kept => None,
    };
    while let Some(batch) = rows.try_next().await.map_err(failed)? {
        measured.rows += batch.num_rows() as u64;
        match &mut checker {
            Some(checker) => checker.take(&batch).map_err(|d| case.mismatch(d))?,
            None => measured.answer.push(batch),
        }
    }
    if let (Some(checker), Expected::Rows { checksum, .. }) = (checker, &case.answer)
        && let Some(difference) = checker.checksum().difference(checksum)
    {
        return Err(case.mismatch(difference));
    }
    Ok(())
}

/// The reads that an engine recorded, in the order of time.
fn reads(engine: &Engine) -> Vec<Read> {
    let read = |time_ns, rows, chunk| Read {
        time: Duration::from_nanos(time_ns),
        rows,
        chunk,
    };
    let loads = engine.trace().into_iter();
    let pages = engine.page_trace().into_iter();
    let mut reads: Vec<Read> = loads
        .map(|load| read(load.time_ns, load.rows, true))
        .chain(pages.map(|pages| read(pages.time_ns, pages.rows, false)))
        .collect();
    reads.sort_by_key(|read| read.time);
    reads
}

fn add_metrics(plan: &dyn ExecutionPlan, sums: &mut BTreeMap<String, u64>) {
    let metrics = plan.metrics();
    for metric in metrics.as_ref().into_iter().flat_map(MetricsSet::iter) {
        let value = metric.value();
        *sums.entry(value.name().to_owned()).or_default() += value.as_usize() as u64;
    }
    for child in plan.children() {
        add_metrics(child.as_ref(), sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts() {
        let once = |ms: u64| Measured {
            time: (ms > 0).then(|| Duration::from_millis(ms)),
            rows: ms,
            ..Measured::default()
        };
        let of = |times: &[u64]| Median::new(times.iter().map(|ms| once(*ms)).collect());
        let odd = of(&[30, 10, 20]).unwrap();
        assert_eq!((odd.seconds(), odd.of.rows), (Some(0.02), 20));
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!((odd.min, odd.max), (ms(10), ms(30)));
        assert_eq!(of(&[30, 10]).unwrap().seconds(), Some(0.01));
        let given_up = of(&[30, 0]).unwrap();
        assert_eq!((given_up.seconds(), given_up.max), (None, None));
        assert!(of(&[]).is_none());
    }
}
