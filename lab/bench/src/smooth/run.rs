//! How long does a query take by each access path, at each selectivity?
//!
//! Source: [SmoothScan18 §7.3].

use std::time::Duration;

use super::outcome::results::{Machine, Point, SmoothResults};
use super::query::checksum::{Checksum, expected};
use super::query::data::{Spec, Table, bound};
use super::query::measure::{Bench, Case, DeviceKind, Expected, Median, select};
use super::query::paths;
use crate::error::Result;
use crate::progress::{OnProgress, Progress};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct SmoothOptions {
    /// The table.
    pub spec: Spec,
    /// Shares of the table's rows, in percent.
    pub selectivities: Vec<f64>,
    /// Access paths, as in [`super::paths::PATHS`].
    pub paths: Vec<String>,
    /// Whether queries have ORDER BY the key: one of the two, or both one after the other.
    pub order_by: Vec<bool>,
    /// The device to read from.
    pub device: DeviceKind,
    /// The engine's memory in bytes: small, so that little of the table is kept.
    pub memory_bytes: u64,
    /// How often each point is measured; at least once.
    pub repeats: usize,
    /// The time limit of a query.
    pub limit: Duration,
}

/// The path without an index.
const FULL: &str = "full";

/// Runs the benchmark on a table that [`Spec::ensure`] made.
///
/// Cancel safety: dropping the future cancels the query that runs.
///
/// # Errors
/// The table or its index cannot be opened or made, or [`crate::BenchError::Mismatch`] if a query
/// returns wrong rows (M1).
pub async fn run(
    options: &SmoothOptions,
    table: &Table,
    on_progress: OnProgress,
) -> Result<SmoothResults> {
    let bounds: Vec<u32> = options.selectivities.iter().map(|s| bound(*s)).collect();
    let expected = expected(&options.spec, &bounds);
    let bench = Bench::new(table, options.device, options.limit, options.repeats);
    if options.paths.iter().any(|path| path != FULL) {
        bench.index(&on_progress).await?;
    }
    let cases = |selectivity: f64, order_by, checksum| {
        let case = |path: &String| Case {
            label: format!("the path {path}"),
            sql: select(bound(selectivity), order_by),
            settings: paths::settings(path, options.memory_bytes),
            memory_bytes: options.memory_bytes,
            answer: Expected::Rows {
                checksum,
                ordered: order_by,
            },
        };
        options.paths.iter().map(case).collect::<Vec<_>>()
    };
    let queries: Vec<(f64, Checksum)> =
        Vec::from_iter(options.selectivities.iter().copied().zip(expected));
    if let Some((selectivity, checksum)) = queries.first() {
        let cases = cases(*selectivity, false, *checksum);
        bench.warm_up(&cases).await?;
    }
    let mut points = Vec::new();
    for order_by in &options.order_by {
        let steps = queries.len() * options.paths.len() * options.repeats;
        let phase = if *order_by { "ORDER BY" } else { "any order" };
        on_progress(Progress::begun(phase, steps));
        for (selectivity, checksum) in &queries {
            let cases = cases(*selectivity, *order_by, *checksum);
            let medians = bench.measure(&cases, &on_progress).await?;
            for (path, median) in options.paths.iter().zip(medians) {
                points.push(point(*selectivity, *order_by, path, median));
            }
        }
    }
    Ok(results(options, table, points))
}

fn results(options: &SmoothOptions, table: &Table, points: Vec<Point>) -> SmoothResults {
    SmoothResults {
        rows: options.spec.rows.into(),
        page_rows: options.spec.page_rows as u64,
        device: options.device.name().to_owned(),
        points,
        seed: options.spec.seed,
        table_bytes: table.bytes,
        pages: table.pages,
        page_bytes: table.page_bytes,
        bandwidth: options.device.bandwidth(),
        latency_s: options.device.latency(table.page_bytes).as_secs_f64(),
        memory_bytes: options.memory_bytes,
        limit_s: options.limit.as_secs_f64(),
        machine: Machine::here(),
        picture: None,
    }
}

fn point(selectivity: f64, order_by: bool, path: &str, median: Median) -> Point {
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    Point {
        selectivity,
        order_by,
        path: path.to_owned(),
        time_s: median.seconds(),
        pages_read: median.of.metric("pages_read"),
        requests: median.of.requests,
        bytes: median.of.bytes,
        rows: median.of.rows,
        limit: median.of.time.is_none() && median.of.error.is_none(),
        min_s: seconds(median.min),
        max_s: seconds(median.max),
        repeats: median.repeats,
        error: median.of.error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::BenchError;
    use crate::smooth::data::Keys;

    const SPEC: Spec = Spec {
        rows: 50_000,
        page_rows: 512,
        seed: 2,
        keys: Keys::Uniform,
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
        // As many rows with other values, as from a path that mixes up pages.
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
        // A page is ten requests and 20 KiB, which takes 0.2 s in sequence: the requests together
        // add nine times that.
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
}
