//! DataFusion's operators and Coscan's buffer draw on one budget.
//!
//! An operator that wants memory gets it from what is free; if nothing is, the buffer gives up chunks that nobody reads; if
//! that does not suffice, the operator is refused and spills. The buffer never takes memory back from an operator.
//! Operators are fair to each other where it matters: the last quarter of what operators may have is for those that have less
//! than their part of all that can spill. Without that, one sort that fills the memory leaves a second one nothing, not even
//! something to spill. A sort that is about to spill merges what it holds, and that merge cannot make do with less than the sort had: it
//! may take a little more than sorts may. The merge of spilled runs, which DataFusion gives the same name, opens as many runs at
//! once as it gets memory for, at least two; what it leaves is for what comes after it, which cannot make do with less.
//! Not here: the budget itself and how the buffer shrinks (`coscan-storage`).
//! I3: what operators reserve by `try_grow`, frames, decoded columns and loads in flight stay within the budget together.
//! `grow`, which DataFusion uses where it has the memory already, may exceed it; the buffer then shrinks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_storage::pool::MemoryBudget;
use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// A memory pool for DataFusion over the engine's budget.
#[derive(Debug)]
pub(crate) struct SharedPool {
    budget: Arc<MemoryBudget>,
    /// What operators hold of it, in bytes.
    reserved: AtomicUsize,
    /// What those of them hold that cannot spill, in bytes.
    fixed: AtomicUsize,
    /// Registered consumers that can spill.
    spillers: AtomicUsize,
    /// Registered merges.
    merges: AtomicUsize,
}

/// What a consumer does when it is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It spills.
    Spills,
    /// It merges fewer runs at a time.
    Merges,
    /// It fails, and its query with it.
    Fails,
}

impl Manner {
    /// DataFusion says of a consumer only whether it can spill; merges are known by their names.
    fn of(consumer: &MemoryConsumer) -> Self {
        if consumer.can_spill() {
            Self::Spills
        } else if consumer.name().starts_with(MERGE) {
            Self::Merges
        } else {
            Self::Fails
        }
    }
}

/// How DataFusion names the merges of its external sorts.
const MERGE: &str = "ExternalSorterMerge";

/// The part of the budget that the buffer keeps in any case, as a divisor; `MemoryBudget` enforces it.
const BUFFER_FLOOR: usize = 8;

impl SharedPool {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            reserved: AtomicUsize::new(0),
            fixed: AtomicUsize::new(0),
            spillers: AtomicUsize::new(0),
            merges: AtomicUsize::new(0),
        }
    }

    /// How many consumers of this manner are registered, where that matters.
    fn count(&self, consumer: &MemoryConsumer) -> Option<&AtomicUsize> {
        match Manner::of(consumer) {
            Manner::Spills => Some(&self.spillers),
            Manner::Merges => Some(&self.merges),
            Manner::Fails => None,
        }
    }

    fn limit(&self) -> usize {
        usize::try_from(self.budget.limit()).unwrap_or(usize::MAX)
    }

    fn grew(&self, reservation: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        if !reservation.consumer().can_spill() {
            self.fixed.fetch_add(additional, Ordering::Relaxed);
        }
    }

    /// Whether an operator may grow, as far as the others are concerned. The counters are read one after the other: a grant too
    /// many or too few between them does no harm, the budget has the last word.
    fn is_fair(&self, reservation: &MemoryReservation, additional: usize) -> bool {
        let limit = self.limit();
        let decoded = usize::try_from(self.budget.decoded_bytes()).unwrap_or(usize::MAX);
        let operators = (limit - limit / BUFFER_FLOOR).saturating_sub(decoded);
        let among =
            |bytes: usize, count: &AtomicUsize| bytes / count.load(Ordering::Relaxed).max(1);
        let (plenty, part) = match Manner::of(reservation.consumer()) {
            Manner::Spills => {
                let fixed = self.fixed.load(Ordering::Relaxed).max(operators / 8);
                let rest = operators.saturating_sub(fixed);
                (operators / 4 * 3, among(rest, &self.spillers))
            }
            // A little more than all sorts together, for it may be merging what they hold, and gets it as they give it back.
            Manner::Merges => (operators / 16 * 13, among(operators / 8, &self.merges)),
            Manner::Fails => return true,
        };
        self.reserved().saturating_add(additional) <= plenty
            || reservation.size().saturating_add(additional) <= part
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "coscan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if let Some(count) = self.count(consumer) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if let Some(count) = self.count(consumer) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.grew(reservation, additional);
        self.budget.reserve(additional as u64);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        if !reservation.consumer().can_spill() {
            self.fixed.fetch_sub(shrink, Ordering::Relaxed);
        }
        self.budget.release(shrink as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.is_fair(reservation, additional) && self.budget.try_reserve(additional as u64) {
            self.grew(reservation, additional);
            return Ok(());
        }
        Err(resources_datafusion_err!(
            "{} needs {additional} more bytes, and has {}; of the {} bytes of coscan.memory, operators have {}, decoded columns {}, and chunks {}",
            reservation.consumer().name(),
            reservation.size(),
            self.budget.limit(),
            self.reserved.load(Ordering::Relaxed),
            self.budget.decoded_bytes(),
            self.budget.frame_bytes()
        ))
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit())
    }
}

impl fmt::Display for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "coscan(used: {}, limit: {})",
            self.reserved(),
            self.budget.limit()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `step` bytes at a time until it is refused; returns what it has then.
    fn fill(reservation: &MemoryReservation, step: usize) -> usize {
        while reservation.try_grow(step).is_ok() {}
        reservation.size()
    }

    #[test]
    fn who_can_make_do_with_less_leaves_something_to_who_cannot() {
        // Operators may have 70,000 of it.
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(MemoryBudget::new(80_000)));
        let merge = |n: u32| MemoryConsumer::new(format!("{MERGE}[{n}]")).register(&pool);
        let (first, second) = (merge(0), merge(1));
        assert_eq!(fill(&first, 1_000), 56_000);
        assert_eq!(
            fill(&second, 50),
            4_350,
            "its part, however much the other has"
        );
        let sort = MemoryConsumer::new("sort")
            .with_can_spill(true)
            .register(&pool);
        assert_eq!(
            fill(&sort, 100),
            9_600,
            "what merges leave, all but an eighth or what they hold more"
        );
        let last = MemoryConsumer::new("last").register(&pool);
        assert_eq!(fill(&last, 10), 50);
        drop((first, sort));
        assert_eq!(fill(&last, 10), 65_650);
    }
}
