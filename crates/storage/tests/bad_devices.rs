//! Promised: a device that blocks its thread, or panics, affects only the queries that read from
//! it. Queries of other devices continue, a dropped query ends at once, and every query that waits
//! for a panicking device gets the error.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use coscan_core::{Policy, StorageModel};
use coscan_storage::StorageError;
use coscan_storage::device::{Device, Devices, FileVersion, LocalDevice, LocalOptions, Meter};
use coscan_storage::pool::{
    BufferPool, FileCache, FileKey, MemoryBudget, PoolConfig, PoolShared, TableFile,
};
use object_store::path::Path;
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

use world::{Layout, ROWS, SUM, consume, start, write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    Blocks,
    Panics,
}

/// A disk that breaks the contract of [`Device`].
#[derive(Debug)]
struct Bad {
    inner: LocalDevice,
    mood: Mutex<Mood>,
    changed: Condvar,
    struck: AtomicUsize,
}

impl Bad {
    fn set(&self, mood: Mood) {
        *self.mood.lock() = mood;
        self.changed.notify_all();
    }
}

#[async_trait]
impl Device for Bad {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(
        &self,
        file: &FileVersion,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StorageError> {
        {
            let mut mood = self.mood.lock();
            if *mood != Mood::Well {
                self.struck.fetch_add(1, Ordering::Relaxed);
            }
            assert!(*mood != Mood::Panics, "the disk is on fire");
            while *mood == Mood::Blocks {
                self.changed.wait(&mut mood);
            }
        }
        self.inner.read(file, ranges).await
    }

    async fn stat(&self, location: &Path) -> Result<FileVersion, StorageError> {
        self.inner.stat(location).await
    }

    fn meter(&self) -> &Meter {
        self.inner.meter()
    }

    fn request_cost_bytes(&self) -> u64 {
        self.inner.request_cost_bytes()
    }
}

struct World {
    _folders: [TempDir; 2],
    bad: Arc<Bad>,
    pool: BufferPool,
    /// One file on the bad disk, one on another disk.
    files: [Arc<TableFile>; 2],
}

async fn world(model: StorageModel) -> World {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let devices = Arc::new(Devices::default());
    let local = |at: usize| LocalDevice::open(folders[at].path(), &LocalOptions::default());
    let bad = Arc::new(Bad {
        inner: local(0).unwrap(),
        mood: Mutex::new(Mood::Well),
        changed: Condvar::new(),
        struck: AtomicUsize::new(0),
    });
    let both: [Arc<dyn Device>; 2] = [Arc::clone(&bad) as _, Arc::new(local(1).unwrap())];
    for (folder, device) in folders.iter().zip(&both) {
        let url = format!("file://{}", folder.path().display());
        devices.register(&url, Arc::clone(device)).unwrap();
    }
    let shared = PoolShared::new(FileCache::new(devices), MemoryBudget::new(64 << 20), 1).unwrap();
    let mut files = Vec::new();
    for (folder, device) in folders.iter().zip(&both) {
        let path = write(folder, "t.parquet", Layout::RowGroups);
        let location = Path::from_absolute_path(path).unwrap();
        let version = device.stat(&location).await.unwrap();
        let key = FileKey::new("file://", version);
        let opened = shared.files().open(&[key], 1).await;
        files.append(&mut opened.unwrap());
    }
    let config = PoolConfig {
        policy: Policy::Relevance,
        model,
        ..PoolConfig::default()
    };
    World {
        _folders: folders,
        bad,
        pool: BufferPool::new(config, shared),
        files: files.try_into().unwrap(),
    }
}

impl World {
    /// A query over all of one of the files.
    fn query(&self, file: usize) -> tokio::task::JoinHandle<Result<(i64, u64), StorageError>> {
        let view = self.pool.table(&self.files[file..=file]).unwrap();
        let scan = start(&self.pool, &view, (0..12).collect(), &["v"], 1);
        tokio::spawn(consume(scan, Duration::ZERO))
    }

    async fn until_struck(&self) {
        while self.bad.struck.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A generous limit for a test.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let soon = tokio::time::timeout(Duration::from_secs(30), what).await;
    soon.expect("it ends")
}

const ALL: (i64, u64) = (SUM, ROWS.cast_unsigned());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_blocks_its_thread_delays_only_its_own_queries() {
    let world = world(StorageModel::Dsm).await;
    world.bad.set(Mood::Blocks);
    let (kept, dropped) = (world.query(0), world.query(0));
    world.until_struck().await;
    assert_eq!(soon(world.query(1)).await.unwrap().unwrap(), ALL);
    let begun = Instant::now();
    dropped.abort();
    assert!(soon(dropped).await.unwrap_err().is_cancelled());
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(!kept.is_finished());
    world.bad.set(Mood::Well);
    assert_eq!(soon(kept).await.unwrap().unwrap(), ALL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_panics_fails_only_its_queries() {
    for model in [StorageModel::Nsm, StorageModel::Dsm] {
        let world = world(model).await;
        world.bad.set(Mood::Panics);
        let (struck, also, well) = (world.query(0), world.query(0), world.query(1));
        for struck in [struck, also] {
            match soon(struck).await.unwrap().unwrap_err() {
                StorageError::Panicked { place, reason } => {
                    assert!(reason.contains("the disk is on fire"), "{reason}");
                    assert!(place.contains("chunk"), "{place}");
                }
                error => panic!("{error:?}"),
            }
        }
        assert_eq!(soon(well).await.unwrap().unwrap(), ALL);
        world.bad.set(Mood::Well);
        assert_eq!(soon(world.query(0)).await.unwrap().unwrap(), ALL);
        assert!(world.pool.snapshot().scans.is_empty());
    }
}
