//! Promised: the memory limit may change while scans run and operators hold memory. Every scan
//! still gets its rows. Frames are evicted first; operators keep what they have and get no more
//! until it fits. A query that can never fit fails with an error, and no other query fails.
//! Operators cannot take from a running scan what its largest chunk needs.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_core::{Policy, StorageModel};
use coscan_storage::StorageError;
use coscan_storage::device::{Fault, Rule, When};
use coscan_storage::pool::MemoryBudget;

use world::{Operator, POLICIES, ROWS, SUM, consume, pool, setup, start};

const CHUNKS: usize = 12;

/// Within this time everything happens that a test waits for without measuring it.
const HAPPENS_WITHIN: Duration = Duration::from_secs(60);

fn all() -> Vec<usize> {
    (0..CHUNKS).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_continue_while_the_limit_moves() {
    for policy in POLICIES {
        let (setup, _) = setup(4 << 20, Vec::new()).await;
        let memory = Arc::clone(setup.shared.memory());
        // Two pools, so that the changing limit has to be divided.
        let pools =
            [StorageModel::Nsm, StorageModel::Dsm].map(|model| pool(&setup, policy, model, None));
        let mut tasks = Vec::new();
        for (n, pool) in pools.iter().cycle().take(6).enumerate() {
            let view = pool.table(&setup.files).unwrap();
            let scan = start(pool, &view, all(), &["v", "k"][..=(n % 2)], 1);
            let pause = Duration::from_millis(n as u64);
            tasks.push(tokio::spawn(consume(scan, pause)));
        }
        let largest = largest_chunk(&setup);
        let limits = [2 * largest, 8 << 20, 3 * largest, setup.bytes];
        for limit in limits.iter().cycle() {
            memory.set_limit(*limit);
            assert_eq!(memory.limit(), *limit);
            tokio::time::sleep(Duration::from_millis(1)).await;
            if tasks.iter().all(tokio::task::JoinHandle::is_finished) {
                break;
            }
        }
        for task in tasks {
            assert_eq!(
                task.await.unwrap().unwrap(),
                (SUM, ROWS as u64),
                "{policy:?}"
            );
        }
        memory.set_limit(2 * largest);
        assert!(memory.frame_bytes() <= 2 * largest, "I3");
        assert!(
            memory.decoded_bytes() <= 2 * largest,
            "idle arrays are dropped"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_arrays_keep_the_unused_memory() {
    let limit = 2 << 20;
    let (setup, _) = setup(limit, Vec::new()).await;
    let memory = setup.shared.memory();
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let read = async || {
        let scan = start(&pool, &view, all(), &["v"], 1);
        let read = consume(Arc::clone(&scan), Duration::ZERO).await.unwrap();
        assert_eq!(read, (SUM, ROWS as u64));
        scan.metrics().decode_begun
    };
    let arrays = 8 * ROWS as u64;
    assert!(arrays > limit / 8, "more than are kept in place of frames");
    // Arrays are kept from the first scan on.
    assert_eq!(read().await, CHUNKS as u64);
    assert_eq!(read().await, 0);
    assert_eq!(read().await, 0);
    let (decoded, frames) = (memory.decoded_bytes(), memory.frame_bytes());
    assert!(decoded >= arrays, "{memory:?}");
    // An operator takes all memory except that of the frames, the part in which arrays may
    // displace frames, and the reserve; frames stay.
    let wanted = limit - frames - limit / 8 - limit / 16;
    let operator = Operator::new(memory);
    assert!(operator.asks(wanted), "{memory:?}");
    assert!(memory.decoded_bytes() < decoded, "{memory:?}");
    assert!(memory.decoded_bytes() + wanted + memory.frame_bytes() <= limit);
    assert_eq!(memory.frame_bytes(), frames);
    // While memory is short, arrays keep to that part; once it is free, all arrays are kept.
    assert!(read().await > 0);
    assert!(memory.decoded_bytes() <= limit / 8 + arrays / CHUNKS as u64);
    operator.gives(wanted);
    read().await;
    assert_eq!(read().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_arrays_yield_to_frames() {
    let (all_columns, arrays) = (["k", "v", "s"], 8 * ROWS as u64);
    let (setup, _) = setup(arrays + (1 << 20), Vec::new()).await;
    let memory = setup.shared.memory();
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let first = start(&pool, &view, all(), &["v"], 1);
    consume(Arc::clone(&first), Duration::ZERO).await.unwrap();
    assert!(memory.decoded_bytes() >= arrays, "{memory:?}");
    let frames = memory.frame_bytes();
    let second = start(&pool, &view, all(), &all_columns, 1);
    let read = consume(Arc::clone(&second), Duration::ZERO).await.unwrap();
    assert_eq!(read, (SUM, ROWS as u64));
    assert!(2 * memory.frame_bytes() > 3 * frames, "{memory:?}");
    assert!(memory.decoded_bytes() < arrays, "{memory:?}");
    assert!(
        memory.frame_bytes() + memory.decoded_bytes() <= memory.limit(),
        "I3"
    );
}

/// Bytes in memory of the largest chunk, over all its columns.
fn largest_chunk(setup: &world::Setup) -> u64 {
    let chunks = setup.files[0].chunks();
    let pages = |range: &std::ops::Range<u64>| coscan_storage::device::footprint(range);
    let bytes = |chunk: usize| -> u64 {
        let columns = 0..chunks.chunks[chunk].columns.len();
        let ranges = columns.flat_map(|column| chunks.ranges_of(chunk, column));
        ranges.map(|range| pages(&range)).sum()
    };
    (0..chunks.chunks.len()).map(bytes).max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_keep_what_they_have_under_a_lower_limit() {
    let limit = 4 << 20;
    let (setup, _) = setup(limit, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Nsm, None);
    let view = pool.table(&setup.files).unwrap();
    let read = async || {
        let scan = start(&pool, &view, all(), &["v"], 1);
        assert_eq!(consume(scan, Duration::ZERO).await.unwrap().0, SUM);
    };
    read().await;
    let memory = setup.shared.memory();
    let operator = Operator::spilling(memory);
    let ended = operator.ended();
    assert!(operator.asks(2 << 20));
    let held = memory.frame_bytes();
    assert!(held > setup.bytes / 2, "{held}");
    memory.set_limit(1 << 20);
    assert_eq!(
        memory.operator_bytes(),
        (2 << 20) + 1,
        "nothing is taken from them"
    );
    assert!(memory.frame_bytes() <= (1 << 20) / 8, "frames go first");
    assert!(!operator.asks(1), "nothing new until it fits");
    assert!(operator.asks(0), "which is nothing");
    // Scans continue, one chunk at a time.
    read().await;
    operator.gives(3 << 19);
    assert!(!ended(), "it can spill");
    memory.keep_time();
    // The memory that it gave back stays reserved for it for a moment, and counts until then.
    let begun = Instant::now();
    while !operator.asks(1 << 16) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "what fits is given"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!ended(), "it has made room, however long that takes");
    memory.set_limit(4 << 20);
    assert!(operator.asks(2 << 20), "more room, more memory");
    operator.gives((1 << 19) + (1 << 16) + (2 << 20));
    assert_eq!(memory.operator_bytes(), 1);
    read().await;
    assert!(memory.frame_bytes() > setup.bytes / 2, "frames came back");
}

#[test]
fn a_query_that_cannot_spill_ends_when_a_lower_limit_leaves_no_room() {
    let memory = MemoryBudget::new(4 << 20);
    let operator = Operator::new(&memory);
    let ended = operator.ended();
    assert!(operator.asks(2 << 20));
    memory.set_limit(3 << 20);
    assert!(!ended());
    memory.set_limit(1 << 20);
    assert!(ended());
    assert!(!operator.asks(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_scan_whose_chunk_can_never_fit_fails() {
    for policy in POLICIES {
        let (setup, faulty) = setup(4 << 20, Vec::new()).await;
        let pool = pool(&setup, policy, StorageModel::Dsm, None);
        let view = pool.table(&setup.files).unwrap();
        // Six reads end. The others are held until the limit has fallen; each scan needs twelve.
        faulty.add(Rule {
            when: When::Always,
            fault: Fault::Stall(Duration::from_millis(1)),
            times: 6,
        });
        faulty.add(Rule::new(When::Always, Fault::Held));
        let large = start(&pool, &view, all(), &["k", "v"], 2);
        let small = start(&pool, &view, all(), &["s"], 1);
        let waiting: Vec<_> = (0..2)
            .map(|_| tokio::spawn(consume(Arc::clone(&large), Duration::ZERO)))
            .collect();
        let other = tokio::spawn(async move {
            let mut rows = 0;
            while let Some(lease) = small.next_chunk().await? {
                rows += lease.info().rows();
            }
            Ok::<u64, StorageError>(rows)
        });
        let one_is_held = async {
            while faulty.struck() <= 6 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let one_is_held = tokio::time::timeout(HAPPENS_WITHIN, one_is_held).await;
        one_is_held.expect("a read is held");
        let memory = setup.shared.memory();
        memory.set_limit(largest_chunk(&setup) * 2 / 3);
        faulty.heal();
        for task in waiting {
            let error = task.await.unwrap().unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, StorageError::ChunkTooLarge { .. })
                    && text.contains("t.parquet")
                    && text.contains("coscan.memory"),
                "{policy:?}: {text}"
            );
        }
        assert_eq!(other.await.unwrap().unwrap(), ROWS as u64, "{policy:?}");
        drop(large);
        memory.set_limit(4 << 20);
        let again = start(&pool, &view, all(), &["k", "v"], 1);
        assert_eq!(consume(again, Duration::ZERO).await.unwrap().0, SUM);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_leave_a_running_scan_its_largest_chunk() {
    let (setup, _) = setup(4 << 20, Vec::new()).await;
    let largest = largest_chunk(&setup);
    let memory = setup.shared.memory();
    // The floor alone, an eighth, would be too little for a chunk.
    memory.set_limit(4 * largest);
    let pool = pool(&setup, Policy::Relevance, StorageModel::Nsm, None);
    let view = pool.table(&setup.files).unwrap();
    // Like a hash join: its build takes all the memory that it can get, then the probe's scan
    // begins.
    let operator = Operator::new(memory);
    let mut taken = 0;
    while operator.asks(1 << 10) {
        taken += 1 << 10;
    }
    assert!(taken > 3 * largest, "operators get the rest: {taken}");
    let scan = start(&pool, &view, all(), &["v"], 1);
    assert!(!operator.asks(1 << 10));
    let rows = tokio::time::timeout(Duration::from_secs(20), consume(scan, Duration::ZERO)).await;
    assert_eq!(rows.expect("I6").unwrap(), (SUM, ROWS as u64));
    assert!(
        memory.frame_bytes() + memory.operator_bytes() <= memory.limit() + largest,
        "I3, but for that chunk"
    );
    operator.gives(taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_scan_gives_back_untaken_chunks() {
    let (setup, _) = setup(4 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let scan = start(&pool, &view, all(), &["k", "v"], 1);
    // A consumer that asks, but never takes the answer.
    let mut call = Box::pin(scan.next_chunk());
    assert!(futures::poll!(&mut call).is_pending());
    let holds_a_chunk = async {
        while pool.snapshot().scans[0].chunks_held == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let holds_a_chunk = tokio::time::timeout(HAPPENS_WITHIN, holds_a_chunk).await;
    holds_a_chunk.expect("a chunk is loaded");
    setup
        .shared
        .memory()
        .set_limit(largest_chunk(&setup) * 2 / 3);
    assert_eq!(pool.snapshot().scans[0].chunks_held, 0);
    assert!(matches!(
        call.await,
        Err(StorageError::ChunkTooLarge { .. })
    ));
}
