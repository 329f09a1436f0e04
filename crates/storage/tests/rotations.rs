//! Promised: metadata of files and tables stays within its part of the memory budget, whatever
//! clients do: folders whose files always get new names, settings that always change, and both
//! while a scan keeps a table. Metadata in use stays, and rows are right. The heavy version
//! (`--ignored`) also measures the process's memory.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coscan_core::{Policy, StorageModel};
use coscan_storage::device::{Device, Faulty};
use coscan_storage::pool::{BufferPool, FileKey, MemoryBudget, TableFile};
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use world::{Setup, consume, pool, setup, start};

const LIMIT: u64 = 16 << 20;
/// How far metadata in use may exceed the part: a scan keeps its table, and a table keeps its
/// files until most of them are unused.
const IN_USE: u64 = 4 << 20;
/// What a process may take beyond the budget: thread stacks, the allocator's reserves, the test
/// itself.
const BEYOND_BUDGET: u64 = 64 << 20;

/// A file of ten chunks of ten rows, under a new name.
fn write_day(setup: &Setup, day: usize) -> std::path::PathBuf {
    let path = setup.folder.path().join(format!("day-{day}.parquet"));
    let v: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let columns = (0..8).map(|n| (format!("c{n}"), Arc::clone(&v)));
    let columns = columns.chain([("v".to_owned(), Arc::clone(&v))]);
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(10));
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

async fn open(setup: &Setup, device: &Faulty, path: &std::path::Path) -> Vec<Arc<TableFile>> {
    let location = Path::from_absolute_path(path).unwrap();
    let version = device.stat(&location).await.unwrap();
    let files = setup.shared.files();
    let key = FileKey::new("file://", version);
    files.open(&[key], 1).await.unwrap()
}

async fn read(pool: &BufferPool, files: &[Arc<TableFile>]) -> (i64, u64) {
    let view = pool.table(files).unwrap();
    let all = (0..view.chunks().len()).collect();
    let scan = start(pool, &view, all, &["v"], 1);
    consume(scan, Duration::ZERO).await.unwrap()
}

fn check(memory: &MemoryBudget, what: &str) {
    let (known, max) = (memory.metadata_bytes(), memory.metadata_bytes_max());
    assert!(known <= max + IN_USE, "{what}: {known} bytes, of {max}");
}

async fn rotate(days: usize, one_scan_stays: bool) {
    let (setup, device) = setup(LIMIT, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let first = open(&setup, &device, &write_day(&setup, 0)).await;
    let view = pool.table(&first).unwrap();
    let stays = one_scan_stays.then(|| start(&pool, &view, (0..10).collect(), &["v"], 1));
    drop(view);
    let oldest = Arc::downgrade(&first[0]);
    drop(first);
    let mut most = 0;
    for day in 1..days {
        let path = write_day(&setup, day);
        let files = open(&setup, &device, &path).await;
        assert_eq!(read(&pool, &files).await, (4950, 100));
        std::fs::remove_file(path).unwrap();
        most = most.max(pool.snapshot().tables);
        check(setup.shared.memory(), &format!("day {day}"));
    }
    assert!(most <= 4, "{most} tables");
    // The oldest file is kept exactly if a scan still reads it.
    assert_eq!(oldest.strong_count() > 0, one_scan_stays);
    if let Some(scan) = stays {
        assert_eq!(consume(scan, Duration::ZERO).await.unwrap(), (4950, 100));
    }
}

async fn set(settings: u64) {
    let (setup, device) = setup(LIMIT, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let files = open(&setup, &device, &write_day(&setup, 0)).await;
    let key = FileKey::clone(files[0].key());
    drop(files);
    let before = device.reads();
    for chunk_bytes in 1..settings {
        let files = setup.shared.files();
        let files = files.open(std::slice::from_ref(&key), chunk_bytes).await;
        let files = files.unwrap();
        if chunk_bytes == 1 {
            assert_eq!(device.reads(), before, "it is known");
        }
        let opened = device.reads();
        drop(pool.table(&files).unwrap());
        assert_eq!(device.reads(), opened);
        check(setup.shared.memory(), &format!("setting {chunk_bytes}"));
        if chunk_bytes % 500 == 0 {
            assert_eq!(read(&pool, &files).await, (4950, 100));
        }
    }
    let tables = pool.snapshot().tables as u64;
    assert!(tables < settings / 2, "{tables} tables");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_files_are_forgotten() {
    rotate(400, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_files_are_forgotten_while_a_scan_runs() {
    rotate(400, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_settings_are_forgotten() {
    set(2000).await;
}

/// The process's resident memory in bytes (`VmRSS`).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
    4096 * pages
}

#[ignore = "minutes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_stays_within_its_memory() {
    let before = resident();
    rotate(10_000, false).await;
    rotate(10_000, true).await;
    set(10_000).await;
    let grown = resident().saturating_sub(before);
    println!("grown by {grown} bytes");
    assert!(grown <= LIMIT + BEYOND_BUDGET, "{grown} bytes");
}
