//! Promised: the budget's count of metadata of files and tables is close to the allocator's, for
//! few files under many chunk sizes and for many files under one. This is the only test of its
//! program, because the allocator counts all threads.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use coscan_core::{Policy, StorageModel};
use coscan_storage::device::Device;
use coscan_storage::pool::FileKey;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use world::{Setup, consume, pool, setup, start};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const COLUMNS: usize = 30;
const ROWS: i64 = 100;

fn allocated() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.bytes_allocated - stats.bytes_deallocated) as u64
}

/// Files of one chunk, with different names.
fn write_days(setup: &Setup, days: usize) -> Vec<std::path::PathBuf> {
    let v: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let columns = (1..COLUMNS).map(|n| (format!("column_{n}"), Arc::clone(&v)));
    let columns = columns.chain([("v".to_owned(), Arc::clone(&v))]);
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let paths = (0..days).map(|day| {
        let path = setup.folder.path().join(format!("day-{day}.parquet"));
        std::fs::write(&path, &bytes).unwrap();
        path
    });
    paths.collect()
}

/// The counted and the allocated bytes of files under different chunk sizes, without the data read
/// from them.
async fn counted_and_allocated(days: usize, settings: u64) -> (u64, u64) {
    let (setup, device) = setup(1 << 30, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let mut keys = Vec::new();
    for path in write_days(&setup, days) {
        let location = Path::from_absolute_path(path).unwrap();
        let version = device.stat(&location).await.unwrap();
        keys.push(FileKey::new("file://", version));
    }
    let memory = setup.shared.memory();
    let read = || pool.snapshot().used_bytes + memory.decoded_bytes() + memory.page_bytes();
    let (counted, taken) = (memory.metadata_bytes(), allocated() - read());
    for chunk_bytes in 1..=settings {
        let files = setup.shared.files().open(&keys, chunk_bytes).await.unwrap();
        let view = pool.table(&files).unwrap();
        let scan = start(&pool, &view, (0..days).collect(), &["v"], 1);
        let (_, rows) = consume(scan, Duration::ZERO).await.unwrap();
        assert_eq!(rows, u64::try_from(days).unwrap() * ROWS.unsigned_abs());
    }
    assert_eq!(pool.snapshot().tables as u64, settings, "all are kept");
    (
        memory.metadata_bytes() - counted,
        allocated() - read() - taken,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_counts_as_much_as_it_takes() {
    // The first round also creates global state.
    for (days, settings) in [(5, 1), (5, 400), (400, 1), (100, 20)] {
        let (counted, allocated) = counted_and_allocated(days, settings).await;
        println!("{days} files, {settings} chunk sizes: {counted} counted, {allocated} allocated");
        if settings > 1 || days > 5 {
            let ratio = counted as f64 / allocated as f64;
            assert!((0.8..1.5).contains(&ratio), "{days}, {settings}: {ratio}");
        }
    }
}
