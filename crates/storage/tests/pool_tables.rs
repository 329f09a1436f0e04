//! Promised: the memory that the pool keeps of replaced files is bounded. The old version's table
//! is dropped, with its frames, when its last scan has ended, and not earlier. Other files of the
//! folder stay in memory. Rows are always those of the version that was planned.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod world;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coscan_core::{Policy, StorageModel};
use coscan_storage::RangeRead;
use coscan_storage::device::Device;
use coscan_storage::pool::{BufferPool, FileKey, ScanMetrics, TableFile};

use world::{Layout, POLICIES, ROWS, SUM, Setup, column, consume, pool, setup, start, write};

const CHUNKS: usize = 12;

async fn open(setup: &Setup, device: &dyn Device, paths: &[&Path]) -> Vec<Arc<TableFile>> {
    let mut keys: Vec<FileKey> = Vec::new();
    for path in paths {
        let location = object_store::path::Path::from_absolute_path(path).unwrap();
        let version = device.stat(&location).await.unwrap();
        keys.push(FileKey::new("file://", version));
    }
    setup.shared.files().open(&keys, 1).await.unwrap()
}

/// Rewrites the file with the same rows, at a later time.
async fn replace(setup: &Setup, name: &str) -> std::path::PathBuf {
    // Longer than a tick of the coarsest known file system clock.
    tokio::time::sleep(Duration::from_millis(12)).await;
    write(&setup.folder, name, Layout::RowGroups)
}

async fn read_all(pool: &BufferPool, files: &[Arc<TableFile>]) -> ScanMetrics {
    let view = pool.table(files).unwrap();
    let all: Vec<usize> = (0..view.chunks().len()).collect();
    assert_eq!(all.len(), CHUNKS * files.len());
    let scan = start(pool, &view, all, &["v"], 1);
    let files = files.len();
    let expected = (
        SUM * i64::try_from(files).unwrap(),
        ROWS as u64 * files as u64,
    );
    assert_eq!(
        consume(Arc::clone(&scan), Duration::ZERO).await.unwrap(),
        expected
    );
    scan.metrics()
}

/// Waits for an effect of the next tick.
async fn until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_footer_that_a_planner_read_serves_scans() {
    let (setup, device) = setup(64 << 20, Vec::new()).await;
    let path = write(&setup.folder, "other.parquet", Layout::RowGroups);
    let location = object_store::path::Path::from_absolute_path(&path).unwrap();
    let key = FileKey::new("file://", device.stat(&location).await.unwrap());
    let files = setup.shared.files();
    assert!(files.footer(&key).is_none());
    let read = files.footer_by(&key, &Planner(&path)).await.unwrap();
    let requests = || device.meter().snapshot().requests;
    let before = requests();
    let unreachable = Planner(Path::new("/nowhere"));
    let again = files.footer_by(&key, &unreachable).await.unwrap();
    let opened = files.open(std::slice::from_ref(&key), 1).await.unwrap();
    assert!(Arc::ptr_eq(&read, &again) && Arc::ptr_eq(&read, opened[0].metadata()));
    assert_eq!(requests(), before, "it is not read again");
    assert!(Arc::ptr_eq(opened[0].schema(), setup.files[0].schema()));
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    read_all(&pool, &opened).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_that_want_a_footer_at_once_share_one_read() {
    let (setup, device) = setup(64 << 20, Vec::new()).await;
    let requests = || device.meter().snapshot().requests;
    let mut keys = vec![];
    for name in ["one.parquet", "many.parquet"] {
        let path = write(&setup.folder, name, Layout::RowGroups);
        let location = object_store::path::Path::from_absolute_path(&path).unwrap();
        keys.push(FileKey::new(
            "file://",
            device.stat(&location).await.unwrap(),
        ));
    }
    let files = setup.shared.files();
    let before = requests();
    files.open(&keys[..1], 1).await.unwrap();
    let once = requests() - before;
    // Whatever chunk size they want, and with planners among them.
    let opened = (0..16).map(|reader| files.open(&keys[1..], 1 + reader % 3));
    let path = setup.folder.path().join("many.parquet");
    let reader = Planner(&path);
    let planned = files.footer_by(&keys[1], &reader);
    let (opened, planned) = futures::join!(futures::future::join_all(opened), planned);
    let planned = planned.unwrap();
    for opened in opened {
        assert!(Arc::ptr_eq(opened.unwrap()[0].metadata(), &planned));
    }
    assert!(once > 0);
    // A planner that came first has read the file without the device.
    assert!(
        requests() - before <= 2 * once,
        "{} requests",
        requests() - before
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_stops_reading_a_footer_does_not_block_others() {
    let (setup, device) = setup(64 << 20, Vec::new()).await;
    let path = write(&setup.folder, "other.parquet", Layout::RowGroups);
    let location = object_store::path::Path::from_absolute_path(&path).unwrap();
    let key = FileKey::new("file://", device.stat(&location).await.unwrap());
    let files = setup.shared.files();
    let mut stopped = Box::pin(files.footer_by(&key, &Stopped));
    assert!(futures::poll!(&mut stopped).is_pending());
    let begun = Instant::now();
    files.footer_by(&key, &Planner(&path)).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// Its reads never end.
struct Stopped;

impl RangeRead for Stopped {
    async fn read(&self, _: &[Range<u64>]) -> coscan_storage::Result<Vec<Bytes>> {
        std::future::pending().await
    }
}

/// Reads a file like a planner, without the device.
struct Planner<'a>(&'a Path);

impl RangeRead for Planner<'_> {
    async fn read(&self, ranges: &[Range<u64>]) -> coscan_storage::Result<Vec<Bytes>> {
        let bytes = Bytes::from(std::fs::read(self.0).unwrap());
        let part = |range: &Range<u64>| bytes.slice(range.start as usize..range.end as usize);
        Ok(ranges.iter().map(part).collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_versions_of_a_file_do_not_accumulate() {
    for policy in POLICIES {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let (setup, device) = setup(256 << 20, Vec::new()).await;
            let pool = pool(&setup, policy, model, None);
            read_all(&pool, &setup.files).await;
            let once = pool.snapshot().used_bytes;
            assert!(once > 0);
            let mut old = Arc::downgrade(&setup.files[0]);
            let Setup {
                folder,
                shared,
                files,
                bytes,
            } = setup;
            drop(files);
            let setup = Setup {
                folder,
                shared,
                files: Vec::new(),
                bytes,
            };
            for _ in 0..5 {
                let path = replace(&setup, "t.parquet").await;
                let files = open(&setup, &*device, &[&path]).await;
                let metrics = read_all(&pool, &files).await;
                assert_eq!(
                    metrics.chunks_from_buffer, 0,
                    "a replaced file is a new one"
                );
                let snapshot = pool.snapshot();
                assert_eq!(snapshot.tables, 1, "{policy:?} {model:?}");
                assert_eq!(snapshot.used_bytes, once, "{policy:?} {model:?}");
                assert_eq!(old.strong_count(), 0, "its footer is gone");
                old = Arc::downgrade(&files[0]);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_keeps_the_version_that_it_reads() {
    let (setup, device) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    read_all(&pool, &setup.files).await;
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, (0..CHUNKS).collect(), &["v"], 1);
    drop(view);
    let lease = scan.next_chunk().await.unwrap().unwrap();
    let path = replace(&setup, "t.parquet").await;
    let files = open(&setup, &*device, &[&path]).await;
    read_all(&pool, &files).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(pool.snapshot().tables, 2, "V1: the scan keeps its table");
    // The whole old version is in memory, so the scan can read to its end.
    let mut rows = lease.info().rows();
    assert!(lease.batch(&[column("v")], 0).await.unwrap().is_some());
    drop(lease);
    rows += consume(Arc::clone(&scan), Duration::ZERO).await.unwrap().1;
    assert_eq!(rows, ROWS as u64);
    drop(scan);
    until(|| pool.snapshot().tables == 1).await;
    let files_now: Vec<String> = pool
        .snapshot()
        .chunks
        .iter()
        .map(|c| c.file.clone())
        .collect();
    assert_eq!(
        files_now.len(),
        CHUNKS,
        "the new version is in memory, and nothing else"
    );
    // A query that planned on the old version and starts late gets a table of it, like any other
    // query.
    let late = pool.table(&setup.files).unwrap();
    assert_eq!(late.chunks().len(), CHUNKS);
    drop(late);
    assert_eq!(read_all(&pool, &files).await.chunks_loaded_for_others, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_keeps_the_files_that_did_not_change() {
    let (setup, device) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let names = ["t.parquet", "u.parquet", "v.parquet", "w.parquet"];
    let mut paths = Vec::new();
    for name in names {
        paths.push(replace(&setup, name).await);
    }
    let all: Vec<&Path> = paths.iter().map(std::path::PathBuf::as_path).collect();
    let four = read_all(&pool, &open(&setup, &*device, &all).await).await;
    assert_eq!(four.loads, 4 * CHUNKS as u64);
    let mut rebuilt = 0;
    for round in 0..12 {
        replace(&setup, "w.parquet").await;
        let files = open(&setup, &*device, &all).await;
        let metrics = read_all(&pool, &files).await;
        // Only the file that changed is read, except in rounds in which the table is replaced.
        match usize::try_from(metrics.loads).unwrap() {
            CHUNKS => assert_eq!(metrics.chunks_from_buffer, 3 * CHUNKS as u64),
            loads => {
                assert_eq!(loads, 4 * CHUNKS, "round {round}");
                rebuilt += 1;
            }
        }
        until(|| pool.snapshot().tables == 1).await;
        let known = pool.snapshot().chunks.len();
        assert!(known <= 2 * 4 * CHUNKS, "{known} chunks in memory");
    }
    assert!((1..=4).contains(&rebuilt), "{rebuilt} of 12 times");
}
