//! A query's side of sharing: what is still to come, what has come, what has to be done alone.
//!
//! A member is one execution of a fragment. Its streams are handed chunks by the buffer manager and
//! begin chunk jobs; jobs that other queries began serve it too. Each chunk is claimed by whoever
//! works on it for this member (`scan/claims.rs`), so its rows are counted once, whoever counts
//! them. A job that does not end well gives its chunks back: the member's scan hands them out anew,
//! and the member works on them, and on all that is left, alone, row by row, as it would have done
//! without sharing, and gets the error that it would have got.
//! Not here: who else is a member (`board.rs`), jobs (`job.rs`).
//! I5: a chunk is remembered, or served by one job, or worked on alone. I8: states wait for a
//! member that does not read; they are few, and nobody waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use coscan_core::{ChunkId, ScanId, TableId};
use coscan_storage::pool::{ChunkInfo, Scan};
use datafusion::error::Result;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::program::Sharing;
use super::state_cache::StateCache;
use super::totals::Totals;
use super::work::{FragmentPlan, Work};
use crate::read::FilePlan;
use crate::read::scan::{Judged, Remembers, Running};

/// A table as jobs know it: the buffer pool's number and the table's in it.
pub(crate) type TableKey = (usize, TableId);

/// States of so many rows may wait for a member's streams; jobs of others then serve it no more
/// until it reads on.
const WAITING_ROWS_MAX: usize = 64 << 10;

/// One execution of a fragment.
pub(crate) struct Member {
    plan: Arc<FragmentPlan>,
    cache: Arc<StateCache>,
    totals: Arc<Totals>,
    /// Bytes that this member's session lets the cache hold; 0: it neither asks nor fills it.
    pub(crate) cache_bytes: u64,
    works: Mutex<HashMap<(usize, u64), Planned>>,
    place: OnceLock<Place>,
    ledger: Mutex<Ledger>,
    changed: Notify,
    /// It works row by row from now on.
    alone: AtomicBool,
    pub(crate) counts: Counts,
}

/// A work, and the file plan that it was made of: kept, so that the plan's address names it.
struct Planned {
    _plan: Arc<FilePlan>,
    work: Option<Arc<Work>>,
}

/// Where the member's chunks are.
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
    /// Chunks that jobs work on.
    outstanding: usize,
    /// Chunks that jobs gave back and that the scan does not hand out anew, by position.
    given_back: Vec<usize>,
}

/// How its chunks were worked on.
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

/// A chunk that a job works on for a member. Dropped undelivered, the chunk is given back.
pub(crate) struct Order {
    pub(crate) member: Arc<Member>,
    pub(crate) work: Arc<Work>,
    /// The member's scan.
    pub(crate) scan: ScanId,
    /// Where the chunk is among the member's.
    position: usize,
    running: Arc<Running>,
    delivered: bool,
    /// The buffer manager knows that a job works on it: it hands the chunk out anew if it is given
    /// back.
    pub(crate) handed_out_anew: bool,
    /// The member is served by jobs still if the chunk is given back.
    pub(crate) goes_on_sharing: bool,
}

impl Member {
    /// Made by the board (`board.rs`), whose cache and totals these are.
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

    /// The member's scan is announced. Heard once, by whichever stream comes first.
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

    /// Its table, once its scan is announced.
    pub(crate) fn table(&self) -> Option<TableKey> {
        self.place.get().map(|place| place.table)
    }

    /// What it does with chunks that were judged like this; `None` if that cannot be shared.
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

    /// What it groups by, for people.
    pub(crate) fn grouping(&self) -> String {
        let group: Vec<String> = self.plan.group.iter().map(ToString::to_string).collect();
        group.join(", ")
    }

    /// How many of its chunks jobs work on.
    pub(crate) fn outstanding(&self) -> usize {
        self.ledger.lock().outstanding
    }

    /// Whether it has gone over to working row by row.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// It works row by row from now on: sharing does not pay or does not work.
    pub(crate) fn leave(&self) {
        self.alone.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Whether the chunk is one of its own that nobody works on, and what it would do with it.
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

    /// Claims a chunk for a job; `None` if somebody has it.
    pub(crate) fn order(self: &Arc<Self>, chunk: ChunkId, work: Arc<Work>) -> Option<Order> {
        let place = self.place.get()?;
        let position = *place.positions.get(&chunk)?;
        let running = place.running.upgrade()?;
        // Under one lock: who finds the chunk claimed must find the job outstanding too, or it
        // would not wait for it.
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
            handed_out_anew: false,
            goes_on_sharing: false,
        })
    }

    /// The member's scan need not be handed the chunk of this order any more.
    pub(crate) fn withdraw(&self, order: &Order) {
        if let Some(scan) = self.place.get().and_then(|place| place.scan.upgrade()) {
            scan.withdraw(&[order.position]);
        }
    }

    /// What is remembered of a chunk.
    pub(crate) fn recall(&self, info: &ChunkInfo, work: &Work) -> Option<RecordBatch> {
        if self.cache_bytes == 0 {
            return None;
        }
        self.cache.find(info, &work.key)
    }

    /// States of one chunk more.
    fn add(&self, states: RecordBatch) {
        let mut ledger = self.ledger.lock();
        ledger.rows += states.num_rows();
        if states.num_rows() > 0 {
            ledger.states.push(states);
        }
    }

    /// Takes the states that have come, if they have at least so many rows.
    ///
    /// # Errors
    /// If states have different schemas: a bug.
    pub(crate) fn take(&self, rows_min: usize) -> Result<Option<RecordBatch>> {
        let mut ledger = self.ledger.lock();
        if ledger.states.is_empty() || ledger.rows < rows_min {
            return Ok(None);
        }
        ledger.rows = 0;
        let states = std::mem::take(&mut ledger.states);
        drop(ledger);
        Ok(Some(concat_batches(&self.plan.schema, &states)?))
    }

    /// Waits until no job works for the member; then takes the chunks that jobs gave back and that
    /// its scan does not hand out anew. Cancel safe.
    pub(crate) async fn settled(&self) -> Vec<usize> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a job that ends in between is not missed.
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
    /// Whether anybody still waits for it: the query was not cancelled.
    pub(crate) fn is_awaited(&self) -> bool {
        // A running query's streams hold what is running; orders hold one each.
        Arc::strong_count(&self.running) > self.member.ledger.lock().outstanding
    }

    /// The chunk's states are there.
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

/// Where states came from.
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
            // In this order: who is handed the chunk next must know that it is to be worked on
            // alone, and find it unclaimed.
            if !self.goes_on_sharing {
                self.member.leave();
            }
            self.running.claims.give_back(self.position);
            let kept = (!self.handed_out_anew).then_some(self.position);
            self.member.end(kept);
        }
    }
}
