//! How long does a query take by each access path, and what does it read?
//!
//! Idea: everything that differs between two points is the query or the path. Each is measured from an empty buffer, in an engine
//! of its own; local reads bypass the system's cache. Paths take turns within a repeat, so that a slow minute of the machine hits all
//! of them, and the median counts.
//!
//! The device `disk` is the machine's own, held to a bandwidth, with a latency per request such that a page by itself costs ten times a
//! page in sequence, as in the paper. A page of a columnar file is a request per column, so each pays its part of the nine.
//!
//! M1: the rows of every point are those that were asked for, in the order that was asked for; else the run fails.
//! M2: a query that takes longer than the limit, or fails, is reported as such, and not repeated; the run goes on.
//! M3: nothing runs beside a query while it is measured.
//! Source: [SmoothScan18 §7.3].

use std::path::Path;
use std::time::Duration;

use coscan::{Engine, EngineConfig, Session};
use futures::TryStreamExt;
use tokio::time::{Instant, timeout};

use super::checksum::{Checker, Checksum, expected};
use super::data::{COLUMNS, Spec, Table, bound};
use super::results::{Machine, Point, SmoothResults};
use crate::coop::{OnProgress, Progress};
use crate::error::{BenchError, Result};

/// What is run.
#[derive(Clone, Debug)]
pub struct SmoothOptions {
    /// The table.
    pub spec: Spec,
    /// Shares of the table's rows, in percent.
    pub selectivities: Vec<f64>,
    /// Access paths, as `coscan.access_path` names them.
    pub paths: Vec<String>,
    /// Whether rows are asked for in the order of the key: either, or both one after the other.
    pub order_by: Vec<bool>,
    /// What is read from.
    pub device: DeviceKind,
    /// The engine's memory in bytes: small, so that little of the table is kept.
    pub memory_bytes: u64,
    /// How often each point is measured; at least once.
    pub repeats: usize,
    /// How long a query may take.
    pub limit: Duration,
}

/// What is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The machine's own device, as it is.
    Plain,
    /// The same, made to jump as a disk does.
    Disk {
        /// Bytes per second.
        bandwidth: u64,
        /// Time added to each request. None: such that a page by itself costs ten times a page in sequence.
        latency: Option<Duration>,
    },
}

/// The share of a page's price that a jump is, over the page in sequence [SmoothScan18 §7.1].
const JUMP_PAGES: u64 = 9;
/// The table's name in SQL.
const TABLE: &str = "t";
/// The path that needs no index.
const FULL: &str = "full";

impl DeviceKind {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Disk { .. } => "disk",
        }
    }

    /// What the device is held to.
    fn bandwidth(self) -> Option<u64> {
        match self {
            Self::Plain => None,
            Self::Disk { bandwidth, .. } => Some(bandwidth),
        }
    }

    /// What each request is charged, for a table whose pages have so many bytes over all columns.
    fn latency(self, page_bytes: u64) -> Duration {
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

/// Runs the benchmark on a table that [`Spec::ensure`] made.
///
/// Cancel safety: dropping the future cancels the query that runs.
///
/// # Errors
/// The table or its index cannot be opened or made, or [`BenchError::Mismatch`] if a query's rows are not those that were asked
/// for (M1).
pub async fn run(
    options: &SmoothOptions,
    table: &Table,
    on_progress: OnProgress,
) -> Result<SmoothResults> {
    let bounds: Vec<u32> = options.selectivities.iter().map(|s| bound(*s)).collect();
    let expected = expected(&options.spec, &bounds);
    let runner = Runner { options, table };
    if options.paths.iter().any(|path| path != FULL) {
        on_progress(Progress::Begun {
            phase: "index".to_owned(),
            steps: 1,
        });
        runner.make_index().await?;
        on_progress(Progress::Advanced);
    }
    let queries = |order_by: bool| {
        let shares = options.selectivities.iter().zip(&expected);
        shares.map(move |(selectivity, expected)| Query {
            selectivity: *selectivity,
            order_by,
            expected: *expected,
        })
    };
    if let (Some(query), Some(path)) = (queries(false).next(), options.paths.first()) {
        // The first query of a process also pays for pages of code and allocator that no later one does.
        runner.measure(&query, path).await?;
    }
    let mut points = Vec::new();
    for order_by in &options.order_by {
        let steps = options.selectivities.len() * options.paths.len() * options.repeats;
        on_progress(Progress::Begun {
            phase: if *order_by { "ORDER BY" } else { "any order" }.to_owned(),
            steps: steps as u64,
        });
        for query in queries(*order_by) {
            points.extend(runner.points(&query, &on_progress).await?);
        }
    }
    Ok(runner.results(points))
}

/// One query, and what it has to answer.
struct Query {
    selectivity: f64,
    order_by: bool,
    expected: Checksum,
}

impl Query {
    fn sql(&self) -> String {
        let order = if self.order_by { " ORDER BY c2" } else { "" };
        let bound = bound(self.selectivity);
        format!("SELECT * FROM {TABLE} WHERE c2 >= 0 AND c2 < {bound}{order}")
    }
}

/// One query by one path, once.
struct Measured {
    /// None: it was given up, or failed.
    time: Option<Duration>,
    error: Option<String>,
    rows: u64,
    pages_read: u64,
    requests: u64,
    bytes: u64,
}

struct Runner<'a> {
    options: &'a SmoothOptions,
    table: &'a Table,
}

impl Runner<'_> {
    fn results(&self, points: Vec<Point>) -> SmoothResults {
        let options = self.options;
        SmoothResults {
            rows: options.spec.rows.into(),
            page_rows: options.spec.page_rows as u64,
            device: options.device.name().to_owned(),
            points,
            seed: options.spec.seed,
            table_bytes: self.table.bytes,
            pages: self.table.pages,
            page_bytes: self.table.page_bytes,
            bandwidth: options.device.bandwidth(),
            latency_s: options.device.latency(self.table.page_bytes).as_secs_f64(),
            memory_bytes: options.memory_bytes,
            limit_s: options.limit.as_secs_f64(),
            machine: Machine::here(),
        }
    }

    /// Builds the index if it is not there, with all the memory and the device as it is.
    async fn make_index(&self) -> Result<()> {
        let session = open(EngineConfig::default(), &self.table.path).await?;
        let failed = |error| BenchError::engine("making the index", error);
        let sql = format!("CREATE INDEX IF NOT EXISTS bench_c2 ON {TABLE} (c2)");
        let said = session.sql(&sql).await.map_err(failed)?;
        let said: Result<Vec<_>, _> = said.try_collect().await;
        said.map_err(|error| failed(error.into()))?;
        Ok(())
    }

    /// The query by every path, repeated, the paths taking turns.
    async fn points(&self, query: &Query, on_progress: &OnProgress) -> Result<Vec<Point>> {
        let paths = &self.options.paths;
        let mut measured: Vec<Vec<Measured>> = paths.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.options.repeats {
            for (path, measured) in paths.iter().zip(&mut measured) {
                // M2.
                if measured.iter().all(|once| once.time.is_some()) {
                    measured.push(self.measure(query, path).await?);
                }
                on_progress(Progress::Advanced);
            }
        }
        let points = paths.iter().zip(measured);
        Ok(points
            .filter_map(|(path, measured)| point(query, path, measured))
            .collect())
    }

    /// The query once, from nothing in memory.
    async fn measure(&self, query: &Query, path: &str) -> Result<Measured> {
        let failed = |error: coscan::Error| BenchError::engine(path.to_owned(), error);
        let config = EngineConfig {
            memory_bytes: Some(self.options.memory_bytes),
            // Every scan is to be read by the engine's own devices, however little it needs.
            small_table_bytes: 0,
            bandwidth: self.options.device.bandwidth(),
            latency: self.options.device.latency(self.table.page_bytes),
            ..EngineConfig::default()
        };
        let session = open(config, &self.table.path).await?;
        session.set("coscan.access_path", path).map_err(failed)?;
        let engine = session.engine();
        let (before, pages_before) = (engine.metrics(), pages_read(engine));
        let mut checker = Checker::new(query.order_by);
        let start = Instant::now();
        let answered = timeout(
            self.options.limit,
            answer(&session, query, path, &mut checker),
        );
        let answered = answered.await;
        let time = start.elapsed();
        let (after, checksum) = (engine.metrics(), checker.checksum());
        let (time, error) = match answered {
            Ok(Ok(())) => match checksum.difference(&query.expected) {
                Some(difference) => return Err(mismatch(query, path, difference)),
                None => (Some(time), None),
            },
            Ok(Err(wrong @ BenchError::Mismatch { .. })) => return Err(wrong),
            Ok(Err(failed)) => (None, Some(failed.to_string())),
            Err(_) => (None, None),
        };
        Ok(Measured {
            time,
            error,
            rows: checksum.rows,
            pages_read: pages_read(engine) - pages_before,
            requests: after.io_requests - before.io_requests,
            bytes: after.io_bytes - before.io_bytes,
        })
    }
}

/// A new engine with the table.
async fn open(config: EngineConfig, table: &Path) -> Result<Session> {
    let failed = |error| BenchError::engine("opening the table", error);
    let session = Engine::new(config).map_err(failed)?.session();
    session
        .register(TABLE, &table.to_string_lossy())
        .await
        .map_err(failed)?;
    Ok(session)
}

/// Takes all rows.
async fn answer(session: &Session, query: &Query, path: &str, checker: &mut Checker) -> Result<()> {
    let mut rows = session
        .sql(&query.sql())
        .await
        .map_err(|error| BenchError::engine(path.to_owned(), error))?;
    while let Some(batch) = rows
        .try_next()
        .await
        .map_err(|error| BenchError::engine(path.to_owned(), error))?
    {
        checker
            .take(&batch)
            .map_err(|difference| mismatch(query, path, difference))?;
    }
    Ok(())
}

/// M1.
fn mismatch(query: &Query, path: &str, difference: String) -> BenchError {
    BenchError::Mismatch {
        query: format!("{} %", query.selectivity),
        policy: format!("the path {path}"),
        reference: "the table as it was drawn".to_owned(),
        difference,
        sql: query.sql(),
    }
}

/// The repeat with the median time, as a point; of an even number, the shorter of the two in the middle. None if there is none.
fn point(query: &Query, path: &str, mut measured: Vec<Measured>) -> Option<Point> {
    // What did not end took longest, and is what counts.
    measured.sort_by_key(|once| once.time.unwrap_or(Duration::MAX));
    let last = measured.last()?;
    let seconds = |once: &Measured| once.time.map(|time| time.as_secs_f64());
    let counts = match last.time {
        Some(_) => measured.get((measured.len() - 1) / 2)?,
        None => last,
    };
    Some(Point {
        selectivity: query.selectivity,
        order_by: query.order_by,
        path: path.to_owned(),
        time_s: seconds(counts),
        pages_read: counts.pages_read,
        requests: counts.requests,
        bytes: counts.bytes,
        rows: counts.rows,
        limit: counts.time.is_none() && counts.error.is_none(),
        error: counts.error.clone(),
        min_s: seconds(measured.first()?),
        max_s: seconds(last),
        repeats: measured.len(),
    })
}

/// Pages that an engine's scans by an index have read so far.
fn pages_read(engine: &Engine) -> u64 {
    engine.metrics().pages_read
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SPEC: Spec = Spec {
        rows: 50_000,
        page_rows: 512,
        seed: 2,
    };

    fn options() -> SmoothOptions {
        SmoothOptions {
            spec: SPEC,
            selectivities: vec![0.0, 1.0, 100.0],
            paths: vec![FULL.to_owned()],
            order_by: vec![false, true],
            device: DeviceKind::Plain,
            memory_bytes: 64 << 20,
            repeats: 2,
            limit: Duration::from_secs(60),
        }
    }

    fn quiet() -> OnProgress {
        Arc::new(|_| {})
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_query_is_measured_by_every_path() {
        let root = tempfile::tempdir().unwrap();
        let table = SPEC.ensure(root.path(), |_| ()).await.unwrap();
        let results = run(&options(), &table, quiet()).await.unwrap();
        assert_eq!((results.rows, results.pages), (50_000, 98));
        let points: Vec<_> = results
            .points
            .iter()
            .map(|p| (p.order_by, p.selectivity, p.path.as_str(), p.repeats))
            .collect();
        let of = |order_by| [0.0, 1.0, 100.0].map(|s| (order_by, s, FULL, 2));
        assert_eq!(points, [of(false), of(true)].concat());
        for point in &results.points {
            assert!(point.time_s >= point.min_s && point.time_s <= point.max_s && !point.limit);
        }
        let all = results.point(false, 100.0, FULL).unwrap();
        assert_eq!(all.rows, 50_000);
        assert!(all.requests > 0 && all.bytes >= 50_000 * 40 && all.bytes < 2 * table.bytes);
        assert_eq!(results.point(true, 0.0, FULL).unwrap().rows, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_that_were_not_asked_for_fail_the_run() {
        let root = tempfile::tempdir().unwrap();
        let table = SPEC.ensure(root.path(), |_| ()).await.unwrap();
        // As many rows with other values: what a path that mixes pages up would give.
        let other = SmoothOptions {
            spec: Spec { seed: 3, ..SPEC },
            ..options()
        };
        let failed = run(&other, &table, quiet()).await.unwrap_err();
        let BenchError::Mismatch { policy, sql, .. } = &failed else {
            panic!("{failed}");
        };
        assert!(
            policy.contains(FULL) && sql.contains("c2 < 1000"),
            "{failed}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_takes_too_long_is_reported_once() {
        let root = tempfile::tempdir().unwrap();
        let table = SPEC.ensure(root.path(), |_| ()).await.unwrap();
        let slow = SmoothOptions {
            selectivities: vec![100.0],
            order_by: vec![false],
            device: DeviceKind::Disk {
                bandwidth: 100_000,
                latency: None,
            },
            limit: Duration::from_millis(300),
            ..options()
        };
        let results = run(&slow, &table, quiet()).await.unwrap();
        let [point] = results.points.as_slice() else {
            panic!("{:?}", results.points);
        };
        assert!(point.limit && point.time_s.is_none() && point.repeats == 1);
        assert_eq!(results.device, "disk");
        // Ten requests for a page of 20 KiB, which takes 0.2 s in sequence: nine times that in all.
        assert!(
            (0.17..0.21).contains(&results.latency_s),
            "{}",
            results.latency_s
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_fails_is_reported_and_the_run_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let table = SPEC.ensure(root.path(), |_| ()).await.unwrap();
        let starved = SmoothOptions {
            // Less than a chunk of the table.
            memory_bytes: 1 << 20,
            selectivities: vec![100.0, 0.0],
            order_by: vec![true],
            ..options()
        };
        let results = run(&starved, &table, quiet()).await.unwrap();
        let failed = results.point(true, 100.0, FULL).unwrap();
        assert!(failed.error.is_some() && failed.time_s.is_none() && !failed.limit);
        assert_eq!(failed.repeats, 1);
        assert!(results.point(true, 0.0, FULL).is_some());
    }

    #[test]
    fn the_median_counts() {
        let query = Query {
            selectivity: 1.0,
            order_by: false,
            expected: Checksum::default(),
        };
        let once = |ms: u64| Measured {
            time: (ms > 0).then(|| Duration::from_millis(ms)),
            error: None,
            rows: ms,
            pages_read: 0,
            requests: 0,
            bytes: 0,
        };
        let of = |times: &[u64]| point(&query, FULL, times.iter().map(|ms| once(*ms)).collect());
        let odd = of(&[30, 10, 20]).unwrap();
        assert_eq!((odd.time_s, odd.rows), (Some(0.02), 20));
        assert_eq!((odd.min_s, odd.max_s), (Some(0.01), Some(0.03)));
        assert_eq!(of(&[30, 10]).unwrap().time_s, Some(0.01));
        let given_up = of(&[30, 0]).unwrap();
        assert_eq!((given_up.time_s, given_up.limit), (None, true));
        assert!(of(&[]).is_none());
    }
}
