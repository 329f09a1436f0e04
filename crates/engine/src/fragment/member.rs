//! A query's side of sharing: which chunks are in jobs, delivered, or left to process alone?
//!
//! A member is one execution of a fragment. The buffer manager hands chunks to its streams, which
//! start chunk jobs; jobs of other queries serve it, too. A stream or job claims a chunk for the
//! member before it processes the chunk (`read/scan/claims.rs`), so each row is counted once. A
//! job that fails gives the chunk back: the member's scan hands it out a second time, and the
//! member processes it and all remaining chunks alone, row by row. It then returns what it would
//! return without sharing, or the same error.
//! Not here: the other members (`board.rs`), jobs (`job.rs`).
//! I5: a chunk is taken from the cache, or served by one job, or processed alone.
//! I8: the states of a member that does not read are few; they wait, and no other member waits for
//! it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use coscan_core::{ChunkId, ScanId, TableId};
use coscan_storage::Batches;
use coscan_storage::pool::{ChunkInfo, Scan};
use datafusion::error::Result;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::evaluation::{FragmentPlan, Merge, Sharing, Work};
use super::state_cache::StateCache;
use super::totals::Totals;
use crate::read::FilePlan;
use crate::read::prune::WantedBatches;
use crate::read::scan::{Judged, Remembers, Running};

/// Identifies a table among jobs: the number of its buffer pool and its id in that pool.
pub(crate) type TableKey = (usize, TableId);

/// The rows of states that may wait for a member's streams. Beyond that, other queries' jobs do
/// not serve the member until it reads on.
const WAITING_ROWS_MAX: usize = 64 << 10;

/// One execution of a fragment.
pub(crate) struct Member {
    plan: Arc<FragmentPlan>,
    cache: Arc<StateCache>,
    totals: Arc<Totals>,
    /// The bytes that this member's session allows the cache; with 0 the member neither reads nor
    /// fills it.
    pub(crate) cache_bytes: u64,
    works: Mutex<HashMap<(usize, u64), Planned>>,
    place: OnceLock<Place>,
    ledger: Mutex<Ledger>,
    changed: Notify,
    /// Whether the member works row by row.
    alone: AtomicBool,
    pub(crate) counts: Counts,
}

/// A work, and the file plan that it was made from. The plan is kept alive because its address is
/// part of the map's key.
struct Planned {
    _plan: Arc<FilePlan>,
    work: Option<Arc<Work>>,
}

/// The member's scan, and the positions of its chunks in the table.
struct Place {
    table: TableKey,
    positions: HashMap<ChunkId, usize>,
    running: Weak<Running>,
    scan: Weak<Scan>,
    scan_id: ScanId,
}

#[derive(Default)]
struct Ledger {
    /// States that no stream has taken yet.
    states: Vec<RecordBatch>,
    rows: usize,
    /// The number of chunks that jobs are working on.
    outstanding: usize,
    /// The positions of chunks that jobs gave back and that the scan does not hand out again.
    given_back: Vec<usize>,
}

impl Ledger {
    fn take_one(&mut self) -> Option<RecordBatch> {
        let states = self.states.last_mut()?;
        let one = states.slice(0, 1);
        if states.num_rows() > 1 {
            *states = states.slice(1, states.num_rows() - 1);
        } else {
            self.states.pop();
        }
        self.rows -= 1;
        Some(one)
    }
}

/// How the member's chunks were processed.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) remembered: AtomicUsize,
    pub(crate) own_jobs: AtomicUsize,
    pub(crate) others_jobs: AtomicUsize,
    pub(crate) given_back: AtomicUsize,
    pub(crate) query_sets: AtomicUsize,
    pub(crate) conjuncts: AtomicUsize,
    pub(crate) conjuncts_spared: AtomicUsize,
}

/// A chunk that a job processes for a member. An order that is dropped undelivered gives the chunk
/// back.
pub(crate) struct Order {
    pub(crate) member: Arc<Member>,
    pub(crate) work: Arc<Work>,
    /// The member's scan.
    pub(crate) scan: ScanId,
    /// The position of the chunk in the member's table.
    position: usize,
    running: Arc<Running>,
    delivered: bool,
    /// Whether the buffer manager knows of the job; it then hands out again a chunk that is given
    /// back.
    pub(crate) handed_out_again: bool,
    /// Whether jobs may still serve the member after the chunk is given back.
    pub(crate) goes_on_sharing: bool,
}

impl Member {
    /// Called by the board (`board.rs`), which passes its cache and its totals.
    pub(super) fn new(
        plan: Arc<FragmentPlan>,
        cache: Arc<StateCache>,
        totals: Arc<Totals>,
        cache_bytes: u64,
    ) -> Self {
        Self {
            plan,
            cache,
            totals,
            cache_bytes,
            works: Mutex::default(),
            place: OnceLock::new(),
            ledger: Mutex::default(),
            changed: Notify::new(),
            alone: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    /// Records the member's announced scan. Only the first stream's call has an effect.
    pub(crate) fn take_place(&self, running: &Arc<Running>, scan: &Arc<Scan>) {
        let table = (running.pool.number(), running.table.table());
        self.place.get_or_init(|| {
            let chunks = running.table.chunks().iter().enumerate();
            let wanted = chunks.filter(|(at, _)| running.pipelines[*at].is_some());
            Place {
                table,
                positions: wanted.map(|(at, info)| (info.id(), at)).collect(),
                running: Arc::downgrade(running),
                scan: Arc::downgrade(scan),
                scan_id: scan.id(),
            }
        });
    }

    /// The member's table, once its scan is announced.
    pub(crate) fn table(&self) -> Option<TableKey> {
        self.place.get().map(|place| place.table)
    }

    /// The member's work on chunks with this verdict; `None` if it cannot be shared.
    pub(crate) fn work(&self, judged: &Judged) -> Result<Option<Arc<Work>>> {
        let key = (Arc::as_ptr(&judged.plan).addr(), judged.residual);
        let mut works = self.works.lock();
        if let Some(known) = works.get(&key) {
            return Ok(known.work.clone());
        }
        let work = self.plan.work(&judged.plan, judged.residual)?.map(Arc::new);
        let planned = Planned {
            _plan: Arc::clone(&judged.plan),
            work: work.clone(),
        };
        works.insert(key, planned);
        Ok(work)
    }

    /// The grouping expressions, for display.
    pub(crate) fn grouping(&self) -> String {
        let group: Vec<String> = self.plan.group.iter().map(ToString::to_string).collect();
        group.join(", ")
    }

    /// The number of the member's chunks that jobs are working on.
    pub(crate) fn outstanding(&self) -> usize {
        self.ledger.lock().outstanding
    }

    /// Whether the member works row by row.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// Switches the member to row-by-row work: sharing does not pay or does not work.
    pub(crate) fn leave(&self) {
        self.alone.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// The member's work on a chunk; `None` if the chunk is not the member's or is claimed, or if
    /// the member works alone or has too many waiting states.
    pub(crate) fn wants(&self, chunk: ChunkId) -> Option<Arc<Work>> {
        if self.is_alone() {
            return None;
        }
        let place = self.place.get()?;
        let position = *place.positions.get(&chunk)?;
        let running = place.running.upgrade()?;
        if running.claims.is_claimed(position) || self.ledger.lock().rows > WAITING_ROWS_MAX {
            return None;
        }
        let judged = running.judged[position].as_ref()?;
        self.work(judged).ok().flatten()
    }

    /// Claims a chunk for a job; `None` if it is already claimed.
    pub(crate) fn order(self: &Arc<Self>, chunk: ChunkId, work: Arc<Work>) -> Option<Order> {
        let place = self.place.get()?;
        let position = *place.positions.get(&chunk)?;
        let running = place.running.upgrade()?;
        // Both under one lock: a stream that finds the chunk claimed must also find the job
        // outstanding, or it would not wait for the job.
        let mut ledger = self.ledger.lock();
        if !running.claims.claim(position) {
            return None;
        }
        ledger.outstanding += 1;
        drop(ledger);
        Some(Order {
            member: Arc::clone(self),
            work,
            scan: place.scan_id,
            position,
            running,
            delivered: false,
            handed_out_again: false,
            goes_on_sharing: false,
        })
    }

    /// Withdraws the chunk of this order from the member's scan.
    pub(crate) fn withdraw(&self, order: &Order) {
        if let Some(scan) = self.place.get().and_then(|place| place.scan.upgrade()) {
            scan.withdraw(&[order.position]);
        }
    }

    /// The states of a chunk, if they are cached.
    pub(crate) fn recall(&self, info: &ChunkInfo, work: &Work) -> Option<RecordBatch> {
        if self.cache_bytes == 0 {
            return None;
        }
        self.cache.find(info, &work.key)
    }

    /// Adds the states of one chunk.
    fn add(&self, states: RecordBatch) {
        let mut ledger = self.ledger.lock();
        ledger.rows += states.num_rows();
        if states.num_rows() > 0 {
            ledger.states.push(states);
        }
    }

    /// Takes delivered states: all of them if they have at least `rows_min` rows, or one if a
    /// batch may have only one.
    ///
    /// # Errors
    /// If states have different schemas: a bug.
    pub(crate) fn take(&self, rows_min: usize) -> Result<Option<RecordBatch>> {
        let mut ledger = self.ledger.lock();
        if self.plan.merge == Merge::One {
            return Ok(ledger.take_one());
        }
        if ledger.states.is_empty() || ledger.rows < rows_min {
            return Ok(None);
        }
        ledger.rows = 0;
        let states = std::mem::take(&mut ledger.states);
        drop(ledger);
        Ok(Some(concat_batches(&self.plan.schema, &states)?))
    }

    /// Waits until no job works for the member, then takes the chunks that jobs gave back and that
    /// its scan does not hand out again. Cancel safe.
    pub(crate) async fn settled(&self) -> Vec<usize> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that a job that ends in between is not missed.
            changed.as_mut().enable();
            {
                let mut ledger = self.ledger.lock();
                if ledger.outstanding == 0 {
                    return std::mem::take(&mut ledger.given_back);
                }
            }
            changed.await;
        }
    }

    fn end(&self, given_back: Option<usize>) {
        let mut ledger = self.ledger.lock();
        ledger.outstanding -= 1;
        ledger.given_back.extend(given_back);
        drop(ledger);
        self.changed.notify_waiters();
    }
}

impl Remembers for Member {
    fn remembers(&self, chunk: &ChunkInfo, judged: &Judged) -> Result<bool> {
        let Some(work) = self.work(judged)? else {
            self.leave();
            return Ok(false);
        };
        let Some(states) = self.recall(chunk, &work) else {
            return Ok(false);
        };
        self.counts.remembered.fetch_add(1, Ordering::Relaxed);
        self.totals.remembered.fetch_add(1, Ordering::Relaxed);
        self.add(states);
        Ok(true)
    }
}

impl Order {
    /// Whether the member still waits for the order, which means that its query is not over.
    pub(crate) fn is_awaited(&self) -> bool {
        // The streams of a running query hold `running`, and each of its orders holds it once.
        Arc::strong_count(&self.running) > self.member.ledger.lock().outstanding
    }

    /// The batches of the chunk that may hold a row for the member.
    pub(crate) fn wanted_batches(&self, batches: &Batches) -> WantedBatches {
        self.running.wanted_batches(self.position, batches)
    }

    /// Delivers the chunk's states.
    pub(crate) fn deliver(mut self, states: RecordBatch, how: Delivered) {
        self.delivered = true;
        let counts = &self.member.counts;
        let totals = &self.member.totals;
        let total = match how {
            Delivered::Remembered => &totals.remembered,
            Delivered::ByOwnJob(_) | Delivered::ByAnothersJob(_) => &totals.states,
        };
        total.fetch_add(1, Ordering::Relaxed);
        match how {
            Delivered::Remembered => counts.remembered.fetch_add(1, Ordering::Relaxed),
            Delivered::ByOwnJob(_) => counts.own_jobs.fetch_add(1, Ordering::Relaxed),
            Delivered::ByAnothersJob(_) => counts.others_jobs.fetch_add(1, Ordering::Relaxed),
        };
        if let Delivered::ByOwnJob(sharing) | Delivered::ByAnothersJob(sharing) = how {
            let sets = sharing.query_sets;
            counts.query_sets.fetch_max(sets, Ordering::Relaxed);
            counts
                .conjuncts
                .fetch_max(sharing.conjuncts, Ordering::Relaxed);
            counts
                .conjuncts_spared
                .fetch_add(sharing.conjuncts_spared, Ordering::Relaxed);
        }
        self.member.add(states);
        self.member.end(None);
    }
}

/// The source of a chunk's states.
#[derive(Clone, Copy)]
pub(crate) enum Delivered {
    Remembered,
    ByOwnJob(Sharing),
    ByAnothersJob(Sharing),
}

impl Drop for Order {
    fn drop(&mut self) {
        if !self.delivered {
            let (own, all) = (&self.member.counts, &self.member.totals);
            own.given_back.fetch_add(1, Ordering::Relaxed);
            all.given_back.fetch_add(1, Ordering::Relaxed);
            // In this order: the stream to which the chunk is handed next must know that it has to
            // be processed alone, and must find it unclaimed.
            if !self.goes_on_sharing {
                self.member.leave();
            }
            self.running.claims.give_back(self.position);
            let kept = (!self.handed_out_again).then_some(self.position);
            self.member.end(kept);
        }
    }
}
