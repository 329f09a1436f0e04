//! Promised: a chunk job serves each scan that it was begun for once, whichever of the scans ends,
//! fails or falls silent. Chunks that it does not serve are handed out again, and its own chunk
//! stays in memory. The core's log, jobs included, replays action for action. All this holds under
//! every policy, with scans that come and go every millisecond.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small known numbers"
)]

mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coscan_core::{Policy, ScanId, StorageModel};
use coscan_sim::{Random, replay};
use coscan_storage::StorageError;
use coscan_storage::device::{Fault, Rule, When};
use coscan_storage::pool::{
    BufferPool, ChunkJob, ChunkLease, PoolConfig, Recorder, Scan, TableView,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use world::{Layout, POLICIES, ROWS, SUM, Setup, column, pool, setup, setup_as, start};

const CHUNKS: usize = 12;

fn all(view: &TableView) -> Vec<usize> {
    (0..view.chunks().len()).collect()
}

/// The sum of v over the chunk, and the number of its rows.
async fn sum_of(lease: &ChunkLease) -> Result<(i64, u64), StorageError> {
    let (mut sum, mut rows, mut at) = (0, 0, 0);
    while let Some(arrays) = lease.batch(&[column("v")], at).await? {
        let values = arrays[0].as_primitive::<Int64Type>();
        sum += values.values().iter().sum::<i64>();
        rows += values.len() as u64;
        at += 1;
    }
    Ok((sum, rows))
}

#[tokio::test]
async fn a_job_does_a_chunk_for_all_scans_that_want_it() {
    for policy in POLICIES {
        let (setup, _) = setup(256 << 20, Vec::new()).await;
        let pool = pool(&setup, policy, StorageModel::Dsm, None);
        let view = pool.table(&setup.files).unwrap();
        let leader = start(&pool, &view, all(&view), &["v"], 1);
        let members = [
            start(&pool, &view, all(&view), &["v"], 1),
            start(&pool, &view, vec![0, 1, 2], &["v", "k"], 2),
        ];
        let ids: Vec<ScanId> = members.iter().map(|scan| scan.id()).collect();
        let mut sum = 0;
        while let Some(lease) = leader.next_chunk().await.unwrap() {
            let mut job = lease.begin_job(&ids);
            let snapshot = pool.snapshot();
            let in_jobs = |at: usize| snapshot.scans[at].chunks_in_jobs;
            assert_eq!((in_jobs(0), in_jobs(1)), (0, 1), "{policy:?}");
            sum += sum_of(&lease).await.unwrap().0;
            job.serve(leader.id());
            for id in &ids {
                if job.gives_back_to(*id) {
                    job.serve(*id);
                }
            }
        }
        assert_eq!(sum, SUM);
        for (member, chunks) in members.iter().zip([CHUNKS, 3]) {
            assert!(member.next_chunk().await.unwrap().is_none());
            assert_eq!(member.metrics().chunks_joined, chunks as u64);
        }
    }
}

#[tokio::test]
async fn unserved_chunks_of_a_job_are_handed_out_again() {
    for policy in POLICIES {
        let (setup, _) = setup(256 << 20, Vec::new()).await;
        let config = PoolConfig {
            policy,
            record_trace: true,
            ..PoolConfig::default()
        };
        let pool = BufferPool::new(config, Arc::clone(&setup.shared));
        let view = pool.table(&setup.files).unwrap();
        let [leader, served, not_served] =
            [(); 3].map(|()| start(&pool, &view, vec![0], &["v"], 1));
        let lease = leader.next_chunk().await.unwrap().unwrap();
        let mut job = lease.begin_job(&[served.id(), not_served.id()]);
        // No scan is exhausted while a job might give a chunk back.
        let waiting = tokio::spawn({
            let scan = Arc::clone(&not_served);
            async move { scan.next_chunk().await }
        });
        let early = tokio::time::timeout(Duration::from_millis(20), served.next_chunk()).await;
        assert!(early.is_err(), "{policy:?}");
        job.serve(served.id());
        drop(job);
        drop(lease);
        let again = waiting.await.unwrap().unwrap().expect("the chunk");
        assert_eq!(sum_of(&again).await.unwrap().1, ROWS as u64 / CHUNKS as u64);
        drop(again);
        assert!(served.next_chunk().await.unwrap().is_none());
        assert!(not_served.next_chunk().await.unwrap().is_none());
        let [traced] = &pool.job_trace()[..] else {
            panic!("one job: {:?}", pool.job_trace());
        };
        assert_eq!((&*traced.label, traced.chunk), ("test", 0));
        assert_eq!(traced.served, ["test".into()]);
        // The job did not serve the leader itself: its chunk is handed out once more.
        assert_eq!(leader.next_chunk().await.unwrap().unwrap().index(), 0);
        assert!(leader.next_chunk().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn the_query_that_began_a_job_may_end() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    // Memory for about two chunks: an unpinned chunk would be evicted.
    let buffer = Some(setup.bytes / 6);
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, buffer);
    let view = pool.table(&setup.files).unwrap();
    let leader = start(&pool, &view, all(&view), &["v"], 1);
    let member = start(&pool, &view, vec![0], &["v"], 1);
    let lease = loop {
        let lease = leader.next_chunk().await.unwrap().unwrap();
        if lease.index() == 0 {
            break lease;
        }
    };
    let mut job = lease.begin_job(&[member.id()]);
    lease.end_scan();
    drop(leader);
    assert_eq!(pool.snapshot().scans.len(), 1);
    let other = start(&pool, &view, all(&view), &["k", "s"], 1);
    while other.next_chunk().await.unwrap().is_some() {}
    assert_eq!(sum_of(&lease).await.unwrap().1, ROWS as u64 / CHUNKS as u64);
    job.serve(member.id());
    drop((job, lease));
    assert!(member.next_chunk().await.unwrap().is_none());
    drop((member, other));
    let snapshot = pool.snapshot();
    assert!(snapshot.scans.is_empty());
    assert!(snapshot.chunks.iter().all(|chunk| chunk.pinned.is_empty()));
}

#[tokio::test]
async fn members_that_end_or_fail_leave_the_job() {
    let (setup, faulty) = setup(256 << 20, Vec::new()).await;
    let pool = pool(&setup, Policy::Relevance, StorageModel::Dsm, None);
    let view = pool.table(&setup.files).unwrap();
    let [leader, ends] = [(); 2].map(|()| start(&pool, &view, vec![0], &["v"], 1));
    let fails = start(&pool, &view, vec![0, 5], &["v"], 1);
    let lease = leader.next_chunk().await.unwrap().unwrap();
    let job = lease.begin_job(&[ends.id(), fails.id()]);
    let gone = ends.id();
    drop(ends);
    let fault = Fault::Error(std::io::ErrorKind::InvalidData);
    faulty.add(Rule::new(When::Every(1), fault));
    // Chunk 5 may be in memory already. If it is not, the scan fails, and the job is not involved.
    let _chunk = fails.next_chunk().await;
    assert!(job.gives_back_to(gone));
    drop(job);
    drop(lease);
    assert_eq!(leader.next_chunk().await.unwrap().unwrap().index(), 0);
}

#[tokio::test]
async fn chunks_that_lapsed_or_have_no_bytes_are_withdrawn_instead() {
    let (setup, _) = setup(256 << 20, Vec::new()).await;
    let config = PoolConfig {
        lapse_after: Duration::from_millis(5),
        ..PoolConfig::default()
    };
    let pool = BufferPool::new(config, Arc::clone(&setup.shared));
    let view = pool.table(&setup.files).unwrap();
    let leader = start(&pool, &view, vec![0], &["v"], 1);
    let member = start(&pool, &view, vec![0, 1], &["v"], 1);
    let without_bytes = start(&pool, &view, vec![0, 1], &[], 1);
    let lease = leader.next_chunk().await.unwrap().unwrap();
    let held = || pool.snapshot().scans[0].chunks_held;
    while held() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let job = lease.begin_job(&[member.id(), without_bytes.id()]);
    assert!(!job.gives_back_to(leader.id()) && !job.gives_back_to(member.id()));
    assert!(!job.gives_back_to(without_bytes.id()));
    assert_eq!(sum_of(&lease).await.unwrap().1, ROWS as u64 / CHUNKS as u64);
    drop((job, lease));
    for scan in [member, without_bytes] {
        assert_eq!(scan.next_chunk().await.unwrap().unwrap().index(), 1);
        assert!(scan.next_chunk().await.unwrap().is_none());
    }
    assert!(leader.next_chunk().await.unwrap().is_none());
}

/// A query, with its results by chunk.
struct Query {
    scan: Arc<Scan>,
    chunks: Vec<usize>,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    /// By chunk: `None` while a consumer works on it, then its sum and rows.
    claimed: BTreeMap<usize, Option<(i64, u64)>>,
    /// Chunks that jobs gave back and that the scan does not hand out again.
    kept: Vec<usize>,
}

/// A chunk that a job works on for a query.
struct Order {
    query: Arc<Query>,
    chunk: usize,
    handed_out_again: bool,
    delivered: bool,
}

impl Order {
    fn of(query: &Arc<Query>, chunk: usize) -> Option<Self> {
        let mut ledger = query.ledger.lock();
        if ledger.claimed.contains_key(&chunk) || !query.chunks.contains(&chunk) {
            return None;
        }
        ledger.claimed.insert(chunk, None);
        Some(Self {
            query: Arc::clone(query),
            chunk,
            handed_out_again: false,
            delivered: false,
        })
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        if !self.delivered {
            let mut ledger = self.query.ledger.lock();
            ledger.claimed.remove(&self.chunk);
            if !self.handed_out_again {
                ledger.kept.push(self.chunk);
            }
        }
    }
}

/// The fields are dropped in this order, as in the engine.
struct Job {
    orders: Vec<Order>,
    job: ChunkJob,
    lease: ChunkLease,
}

impl Job {
    async fn run(mut self, fails: bool) {
        let found = sum_of(&self.lease).await;
        if fails {
            return;
        }
        let Ok(found) = found else { return };
        for mut order in self.orders.drain(..) {
            let mut ledger = order.query.ledger.lock();
            ledger.claimed.insert(order.chunk, Some(found));
            drop(ledger);
            order.delivered = true;
            self.job.serve(order.query.scan.id());
        }
    }
}

/// One consumer of a query; it leads jobs for those other queries that want its chunk.
async fn lead(query: Arc<Query>, others: Arc<Mutex<Vec<Weak<Query>>>>, seed: u64) {
    let mut random = Random::new(seed);
    while let Some(lease) = query.scan.next_chunk().await.unwrap() {
        let chunk = lease.index();
        if random.below(10) == 0 {
            lease.hand_on();
            continue;
        }
        let Some(host) = Order::of(&query, chunk) else {
            continue;
        };
        let others: Vec<Arc<Query>> = others.lock().iter().filter_map(Weak::upgrade).collect();
        let wants = others.iter().filter(|_| random.below(10) < 8);
        let mut orders = vec![host];
        orders.extend(wants.filter_map(|other| Order::of(other, chunk)));
        let ids = orders.iter().skip(1).map(|order| order.query.scan.id());
        let job = lease.begin_job(&ids.collect::<Vec<_>>());
        for order in &mut orders {
            order.handed_out_again = job.gives_back_to(order.query.scan.id());
        }
        let fails = random.below(5) == 0;
        // A task of its own, as in the engine, so that the job outlives the query that began it.
        let job = Job { orders, job, lease };
        let _ended = tokio::spawn(job.run(fails)).await;
    }
}

/// Waits for jobs of other queries. They may still work for a query whose consumers are done, and
/// may give back chunks that its scan does not hand out.
async fn jobs_ended(query: &Query) {
    while !query.ledger.lock().claimed.values().all(Option::is_some) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Each chunk was counted once, or was left to the query itself.
fn check(query: &Query, view: &TableView, chunks: &[usize]) {
    let ledger = query.ledger.lock();
    let done = ledger.claimed.keys().chain(&ledger.kept);
    let mut done: Vec<usize> = done.copied().collect();
    done.sort_unstable();
    done.dedup();
    assert_eq!(done, chunks);
    for (at, found) in &ledger.claimed {
        let rows = found.expect("counted").1;
        assert_eq!(rows, view.chunks()[*at].rows());
    }
}

async fn idle(pool: &BufferPool) {
    loop {
        let snapshot = pool.snapshot();
        let pinned = snapshot.chunks.iter().any(|chunk| !chunk.pinned.is_empty());
        if snapshot.scans.is_empty() && !pinned {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn come_and_go(setup: &Setup, policy: Policy, model: StorageModel, seed: u64) {
    let path = setup.folder.path().join(format!("{seed}.log"));
    let config = PoolConfig {
        policy,
        model,
        buffer_bytes_max: Some(setup.bytes / 3),
        lapse_after: Duration::from_millis(20),
        stall_after: Duration::from_millis(20),
        recorder: Some(Recorder::to_file(&path)),
        ..PoolConfig::default()
    };
    let pool = BufferPool::new(config, Arc::clone(&setup.shared));
    let view = pool.table(&setup.files).unwrap();
    let count = view.chunks().len();
    let mut random = Random::new(seed);
    let others = Arc::new(Mutex::new(Vec::new()));
    let mut queries = Vec::new();
    for _ in 0..30 {
        let from = random.below(count as u64 / 2) as usize;
        let chunks: Vec<usize> = (from..count).collect();
        let columns = &["v", "k", "s"][..=(random.below(2) as usize)];
        let scan = start(&pool, &view, chunks.clone(), columns, 2);
        let query = Arc::new(Query {
            scan,
            chunks: chunks.clone(),
            ledger: Mutex::default(),
        });
        others.lock().push(Arc::downgrade(&query));
        let leads: Vec<_> = (0..2)
            .map(|_| {
                let lead = lead(Arc::clone(&query), Arc::clone(&others), random.bits());
                tokio::spawn(lead)
            })
            .collect();
        let life = random.below(8);
        if life < 3 {
            let stop: Vec<_> = leads.iter().map(JoinHandle::abort_handle).collect();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(life)).await;
                for stop in stop {
                    stop.abort();
                }
            });
            drop(query);
        } else {
            queries.push((query, chunks, leads));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (query, chunks, leads) in queries {
        for lead in leads {
            lead.await.unwrap();
        }
        jobs_ended(&query).await;
        check(&query, &view, &chunks);
    }
    let over = tokio::time::timeout(Duration::from_secs(20), idle(&pool)).await;
    assert!(
        over.is_ok(),
        "{policy:?} {model:?} {seed}: {:?}",
        pool.snapshot()
    );
    pool.finish_recording();
    let log = std::fs::read_to_string(&path).unwrap();
    assert!(
        !log.contains("\n! "),
        "refused: {policy:?} {model:?} {seed}"
    );
    assert!(log.contains("ChunkJobBegun") && log.contains("ChunkJobEnded"));
    let replayed = replay(log.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert!(!replayed.cut_off && replayed.events > 100, "{replayed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scans_come_and_go_every_millisecond_and_the_log_replays() {
    let mut seed = 0;
    for policy in POLICIES {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let (setup, _) = setup_as(256 << 20, Vec::new(), Layout::Pages).await;
            for _ in 0..3 {
                seed += 1;
                come_and_go(&setup, policy, model, seed).await;
            }
        }
    }
}
