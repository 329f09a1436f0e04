//! Which page is read when, by each access path? The paper's Figure 14.
//!
//! Idea: two queries on one table, one that selects few rows and one that selects many. An index
//! scan is right for the first and a full scan for the second, and a smooth scan does not know
//! which it has. The picture shows what the engine recorded while they ran: the loads of
//! cooperative scans and the pages that were read by themselves.
//! Not here: drawing (`report/pages.rs`).
//! Bounds: the full and the smooth scan run first; the others are given up after [`PATIENCE`]
//! times as long.
//! Source: [SmoothScan18 §7.2, Figure 14]; we differ: the table is the micro-benchmark's, and its
//! query is the one of §7.3.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::query::checksum::{Checksum, expected};
use super::query::data::{Spec, Table, bound};
use super::query::measure::{
    Bench, Case, DeviceKind, Expected, INDEX_NAME, Measured, Read, TABLE, select,
};
use crate::error::Result;
use crate::progress::{OnProgress, Progress};

/// The options of a picture.
#[derive(Clone, Copy, Debug)]
pub struct PictureOptions {
    /// The table.
    pub spec: Spec,
    /// The device to read from.
    pub device: DeviceKind,
    /// The engine's memory in bytes.
    pub memory_bytes: u64,
    /// The time limit of a query.
    pub limit: Duration,
}

/// The accesses of each path, for each query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Pages of the table.
    pub pages: u64,
    /// Rows of a page.
    pub page_rows: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The device's limit in bytes per second; none if it had no limit.
    pub bandwidth: Option<u64>,
    /// Seconds added to each request.
    pub latency_s: f64,
    /// The queries.
    pub queries: Vec<PicturedQuery>,
}

/// One query by each path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PicturedQuery {
    /// Rows of its result.
    pub rows: u64,
    /// Rows of its result, in percent of the table's.
    pub selectivity: f64,
    /// In the order of [`PICTURED`].
    pub paths: Vec<PicturedPath>,
}

/// What one path read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PicturedPath {
    /// The path's name in `coscan.access_path`.
    pub path: String,
    /// Time until the last row. None if the query was given up or failed.
    pub time_s: Option<f64>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// Reads in the order of time: when, first page, number of pages, whether it is a chunk of a
    /// cooperative scan.
    pub reads: Vec<(f64, u32, u32, bool)>,
}

/// The paths of the picture, in the paper's order.
pub const PICTURED: [&str; 4] = ["full", "index", "sort", "smooth"];

/// Full and smooth scan run first: both are quick for every query, so they show how long to wait
/// for the other paths.
const FIRST: [&str; 2] = ["full", "smooth"];

/// The other paths are given up after this many times the time of the slower of the first two: a
/// longer panel would not fit beside them.
pub const PATIENCE: u32 = 3;

/// The least patience, however fast the first two are.
const PATIENCE_MIN: Duration = Duration::from_millis(250);

/// Results per page of the table for the two queries: a result on few pages, and on nearly all.
const ROWS_PER_PAGE: [f64; 2] = [0.05, 4.0];

/// Chunks per table: enough to see the order in which they are read.
const CHUNKS: u64 = 32;
/// The largest chunk, which is also the engine's default.
const CHUNK_BYTES_MAX: u64 = 16 << 20;
/// The smallest chunk.
const CHUNK_BYTES_MIN: u64 = 64 << 10;

/// Runs the queries on a table that [`Spec::ensure`] made; makes the index if it is not there.
///
/// Cancel safety: dropping the future cancels the query that runs.
///
/// # Errors
/// As [`super::run::run`].
pub async fn picture(
    options: &PictureOptions,
    table: &Table,
    on_progress: &OnProgress,
) -> Result<Picture> {
    let mut bench = Bench::new(table, options.device, options.limit, 1);
    bench.traced = true;
    let steps = 1 + ROWS_PER_PAGE.len() * PICTURED.len();
    on_progress(Progress::begun("pages over time", steps));
    bench.make_index(INDEX_NAME, TABLE, "c2").await?;
    let percents = ROWS_PER_PAGE.map(|rows| rows * 100.0 / options.spec.page_rows as f64);
    let bounds = percents.map(bound);
    let expected = expected(&options.spec, &bounds);
    let first = case(options, table, "smooth", bounds[0], expected[0]);
    bench.warm_up(&[first]).await?;
    on_progress(Progress::Advanced);
    let mut queries = Vec::new();
    for (bound, checksum) in bounds.into_iter().zip(expected) {
        bench.limit = options.limit;
        let mut measured: Vec<(&str, Measured)> = Vec::new();
        let others = PICTURED.into_iter().filter(|path| !FIRST.contains(path));
        for path in FIRST.into_iter().chain(others) {
            if measured.len() == FIRST.len()
                && let Some(slower) = measured.iter().filter_map(|(_, once)| once.time).max()
            {
                bench.limit = options.limit.min((slower * PATIENCE).max(PATIENCE_MIN));
            }
            let case = case(options, table, path, bound, checksum);
            measured.push((path, bench.once(&case).await?));
            on_progress(Progress::Advanced);
        }
        measured.sort_by_key(|(path, _)| PICTURED.iter().position(|known| known == path));
        let paths = measured.into_iter();
        queries.push(PicturedQuery {
            rows: checksum.rows,
            selectivity: checksum.rows as f64 * 100.0 / f64::from(options.spec.rows.max(1)),
            paths: paths
                .map(|(path, once)| pictured(path, once, options.spec.page_rows as u64))
                .collect(),
        });
    }
    Ok(Picture {
        pages: table.pages,
        page_rows: options.spec.page_rows as u64,
        page_bytes: table.page_bytes,
        bandwidth: options.device.bandwidth(),
        latency_s: bench.latency.as_secs_f64(),
        queries,
    })
}

fn case(
    options: &PictureOptions,
    table: &Table,
    path: &str,
    bound: u32,
    checksum: Checksum,
) -> Case {
    let chunk_bytes = (table.bytes / CHUNKS).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
    Case {
        label: format!("the path {path}"),
        sql: select(bound, false),
        settings: vec![
            ("access_path", path.to_owned()),
            // The paper's index scan reads a page for each row.
            ("index_cache", "0".to_owned()),
            ("chunk_bytes", chunk_bytes.to_string()),
        ],
        memory_bytes: options.memory_bytes,
        answer: Expected::Rows {
            checksum,
            ordered: false,
        },
    }
}

fn pictured(path: &str, once: Measured, page_rows: u64) -> PicturedPath {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let read = |read: &Read| {
        let first = read.rows.start / page_rows;
        let end = read.rows.end.div_ceil(page_rows);
        // Rounded to a tenth of a millisecond: there are thousands of reads.
        let time = (read.time.as_secs_f64() * 1e4).round() / 1e4;
        (time, narrow(first), narrow(end - first), read.chunk)
    };
    PicturedPath {
        path: path.to_owned(),
        time_s: once.time.map(|time| time.as_secs_f64()),
        reads: once.reads.iter().map(read).collect(),
        error: once.error,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::smooth::data::Keys;

    /// The pages of all reads, ascending; a page that was read twice appears twice.
    fn pages(path: &PicturedPath) -> Vec<u32> {
        let mut pages: Vec<u32> = path
            .reads
            .iter()
            .flat_map(|(_, first, pages, _)| *first..first + pages)
            .collect();
        pages.sort_unstable();
        pages
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_path_is_seen_reading_what_it_must() {
        let root = tempfile::tempdir().unwrap();
        let options = PictureOptions {
            spec: Spec {
                rows: 100_000,
                page_rows: 500,
                seed: 5,
                keys: Keys::Uniform,
            },
            device: DeviceKind::Plain,
            memory_bytes: 64 << 20,
            limit: Duration::from_secs(60),
        };
        let table = options.spec.ensure(root.path(), |_| ()).await.unwrap();
        let mut patient = Bench::new(&table, options.device, options.limit, 1);
        patient.traced = true;
        let quiet: OnProgress = Arc::new(|_| {});
        let picture = picture(&options, &table, &quiet).await.unwrap();
        assert_eq!((picture.pages, picture.queries.len()), (200, 2));
        for (query, rows_per_page) in picture.queries.iter().zip(ROWS_PER_PAGE) {
            let wanted = rows_per_page * 200.0;
            assert!(
                (wanted * 0.3..wanted * 3.0).contains(&(query.rows as f64)),
                "{}",
                query.rows
            );
            let paths: Vec<&str> = query.paths.iter().map(|path| path.path.as_str()).collect();
            assert_eq!(paths, PICTURED);
            let full = &query.paths[0];
            assert!(full.reads.iter().all(|(_, _, _, chunk)| *chunk));
            // On a busy machine the other paths may be given up, so they run here without the
            // picture's patience.
            let bound = bound(rows_per_page * 100.0 / 500.0);
            let checksum = expected(&options.spec, &[bound])[0];
            let mut seen = Vec::new();
            for path in ["index", "sort", "smooth"] {
                let once = patient
                    .once(&case(&options, &table, path, bound, checksum))
                    .await;
                seen.push(pictured(path, once.unwrap(), 500));
            }
            let [index, sort, smooth] = seen.as_slice() else {
                panic!("three paths");
            };
            let named: BTreeSet<u32> = pages(sort).into_iter().collect();
            assert_eq!(named.len(), pages(sort).len(), "no page is read twice");
            assert!(named.len() as u64 <= query.rows && !named.is_empty());
            // Statistics may rule out chunks without results.
            let scanned: BTreeSet<u32> = pages(full).into_iter().collect();
            assert!(scanned.is_superset(&named));
            assert!(index.reads.iter().all(|read| read.2 == 1 && !read.3));
            assert_eq!(pages(index).into_iter().collect::<BTreeSet<_>>(), named);
            // The smooth scan reads no page by itself twice. Together with its chunks it reads all
            // pages that hold results.
            let read: BTreeSet<u32> = pages(smooth).into_iter().collect();
            assert!(read.is_superset(&named));
            let singly = smooth.reads.iter().filter(|read| !read.3);
            let singly: Vec<u32> = singly.flat_map(|read| read.1..read.1 + read.2).collect();
            assert_eq!(singly.iter().collect::<BTreeSet<_>>().len(), singly.len());
        }
    }
}
