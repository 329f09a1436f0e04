//! Promised: a consumer that goes silent holds neither frames nor permission to decode, under
//! every policy, and does not hold up others (I8). When it comes back it gets the rest of its
//! chunk, from the batch where it stopped: each row once, and in order if the scan is ordered
//! (I5). That holds wherever it stopped: before its first batch, in the middle of a call, or
//! between two chunks.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "small known numbers"
)]

mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coscan_core::{Policy, StorageModel};
use coscan_storage::device::{Fault, Rule, When};
use coscan_storage::pool::{
    BufferPool, ChunkLease, PoolConfig, PoolSnapshot, Scan, ScanPart, ScanRequest, TableView,
};
use futures::poll;

use world::{Layout, POLICIES, ROWS, SUM, Setup, column, consume, setup, setup_as, start};

const LAPSE_AFTER: Duration = Duration::from_millis(20);
const BATCH_ROWS: usize = 512;

fn pool(setup: &Setup, policy: Policy, model: StorageModel, lapse_after: Duration) -> BufferPool {
    let config = PoolConfig {
        policy,
        model,
        buffer_bytes_max: Some(setup.bytes / 2),
        lapse_after,
        ..PoolConfig::default()
    };
    BufferPool::new(config, Arc::clone(&setup.shared))
}

/// A consumer that reads at its own pace.
struct Reader {
    scan: Arc<Scan>,
    lease: Option<(ChunkLease, usize)>,
    keys: Vec<i64>,
}

impl Reader {
    fn new(scan: Arc<Scan>) -> Self {
        Self {
            scan,
            lease: None,
            keys: Vec::new(),
        }
    }

    /// Reads one more batch, if there is one.
    async fn read(&mut self) -> bool {
        loop {
            if self.lease.is_none() {
                let Some(mut lease) = self.scan.next_chunk().await.unwrap() else {
                    return false;
                };
                lease.set_batch_rows(BATCH_ROWS);
                self.lease = Some((lease, 0));
            }
            let (lease, at) = self.lease.as_mut().unwrap();
            // Column v is first requested in the middle of a chunk. Without a lapse such a column
            // is decoded from the chunk's first batch on.
            let columns = if *at < 3 {
                vec![column("k")]
            } else {
                vec![column("k"), column("v")]
            };
            let Some(arrays) = lease.batch(&columns, *at).await.unwrap() else {
                self.lease = None;
                continue;
            };
            *at += 1;
            let keys = arrays[0].as_primitive::<Int64Type>().values();
            if let Some(v) = arrays.get(1) {
                let v = v.as_primitive::<Int64Type>().values();
                assert!(v.iter().zip(keys).all(|(v, k)| *v == 3 * k));
            }
            self.keys.extend(keys);
            return true;
        }
    }

    async fn read_all(mut self) -> Vec<i64> {
        while self.read().await {}
        self.keys
    }
}

fn ordered(pool: &BufferPool, view: &TableView, columns: &[&str]) -> Arc<Scan> {
    let part = ScanPart {
        chunks: (0..view.chunks().len()).collect(),
        columns: columns.iter().map(|&c| c.to_owned()).collect(),
    };
    let request = ScanRequest {
        table: view.clone(),
        parts: vec![part],
        consumers: 1,
        ordered: true,
        devices_max: None,
        label: "ordered".into(),
    };
    Arc::new(pool.scan(request).unwrap())
}

fn held(snapshot: &PoolSnapshot) -> u64 {
    snapshot.scans.iter().map(|scan| scan.chunks_held).sum()
}

fn lapsed(snapshot: &PoolSnapshot) -> u64 {
    snapshot.scans.iter().map(|scan| scan.chunks_lapsed).sum()
}

/// Waits until no consumer holds memory, while `chunks` chunks still belong to consumers.
async fn nothing_is_held(pool: &BufferPool, chunks: u64) {
    let nothing = async {
        loop {
            let snapshot = pool.snapshot();
            if held(&snapshot) == 0 && pool.shared().chunks_in_decode() == 0 {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let nothing = tokio::time::timeout(Duration::from_secs(30), nothing);
    let snapshot = nothing.await.expect("silent consumers hold nothing");
    // The place for the rest of a chunk may have lapsed too.
    let lapsed = lapsed(&snapshot);
    assert!((chunks..=2 * chunks).contains(&lapsed), "{lapsed}");
    assert!(snapshot.chunks.iter().all(|chunk| chunk.pinned.is_empty()));
}

fn all_rows() -> Vec<i64> {
    (0..ROWS).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_consumer_holds_no_memory_and_resumes_where_it_stopped() {
    for policy in POLICIES {
        for (model, layout) in [
            (StorageModel::Dsm, Layout::Pages),
            (StorageModel::Nsm, Layout::RowGroups),
        ] {
            let (setup, _) = setup_as(64 << 20, Vec::new(), layout).await;
            let pool = pool(&setup, policy, model, LAPSE_AFTER);
            let view = pool.table(&setup.files).unwrap();
            let all: Vec<usize> = (0..view.chunks().len()).collect();
            let mut readers = Vec::new();
            for n in 0..8 {
                let scan = match n % 4 {
                    0 => ordered(&pool, &view, &["k", "v"]),
                    _ => start(&pool, &view, all.clone(), &["k", "v"], 1),
                };
                let mut reader = Reader::new(scan);
                for _ in 0..=n {
                    assert!(reader.read().await);
                }
                readers.push((n, reader));
            }
            nothing_is_held(&pool, 8).await;
            // All memory of the silent consumers can be evicted.
            let scan = start(&pool, &view, all.clone(), &["v"], 1);
            let whole = consume(scan, Duration::ZERO).await.unwrap();
            assert_eq!(whole, (SUM, ROWS as u64), "{policy:?} {model:?}");

            let tasks = readers.into_iter().map(|(n, reader)| {
                let task = tokio::spawn(reader.read_all());
                async move { (n, task.await.unwrap()) }
            });
            for (n, mut keys) in futures::future::join_all(tasks).await {
                if n % 4 != 0 {
                    keys.sort_unstable();
                }
                assert_eq!(keys, all_rows(), "{policy:?} {model:?} {n}");
            }
            nothing_is_held(&pool, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lapse_between_any_two_batches_loses_no_row() {
    let (setup, _) = setup_as(64 << 20, Vec::new(), Layout::Pages).await;
    let often = Duration::from_millis(1);
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, often);
    let view = pool.table(&setup.files).unwrap();
    let chunks = vec![1, 4];
    let rows: u64 = chunks.iter().map(|&at| view.chunks()[at].rows()).sum();
    let scan = start(&pool, &view, chunks, &["k", "v"], 2);
    // Two consumers of one scan.
    let readers = [Arc::clone(&scan), Arc::clone(&scan)].map(|scan| async {
        let mut reader = Reader::new(scan);
        while reader.read().await {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        reader.keys
    });
    let mut keys = futures::future::join_all(readers).await.concat();
    keys.sort_unstable();
    assert_eq!(keys.len() as u64, rows);
    keys.dedup();
    assert_eq!(keys.len() as u64, rows);
    let metrics = scan.metrics();
    assert!(metrics.chunks_lapsed > 2, "{metrics:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_untaken_chunk_lapses_and_goes_to_the_next_consumer() {
    let (setup, _) = setup(64 << 20, Vec::new()).await;
    for dropped in [false, true] {
        let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, LAPSE_AFTER);
        let view = pool.table(&setup.files).unwrap();
        let scan = start(&pool, &view, vec![0, 1, 2], &["k", "v"], 1);
        {
            let mut asked = Box::pin(scan.next_chunk());
            assert!(poll!(&mut asked).is_pending(), "it has to be loaded");
            let handed = async {
                while lapsed(&pool.snapshot()) == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let handed = tokio::time::timeout(Duration::from_secs(30), handed);
            handed.await.expect("it lapses");
            nothing_is_held(&pool, 1).await;
            if !dropped {
                let lease = asked.await.unwrap().unwrap();
                let rows = lease.batch(&[column("k")], 0).await.unwrap().unwrap();
                assert!(!rows[0].is_empty());
                drop(lease);
            }
        }
        let left = Reader::new(scan).read_all().await;
        let chunks = if dropped { 3 } else { 2 };
        assert_eq!(left.len(), chunks * world::ROW_GROUP);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_not_polled_lapses_too() {
    let (setup, _) = setup(64 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, LAPSE_AFTER);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, vec![3], &["k", "v", "s"], 1);
    let mut lease = scan.next_chunk().await.unwrap().unwrap();
    lease.set_batch_rows(BATCH_ROWS);
    let columns = [column("k"), column("v")];
    for at in 0..lease.batches().len() {
        let mut call = Box::pin(lease.batch(&columns, at));
        if poll!(&mut call).is_pending() {
            nothing_is_held(&pool, 1).await;
            let arrays = call.await.unwrap().unwrap();
            let keys = arrays[0].as_primitive::<Int64Type>().values();
            let first = 3 * world::ROW_GROUP + at * BATCH_ROWS;
            assert_eq!(keys[0], first as i64);
        }
        nothing_is_held(&pool, 1).await;
    }
    // Single rows of a lapsed chunk.
    let wanted = [7..9, 4_000..4_001];
    let rows = lease.pick(&[column("s")], &wanted).await.unwrap().unwrap();
    let rows: Vec<&str> = rows[0].as_string::<i32>().iter().flatten().collect();
    assert_eq!(rows, ["row 7", "row 8", "row 0"]);
    drop(lease);
    assert!(scan.next_chunk().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_consumers_do_not_hold_up_the_gate() {
    // Memory for one chunk of one column in decode; the test is too short for a consumer to lapse
    // without a waiter.
    let (setup, _) = setup(8 << 20, Vec::new()).await;
    let pool = pool(
        &setup,
        Policy::Relevance,
        StorageModel::Dsm,
        Duration::from_secs(600),
    );
    let view = pool.table(&setup.files).unwrap();
    let mut silent = Vec::new();
    for chunk in 0..4 {
        let scan = start(&pool, &view, vec![chunk], &["k", "v"], 1);
        let mut reader = Reader::new(scan);
        assert!(reader.read().await);
        silent.push(reader);
    }
    let begun = Instant::now();
    let scan = start(&pool, &view, (4..12).collect(), &["v"], 1);
    let (_, rows) = consume(scan, Duration::ZERO).await.unwrap();
    let took = begun.elapsed();
    assert_eq!(rows, 8 * world::ROW_GROUP as u64);
    // With a second of patience for each of its chunks it would take eight seconds.
    assert!(took < Duration::from_secs(4), "{took:?}");
    for reader in silent {
        assert_eq!(reader.read_all().await.len(), world::ROW_GROUP);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunk_that_cannot_be_read_again_fails_its_scan_alone() {
    let (setup, faulty) = setup(64 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, LAPSE_AFTER);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, vec![0], &["k", "v"], 1);
    let mut lease = scan.next_chunk().await.unwrap().unwrap();
    lease.set_batch_rows(BATCH_ROWS);
    lease.batch(&[column("k")], 0).await.unwrap().unwrap();
    nothing_is_held(&pool, 1).await;
    // Chunks of another scan evict it.
    let others = start(&pool, &view, (1..12).collect(), &["k", "v", "s"], 1);
    consume(others, Duration::ZERO).await.unwrap();
    faulty.add(Rule::new(
        When::Always,
        Fault::Error(std::io::ErrorKind::Other),
    ));
    assert!(lease.batch(&[column("k")], 1).await.is_err());
    faulty.heal();
    drop(lease);
    drop(scan);
    nothing_is_held(&pool, 0).await;
    let whole = start(&pool, &view, (0..12).collect(), &["v"], 1);
    let whole = consume(whole, Duration::ZERO).await.unwrap();
    assert_eq!(whole, (SUM, ROWS as u64));
}
