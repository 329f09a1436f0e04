//! One memory budget for frames, pages read by themselves, decoded arrays and the operators of
//! queries (I3).
//!
//! Idea: whoever needs memory takes it from the same limit. Operators come first: when they need
//! more, the buffer pools shrink (unpinned frames go), then they are refused and spill. Decoded
//! arrays and pages read by themselves are needed to make progress, so they are never refused, but
//! they too shrink the pools. What is left is the pools' budget, which they hear of as
//! `BudgetChanged`. The limit may be changed while queries run. What operators hold stays theirs:
//! under a lower limit frames go first, and operators get nothing new until they fit again. A scan
//! of which a chunk can no longer fit at all fails, rather than wait for ever. What is known of
//! files and tables (footers, page indexes, chunk maps) counts too, beyond [`METADATA_FREE`], and
//! is kept for later up to [`MemoryBudget::metadata_bytes_max`]; what queries use stays, whatever
//! it takes.
//! Arrays that nobody reads (*idle*) are a cache. Up to a part of the limit they count like those
//! that are read. Beyond it they have only the memory that nobody else wants: they are kept while
//! there is some, and make way to the byte, before frames do and before an operator is refused.
//! Frames that only stalled scans need go before them: their consumers may never come back.
//! Not here: what is evicted (coscan-core), spilling (DataFusion), which limits make sense (the
//! engine).
//! Bounds: the pools keep at least `POOL_FLOOR` of the limit, and each at least what the largest
//! load of its running scans needs, so that a query that hogs memory cannot stop all scans. By such
//! a load, if operators had the memory before the scan began, the limit may be exceeded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

/// A pool's side of the budget.
pub(crate) trait Lender: Send + Sync {
    /// Bytes it holds now.
    fn held(&self) -> u64;
    /// Whether scans run on it.
    fn is_active(&self) -> bool;
    /// What the largest single load of its running scans needs.
    fn largest_load_bytes(&self) -> u64;
    /// What it may hold from now on; it evicts at once what it can.
    fn set_budget(self: Arc<Self>, bytes: u64);
    /// Bytes of frames that only scans need whose consumers are silent, about.
    fn stalled(&self) -> u64;
    /// Frames go that only scans need whose consumers are silent, about so many bytes.
    fn drop_stalled(self: Arc<Self>, bytes: u64);
    /// Decoded arrays that nobody reads go, the least valuable first, until at least so many bytes
    /// went or none is left.
    fn drop_idle_arrays(self: Arc<Self>, bytes: u64);
    /// The limit of everything was lowered to this: what can never fit now fails, what is only kept
    /// for later goes.
    fn limit_lowered(self: Arc<Self>, limit: u64);
    /// Tables that nobody uses go, least recently used first, but not the last one: about so many
    /// bytes of what is known of them.
    fn drop_idle_tables(self: Arc<Self>, _bytes: u64) {}
}

/// Something that holds memory of operators' which it can do without, at a price.
pub trait Reclaim: Send + Sync {
    /// Gives back at least so many bytes, by [`MemoryBudget::release`], or all it has. Called under
    /// no lock of the budget's.
    fn reclaim(&self, bytes: u64);
}

/// The memory of a process: one limit, four kinds of users.
#[derive(Default)]
pub struct MemoryBudget {
    limit: AtomicU64,
    operators: AtomicU64,
    pages: AtomicU64,
    decoded: AtomicU64,
    /// The part of `decoded` that nobody reads.
    idle: AtomicU64,
    /// Whether there was memory for idle arrays when it was looked last.
    spare: AtomicBool,
    /// Counts what became idle.
    ticks: AtomicU64,
    metadata: AtomicU64,
    /// What the pools were told last, in steps.
    told: AtomicU64,
    /// Held while the pools are told, so that the last word they hear is the latest.
    dividing: Mutex<()>,
    /// Held while idle arrays are dropped.
    making_way: Mutex<()>,
    lenders: Mutex<Vec<Weak<dyn Lender>>>,
    /// Who gives memory back before an operator is refused.
    reclaimed: Mutex<Vec<Weak<dyn Reclaim>>>,
}

/// The part of the limit that operators cannot take from the buffer pools, as a divisor.
const POOL_FLOOR: u64 = 8;
/// The part of the limit up to which idle arrays count like those that are read, as a divisor.
/// Arrays take several times the memory of their frames, so more is better spent on frames.
const DECODED_KEPT: u64 = 8;
/// So many steps of memory are left free when idle arrays make way: new ones come and go without a
/// look at all of them.
const STEPS_FREED: u64 = 2;
/// The part of the limit, as a divisor, and the bytes at most, that idle arrays leave free: the
/// allocator gives back late what arrays took, and cannot make frames of it. Twelve TPC-H clients
/// in 2.8 GB took 0.85 GB beyond what was counted while arrays made way for frames.
const SPARE_LEFT: u64 = 4;
const SPARE_LEFT_MAX: u64 = 1 << 30;
/// What is known of files and tables does not count up to here: some hundred files, beside which no
/// limit is worth setting.
pub const METADATA_FREE: u64 = 1 << 20;
/// The part of the limit above which what is known of files and tables goes, as far as nobody uses
/// it, as a divisor.
const METADATA_KEPT: u64 = 8;
/// The pools hear of changes in steps of this part of the limit, so that not every reservation is
/// an event.
const STEPS: u64 = 64;

/// No writer makes larger pages unless it is told to, or single values are larger.
const UNPACKED_PAGE_BYTES: u64 = 64 << 20;

impl MemoryBudget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(limit),
            told: AtomicU64::new(u64::MAX),
            ..Self::default()
        })
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// How many bytes a page of a file may have when it is decompressed: half of the limit, but
    /// what any file's pages have in any case.
    #[must_use]
    pub fn unpacked_page_bytes_max(&self) -> u64 {
        (self.limit() / 2).max(UNPACKED_PAGE_BYTES)
    }

    /// Changes the limit, at once and for everything. Memory that operators hold is not taken from
    /// them.
    ///
    /// When this returns, frames have been evicted as far as nobody reads them. Under a limit that
    /// is too low for a chunk of a running scan, that scan has failed with `ChunkTooLarge`.
    pub fn set_limit(&self, bytes: u64) {
        let before = self.limit.swap(bytes, Ordering::Relaxed);
        if bytes < before {
            for holder in self.reclaimable() {
                holder.reclaim(before - bytes);
            }
            for pool in self.pools() {
                pool.limit_lowered(bytes);
            }
        }
        self.divide();
    }

    /// Bytes that operators have reserved.
    #[must_use]
    pub fn operator_bytes(&self) -> u64 {
        self.operators.load(Ordering::Relaxed)
    }

    /// Bytes of pages that were read by themselves, not as part of a chunk. Who reads such pages
    /// bounds them, by this.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Bytes of decoded arrays.
    #[must_use]
    pub fn decoded_bytes(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// Bytes of decoded arrays that somebody reads.
    #[must_use]
    pub fn read_array_bytes(&self) -> u64 {
        let idle = self.idle.load(Ordering::Relaxed);
        self.decoded_bytes().saturating_sub(idle)
    }

    /// Decoded arrays, but for what has only the memory that nobody else wants.
    fn decoded_counted(&self) -> u64 {
        let kept = self.decoded_bytes().min(self.limit() / DECODED_KEPT);
        kept.max(self.read_array_bytes())
    }

    /// Bytes of footers, page indexes, chunk maps and tables, about. They count in the budget
    /// beyond [`METADATA_FREE`].
    #[must_use]
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata.load(Ordering::Relaxed)
    }

    /// What is known of files and tables is kept up to so many bytes; beyond, only while it is
    /// used.
    #[must_use]
    pub fn metadata_bytes_max(&self) -> u64 {
        (self.limit() / METADATA_KEPT).max(METADATA_FREE)
    }

    fn metadata_counted(&self) -> u64 {
        self.metadata_bytes().saturating_sub(METADATA_FREE)
    }

    /// How much of what is known of files and tables is too much.
    pub(crate) fn metadata_excess(&self) -> u64 {
        self.metadata_bytes()
            .saturating_sub(self.metadata_bytes_max())
    }

    /// Pools hear of it with the next change, so that this may be called under their lock; as with
    /// [`Self::remove_metadata`].
    pub(crate) fn add_metadata(&self, bytes: u64) {
        self.metadata.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove_metadata(&self, bytes: u64) {
        self.metadata.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Pools forget tables that nobody uses. Not to be called under a pool's lock.
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

    /// Takes memory for an operator; false if even empty buffer pools and no arrays but those being
    /// read would not leave enough. Nothing is always given, even when operators hold more than a
    /// lowered limit.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> bool {
        self.try_reserve_beyond(bytes, 0)
    }

    /// As [`Self::try_reserve`], by at most `beyond` bytes over the limit, and over what operators
    /// may have of it: chunks that are being read make way, but not at once.
    #[must_use]
    pub fn try_reserve_beyond(&self, bytes: u64, beyond: u64) -> bool {
        if bytes == 0 || self.try_take(bytes, self.operators_max(), 0) {
            return true;
        }
        for holder in self.reclaimable() {
            holder.reclaim(bytes);
            if self.try_take(bytes, self.operators_max(), 0) {
                return true;
            }
        }
        for pool in self.pools() {
            pool.drop_idle_arrays(u64::MAX);
        }
        self.try_take(bytes, self.operators_max().saturating_add(beyond), beyond)
    }

    /// As [`Self::try_reserve_beyond`], though operators may have no more; arrays that nobody reads
    /// stay.
    #[must_use]
    pub fn try_exceed(&self, bytes: u64, beyond: u64) -> bool {
        bytes == 0 || self.try_take(bytes, u64::MAX, beyond)
    }

    fn try_take(&self, bytes: u64, operators_max: u64, beyond: u64) -> bool {
        let operators = self.operators.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let limit = self.limit() + beyond;
        let all = || operators + self.held_beside_operators(&self.pools());
        let fits = operators <= operators_max && {
            self.tell();
            // The pools hear of changes in steps only; before anyone is refused, they shrink to the
            // byte.
            all() <= limit
                || {
                    self.make_way(&mut self.making_way.lock());
                    all() <= limit
                }
                || {
                    self.divide();
                    all() <= limit
                }
        };
        if !fits {
            self.release(bytes);
        }
        fits
    }

    /// What operators may have now, all together, in bytes: all but decoded arrays, pages read by
    /// themselves, and what the pools keep in any case.
    #[must_use]
    pub fn operators_max(&self) -> u64 {
        let others = self.page_bytes() + self.decoded_counted() + self.metadata_counted();
        self.limit()
            .saturating_sub(others + self.floor(&self.pools()))
    }

    /// Takes memory for an operator that cannot do without.
    pub fn reserve(&self, bytes: u64) {
        self.operators.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Gives an operator's memory back.
    pub fn release(&self, bytes: u64) {
        self.operators.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Notes that pages are read by themselves.
    pub(crate) fn add_pages(&self, bytes: u64) {
        self.pages.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Notes that pages that were read by themselves are gone.
    pub(crate) fn remove_pages(&self, bytes: u64) {
        self.pages.fetch_sub(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Notes that decoded arrays grew.
    pub(crate) fn add_decoded(&self, bytes: u64) {
        self.decoded.fetch_add(bytes, Ordering::Relaxed);
        self.tell();
    }

    /// Notes that decoded arrays are gone. Pools hear of it with the next change, so that this may
    /// be called under their lock.
    pub(crate) fn remove_decoded(&self, bytes: u64) {
        self.decoded.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes that arrays are read no more, and gives the time of it, in things that became idle.
    pub(crate) fn add_idle(&self, bytes: u64) -> u64 {
        self.idle.fetch_add(bytes, Ordering::Relaxed);
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that idle arrays are read again, or gone.
    pub(crate) fn remove_idle(&self, bytes: u64) {
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether arrays may be kept for readers to come, in place of frames if need be.
    pub(crate) fn keeps_few_arrays(&self) -> bool {
        self.decoded_bytes() < self.limit() / DECODED_KEPT
    }

    /// Whether arrays may be kept for readers to come: there is memory that nobody else wants, or
    /// there are few.
    pub(crate) fn keeps_arrays(&self) -> bool {
        self.keeps_spare_arrays() || self.keeps_few_arrays()
    }

    /// Whether there is memory that nobody else wants.
    pub(crate) fn keeps_spare_arrays(&self) -> bool {
        self.spare.load(Ordering::Relaxed)
    }

    /// What idle arrays leave free.
    fn spare_left(&self) -> u64 {
        (self.limit() / SPARE_LEFT).min(SPARE_LEFT_MAX)
    }

    fn step(&self) -> u64 {
        self.limit() / STEPS
    }

    fn held_beside_operators(&self, pools: &[Arc<dyn Lender>]) -> u64 {
        let frames: u64 = pools.iter().map(|pool| pool.held()).sum();
        frames + self.page_bytes() + self.decoded_bytes() + self.metadata_counted()
    }

    /// Idle arrays beyond their part of the limit go as far as others want the memory; but first
    /// frames that only stalled scans need.
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

    /// Sees whether there is memory for idle arrays, and has them make way where there is none. Not
    /// to be called under a pool's lock.
    pub(crate) fn weigh_arrays(&self) {
        self.weigh(&self.pools());
    }

    fn weigh(&self, pools: &[Arc<dyn Lender>]) {
        let all = self.operator_bytes() + self.held_beside_operators(pools) + self.spare_left();
        let idle = self.decoded_bytes().saturating_sub(self.read_array_bytes());
        let stalled: u64 = pools.iter().map(|pool| pool.stalled()).sum();
        let spare = all.saturating_sub(idle + stalled) + STEPS_FREED * self.step() < self.limit();
        self.spare.store(spare, Ordering::Relaxed);
        // Whoever makes way already makes enough.
        if all > self.limit()
            && let Some(mut one) = self.making_way.try_lock()
        {
            self.make_way(&mut one);
        }
    }

    /// From now on `holder` is asked to give memory back before an operator is refused any.
    pub fn give_first(&self, holder: Weak<dyn Reclaim>) {
        self.reclaimed.lock().push(holder);
    }

    fn reclaimable(&self) -> Vec<Arc<dyn Reclaim>> {
        let mut holders = self.reclaimed.lock();
        holders.retain(|holder| holder.strong_count() > 0);
        holders.iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn join(&self, pool: Weak<dyn Lender>) {
        self.lenders.lock().push(pool);
        self.divide();
    }

    /// Divides the pools' share anew if it changed by a step. Not to be called under a pool's lock.
    pub(crate) fn tell(&self) {
        let pools = self.pools();
        self.weigh(&pools);
        if self.told.load(Ordering::Relaxed) != self.steps(self.pool_share(&pools)) {
            self.divide();
        }
    }

    /// The next word to the pools is a new one, whatever they were told.
    pub(crate) fn forget_told(&self) {
        self.told.store(u64::MAX, Ordering::Relaxed);
    }

    /// What the pools keep whatever operators want.
    fn floor(&self, pools: &[Arc<dyn Lender>]) -> u64 {
        let loads = pools.iter().map(|pool| pool.largest_load_bytes()).sum();
        (self.limit() / POOL_FLOOR).max(loads).min(self.limit())
    }

    /// What all pools together may hold.
    fn pool_share(&self, pools: &[Arc<dyn Lender>]) -> u64 {
        let read = self.page_bytes() + self.decoded_counted();
        let taken = self.operator_bytes() + read + self.metadata_counted();
        // Until the next step is told, others may take as much as a step.
        let left = self.limit().saturating_sub(taken + self.step());
        left.max(self.floor(pools))
    }

    fn steps(&self, bytes: u64) -> u64 {
        bytes / self.step().max(1)
    }

    /// Active pools each get what they need, and share the rest alike; idle ones get nothing as
    /// soon as one is active.
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

    /// A pool that always holds all it may.
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
        let memory = MemoryBudget::new(64_000);
        let pool = Arc::new(Full::default());
        memory.join(Arc::downgrade(&(Arc::clone(&pool) as Arc<dyn Lender>)));
        for taken in 0..64_000 / POOL_FLOOR * 7 {
            // Arrays come and go by less than a step, and nobody tells the pools.
            memory.decoded.store(taken % 700, Ordering::Relaxed);
            if taken + 700 > 64_000 / POOL_FLOOR * 7 {
                break;
            }
            assert!(memory.try_reserve(1), "{taken}: {memory:?}");
            assert!(memory.operator_bytes() + memory.decoded_bytes() + pool.held() <= 64_000);
        }
    }

    /// A pool of frames, some of which only stalled scans need, and of idle arrays.
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
        // Without such frames arrays go.
        pool.held.store(60_000, Ordering::Relaxed);
        pool.stalled.store(0, Ordering::Relaxed);
        memory.weigh_arrays();
        assert!(!memory.keeps_spare_arrays());
        assert!(pool.arrays_asked_for.load(Ordering::Relaxed) > 0);
    }
}
