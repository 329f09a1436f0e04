//! Promised: a pool that records leaves a log that replays action for action, under every policy,
//! with faults too. A sink that fails or hangs ends the recording and affects no query. Each pool
//! has its own log.

#![allow(clippy::unwrap_used, reason = "tests")]

mod world;

use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coscan_core::{Policy, StorageModel};
use coscan_sim::{Replayed, replay};
use coscan_storage::device::{Fault, Rule, When};
use coscan_storage::pool::{BufferPool, PoolConfig, Recorder};

use world::{Layout, POLICIES, ROWS, SUM, Setup, consume, setup, setup_as, start};

fn recorded(setup: &Setup, policy: Policy, model: StorageModel, recorder: Recorder) -> BufferPool {
    let config = PoolConfig {
        policy,
        model,
        buffer_bytes_max: Some(setup.bytes / 3),
        stall_after: Duration::from_millis(20),
        recorder: Some(recorder),
        ..PoolConfig::default()
    };
    BufferPool::new(config, Arc::clone(&setup.shared))
}

fn replay_file(path: &Path) -> Replayed {
    let file = std::fs::File::open(path).unwrap();
    match replay(BufReader::new(file)) {
        Ok(replayed) => replayed,
        Err(error) => panic!("{error}"),
    }
}

/// Seven scans at once, two of them slow, one cancelled; all on one pool. With faults any of them
/// may fail, because neighbouring columns share a request.
async fn run(setup: &Setup, pool: &BufferPool, faults: bool) {
    let view = pool.table(&setup.files).unwrap();
    let count = view.chunks().len();
    let mut tasks = Vec::new();
    for n in 0..6_usize {
        let chunks = (0..count).filter(|chunk| chunk % (n + 2) > 0).collect();
        let columns = &["v", "k", "s"][..=(n % 2)];
        let scan = start(pool, &view, chunks, columns, 1 + n % 2);
        let pause = Duration::from_millis([0, 0, 1, 30, 0, 2][n]);
        tasks.push(tokio::spawn(consume(scan, pause)));
    }
    tasks.remove(4).abort();
    let failing = start(pool, &view, (0..count).collect(), &["s"], 1);
    while failing
        .next_chunk()
        .await
        .is_ok_and(|lease| lease.is_some())
    {}
    for task in tasks {
        let outcome = task.await.unwrap();
        assert!(faults || outcome.is_ok(), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pools_run_replays_action_for_action() {
    for policy in POLICIES {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let (setup, faulty) = setup_as(256 << 20, Vec::new(), Layout::Pages).await;
            if model == StorageModel::Dsm {
                // A fault in the last bytes of the string column, which only one scan reads.
                let chunks = &setup.files[0].chunks().chunks;
                let bytes = chunks[chunks.len() - 1].columns[2][0].clone();
                let location = setup.files[0].version().location.clone();
                let fault = Fault::Error(io::ErrorKind::InvalidData);
                faulty.add(Rule::new(When::Bytes(location, bytes), fault));
            }
            let path = setup.folder.path().join("core.log");
            let pool = recorded(&setup, policy, model, Recorder::to_file(&path));
            run(&setup, &pool, model == StorageModel::Dsm).await;
            pool.finish_recording();
            let replayed = replay_file(&path);
            assert!(!replayed.cut_off);
            assert!(
                replayed.events > 100 && replayed.actions > 100,
                "{policy:?} {model:?}: {replayed:?}"
            );
            let log = std::fs::read_to_string(&path).unwrap();
            let failed = log.contains("LoadFailed") && log.contains("> Fail ");
            assert_eq!(failed, model == StorageModel::Dsm);
            // A scan after the end of the recording still works.
            faulty.heal();
            let view = pool.table(&setup.files).unwrap();
            let scan = start(&pool, &view, (0..view.chunks().len()).collect(), &["v"], 1);
            let all = consume(scan, Duration::ZERO).await.unwrap();
            assert_eq!(all, (SUM, ROWS.unsigned_abs()));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), log);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pool_has_a_log_and_dropping_it_closes_the_log() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let path = setup.folder.path().join("core.log");
    let recorder = Recorder::to_file(&path);
    for policy in [Policy::Normal, Policy::Relevance] {
        let pool = recorded(&setup, policy, StorageModel::Nsm, recorder.clone());
        let view = pool.table(&setup.files).unwrap();
        let scan = start(&pool, &view, (0..12).collect(), &["v"], 1);
        consume(scan, Duration::ZERO).await.unwrap();
    }
    for (name, policy) in [
        ("core.log", "policy=normal"),
        ("core.log.1", "policy=relevance"),
    ] {
        let path = setup.folder.path().join(name);
        // Dropping the pool does not wait for the log.
        for _ in 0..500 {
            if std::fs::read_to_string(&path).is_ok_and(|log| log.ends_with("end\n")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!replay_file(&path).cut_off);
        assert!(std::fs::read_to_string(&path).unwrap().contains(policy));
    }
}

/// A sink that takes `room` bytes and is then full.
struct Full {
    left: usize,
    refused: Arc<AtomicUsize>,
    written: Arc<parking_lot::Mutex<Vec<u8>>>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        if taken == 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.left -= taken;
        self.written.lock().extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_only_the_recording() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let refused = Arc::new(AtomicUsize::new(0));
    let written = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let sink = (Arc::clone(&refused), Arc::clone(&written));
    let recorder = Recorder::new(move |_| {
        Ok(Box::new(Full {
            left: 2_000,
            refused: Arc::clone(&sink.0),
            written: Arc::clone(&sink.1),
        }))
    });
    let pool = recorded(&setup, Policy::Relevance, StorageModel::Dsm, recorder);
    // Longer than a tick, so that the pool hands lines over while it runs.
    for _ in 0..2 {
        run(&setup, &pool, false).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    pool.finish_recording();
    assert_eq!(refused.load(Ordering::Relaxed), 1, "it is not tried again");
    let written = written.lock();
    assert_eq!(written.len(), 2_000);
    assert!(replay(&written[..]).unwrap().cut_off);
}

/// A sink that hangs until it is released.
struct Hung(Arc<AtomicBool>);

impl Write for Hung {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_disk_that_hangs_delays_no_query() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let hangs = Arc::new(AtomicBool::new(true));
    let hung = Arc::clone(&hangs);
    let recorder = Recorder::new(move |_| Ok(Box::new(Hung(Arc::clone(&hung)))));
    let pool = recorded(&setup, Policy::Relevance, StorageModel::Nsm, recorder);
    let runs = async {
        for _ in 0..3 {
            run(&setup, &pool, false).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), runs)
        .await
        .expect("queries go on");
    drop(pool);
    hangs.store(false, Ordering::Relaxed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_opened_affects_no_query() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let nowhere = setup.folder.path().join("no such folder/core.log");
    let pool = recorded(
        &setup,
        Policy::Relevance,
        StorageModel::Dsm,
        Recorder::to_file(nowhere),
    );
    run(&setup, &pool, false).await;
    pool.finish_recording();
}
