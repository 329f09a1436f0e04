//! One memory for frames, single pages, decoded arrays, retained results and the operators of
//! queries (I3).
//!
//! Idea: the core decides who gets memory (`ledger.rs`); this file keeps its holders. The buffer
//! (frames and arrays without readers, of all pools together) is one holder that gives memory
//! back. What queries left for others (chunk states, retained runs) makes up more such holders,
//! and so does what statements left for later ones (syntax trees).
//! Decoded arrays with readers and single pages are needed for progress, so they are never
//! refused. The limit may change while queries run; a scan with a chunk that cannot fit at all
//! fails instead of waiting without end.
//!
//! Metadata of files and tables (footers, page indexes, chunk maps) counts too, beyond
//! [`METADATA_FREE`]. Unused metadata is kept up to [`MemoryBudget::metadata_bytes_max`]; metadata
//! in use stays, whatever its size.
//!
//! Within the buffer, frames get what the core leaves them (`BudgetChanged`), less the *idle*
//! arrays, those without a reader, which are a cache. Up to a part of the limit idle arrays count
//! like arrays with readers. Beyond that part they may only take memory that nothing else needs:
//! they are kept while there is some, and are dropped to the byte before frames are evicted.
//! *Settled* arrays (`pool/segments/segment_form.rs`) take the place of frames and count as
//! frames. Frames that only stalled scans need are evicted before idle arrays, because the
//! consumers of these scans may never return.
//!
//! Not here: the choice of victims (coscan-core), spilling (DataFusion), sensible limits (the
//! engine), what the kernel counts (`process.rs`).
//! Bounds: the buffer keeps at least `POOL_FLOOR` of the limit, and each pool at least the largest
//! load of its running scans, so that a query that takes much memory cannot stop all scans.
//! More than 800 lines: the thresholds within the buffer are still here, and go when the core
//! prices frames and arrays apart (`docs/design/memory.md`, "Not driven yet").

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use coscan_core::Time;
use coscan_core::memory::{Class, Event, HolderId, OnRefusal, OperatorId, Standing, Usage};
use coscan_core::tasks::QueryId;
use parking_lot::{Mutex, MutexGuard};

use super::arrays::Arrays;
use super::ledger::{self, Ledger, Refused};
use super::process::Process;
use super::retained::{Left, Reclaim, Retained};
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
    /// The approximate bytes of frames that only stalled scans need.
    fn stalled(&self) -> u64;
    /// Evicts about `bytes` bytes of frames that only stalled scans need.
    fn drop_stalled(self: Arc<Self>, bytes: u64);
    /// Drops idle decoded arrays, the least valuable first, until at least `bytes` bytes are freed
    /// or none is left.
    fn drop_idle_arrays(self: Arc<Self>, bytes: u64);
    /// The limit of all memory was lowered: the pool drops idle arrays, and fails scans with a
    /// chunk that can never fit.
    fn limit_lowered(self: Arc<Self>, limit: u64);
    /// Drops unused tables, about `_bytes` bytes of metadata, the least recently used first and
    /// never the last one.
    fn drop_idle_tables(self: Arc<Self>, _bytes: u64) {}
}

/// The holders that every memory has, as the core knows them.
struct Holders {
    buffer: HolderId,
    read_arrays: HolderId,
    read_pages: HolderId,
    metadata: HolderId,
    connections: HolderId,
}

impl Holders {
    fn of(ledger: &Ledger) -> Self {
        Self {
            buffer: ledger.add_holder(Class::Drops(BUFFER_PRICE)),
            read_arrays: ledger.add_holder(Class::Keeps),
            read_pages: ledger.add_holder(Class::Keeps),
            metadata: ledger.add_holder(Class::Keeps),
            connections: ledger.add_holder(Class::Connections),
        }
    }
}

/// Hears the limit, in bytes. Returns false once it need not hear of it any more.
type LimitListener = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// The memory of a process: one limit for all its holders.
pub struct MemoryBudget {
    ledger: Ledger,
    holders: Holders,
    limit: AtomicU64,
    limit_listeners: Mutex<Vec<LimitListener>>,
    connections: AtomicU64,
    /// Without retained results.
    operators: AtomicU64,
    retained: Retained,
    pages: AtomicU64,
    arrays: Arrays,
    metadata: AtomicU64,
    /// Whether the checksums of pages are ignored.
    unverified: AtomicBool,
    /// The memory that the kernel counts.
    process: Process,
    /// The unaccounted bytes that count as taken.
    unaccounted: AtomicU64,
    /// The pools' share at the last division, in steps.
    announced_steps: AtomicU64,
    /// Held during a division, so that every pool ends up with the latest budget.
    dividing: Mutex<()>,
    /// Held while idle arrays are dropped.
    making_way: Mutex<()>,
    lenders: Mutex<Vec<Weak<dyn Lender>>>,
}

/// The promise to a query about which nothing is known, so that merges begin beside sorts that
/// fill the memory: a part of the limit (a divisor), and the most bytes.
const LITTLE: u64 = 16;
const LITTLE_MAX: u64 = 8 << 20;
/// The interval between two measurements of what the process takes.
const TICK: Duration = Duration::from_millis(200);
/// Nanoseconds to get a KiB of the buffer back: a fast disk reads it in a microsecond.
const BUFFER_PRICE: u64 = 1_000;
/// Retained results are cheaper: queries can do without them, and they are small.
const RETAINED_PRICE: u64 = 1;
/// An operator writes a KiB that it spills, and reads it back.
const SPILL_PRICE: u64 = 4_000;

/// The part of the limit that operators cannot take from the buffer pools, as a divisor.
const POOL_FLOOR: u64 = 8;
/// How many steps of memory are free after idle arrays were dropped, so that arrays can come and
/// go without a pass over all of them.
const STEPS_FREED: u64 = 2;
/// The memory that idle arrays leave free: a part of the limit (a divisor), and the most bytes.
/// The allocator returns the memory of arrays late, and frames cannot use it until then. Twelve
/// TPC-H clients in 2.8 GB took 0.85 GB beyond the counted bytes while arrays were dropped for
/// frames.
const SPARE_LEFT: u64 = 4;
const SPARE_LEFT_MAX: u64 = 1 << 30;
/// Metadata up to this size does not count: that of a few hundred files, small compared with any
/// sensible limit.
pub const METADATA_FREE: u64 = 1 << 20;
/// The part of the limit, as a divisor, above which unused metadata of files and tables is
/// dropped.
const METADATA_KEPT: u64 = 8;
/// Pools learn of changes in steps of this part of the limit, so that not every reservation is an
/// event.
const STEPS: u64 = 64;

/// The default writers make no larger pages, unless single values are larger.
const UNPACKED_PAGE_BYTES: u64 = 64 << 20;

impl MemoryBudget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        let ledger = Ledger::new(limit);
        Arc::new(Self {
            holders: Holders::of(&ledger),
            ledger,
            limit: AtomicU64::new(limit),
            limit_listeners: Mutex::default(),
            connections: AtomicU64::default(),
            operators: AtomicU64::default(),
            retained: Retained::default(),
            pages: AtomicU64::default(),
            arrays: Arrays::none(),
            metadata: AtomicU64::default(),
            unverified: AtomicBool::default(),
            process: Process::default(),
            unaccounted: AtomicU64::default(),
            announced_steps: AtomicU64::new(u64::MAX),
            dividing: Mutex::default(),
            making_way: Mutex::default(),
            lenders: Mutex::default(),
        })
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// The rules for pages. A decompressed page may take half of the limit, but at least the size
    /// that pages of ordinary files have.
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

    /// Turns the verification of page checksums on or off.
    pub fn verify_checksums(&self, verify: bool) {
        self.unverified.store(!verify, Ordering::Relaxed);
    }

    /// Changes the limit, at once and for all users. Memory that operators hold is not taken from
    /// them.
    ///
    /// When this returns, all unpinned frames beyond the limit have been evicted, and a running
    /// scan with a chunk that no longer fits has failed with `ChunkTooLarge`.
    pub fn set_limit(&self, bytes: u64) {
        let before = self.limit.swap(bytes, Ordering::Relaxed);
        self.tell_limit();
        let config = ledger::config(bytes);
        let changed = Event::LimitChanged {
            limit: config.limit,
            reserve: config.reserve,
            for_small: config.for_small,
            batch: config.batch,
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

    /// Calls `listener` with the limit in bytes, at once and after each change, until it returns
    /// false. A listener must not change the limit.
    pub fn on_limit(&self, listener: impl Fn(u64) -> bool + Send + Sync + 'static) {
        let mut listeners = self.limit_listeners.lock();
        if listener(self.limit()) {
            listeners.push(Box::new(listener));
        }
    }

    /// The limit is read under the lock, so what a listener hears last is the limit in force.
    fn tell_limit(&self) {
        let mut listeners = self.limit_listeners.lock();
        listeners.retain(|listener| listener(self.limit()));
    }

    /// Bytes of operators, and of retained results.
    #[must_use]
    pub fn operator_bytes(&self) -> u64 {
        self.operators.load(Ordering::Relaxed) + self.retained.result_bytes()
    }

    /// Bytes of pages that were read singly, not as part of a chunk. Their readers bound them by
    /// this number.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Bytes of decoded arrays.
    #[must_use]
    pub fn decoded_bytes(&self) -> u64 {
        self.arrays.decoded()
    }

    /// Bytes of decoded arrays with readers.
    #[must_use]
    pub fn read_array_bytes(&self) -> u64 {
        self.arrays.read()
    }

    /// Bytes of decoded arrays, without idle arrays beyond their part of the limit.
    fn decoded_counted(&self) -> u64 {
        self.arrays.counted(self.limit())
    }

    /// The approximate bytes of footers, page indexes, chunk maps and tables. They count in the
    /// budget beyond [`METADATA_FREE`].
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata.load(Ordering::Relaxed)
    }

    /// The most bytes of unused metadata that are kept; beyond that, metadata stays only while in
    /// use.
    #[must_use]
    pub fn metadata_bytes_max(&self) -> u64 {
        (self.limit() / METADATA_KEPT).max(METADATA_FREE)
    }

    /// Bounds the memory of the whole process, counted or not, to `bytes`: if the process takes
    /// more, less may be counted. `beside` says how much more than a limit a process may take that
    /// only runs queries, in bytes: of the limit, and of `bytes`. Only the first call has an
    /// effect.
    pub fn bound_process(&self, bytes: u64, beside: fn(limit: u64, all: u64) -> u64) {
        self.process.bound(bytes, beside);
    }

    /// Starts the clock of this memory: a thread that ticks until the memory is dropped.
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

    /// Declares that the process only runs queries: it must take no more than the limit and the
    /// room beside it, however much memory the machine has.
    pub fn own_process(&self) {
        self.process.own();
    }

    /// The bytes of the limit that count as taken because the process takes more memory than it
    /// may.
    #[must_use]
    pub fn excess_bytes(&self) -> u64 {
        self.unaccounted.load(Ordering::Relaxed)
    }

    /// Whether the process takes nearly what it may, or more.
    #[must_use]
    pub fn is_near_bound(&self) -> bool {
        self.process.is_near()
    }

    /// Reports what the process takes, and the time, to the core, and carries out what follows.
    fn tick(&self) {
        let measured = self.process.measure(self.limit());
        let measured = measured.map(|bytes| Event::Measured { bytes });
        self.ledger
            .tell(measured.into_iter().chain([Event::Ticked]));
        let unaccounted = self.ledger.usage().unaccounted.min(self.limit() / 2);
        self.unaccounted.store(unaccounted, Ordering::Relaxed);
        self.look();
    }

    /// Reports how the memory is used.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.ledger.usage()
    }

    /// What a query has, and what it waits for; `None` for one that has ended.
    #[must_use]
    pub fn standing(&self, query: QueryId) -> Option<Standing> {
        self.ledger.standing(query)
    }

    /// The time since `then`, which a [`Standing`] has.
    #[must_use]
    pub fn since(&self, then: Time) -> Duration {
        self.ledger.since(then)
    }

    fn metadata_counted(&self) -> u64 {
        self.metadata_bytes().saturating_sub(METADATA_FREE)
    }

    /// The bytes of metadata beyond [`Self::metadata_bytes_max`].
    pub(crate) fn metadata_excess(&self) -> u64 {
        self.metadata_bytes()
            .saturating_sub(self.metadata_bytes_max())
    }

    /// Counts metadata. Pools learn of it with the next change, so this and
    /// [`Self::remove_metadata`] may be called under a pool's lock.
    pub(crate) fn add_metadata(&self, bytes: u64) {
        self.metadata.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_metadata(&self, bytes: u64) {
        self.metadata.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes pools drop unused tables. The caller must not hold a pool's lock.
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

    /// Admits a query at once, with a small promise if that much is free, otherwise with none.
    #[must_use]
    pub fn begin_query(self: &Arc<Self>) -> Admitted {
        let little = (self.limit() / LITTLE).min(LITTLE_MAX);
        let query = self.ledger.begin(little);
        Admitted {
            memory: Arc::clone(self),
            query,
        }
    }

    /// The most bytes of a query that counts as small: those begin and end in memory that others do
    /// not get.
    #[must_use]
    pub fn small_max(&self) -> u64 {
        self.ledger.small_max()
    }

    /// Whether so much memory is free that one more query may begin at once.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.ledger.is_free()
    }

    /// How much of what operators can have at most is free for those of a query that is not small,
    /// in thousandths. As of the last request, or tick.
    #[must_use]
    pub fn free_permille(&self) -> u32 {
        let config = ledger::config(self.limit());
        let kept = config.reserve + config.for_small + config.limit / POOL_FLOOR;
        let most = config.limit.saturating_sub(kept).max(1);
        let free = u128::from(self.ledger.free().min(most));
        u32::try_from(free * 1_000 / u128::from(most)).unwrap_or(1_000)
    }

    /// Admits a query once `minimum` bytes are free for those of its operators that cannot do
    /// without. `None`: too many queries wait. `arrived` is called before it waits.
    pub async fn arrive(
        self: &Arc<Self>,
        minimum: u64,
        arrived: impl FnOnce(QueryId),
    ) -> Option<Admitted> {
        self.look();
        let (query, admitted) = self.ledger.arrive(minimum);
        arrived(query);
        let waiting = Admitted {
            memory: Arc::clone(self),
            query,
        };
        admitted.await.is_ok().then_some(waiting)
    }

    /// An equal part of the memory for each query that runs or waits, in bytes.
    #[must_use]
    pub fn equal_part(&self) -> u64 {
        let usage = self.ledger.usage();
        self.limit() / (usage.queries + usage.waiting).max(1) as u64
    }

    /// Registers `on_end`, which is called when the query has to end for lack of memory.
    pub fn on_end(&self, query: QueryId, on_end: Arc<dyn Fn() + Send + Sync>) {
        self.ledger.on_end(query, on_end);
    }

    /// Declares that the operators of a query that would fail need no more than `minimum` bytes
    /// for the rest of its run.
    pub fn needs_less(&self, query: QueryId, minimum: u64) {
        self.ledger.tell([Event::QueryNeedsLess { query, minimum }]);
    }

    /// Records whether the client of a query has stopped fetching its rows.
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

    /// An operator has ended and freed all its bytes.
    pub fn end_operator(&self, operator: OperatorId) {
        self.ledger.tell([Event::OperatorEnded { operator }]);
        self.tell();
    }

    /// Takes memory for a part of an operator that has `has` bytes already. If holders have to give
    /// some back, they do so on this thread meanwhile.
    ///
    /// # Errors
    /// [`Refused`]: the operator does not get the bytes.
    pub fn ask(&self, operator: OperatorId, bytes: u64, has: u64) -> Result<(), Refused> {
        if bytes > 0 {
            self.sync();
            self.ledger.ask(operator, bytes, has, |holder, bytes| {
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

    /// A part of an operator has freed memory, and has `left` bytes left.
    pub fn gave(&self, operator: OperatorId, bytes: u64, left: u64) {
        self.operators.fetch_sub(bytes, Ordering::Relaxed);
        self.ledger.tell([Event::Gave {
            operator,
            bytes,
            left,
        }]);
        self.tell();
    }

    /// Bytes of connections: messages, statements, prepared statements.
    #[must_use]
    pub fn connection_bytes(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes that are retained for statements to come.
    #[must_use]
    pub fn statement_bytes(&self) -> u64 {
        self.retained.statement_bytes()
    }

    /// Bytes of operators, of retained results, and of connections.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.operator_bytes() + self.connection_bytes()
    }

    /// Takes memory for a connection; false if queries have taken all but the reserve, and
    /// connections the reserve.
    #[must_use]
    pub fn try_hold_for_connection(&self, bytes: u64) -> bool {
        self.sync();
        let room = self.ledger.room(self.holders.connections);
        let fits = self.connection_bytes().saturating_add(bytes) <= room;
        if fits {
            self.hold_for_connection(bytes);
        }
        fits
    }

    /// Takes memory for an existing connection, even beyond the room for connections.
    pub fn hold_for_connection(&self, bytes: u64) {
        self.connections.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Returns a connection's memory.
    pub fn free_of_connection(&self, bytes: u64) {
        self.connections.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Registers a holder that may keep results and gives them back before any other holder does.
    pub fn retains(&self, from: Weak<dyn Reclaim>) -> HolderId {
        self.add_retained(Left::Results, from)
    }

    /// As [`Self::retains`], for what statements leave for later ones.
    pub fn retains_statements(&self, from: Weak<dyn Reclaim>) -> HolderId {
        self.add_retained(Left::Statements, from)
    }

    fn add_retained(&self, what: Left, from: Weak<dyn Reclaim>) -> HolderId {
        let holder = self.ledger.add_holder(Class::Drops(RETAINED_PRICE));
        self.retained.add(holder, what, from);
        holder
    }

    /// Takes memory for something that is retained; false if there is no room.
    #[must_use]
    pub fn try_keep(&self, holder: HolderId, bytes: u64) -> bool {
        self.sync();
        let room = self.ledger.room(holder);
        let keeps = self.retained.try_keep(holder, bytes, room);
        if keeps {
            self.tell();
        }
        keeps
    }

    /// Frees memory that was retained.
    pub fn give_back(&self, holder: HolderId, bytes: u64) {
        self.retained.give_back(holder, bytes);
        self.tell();
    }

    /// Tells the core what holders have.
    fn sync(&self) {
        let pools = self.pools();
        let frames: u64 = pools.iter().map(|pool| pool.held()).sum();
        let read = self.read_array_bytes();
        let idle = self.decoded_bytes().saturating_sub(read);
        let holders = &self.holders;
        let keep = [
            (holders.read_arrays, read),
            (holders.read_pages, self.page_bytes()),
            (holders.metadata, self.metadata_counted()),
            (holders.connections, self.connection_bytes()),
        ];
        let others = self.retained.by_holder().into_iter().chain(keep);
        let buffer = (holders.buffer, frames + idle, self.floor(&pools));
        let all = others.map(|(holder, bytes)| (holder, bytes, 0));
        self.ledger.tell_held(all.chain([buffer]));
    }

    /// Tells the core what holders have, and has them give back what it reclaims. The caller must
    /// not hold a pool's lock.
    fn look(&self) {
        self.sync();
        self.ledger
            .carry_out(|holder, bytes| self.reclaim(holder, bytes));
    }

    /// Has a holder give memory back.
    fn reclaim(&self, holder: HolderId, bytes: u64) {
        if holder == self.holders.buffer {
            self.shrink_buffer(bytes);
        } else if let Some(from) = self.retained.owner(holder) {
            from.reclaim(bytes);
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

    /// Counts pages that were read singly.
    pub(crate) fn add_pages(&self, bytes: u64) {
        self.pages.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Counts single pages as freed.
    pub(crate) fn remove_pages(&self, bytes: u64) {
        self.pages.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Counts new decoded arrays.
    pub(crate) fn add_decoded(&self, bytes: u64) {
        self.arrays.add(bytes);
        self.tell();
    }

    /// Counts decoded arrays as dropped. Pools learn of it with the next change, so this may be
    /// called under a pool's lock.
    pub(crate) fn remove_decoded(&self, bytes: u64) {
        self.arrays.remove(bytes);
    }

    /// Counts arrays that became idle; returns the highest price at which idle arrays were
    /// dropped.
    pub(crate) fn add_idle(&self, bytes: u64) -> u64 {
        self.arrays.add_idle(bytes)
    }

    /// Records that idle arrays of this price were dropped.
    pub(crate) fn dropped_at(&self, price: u64) {
        self.arrays.dropped_at(price);
    }

    /// Counts idle arrays that found readers or were dropped.
    pub(crate) fn remove_idle(&self, bytes: u64) {
        self.arrays.remove_idle(bytes);
    }

    /// Whether idle arrays may be kept even at the expense of frames, because decoded arrays are
    /// few.
    pub(crate) fn keeps_few_arrays(&self) -> bool {
        self.arrays.keeps_few(self.limit())
    }

    /// The part of the limit, in thousandths, that arrays may take from frames.
    pub(crate) fn arrays_part(&self) -> u64 {
        self.arrays.part()
    }

    /// Changes that part. Pools learn of it with the next change.
    pub(crate) fn set_arrays_part(&self, thousandths: u64) {
        self.arrays.set_part(thousandths);
    }

    /// Whether memory is better used for arrays than for the pages they come from: memory is full,
    /// idle arrays included, and arrays have less than their part.
    pub(crate) fn prefers_arrays(&self) -> bool {
        self.arrays.fill_memory() && self.has_few_arrays()
    }

    /// Whether arrays have less than their part.
    pub(crate) fn has_few_arrays(&self) -> bool {
        self.arrays.are_few(self.limit())
    }

    /// Bytes of arrays that took the place of frames and count among them.
    #[must_use]
    pub fn settled_bytes(&self) -> u64 {
        self.arrays.settled()
    }

    /// Counts decoded arrays among the frames.
    pub(crate) fn settle(&self, bytes: u64) {
        self.arrays.settle(bytes);
    }

    /// Counts arrays as dropped that counted among the frames.
    pub(crate) fn remove_settled(&self, bytes: u64) {
        self.arrays.remove_settled(bytes);
    }

    /// Whether idle arrays may be kept: there is memory that nothing else needs, or decoded arrays
    /// are few.
    pub(crate) fn keeps_arrays(&self) -> bool {
        self.keeps_spare_arrays() || self.keeps_few_arrays()
    }

    /// Whether there is memory that nothing else needs.
    pub(crate) fn keeps_spare_arrays(&self) -> bool {
        self.arrays.have_spare()
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
        let kept = self.metadata_counted() + self.connection_bytes() + self.statement_bytes();
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

    /// Checks whether there is memory for idle arrays, and drops some if not. The caller must not
    /// hold a pool's lock.
    pub(crate) fn weigh_arrays(&self) {
        self.weigh(&self.pools());
    }

    fn weigh(&self, pools: &[Arc<dyn Lender>]) {
        let all = self.operator_bytes() + self.held_beside_operators(pools) + self.spare_left();
        let idle = self.decoded_bytes().saturating_sub(self.read_array_bytes());
        let stalled: u64 = pools.iter().map(|pool| pool.stalled()).sum();
        let spare = all.saturating_sub(idle + stalled) + STEPS_FREED * self.step() < self.limit();
        let full = all + STEPS_FREED * self.step() >= self.limit();
        self.arrays.weighed(spare, full);
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

    /// Divides the pools' share once more if it changed by a step. The caller must not hold a
    /// pool's lock.
    pub(crate) fn tell(&self) {
        self.look();
        let pools = self.pools();
        self.weigh(&pools);
        if self.announced_steps.load(Ordering::Relaxed) != self.steps(self.pool_share(&pools)) {
            self.divide();
        }
    }

    /// Makes the next change reach the pools, whatever was announced last.
    pub(crate) fn forget_told(&self) {
        self.announced_steps.store(u64::MAX, Ordering::Relaxed);
    }

    /// The bytes that the pools keep, whatever operators need.
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
        // Other holders may take as much as a step before the pools learn of it.
        let left = self.ledger.room(self.holders.buffer);
        left.saturating_sub(idle + self.step())
            .max(self.floor(pools))
    }

    fn steps(&self, bytes: u64) -> u64 {
        bytes / self.step().max(1)
    }

    /// Gives each active pool its largest load and an equal share of the rest; idle pools get
    /// nothing while a pool is active.
    pub(crate) fn divide(&self) {
        let _last_word = self.dividing.lock();
        let pools = self.pools();
        let share = self.pool_share(&pools);
        self.announced_steps
            .store(self.steps(share), Ordering::Relaxed);
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

/// A query that is admitted, or waits for admission. Dropping this ends the query.
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
    use coscan_core::memory::WHOLE;

    use super::*;
    use crate::memory::ARRAYS_PART_MAX;

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
    fn pools_shrink_to_the_byte() {
        const OPERATOR: OperatorId = OperatorId(1);
        let memory = MemoryBudget::new(64_000);
        let pool = Arc::new(Full::default());
        memory.join(Arc::downgrade(&(Arc::clone(&pool) as Arc<dyn Lender>)));
        let query = memory.begin_query();
        memory.begin_operator(OPERATOR, query.query(), false);
        let for_small = ledger::config(64_000).for_small;
        let most = 64_000 / POOL_FLOOR * 7 - 64_000 / 32 - for_small;
        for taken in 0..most - 700 {
            // Arrays change by less than a step, so the pools do not learn of it.
            memory.arrays.set(taken % 700, 0);
            let asked = memory.ask(OPERATOR, 1, WHOLE);
            assert!(asked.is_ok(), "{taken}: {memory:?}");
            assert!(memory.operator_bytes() + memory.decoded_bytes() + pool.held() <= 64_000);
            memory.ledger.check();
        }
        memory.end_operator(OPERATOR);
    }

    #[test]
    fn listeners_hear_of_the_limit_until_they_are_gone() {
        let memory = MemoryBudget::new(64_000);
        let heard = Arc::new(AtomicU64::new(0));
        let weak = Arc::downgrade(&heard);
        memory.on_limit(move |limit| {
            let Some(heard) = weak.upgrade() else {
                return false;
            };
            heard.store(limit, Ordering::Relaxed);
            true
        });
        assert_eq!(heard.load(Ordering::Relaxed), 64_000, "at once");
        for limit in [32_000, 96_000] {
            memory.set_limit(limit);
            assert_eq!(heard.load(Ordering::Relaxed), limit);
        }
        drop(heard);
        memory.set_limit(64_000);
        assert!(memory.limit_listeners.lock().is_empty());
    }

    /// Has nothing that it could give back.
    struct Nothing;

    impl Reclaim for Nothing {
        fn reclaim(&self, _bytes: u64) {}
    }

    #[test]
    fn what_is_retained_for_statements_counts_apart_from_operators() {
        let memory = MemoryBudget::new(64_000);
        let results = memory.retains(Weak::<Nothing>::new());
        let statements = memory.retains_statements(Weak::<Nothing>::new());
        let counted = || (memory.operator_bytes(), memory.statement_bytes());
        assert!(memory.try_keep(results, 200) && memory.try_keep(statements, 700));
        assert_eq!(counted(), (200, 700));
        assert_eq!(memory.reserved_bytes(), 200);
        assert_eq!(memory.held_beside_operators(&[]), 700);
        assert!(!memory.try_keep(statements, 64_000), "more than there is");
        memory.give_back(statements, 700);
        memory.give_back(results, 200);
        assert_eq!(counted(), (0, 0));
    }

    #[test]
    fn nothing_is_free_when_operators_have_all_that_they_can_have() {
        const OPERATOR: OperatorId = OperatorId(1);
        let memory = MemoryBudget::new(64_000);
        assert_eq!(memory.free_permille(), 1_000);
        let query = memory.begin_query();
        memory.begin_operator(OPERATOR, query.query(), false);
        while memory.ask(OPERATOR, 100, WHOLE).is_ok() {}
        assert!(memory.operator_bytes() < 64_000 / POOL_FLOOR * 7);
        assert!(memory.free_permille() < 10, "{memory:?}");
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

    /// Otherwise they would stay beside their frames, and both would take memory.
    #[test]
    fn idle_arrays_that_fill_the_memory_take_the_place_of_frames() {
        let memory = MemoryBudget::new(64_000);
        memory.set_arrays_part(ARRAYS_PART_MAX);
        memory.weigh_arrays();
        assert!(!memory.prefers_arrays(), "there is room for both");
        memory.arrays.set(50_000, 50_000);
        memory.weigh_arrays();
        assert!(memory.keeps_spare_arrays() && memory.prefers_arrays());
        memory.set_arrays_part(0);
        assert!(!memory.prefers_arrays(), "devices are short");
    }

    #[test]
    fn dropping_arrays_raises_the_price_of_later_ones() {
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
        memory.arrays.set(20_000, 20_000);
        pool.held.store(44_000, Ordering::Relaxed);
        pool.stalled.store(40_000, Ordering::Relaxed);
        memory.weigh_arrays();
        assert!(memory.keeps_spare_arrays(), "stalled frames are room");
        assert_eq!(pool.arrays_asked_for.load(Ordering::Relaxed), 0);
        let (all, left) = (pool.held() + 20_000, memory.spare_left());
        assert!(all + left <= 64_000, "{all} and {left}");
        assert!(pool.stalled() > 0, "drops no more than necessary");
        // Without such frames, arrays are dropped.
        pool.held.store(60_000, Ordering::Relaxed);
        pool.stalled.store(0, Ordering::Relaxed);
        memory.weigh_arrays();
        assert!(!memory.keeps_spare_arrays());
        assert!(pool.arrays_asked_for.load(Ordering::Relaxed) > 0);
    }
}
