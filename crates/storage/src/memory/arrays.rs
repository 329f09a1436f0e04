//! How many bytes do decoded arrays take, and which of them may stay without a reader?
//!
//! *Idle* arrays are those without a reader. *Settled* ones took the place of frames; the pools
//! hold their bytes, which count among the frames.
//! Not here: who drops arrays, and when (`budget.rs`); which ones (`pool/segments/`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The part of the limit, in thousandths, that arrays may take from frames, at the start and at
/// least. Arrays take more memory than their frames, so the rest is better used for frames, unless
/// the devices have time to spare and the processors do not.
pub(crate) const ARRAYS_PART_MIN: u64 = 125;
/// The most that arrays may take from frames.
pub(crate) const ARRAYS_PART_MAX: u64 = 1000;
/// The most that idle arrays may take, in thousandths, in addition to the frames they were decoded
/// from: up to this part they count like arrays with readers.
const IDLE_PART_MAX: u64 = 350;

/// The counts of decoded arrays, and what the last check said of them.
pub(super) struct Arrays {
    /// Without the settled ones.
    decoded: AtomicU64,
    /// The part of `decoded` without readers.
    idle: AtomicU64,
    settled: AtomicU64,
    part: AtomicU64,
    /// Whether there was memory for idle arrays at the last check.
    spare: AtomicBool,
    /// Whether memory was full at the last check, idle arrays included.
    full: AtomicBool,
    /// The highest price at which idle arrays were dropped: nanoseconds of decoding per KiB.
    price_dropped: AtomicU64,
}

impl Arrays {
    pub(super) fn none() -> Self {
        Self {
            decoded: AtomicU64::default(),
            idle: AtomicU64::default(),
            settled: AtomicU64::default(),
            part: AtomicU64::new(ARRAYS_PART_MIN),
            spare: AtomicBool::default(),
            full: AtomicBool::default(),
            price_dropped: AtomicU64::default(),
        }
    }

    /// Bytes of decoded arrays, without the settled ones.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// The part of [`Self::decoded`] with readers.
    pub(super) fn read(&self) -> u64 {
        let idle = self.idle.load(Ordering::Relaxed);
        self.decoded().saturating_sub(idle)
    }

    pub(super) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Bytes of decoded arrays, without idle ones beyond their part of the limit.
    pub(super) fn counted(&self, limit: u64) -> u64 {
        let kept = self.decoded().min(self.kept(limit));
        kept.max(self.read())
    }

    pub(super) fn add(&self, bytes: u64) {
        self.decoded.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: u64) {
        self.decoded.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Arrays became idle. Returns the highest price at which idle ones were dropped.
    pub(super) fn add_idle(&self, bytes: u64) -> u64 {
        self.idle.fetch_add(bytes, Ordering::Relaxed);
        self.price_dropped.load(Ordering::Relaxed)
    }

    /// Idle arrays found readers, or were dropped.
    pub(super) fn remove_idle(&self, bytes: u64) {
        self.idle.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Idle arrays of this price were dropped.
    pub(super) fn dropped_at(&self, price: u64) {
        self.price_dropped.fetch_max(price, Ordering::Relaxed);
    }

    /// Decoded arrays count among the frames from now on.
    pub(super) fn settle(&self, bytes: u64) {
        self.settled.fetch_add(bytes, Ordering::Relaxed);
        self.remove(bytes);
    }

    pub(super) fn remove_settled(&self, bytes: u64) {
        self.settled.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The part of the limit, in thousandths, that arrays may take from frames.
    pub(super) fn part(&self) -> u64 {
        self.part.load(Ordering::Relaxed)
    }

    pub(super) fn set_part(&self, thousandths: u64) {
        self.part.store(thousandths, Ordering::Relaxed);
    }

    /// The bytes up to which idle arrays are kept even at the expense of frames.
    fn kept(&self, limit: u64) -> u64 {
        limit / 1000 * self.part().min(IDLE_PART_MAX)
    }

    /// Whether decoded arrays are so few that idle ones are kept even at the expense of frames.
    pub(super) fn keeps_few(&self, limit: u64) -> bool {
        self.decoded() < self.kept(limit)
    }

    /// Whether arrays have less than their part.
    pub(super) fn are_few(&self, limit: u64) -> bool {
        self.decoded() + self.settled() < limit / 1000 * self.part()
    }

    /// The outcome of a check: whether there is memory for idle arrays, and whether memory is full.
    pub(super) fn weighed(&self, spare: bool, full: bool) {
        self.spare.store(spare, Ordering::Relaxed);
        self.full.store(full, Ordering::Relaxed);
    }

    /// Whether there was memory for idle arrays at the last check.
    pub(super) fn have_spare(&self) -> bool {
        self.spare.load(Ordering::Relaxed)
    }

    /// Whether memory was full at the last check.
    pub(super) fn fill_memory(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn set(&self, decoded: u64, idle: u64) {
        self.decoded.store(decoded, Ordering::Relaxed);
        self.idle.store(idle, Ordering::Relaxed);
    }
}
