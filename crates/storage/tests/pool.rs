//! Promised to a buffer pool's consumers, on real Parquet files read through real devices: every
//! scan gets every row exactly once, under every policy and with any number of scans; concurrent
//! scans share reads and decode; memory stays in budget; a failed read fails only the scans that
//! need it; a cancelled call loses no chunk.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "small known numbers"
)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coscan_core::{Policy, StorageModel};
use coscan_storage::StorageError;
use coscan_storage::device::{Fault, Rule, When};
use coscan_storage::pool::{BufferPool, PoolConfig, Scan};

use world::{
    Layout, Operator, POLICIES, ROW_GROUP, ROWS, SUM, column, consume, pool, setup, setup_as, start,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scan_gets_every_row_once() {
    for policy in POLICIES {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let (setup, _) = setup(256 << 20, Vec::new()).await;
            let pool = pool(&setup, policy, model, Some(setup.bytes / 3));
            let view = pool.table(&setup.files).unwrap();
            let all: Vec<usize> = (0..view.chunks().len()).collect();
            assert_eq!(all.len(), 12);
            let mut tasks = Vec::new();
            for n in 0..6 {
                let scan = start(
                    &pool,
                    &view,
                    all.clone(),
                    &["v", "k"][..=(n % 2)],
                    1 + n % 3,
                );
                for _ in 0..=n % 3 {
                    let pause = Duration::from_millis(n as u64);
                    tasks.push((n, tokio::spawn(consume(Arc::clone(&scan), pause))));
                }
            }
            let mut totals: BTreeMap<usize, (i64, u64)> = BTreeMap::new();
            for (n, task) in tasks {
                let (sum, rows) = task.await.unwrap().unwrap();
                let total = totals.entry(n).or_default();
                *total = (total.0 + sum, total.1 + rows);
            }
            for (n, total) in totals {
                assert_eq!(total, (SUM, ROWS as u64), "{policy:?} {model:?} scan {n}");
            }
            assert!(pool.snapshot().used_bytes <= setup.bytes / 3, "I3");
            assert!(pool.snapshot().scans.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_scans_share_reads_and_decode() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let all: Vec<usize> = (0..12).collect();
    let scans: Vec<_> = (0..8)
        .map(|_| start(&pool, &view, all.clone(), &["v"], 1))
        .collect();
    let tasks: Vec<_> = scans
        .iter()
        .map(|scan| tokio::spawn(consume(Arc::clone(scan), Duration::ZERO)))
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), (SUM, ROWS as u64));
    }
    let metrics: Vec<_> = scans.iter().map(|scan| scan.metrics()).collect();
    let loads: u64 = metrics.iter().map(|m| m.loads).sum();
    let decodes: u64 = metrics.iter().map(|m| m.decode_begun).sum();
    assert_eq!(loads, 12, "each chunk was read once for eight scans");
    assert_eq!(decodes, 12, "each segment was decoded once for eight scans");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_stay_from_the_second_scan_on() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let memory = setup.shared.memory();
    // An operator reserves the free memory.
    let operator = Operator::new(memory);
    operator.takes(250 << 20);
    // The first two scans decode every chunk; the third finds all of them decoded.
    for (begun, stays) in [(12, false), (12, true), (0, true)] {
        let scan = start(&pool, &view, (0..12).collect(), &["v"], 1);
        let read = consume(Arc::clone(&scan), Duration::ZERO).await.unwrap();
        assert_eq!(read, (SUM, ROWS as u64));
        let metrics = scan.metrics();
        assert_eq!(
            (metrics.decode_begun, metrics.decode_shared),
            (begun, 12 - begun)
        );
        if stays {
            let arrays = memory.decoded_bytes() + memory.settled_bytes();
            assert!(arrays >= 8 * ROWS as u64);
        } else {
            // The job that decodes the last chunk may still be looking for another batch.
            while memory.decoded_bytes() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_read_fails_only_the_scans_that_need_it() {
    let (setup, faulty) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let bad = view.chunks()[5].file.chunks().chunks[5].columns[1][0].clone();
    let location = view.chunks()[5].file.version().location.clone();
    let fault = Fault::Error(std::io::ErrorKind::InvalidData);
    faulty.add(Rule::new(When::Bytes(location, bad), fault));
    let all: Vec<usize> = (0..12).collect();
    let hit = start(&pool, &view, all, &["v"], 1);
    let spared = start(&pool, &view, vec![0, 1, 2, 3, 4, 6, 7], &["v"], 1);
    let (hit, spared) = tokio::join!(
        consume(hit, Duration::ZERO),
        consume(spared, Duration::ZERO)
    );
    let message = hit.unwrap_err().to_string();
    assert!(
        message.contains("t.parquet") && message.contains("injected"),
        "{message}"
    );
    assert!(message.contains("(row group 5, column v)"), "{message}");
    assert_eq!(spared.unwrap().1, 7 * ROW_GROUP as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_lose_no_chunk() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, (0..12).collect(), &["v"], 2);
    let mut rows = 0;
    for round in 0_u64.. {
        let wait = Duration::from_micros(50 * (round % 7));
        match tokio::time::timeout(wait, scan.next_chunk()).await {
            Err(_) => {}
            Ok(answer) => match answer.unwrap() {
                Some(lease) => rows += lease.info().rows(),
                None => break,
            },
        }
    }
    assert_eq!(rows, ROWS as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_stops_reading_stalls_no_other() {
    for policy in POLICIES {
        let (setup, _) = setup(256 << 20, Vec::new()).await;
        let config = PoolConfig {
            policy,
            model: StorageModel::Nsm,
            buffer_bytes_max: Some(setup.bytes / 3),
            stall_after: Duration::from_millis(100),
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, Arc::clone(&setup.shared));
        let view = pool.table(&setup.files).unwrap();
        let all: Vec<usize> = (0..12).collect();
        let stopped = start(&pool, &view, all.clone(), &["v"], 1);
        let lease = stopped.next_chunk().await.unwrap().unwrap();
        let running = start(&pool, &view, all, &["v"], 1);
        let rows = tokio::time::timeout(
            Duration::from_secs(20),
            consume(Arc::clone(&running), Duration::ZERO),
        );
        assert_eq!(
            rows.await.expect("I8").unwrap(),
            (SUM, ROWS as u64),
            "{policy:?}"
        );
        // The scan that stopped can continue, too.
        let first = lease.info().rows();
        drop(lease);
        assert_eq!(
            consume(stopped, Duration::ZERO).await.unwrap().1 + first,
            ROWS as u64
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_taken_by_operators_shrinks_the_buffer() {
    let limit = 4 << 20;
    let (setup, _) = setup(limit, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Nsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, (0..12).collect(), &["v"], 1);
    consume(Arc::clone(&scan), Duration::ZERO).await.unwrap();
    drop(scan);
    let memory = Arc::clone(setup.shared.memory());
    let held = memory.frame_bytes();
    assert!(held > 0);
    let operator = Operator::new(&memory);
    assert!(operator.asks(limit / 4 * 3), "frames make way");
    assert!(memory.frame_bytes() + memory.operator_bytes() <= limit);
    assert!(!operator.asks(limit / 2), "but not for more than there is");
    operator.gives(limit / 4 * 3);
    assert_eq!(memory.operator_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_without_columns_need_no_read() {
    let (setup, faulty) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let reads = faulty.reads();
    let scan = start(&pool, &view, (0..12).collect(), &[], 1);
    let mut rows = 0;
    while let Some(lease) = scan.next_chunk().await.unwrap() {
        rows += lease.batches().iter().sum::<usize>();
    }
    assert_eq!(rows, ROWS as usize);
    assert_eq!(faulty.reads(), reads);
}

/// Reads all chunks, decoding the string column too; all chunks share its dictionary.
async fn consume_strings(scan: Arc<Scan>) -> Result<u64, StorageError> {
    let (columns, mut rows) = ([column("v"), column("s")], 0);
    while let Some(lease) = scan.next_chunk().await? {
        let mut at = 0;
        while let Some(arrays) = lease.batch(&columns, at).await? {
            for (v, s) in arrays[0]
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .zip(arrays[1].as_string::<i32>())
            {
                assert_eq!(s, Some(format!("row {}", v / 3 % 100).as_str()));
                rows += 1;
            }
            at += 1;
        }
    }
    Ok(rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_that_share_pages_are_whole() {
    for policy in POLICIES {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let (setup, _) = setup_as(256 << 20, Vec::new(), Layout::Pages).await;
            let pool = pool(&setup, policy, model, Some(setup.bytes / 3));
            let view = pool.table(&setup.files).unwrap();
            let count = view.chunks().len();
            assert!(
                count > 5 && !setup.files[0].chunks().shared.is_empty(),
                "{count} chunks"
            );
            let scans = (0..4).map(|n| {
                let chunks: Vec<usize> = (0..count).filter(|c| n == 0 || c % 4 != n).collect();
                let rows: u64 = chunks.iter().map(|&c| view.chunks()[c].rows()).sum();
                (rows, start(&pool, &view, chunks, &["v", "s"], 1))
            });
            let tasks: Vec<_> = scans
                .map(|(rows, scan)| (rows, tokio::spawn(consume_strings(scan))))
                .collect();
            for (rows, task) in tasks {
                assert_eq!(task.await.unwrap().unwrap(), rows, "{policy:?} {model:?}");
            }
            assert!(pool.snapshot().used_bytes <= setup.bytes / 3, "I3");
        }
    }
}

#[tokio::test]
async fn a_neighbours_pages_are_not_taken_for_the_whole_segment() {
    let (setup, _) = setup_as(256 << 20, Vec::new(), Layout::Pages).await;
    // This policy has no turns: no scan waits for the holder of a chunk.
    let pool = pool(&setup, Policy::Elevator, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, vec![0], &["v"], 1);
    let lease = scan.next_chunk().await.unwrap().unwrap();
    assert!(!lease.make_sure_of(&[column("s")]));
    // The next chunk's load brings the dictionary of s, which both chunks share, but not the first
    // chunk's pages.
    let beside = start(&pool, &view, vec![1], &["s"], 1);
    let other = beside.next_chunk().await.unwrap().unwrap();
    assert!(!lease.make_sure_of(&[column("s")]));
    // Both leases have the whole segment once a scan has loaded it.
    let own = start(&pool, &view, vec![0], &["s"], 1);
    let loaded = own.next_chunk().await.unwrap().unwrap();
    assert!(lease.make_sure_of(&[column("s")]));
    for lease in [&lease, &loaded, &other] {
        let [string] = &lease.batch(&[column("s")], 0).await.unwrap().unwrap()[..] else {
            panic!("one column");
        };
        assert!(!string.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_shared_page_fails_all_scans_that_need_it_and_heals() {
    let (setup, faulty) = setup_as(256 << 20, Vec::new(), Layout::Pages).await;
    let pool = pool(
        &setup,
        Policy::Relevance,
        StorageModel::Dsm,
        Some(setup.bytes / 3),
    );
    let view = pool.table(&setup.files).unwrap();
    let all: Vec<usize> = (0..view.chunks().len()).collect();
    let dictionary = setup.files[0]
        .chunks()
        .shared
        .iter()
        .find(|s| s.column == 2)
        .unwrap();
    let location = setup.files[0].version().location.clone();
    let fault = Fault::Error(std::io::ErrorKind::InvalidData);
    faulty.add(Rule::new(
        When::Bytes(location, dictionary.ranges[0].clone()),
        fault,
    ));
    for _ in 0..5 {
        let hit: Vec<_> = (0..3)
            .map(|_| start(&pool, &view, all.clone(), &["v", "s"], 1))
            .collect();
        let spared = start(&pool, &view, all.clone(), &["v"], 1);
        for scan in hit {
            consume_strings(scan).await.unwrap_err();
        }
        assert_eq!(
            consume(spared, Duration::ZERO).await.unwrap().1,
            ROWS as u64
        );
    }
    faulty.heal();
    let scan = start(&pool, &view, all, &["v", "s"], 1);
    assert_eq!(consume_strings(scan).await.unwrap(), ROWS as u64);
}
