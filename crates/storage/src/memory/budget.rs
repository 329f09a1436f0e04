//! One memory for frames, pages read by themselves, decoded arrays, what is retained and the
//! operators of queries (I3).
//!
//! Idea: the core decides who gets memory (`ledger.rs`); here are its holders. The buffer (frames
//! and arrays without readers, of all pools together) is one holder that gives memory back, and
//! what queries left for others (chunk states, retained runs) is more of them. Decoded arrays with
//! readers and pages read by themselves are needed for progress, so they are never refused. The
//! limit may change while queries run; a scan with a chunk that cannot fit at all fails instead of
//! waiting for ever.
//! Metadata of files and tables (footers, page indexes, chunk maps) counts too, beyond
//! [`METADATA_FREE`]. Unused metadata is kept up to [`MemoryBudget::metadata_bytes_max`]; metadata
//! that queries use stays, whatever its size.
//! Within the buffer, frames get what the core leaves it (`BudgetChanged`), less the arrays without
//! a reader (*idle*), which are a cache. Up to a part of the limit they count like arrays with
//! readers. Beyond that part they may only take memory that nothing else needs: they are kept while
//! there is some, and are dropped to the byte before frames are evicted. Arrays that *settled*
//! (`pool/segment_form.rs`) take the place of frames and count as frames. Frames that only stalled
//! scans need are evicted before idle arrays, because the consumers of these scans may never
//! return.
//! Not here: the choice of victims (coscan-core), spilling (DataFusion), sensible limits (the
//! engine), what the kernel counts (`process.rs`).
//! Bounds: the buffer keeps at least `POOL_FLOOR` of the limit, and each pool at least the largest
//! load of its running scans, so that a query that takes much memory cannot stop all scans.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use coscan_core::memory::{Class, Event, HolderId, OnRefusal, OperatorId, Usage};
use coscan_core::tasks::QueryId;
use parking_lot::{Mutex, MutexGuard};

use super::ledger::{self, Ledger, Refused};
use super::process::Process;
use crate::parquet::PageRules;

/// A pool's side of the budget.
pub(crate) trait Lender: Send + Sync {
    /// Bytes that the pool holds.
    fn held(&self) -> u64;
    /// Whether scans run on the pool.
    fn is_active(&self) -> bool;
    /// The bytes of the largest single load of its running scans.
    fn largest_load_bytes(&self) -> u64;
    /// Sets the bytes that the pool may hold; the pool evicts at once as far as possible.
    fn set_budget(self: Arc<Self>, bytes: u64);
    /// About the bytes of frames that only stalled scans need.
    fn stalled(&self) -> u64;
    /// Evicts about this many bytes of frames that only stalled scans need.
    fn drop_stalled(self: Arc<Self>, bytes: u64);
    /// Drops idle decoded arrays, the least valuable first, until at least `bytes` bytes are freed
    /// or none is left.
    fn drop_idle_arrays(self: Arc<Self>, bytes: u64);
    /// The limit of all memory was lowered: idle arrays are dropped, and scans with a chunk that
    /// can never fit fail.
    fn limit_lowered(self: Arc<Self>, limit: u64);
    /// Drops unused tables, the least recently used first and never the last one: about `_bytes`
    /// bytes of metadata.
    fn drop_idle_tables(self: Arc<Self>, _bytes: u64) {}
}

/// A holder that can give memory back.
pub trait Reclaim: Send + Sync {
    /// Gives back at least `bytes` bytes by [`MemoryBudget::give_back`], or all it has. Called
    /// without any lock of the budget held.
    fn reclaim(&self, bytes: u64);
}

/// What was left by queries for others.
struct Retained {
    bytes: u64,
    from: Weak<dyn Reclaim>,
}

/// The memory of a process: one limit for all its holders.
pub struct MemoryBudget {
    ledger: Ledger,
    buffer: HolderId,
    read_arrays: HolderId,
    read_pages: HolderId,
    kept_metadata: HolderId,
    of_connections: HolderId,
    connections: AtomicU64,
    limit: AtomicU64,
    operators: AtomicU64,
    pages: AtomicU64,
    decoded: AtomicU64,
    /// The part of `decoded` without readers.
    idle: AtomicU64,
    /// Arrays in place of frames. The pools hold these bytes.
    settled: AtomicU64,
    arrays_part: AtomicU64,
    /// Whether there was memory for idle arrays at the last check.
    spare: AtomicBool,
    /// Whether memory was full at the last check, idle arrays included.
    full: AtomicBool,
    /// The highest price of idle arrays that were dropped: nanoseconds of decode per KiB.
    price_dropped: AtomicU64,
    metadata: AtomicU64,
    /// Whether the checksums of pages are passed over.
    unverified: AtomicBool,
    /// What the kernel counts.
    process: Process,
    /// What the process takes beyond what is counted, as far as it counts as taken.
    unaccounted: AtomicU64,
    /// The pools' share at the last division, in steps.
    told: AtomicU64,
    /// Held during a division, so that the last budget a pool is told is the latest.
    dividing: Mutex<()>,
    /// Held while idle arrays are dropped.
    making_way: Mutex<()>,
    lenders: Mutex<Vec<Weak<dyn Lender>>>,
    retained: Mutex<BTreeMap<HolderId, Retained>>,
}

/// What a query is promised of which nothing is known, so that merges begin beside sorts that fill
/// the memory: a part of the limit as a divisor, and the most bytes.
const LITTLE: u64 = 16;
const LITTLE_MAX: u64 = 8 << 20;
/// Between two looks at what the process takes.
const TICK: Duration = Duration::from_millis(200);
/// Nanoseconds to get a KiB of the buffer back. To read it takes a microsecond from a fast disk.
const BUFFER_PRICE: u64 = 1_000;
/// What is retained is cheaper: queries can do without it, and it is small.
const RETAINED_PRICE: u64 = 1;
/// A KiB that an operator spills is written, and read again.
const SPILL_PRICE: u64 = 4_000;

/// The part of the limit that operators cannot take from the buffer pools, as a divisor.
const POOL_FLOOR: u64 = 8;
/// The part of the limit, in thousandths, that arrays may take from frames: at first, and at least.
/// Arrays take more memory than their frames, so the rest is better used for frames, unless devices
/// have time left and the processors have not.
pub(crate) const ARRAYS_PART_MIN: u64 = 125;
/// And at most.
pub(crate) const ARRAYS_PART_MAX: u64 = 1000;
/// What idle arrays may take at most, beside the frames that they were decoded from: up to this
/// part they count like arrays with readers.
const IDLE_PART_MAX: u64 = 350;
/// The steps of memory left free after idle arrays are dropped, so that arrays can come and go
/// without a pass over all of them.
const STEPS_FREED: u64 = 2;
/// The part of the limit, as a divisor, and the most bytes, that idle arrays leave free: the
/// allocator returns the memory of arrays late, and frames cannot use it until then. Twelve TPC-H
/// clients in 2.8 GB took 0.85 GB beyond the counted bytes while arrays were dropped for frames.
const SPARE_LEFT: u64 = 4;
const SPARE_LEFT_MAX: u64 = 1 << 30;
/// Metadata of files and tables does not count up to this size: that of some hundred files, small
/// beside any sensible limit.
pub const METADATA_FREE: u64 = 1 << 20;
/// The part of the limit, as a divisor, above which unused metadata of files and tables is dropped.
const METADATA_KEPT: u64 = 8;
/// Pools are told of changes in steps of this part of the limit, so that not every reservation is
/// an event.
const STEPS: u64 = 64;

/// No writer makes larger pages by default, unless single values are larger.
const UNPACKED_PAGE_BYTES: u64 = 64 << 20;

impl MemoryBudget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        let ledger = Ledger::new(limit);
        Arc::new(Self {
            buffer: ledger.add_holder(Class::Drops(BUFFER_PRICE)),
            read_arrays: ledger.add_holder(Class::Keeps),
            read_pages: ledger.add_holder(Class::Keeps),
            kept_metadata: ledger.add_holder(Class::Keeps),
            of_connections: ledger.add_holder(Class::Connections),
            connections: AtomicU64::default(),
            ledger,
            limit: AtomicU64::new(limit),
            operators: AtomicU64::default(),
            pages: AtomicU64::default(),
            decoded: AtomicU64::default(),
            idle: AtomicU64::default(),
            settled: AtomicU64::default(),
            arrays_part: AtomicU64::new(ARRAYS_PART_MIN),
            spare: AtomicBool::default(),
            full: AtomicBool::default(),
            price_dropped: AtomicU64::default(),
            metadata: AtomicU64::default(),
            unverified: AtomicBool::default(),
            process: Process::default(),
            unaccounted: AtomicU64::default(),
            told: AtomicU64::new(u64::MAX),
            dividing: Mutex::default(),
            making_way: Mutex::default(),
            lenders: Mutex::default(),
            retained: Mutex::default(),
        })
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// What is asked of pages. After decompression a page may have half of the limit, but at least
    /// the size that pages of ordinary files have.
    #[must_use]
    pub fn page_rules(&self) -> PageRules {
        PageRules {
            bytes_max: (self.limit() / 2).max(UNPACKED_PAGE_BYTES),
            checksums: self.verifies_checksums(),
        }
    }

    /// Whether the checksums of pages are verified.
    #[must_use]
    pub fn verifies_checksums(&self) -> bool {
        !self.unverified.load(Ordering::Relaxed)
    }

    /// From now on, the checksums of pages are verified, or not.
    pub fn verify_checksums(&self, verify: bool) {
        self.unverified.store(!verify, Ordering::Relaxed);
    }

    /// Changes the limit, at once and for all users. Memory that operators hold is not taken from
    /// them.
    ///
    /// When this returns, all unpinned frames beyond the limit have been evicted. Under a limit
    /// that is too low for a chunk of a running scan, that scan has failed with `ChunkTooLarge`.
    pub fn set_limit(&self, bytes: u64) {
        let before = self.limit.swap(bytes, Ordering::Relaxed);
        let config = ledger::config(bytes);
        let changed = Event::LimitChanged {
            limit: config.limit,
            reserve: config.reserve,
        };
        self.ledger.tell([changed]);
        self.look();
        if bytes < before {
            for pool in self.pools() {
                pool.limit_lowered(bytes);
            }
        }
        self.divide();
    }

    /// Bytes of operators, and of what is retained.
    #[must_use]
    pub fn operator_bytes(&self) -> u64 {
        self.operators.load(Ordering::Relaxed)
    }

    /// Bytes of pages that were read by themselves, not as part of a chunk. Their readers bound
    /// them by this number.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Bytes of decoded arrays.
    #[must_use]
    pub fn decoded_bytes(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// Bytes of decoded arrays with readers.
    #[must_use]
    pub fn read_array_bytes(&self) -> u64 {
        let idle = self.idle.load(Ordering::Relaxed);
        self.decoded_bytes().saturating_sub(idle)
    }

    /// Bytes of decoded arrays, without idle arrays beyond their part of the limit.
    fn decoded_counted(&self) -> u64 {
        let kept = self.decoded_bytes().min(self.arrays_kept());
        kept.max(self.read_array_bytes())
    }

    /// About the bytes of footers, page indexes, chunk maps and tables. They count in the budget
    /// beyond [`METADATA_FREE`].
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata.load(Ordering::Relaxed)
    }

    /// The most bytes of metadata that are kept; metadata beyond that stays only while it is used.
    #[must_use]
    pub fn metadata_bytes_max(&self) -> u64 {
        (self.limit() / METADATA_KEPT).max(METADATA_FREE)
    }

    /// The process may take this many bytes of memory in all, counted or not: if it takes more,
    /// less may be counted. `beside` gives the room beside a limit for what is not counted, in
    /// bytes. The first call counts.
    pub fn bound_process(&self, bytes: u64, beside: fn(u64) -> u64) {
        self.process.bound(bytes, beside);
    }

    /// From now on time passes for this memory, until it is dropped: a thread ticks.
    pub fn keep_time(self: &Arc<Self>) {
        let memory = Arc::downgrade(self);
        let ticks = move || {
            while let Some(memory) = memory.upgrade() {
                memory.tick();
                drop(memory);
                thread::sleep(TICK);
            }
        };
        if let Err(error) = thread::Builder::new()
            .name("coscan-memory".to_owned())
            .spawn(ticks)
        {
            log::error!("no thread for the memory's clock: {error}");
        }
    }

    /// The process exists for queries alone: it is to take no more than the limit and the room
    /// beside it, however much memory there is.
    pub fn own_process(&self) {
        self.process.own();
    }

    /// The bytes of the limit that count as taken because the process takes more memory than it
    /// may.
    #[must_use]
    pub fn excess_bytes(&self) -> u64 {
        self.unaccounted.load(Ordering::Relaxed)
    }

    /// Time has passed: measures what the process takes, and lets the core look.
    fn tick(&self) {
        let measured = self.process.measure(self.limit());
        let measured = measured.map(|bytes| Event::Measured { bytes });
        self.ledger
            .tell(measured.into_iter().chain([Event::Ticked]));
        let unaccounted = self.ledger.usage().unaccounted.min(self.limit() / 2);
        self.unaccounted.store(unaccounted, Ordering::Relaxed);
        self.look();
    }

    /// How the memory is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.ledger.usage()
    }

    fn metadata_counted(&self) -> u64 {
        self.metadata_bytes().saturating_sub(METADATA_FREE)
    }

    /// The bytes of metadata beyond [`Self::metadata_bytes_max`].
    pub(crate) fn metadata_excess(&self) -> u64 {
        self.metadata_bytes()
            .saturating_sub(self.metadata_bytes_max())
    }

    /// Pools are told with the next change, so this and [`Self::remove_metadata`] may be called
    /// under a pool's lock.
    pub(crate) fn add_metadata(&self, bytes: u64) {
        self.metadata.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_metadata(&self, bytes: u64) {
        self.metadata.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes pools drop unused tables. Not to be called under a pool's lock.
    pub(crate) fn drop_idle_tables(&self) {
        for pool in self.pools() {
            let excess = self.metadata_excess();
            if excess > 0 {
                pool.drop_idle_tables(excess);
            }
        }
    }

    /// Bytes of frames, over all pools.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        self.pools().iter().map(|pool| pool.held()).sum()
    }

    /// A query that begins at once, with little promised to it, or nothing if that is not there.
    #[must_use]
    pub fn begin_query(self: &Arc<Self>) -> Admitted {
        let little = (self.limit() / LITTLE).min(LITTLE_MAX);
        let query = self.ledger.begin(little);
        Admitted {
            memory: Arc::clone(self),
            query,
        }
    }

    /// A query that wants to begin, once the bytes that its operators cannot do without are there.
    /// `None`: too many wait.
    pub async fn arrive(self: &Arc<Self>, minimum: u64) -> Option<Admitted> {
        self.look();
        let (query, admitted) = self.ledger.arrive(minimum);
        let arrived = Admitted {
            memory: Arc::clone(self),
            query,
        };
        admitted.await.is_ok().then_some(arrived)
    }

    /// An equal part of the memory for each query that runs or waits, in bytes.
    #[must_use]
    pub fn equal_part(&self) -> u64 {
        let usage = self.ledger.usage();
        self.limit() / (usage.queries + usage.waiting).max(1) as u64
    }

    /// From now on `on_end` is called when the query has to end, because of its memory.
    pub fn on_end(&self, query: QueryId, on_end: Arc<dyn Fn() + Send + Sync>) {
        self.ledger.on_end(query, on_end);
    }

    /// From now on a query's operators that cannot do without need no more than `minimum` bytes.
    pub fn needs_less(&self, query: QueryId, minimum: u64) {
        self.ledger.tell([Event::QueryNeedsLess { query, minimum }]);
    }

    /// Whether the client of a query does not come back for its rows.
    pub fn silent(&self, query: QueryId, is_silent: bool) {
        self.ledger.tell([if is_silent {
            Event::QuerySilent { query }
        } else {
            Event::QueryHeard { query }
        }]);
    }

    /// An operator of a query begins.
    pub fn begin_operator(&self, operator: OperatorId, query: QueryId, spills: bool) {
        let on_refusal = if spills {
            OnRefusal::Spills(SPILL_PRICE)
        } else {
            OnRefusal::Fails
        };
        self.ledger.tell([Event::OperatorBegan {
            operator,
            query,
            on_refusal,
        }]);
    }

    /// An operator has ended, and freed all.
    pub fn end_operator(&self, operator: OperatorId) {
        self.ledger.tell([Event::OperatorEnded { operator }]);
        self.tell();
    }

    /// Takes memory for an operator. Holders that have to give some back do so meanwhile, on this
    /// thread.
    ///
    /// # Errors
    /// There is none for it.
    pub fn ask(&self, operator: OperatorId, bytes: u64) -> Result<(), Refused> {
        if bytes > 0 {
            self.sync();
            self.ledger.ask(operator, bytes, |holder, bytes| {
                self.reclaim(holder, bytes);
            })?;
            self.operators.fetch_add(bytes, Ordering::Relaxed);
            self.tell();
        }
        Ok(())
    }

    /// An operator has taken memory without asking.
    pub fn took(&self, operator: OperatorId, bytes: u64) {
        self.operators.fetch_add(bytes, Ordering::Relaxed);
        self.ledger.tell([Event::Took { operator, bytes }]);
        self.tell();
    }

    /// An operator has freed memory.
    pub fn gave(&self, operator: OperatorId, bytes: u64) {
        self.operators.fetch_sub(bytes, Ordering::Relaxed);
        self.ledger.tell([Event::Gave { operator, bytes }]);
        self.tell();
    }

    /// Bytes of connections: messages, statements, prepared statements.
    #[must_use]
    pub fn connection_bytes(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes of operators, of what is retained, and of connections.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.operator_bytes() + self.connection_bytes()
    }

    /// Takes memory for a connection; false if queries have all but the reserve, and connections
    /// have that.
    #[must_use]
    pub fn try_hold_for_connection(&self, bytes: u64) -> bool {
        self.sync();
        let room = self.ledger.room(self.of_connections);
        let fits = self.connection_bytes().saturating_add(bytes) <= room;
        if fits {
            self.hold_for_connection(bytes);
        }
        fits
    }

    /// Takes memory for a connection that exists already.
    pub fn hold_for_connection(&self, bytes: u64) {
        self.connections.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Returns a connection's memory.
    pub fn free_of_connection(&self, bytes: u64) {
        self.connections.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// From now on `from` may keep memory, which it gives back before anything else goes.
    pub fn retains(&self, from: Weak<dyn Reclaim>) -> HolderId {
        let holder = self.ledger.add_holder(Class::Drops(RETAINED_PRICE));
        let retained = Retained { bytes: 0, from };
        self.retained.lock().insert(holder, retained);
        holder
    }

    /// Takes memory for something that is retained; false if there is none for it.
    #[must_use]
    pub fn try_keep(&self, holder: HolderId, bytes: u64) -> bool {
        self.sync();
        let room = self.ledger.room(holder);
        let fits = {
            let mut retained = self.retained.lock();
            let Some(retained) = retained.get_mut(&holder) else {
                return false;
            };
            let fits = retained.bytes + bytes <= room;
            retained.bytes += if fits { bytes } else { 0 };
            fits
        };
        if fits {
            self.operators.fetch_add(bytes, Ordering::Relaxed);
            self.tell();
        }
        fits
    }

    /// Returns what was retained.
    pub fn give_back(&self, holder: HolderId, bytes: u64) {
        if let Some(retained) = self.retained.lock().get_mut(&holder) {
            retained.bytes -= bytes;
        }
        self.operators.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Tells the core what holders have now.
    fn sync(&self) {
        let pools = self.pools();
        let frames: u64 = pools.iter().map(|pool| pool.held()).sum();
        let read = self.read_array_bytes();
        let idle = self.decoded_bytes().saturating_sub(read);
        let retained: Vec<(HolderId, u64)> = {
            let retained = self.retained.lock();
            retained
                .iter()
                .map(|(holder, of)| (*holder, of.bytes))
                .collect()
        };
        let keep = [
            (self.read_arrays, read),
            (self.read_pages, self.page_bytes()),
            (self.kept_metadata, self.metadata_counted()),
            (self.of_connections, self.connection_bytes()),
        ];
        let others = retained.into_iter().chain(keep);
        let buffer = (self.buffer, frames + idle, self.floor(&pools));
        let all = others.map(|(holder, bytes)| (holder, bytes, 0));
        self.ledger.tell_held(all.chain([buffer]));
    }

    /// Tells the core what holders have, and has them give back what it wants. Not to be called
    /// under a pool's lock.
    fn look(&self) {
        self.sync();
        self.ledger
            .carry_out(|holder, bytes| self.reclaim(holder, bytes));
    }

    /// Has a holder give memory back.
    fn reclaim(&self, holder: HolderId, bytes: u64) {
        if holder == self.buffer {
            self.shrink_buffer(bytes);
        } else {
            let retained = self
                .retained
                .lock()
                .get(&holder)
                .map(|of| Weak::clone(&of.from));
            if let Some(from) = retained.and_then(|from| from.upgrade()) {
                from.reclaim(bytes);
            }
        }
        self.sync();
        self.ledger.tell([Event::Reclaimed { holder }]);
    }

    fn buffer_bytes(&self) -> u64 {
        let idle = self.decoded_bytes().saturating_sub(self.read_array_bytes());
        self.frame_bytes() + idle
    }

    /// Frees memory of frames and idle arrays.
    fn shrink_buffer(&self, bytes: u64) {
        let aim = self.buffer_bytes().saturating_sub(bytes);
        self.make_way(&mut self.making_way.lock());
        self.divide();
        let mut over = self.buffer_bytes().saturating_sub(aim);
        for pool in self.pools() {
            if over > 0 {
                pool.drop_idle_arrays(over);
                over = self.buffer_bytes().saturating_sub(aim);
            }
        }
    }

    /// Records pages that are read by themselves.
    pub(crate) fn add_pages(&self, bytes: u64) {
        self.pages.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Records that pages read by themselves are freed.
    pub(crate) fn remove_pages(&self, bytes: u64) {
        self.pages.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Records that decoded arrays grew.
    pub(crate) fn add_decoded(&self, bytes: u64) {
        self.decoded.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Records that decoded arrays were dropped. Pools are told with the next change, so this may
    /// be called under a pool's lock.
    pub(crate) fn remove_decoded(&self, bytes: u64) {
        self.decoded.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records that arrays became idle; returns the highest price of those that were dropped.
    pub(crate) fn add_idle(&self, bytes: u64) -> u64 {
        self.idle.fetch_add(bytes, Ordering::Relaxed);
        self.price_dropped.load(Ordering::Relaxed)
    }

    /// Records that idle arrays of this price are dropped.
    pub(crate) fn dropped_at(&self, price: u64) {
        self.price_dropped.fetch_max(price, Ordering::Relaxed);
    }

    /// Records that idle arrays have readers, or were dropped.
    pub(crate) fn remove_idle(&self, bytes: u64) {
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether idle arrays may be kept even in place of frames, because decoded arrays are few.
    pub(crate) fn keeps_few_arrays(&self) -> bool {
        self.decoded_bytes() < self.arrays_kept()
    }

    fn arrays_kept(&self) -> u64 {
        self.limit() / 1000 * self.arrays_part().min(IDLE_PART_MAX)
    }

    /// The part of the limit, in thousandths, that arrays may take from frames.
    pub(crate) fn arrays_part(&self) -> u64 {
        self.arrays_part.load(Ordering::Relaxed)
    }

    /// Changes that part. Pools are told with the next change.
    pub(crate) fn set_arrays_part(&self, thousandths: u64) {
        self.arrays_part.store(thousandths, Ordering::Relaxed);
    }

    /// Whether memory is better used for arrays than for the pages that they come from: it is
    /// full, be it of idle arrays, and arrays have less than their part.
    pub(crate) fn prefers_arrays(&self) -> bool {
        self.full.load(Ordering::Relaxed) && self.has_few_arrays()
    }

    /// Whether arrays have less than their part.
    pub(crate) fn has_few_arrays(&self) -> bool {
        let arrays = self.decoded_bytes() + self.settled_bytes();
        arrays < self.limit() / 1000 * self.arrays_part()
    }

    /// Bytes of arrays that are in memory in place of frames, and count among them.
    #[must_use]
    pub fn settled_bytes(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Records that decoded arrays count among the frames from now on.
    pub(crate) fn settle(&self, bytes: u64) {
        self.settled.fetch_add(bytes, Ordering::Relaxed);
        self.decoded.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records that arrays that counted among the frames were dropped.
    pub(crate) fn remove_settled(&self, bytes: u64) {
        self.settled.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether idle arrays may be kept: there is memory that nothing else needs, or decoded arrays
    /// are few.
    pub(crate) fn keeps_arrays(&self) -> bool {
        self.keeps_spare_arrays() || self.keeps_few_arrays()
    }

    /// Whether there is memory that nothing else needs.
    pub(crate) fn keeps_spare_arrays(&self) -> bool {
        self.spare.load(Ordering::Relaxed)
    }

    /// The bytes that idle arrays leave free.
    fn spare_left(&self) -> u64 {
        (self.limit() / SPARE_LEFT).min(SPARE_LEFT_MAX)
    }

    fn step(&self) -> u64 {
        self.limit() / STEPS
    }

    fn held_beside_operators(&self, pools: &[Arc<dyn Lender>]) -> u64 {
        let frames: u64 = pools.iter().map(|pool| pool.held()).sum();
        let read = self.page_bytes() + self.decoded_bytes();
        let kept = self.metadata_counted() + self.connection_bytes();
        frames + read + kept + self.excess_bytes()
    }

    /// Frees memory that others need: first frames that only stalled scans need, then idle arrays
    /// beyond their part of the limit.
    fn make_way(&self, _one_at_a_time: &mut MutexGuard<'_, ()>) {
        let pools = self.pools();
        for pool in &pools {
            let all = self.operator_bytes() + self.held_beside_operators(&pools);
            let too_many = (all + self.spare_left()).saturating_sub(self.limit());
            let stalled = pool.stalled();
            if too_many > 0 && stalled > 0 {
                let bytes = stalled.min(too_many + STEPS_FREED * self.step());
                Arc::clone(pool).drop_stalled(bytes);
            }
        }
        for pool in &pools {
            let all = self.operator_bytes() + self.held_beside_operators(&pools);
            let too_many = (all + self.spare_left()).saturating_sub(self.limit());
            let spare = self.decoded_bytes().saturating_sub(self.decoded_counted());
            if too_many == 0 || spare == 0 {
                return;
            }
            Arc::clone(pool).drop_idle_arrays(spare.min(too_many + STEPS_FREED * self.step()));
        }
    }

    /// Checks whether there is memory for idle arrays, and drops some if there is none. Not to be
    /// called under a pool's lock.
    pub(crate) fn weigh_arrays(&self) {
        self.weigh(&self.pools());
    }

    fn weigh(&self, pools: &[Arc<dyn Lender>]) {
        let all = self.operator_bytes() + self.held_beside_operators(pools) + self.spare_left();
        let idle = self.decoded_bytes().saturating_sub(self.read_array_bytes());
        let stalled: u64 = pools.iter().map(|pool| pool.stalled()).sum();
        let spare = all.saturating_sub(idle + stalled) + STEPS_FREED * self.step() < self.limit();
        self.spare.store(spare, Ordering::Relaxed);
        let full = all + STEPS_FREED * self.step() >= self.limit();
        self.full.store(full, Ordering::Relaxed);
        // If another thread is in `make_way`, it already frees enough.
        if all > self.limit()
            && let Some(mut one) = self.making_way.try_lock()
        {
            self.make_way(&mut one);
        }
    }

    pub(crate) fn join(&self, pool: Weak<dyn Lender>) {
        self.lenders.lock().push(pool);
        self.divide();
    }

    /// Recomputes the division of the pools' share if it changed by a step. Not to be called under
    /// a pool's lock.
    pub(crate) fn tell(&self) {
        self.look();
        let pools = self.pools();
        self.weigh(&pools);
        if self.told.load(Ordering::Relaxed) != self.steps(self.pool_share(&pools)) {
            self.divide();
        }
    }

    /// Makes the next change reach the pools, whatever they were told last.
    pub(crate) fn forget_told(&self) {
        self.told.store(u64::MAX, Ordering::Relaxed);
    }

    /// The bytes that the pools keep whatever operators need.
    fn floor(&self, pools: &[Arc<dyn Lender>]) -> u64 {
        let loads = pools.iter().map(|pool| pool.largest_load_bytes()).sum();
        (self.limit() / POOL_FLOOR).max(loads).min(self.limit())
    }

    /// The bytes that all pools together may hold: what the core leaves the buffer, less the idle
    /// arrays that count.
    fn pool_share(&self, pools: &[Arc<dyn Lender>]) -> u64 {
        let idle = self
            .decoded_counted()
            .saturating_sub(self.read_array_bytes());
        // Others may take as much as a step before the pools are told.
        let left = self.ledger.room(self.buffer);
        left.saturating_sub(idle + self.step())
            .max(self.floor(pools))
    }

    fn steps(&self, bytes: u64) -> u64 {
        bytes / self.step().max(1)
    }

    /// Each active pool gets its largest load and an equal share of the rest; idle pools get
    /// nothing while a pool is active.
    pub(crate) fn divide(&self) {
        let _last_word = self.dividing.lock();
        let pools = self.pools();
        let share = self.pool_share(&pools);
        self.told.store(self.steps(share), Ordering::Relaxed);
        let active = pools.iter().filter(|pool| pool.is_active()).count() as u64;
        let loads: u64 = pools.iter().map(|pool| pool.largest_load_bytes()).sum();
        let rest = share.saturating_sub(loads);
        let count = pools.len() as u64;
        for pool in pools {
            let bytes = match active {
                0 => share / count,
                _ if pool.is_active() => pool.largest_load_bytes() + rest / active,
                _ => 0,
            };
            pool.set_budget(bytes);
        }
    }

    fn pools(&self) -> Vec<Arc<dyn Lender>> {
        let mut lenders = self.lenders.lock();
        lenders.retain(|pool| pool.strong_count() > 0);
        lenders.iter().filter_map(Weak::upgrade).collect()
    }
}

/// A query that was admitted, or waits for it. Dropped, it has ended.
pub struct Admitted {
    memory: Arc<MemoryBudget>,
    query: QueryId,
}

impl Admitted {
    /// The query.
    #[must_use]
    pub fn query(&self) -> QueryId {
        self.query
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.memory.ledger.end_query(self.query);
    }
}

impl std::fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("limit", &self.limit())
            .field("operators", &self.operator_bytes())
            .field("pages", &self.page_bytes())
            .field("decoded", &self.decoded_bytes())
            .field("metadata", &self.metadata_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that always holds as much as it may.
    #[derive(Default)]
    struct Full(AtomicU64);

    impl Lender for Full {
        fn held(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn is_active(&self) -> bool {
            true
        }

        fn largest_load_bytes(&self) -> u64 {
            0
        }

        fn stalled(&self) -> u64 {
            0
        }

        fn drop_stalled(self: Arc<Self>, _bytes: u64) {}

        fn set_budget(self: Arc<Self>, bytes: u64) {
            self.0.store(bytes, Ordering::Relaxed);
        }

        fn drop_idle_arrays(self: Arc<Self>, _bytes: u64) {}

        fn limit_lowered(self: Arc<Self>, _limit: u64) {}
    }

    #[test]
    fn pools_make_way_to_the_byte() {
        const OPERATOR: OperatorId = OperatorId(1);
        let memory = MemoryBudget::new(64_000);
        let pool = Arc::new(Full::default());
        memory.join(Arc::downgrade(&(Arc::clone(&pool) as Arc<dyn Lender>)));
        let query = memory.begin_query();
        memory.begin_operator(OPERATOR, query.query(), false);
        let most = 64_000 / POOL_FLOOR * 7 - 64_000 / 32;
        for taken in 0..most - 700 {
            // Arrays change by less than a step, and the pools are not told.
            memory.decoded.store(taken % 700, Ordering::Relaxed);
            assert!(memory.ask(OPERATOR, 1).is_ok(), "{taken}: {memory:?}");
            assert!(memory.operator_bytes() + memory.decoded_bytes() + pool.held() <= 64_000);
            memory.ledger.check();
        }
        memory.end_operator(OPERATOR);
    }

    /// A pool with frames, some of which only stalled scans need, and with idle arrays.
    #[derive(Default)]
    struct Stalled {
        held: AtomicU64,
        stalled: AtomicU64,
        arrays_asked_for: AtomicU64,
    }

    impl Lender for Stalled {
        fn held(&self) -> u64 {
            self.held.load(Ordering::Relaxed)
        }

        fn is_active(&self) -> bool {
            true
        }

        fn largest_load_bytes(&self) -> u64 {
            0
        }

        fn stalled(&self) -> u64 {
            self.stalled.load(Ordering::Relaxed)
        }

        fn drop_stalled(self: Arc<Self>, bytes: u64) {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            self.stalled.fetch_sub(bytes, Ordering::Relaxed);
        }

        fn set_budget(self: Arc<Self>, _bytes: u64) {}

        fn drop_idle_arrays(self: Arc<Self>, bytes: u64) {
            self.arrays_asked_for.fetch_add(bytes, Ordering::Relaxed);
        }

        fn limit_lowered(self: Arc<Self>, _limit: u64) {}
    }

    /// Or else they would stay beside their frames, each of them in the way of the next.
    #[test]
    fn idle_arrays_that_fill_the_memory_are_to_take_the_place_of_frames() {
        let memory = MemoryBudget::new(64_000);
        memory.set_arrays_part(ARRAYS_PART_MAX);
        memory.weigh_arrays();
        assert!(!memory.prefers_arrays(), "there is room for both");
        memory.decoded.store(50_000, Ordering::Relaxed);
        memory.idle.store(50_000, Ordering::Relaxed);
        memory.weigh_arrays();
        assert!(memory.keeps_spare_arrays() && memory.prefers_arrays());
        memory.set_arrays_part(0);
        assert!(!memory.prefers_arrays(), "devices are short");
    }

    #[test]
    fn what_is_dropped_raises_the_price_of_what_comes_after_it() {
        let memory = MemoryBudget::new(64_000);
        assert_eq!(memory.add_idle(0), 0);
        memory.dropped_at(7);
        memory.dropped_at(5);
        assert_eq!(memory.add_idle(0), 7);
    }

    #[test]
    fn frames_of_stalled_scans_go_before_idle_arrays() {
        let memory = MemoryBudget::new(64_000);
        let pool = Arc::new(Stalled::default());
        memory.join(Arc::downgrade(&(Arc::clone(&pool) as Arc<dyn Lender>)));
        memory.decoded.store(20_000, Ordering::Relaxed);
        memory.idle.store(20_000, Ordering::Relaxed);
        pool.held.store(44_000, Ordering::Relaxed);
        pool.stalled.store(40_000, Ordering::Relaxed);
        memory.weigh_arrays();
        assert!(memory.keeps_spare_arrays(), "stalled frames are room");
        assert_eq!(pool.arrays_asked_for.load(Ordering::Relaxed), 0);
        let (all, left) = (pool.held() + 20_000, memory.spare_left());
        assert!(all + left <= 64_000, "{all} and {left}");
        assert!(pool.stalled() > 0, "no more than has to");
        // Without such frames arrays are dropped.
        pool.held.store(60_000, Ordering::Relaxed);
        pool.stalled.store(0, Ordering::Relaxed);
        memory.weigh_arrays();
        assert!(!memory.keeps_spare_arrays());
        assert!(pool.arrays_asked_for.load(Ordering::Relaxed) > 0);
    }
}
