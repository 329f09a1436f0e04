//! DataFusion's operators and Coscan's buffer draw on one budget.
//!
//! An operator that wants memory gets what is free. If nothing is free, the buffer gives up chunks
//! that nobody reads. If that does not suffice, the operator is refused and spills. The buffer
//! never takes memory back from an operator.
//!
//! Operators are fair to each other where it matters. The last quarter of what operators may have
//! is for those that have less than their part of what all that can spill may have: otherwise one
//! sort that fills the memory would leave a second one nothing, not even something to spill. A sort
//! that is about to spill merges what it holds. The merge gets what the sort gives back
//! (`sort_credit.rs`), and with several keys needs half as much again or more, so sorts have half
//! of what operators may have and leave the rest to merges. The merge of spilled runs, which
//! DataFusion gives the same name, opens as many runs at once as it gets memory for, at least two;
//! what it leaves is for the operators after it, which cannot make do with less.
//!
//! Chunks that are being read make way, but not at once. An operator that fails without memory gets
//! some beyond the limit meanwhile. So does a sort that holds so little that it could not spill it,
//! and so does whoever wants next to nothing: otherwise a few joins that fill the memory would
//! leave none for the text of a statement.
//! Not here: the budget itself and how the buffer shrinks (`coscan-storage`).
//! I3: what operators reserve by `try_grow`, frames, decoded columns, pages and loads in flight
//! stay within the budget together, except for a sixteenth that is given beyond it to those that
//! cannot spill, and another to sorts that hold little and to whoever wants next to nothing.
//! `grow`, which DataFusion uses where it has the memory already, may exceed the budget; the buffer
//! then shrinks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_storage::pool::MemoryBudget;
use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use super::sort_credit::{MERGE, SortCredits};

/// A memory pool for DataFusion over the engine's budget.
#[derive(Debug)]
pub(crate) struct SharedPool {
    budget: Arc<MemoryBudget>,
    /// The bytes of the budget that operators hold.
    reserved: AtomicUsize,
    /// The bytes of `reserved` that belong to operators that cannot spill.
    fixed: AtomicUsize,
    /// Registered consumers that can spill.
    spillers: AtomicUsize,
    /// Registered merges.
    merges: AtomicUsize,
    sorts: SortCredits,
}

/// What a consumer does when it is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnRefusal {
    /// It spills.
    Spills,
    /// It merges fewer runs at a time.
    Merges,
    /// It fails, and its query with it.
    Fails,
}

impl OnRefusal {
    /// DataFusion tells of a consumer only whether it can spill; merges are known by their names.
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

/// The part of the limit that is given beyond it to those that cannot spill, as a divisor. Sorts
/// that hold little get as much again.
const BEYOND: usize = 16;

/// The part of the limit that is next to nothing, as a divisor: of 512 MiB it is 256 KiB, which a
/// merge of two partitions begins with. As many consumers would have to want it at a time to have
/// all of the limit.
const NEXT_TO_NOTHING: usize = 2048;

impl SharedPool {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            reserved: AtomicUsize::new(0),
            fixed: AtomicUsize::new(0),
            spillers: AtomicUsize::new(0),
            merges: AtomicUsize::new(0),
            sorts: SortCredits::default(),
        }
    }

    /// The counter of registered consumers that do the same on refusal; `None` if nothing depends
    /// on it.
    fn count(&self, consumer: &MemoryConsumer) -> Option<&AtomicUsize> {
        match OnRefusal::of(consumer) {
            OnRefusal::Spills => Some(&self.spillers),
            OnRefusal::Merges => Some(&self.merges),
            OnRefusal::Fails => None,
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

    /// Whether an operator may grow, in fairness to the others. The counters are read one after the
    /// other: a grant too many or too few between them does no harm, because the budget has the
    /// last word.
    fn is_fair(&self, reservation: &MemoryReservation, additional: usize) -> bool {
        let operators = usize::try_from(self.budget.operators_max()).unwrap_or(usize::MAX);
        let among =
            |bytes: usize, count: &AtomicUsize| bytes / count.load(Ordering::Relaxed).max(1);
        let (plenty, part) = match OnRefusal::of(reservation.consumer()) {
            OnRefusal::Spills => {
                let sorts = self.sorts.share(reservation.consumer()).is_some();
                let (plenty, left) = if sorts { (3, 4) } else { (6, 1) };
                let fixed = self.fixed.load(Ordering::Relaxed);
                let rest = operators.saturating_sub(fixed.max(operators / 8 * left));
                (operators / 8 * plenty, among(rest, &self.spillers))
            }
            OnRefusal::Merges => {
                let sort = self.sorts.share(reservation.consumer());
                let in_memory = sort.is_some_and(|sort| sort.in_memory);
                let plenty = if in_memory { 15 } else { 13 };
                (operators / 16 * plenty, among(operators / 8, &self.merges))
            }
            OnRefusal::Fails => return true,
        };
        let all = self.reserved() + self.sorts.bytes();
        all.saturating_add(additional) <= plenty
            || reservation.size().saturating_add(additional) <= part
    }

    /// Whether an operator is a sort that holds little, with the `additional` bytes that it wants;
    /// or nothing without them but what it has set aside for merges.
    fn is_small_sort(&self, consumer: &MemoryConsumer, additional: usize) -> bool {
        let sort = self.sorts.share(consumer);
        sort.is_some_and(|sort| {
            let begins = consumer.can_spill() && sort.spillable <= additional;
            begins || sort.bytes <= self.limit() / BEYOND / sort.sorts.max(1)
        })
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
        self.sorts.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if let Some(count) = self.count(consumer) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        let free = self.sorts.unregister(consumer);
        self.budget.release(free as u64);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let of_credit = self.sorts.grow(reservation.consumer(), additional);
        self.grew(reservation, additional);
        self.budget.reserve((additional - of_credit) as u64);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        if !reservation.consumer().can_spill() {
            self.fixed.fetch_sub(shrink, Ordering::Relaxed);
        }
        let free = self.sorts.shrink(reservation.consumer(), shrink);
        self.budget.release(free as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        let of_credit = self.sorts.grow(consumer, additional);
        let rest = (additional - of_credit) as u64;
        let sixteenth = self.budget.limit() / BEYOND as u64;
        let beyond = match OnRefusal::of(consumer) {
            OnRefusal::Spills => 0,
            OnRefusal::Merges | OnRefusal::Fails => sixteenth,
        };
        let granted = || {
            self.is_fair(reservation, additional) && self.budget.try_reserve_beyond(rest, beyond)
        };
        let indulged = || {
            let little = self.limit() / NEXT_TO_NOTHING;
            let wants_little = reservation.size().saturating_add(additional) <= little;
            (wants_little || self.is_small_sort(consumer, additional))
                && self.budget.try_exceed(rest, 2 * sixteenth)
        };
        if rest == 0 || granted() || indulged() {
            self.grew(reservation, additional);
            return Ok(());
        }
        self.sorts.refused(consumer, additional, of_credit);
        Err(resources_datafusion_err!(
            "{} needs {additional} more bytes, and has {}; of the {} bytes of coscan.memory, operators have {}, decoded columns {}, chunks {}, and pages read by themselves {}; the process takes {} more than it may",
            reservation.consumer().name(),
            reservation.size(),
            self.budget.limit(),
            self.budget.operator_bytes(),
            self.budget.decoded_bytes(),
            self.budget.frame_bytes(),
            self.budget.page_bytes(),
            self.budget.excess_bytes()
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

    /// Takes `step` bytes at a time until it is refused; returns how much it then has.
    fn fill(reservation: &MemoryReservation, step: usize) -> usize {
        while reservation.try_grow(step).is_ok() {}
        reservation.size()
    }

    #[test]
    fn who_can_make_do_with_less_leaves_something_to_who_cannot() {
        // Operators may have 70,000 of the 80,000 bytes.
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
        assert_eq!(
            fill(&last, 10),
            5_050,
            "the rest, and a sixteenth beyond it, for it cannot do with less"
        );
        drop((first, sort));
        assert_eq!(fill(&last, 10), 70_650);
    }

    #[test]
    fn who_has_all_leaves_others_next_to_nothing() {
        let budget = MemoryBudget::new(80_000 << 10);
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(Arc::clone(&budget)));
        let join = MemoryConsumer::new("join").register(&pool);
        fill(&join, 1 << 10);
        let little = (80_000 << 10) / NEXT_TO_NOTHING;
        let others: Vec<_> = (0..2 * NEXT_TO_NOTHING / BEYOND)
            .map(|n| MemoryConsumer::new(format!("other[{n}]")).register(&pool))
            .collect();
        for other in &others {
            assert_eq!(fill(other, 1 << 10), little >> 10 << 10);
        }
        let sixteenths = budget.limit() + 2 * budget.limit() / BEYOND as u64;
        assert!(budget.operator_bytes() <= sixteenths);
    }

    /// A sort and its merge, as DataFusion registers them.
    fn sort(pool: &Arc<dyn MemoryPool>, partition: u32) -> (MemoryReservation, MemoryReservation) {
        let sort = MemoryConsumer::new(format!("ExternalSorter[{partition}]"));
        let merge = MemoryConsumer::new(format!("{MERGE}[{partition}]"));
        (
            sort.with_can_spill(true).register(pool),
            merge.register(pool),
        )
    }

    #[test]
    fn what_a_sort_gives_back_its_merge_may_have() {
        let budget = MemoryBudget::new(80_000);
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(Arc::clone(&budget)));
        let ((first, first_merge), (second, second_merge)) = (sort(&pool, 0), sort(&pool, 0));
        let other = MemoryConsumer::new("other").register(&pool);
        let had = fill(&first, 100);
        assert!(had > 25_000, "{had}");
        fill(&second, 100);
        fill(&other, 10);
        for _ in 0..had / 100 {
            first.shrink(100);
            assert!(second.try_grow(100).is_err(), "it is the first one's");
            assert!(other.try_grow(100).is_err(), "it is the first one's");
            first_merge.try_grow(100).unwrap();
        }
        assert_eq!((first.size(), first_merge.size()), (0, had));
        first_merge.shrink(had / 2);
        let before = other.size();
        assert!(fill(&other, 10) >= before + had / 4);
        drop((first, first_merge, second, second_merge, other));
        assert_eq!((budget.operator_bytes(), pool.reserved()), (0, 0));
    }

    #[test]
    fn a_merge_of_spilled_runs_leaves_more_than_one_of_what_the_sort_holds() {
        // Operators may have 70,000 of the 80,000 bytes.
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(MemoryBudget::new(80_000)));
        let (first, merge) = sort(&pool, 0);
        first.try_grow(20_000).unwrap();
        first.shrink(20_000);
        assert_eq!(fill(&merge, 100), 65_600);
        merge.free();
        assert_eq!(fill(&merge, 100), 56_800);
    }

    #[test]
    fn credit_goes_with_the_merge_that_did_not_need_it_and_with_the_sort() {
        let budget = MemoryBudget::new(80_000);
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(Arc::clone(&budget)));
        let (first, merge) = sort(&pool, 0);
        first.try_grow(20_000).unwrap();
        first.shrink(20_000);
        assert_eq!((budget.operator_bytes(), pool.reserved()), (20_000, 0));
        // The merge needs half of the credit, and gives most of that back.
        merge.try_grow(10_000).unwrap();
        assert_eq!(budget.operator_bytes(), 20_000);
        merge.shrink(8_000);
        assert_eq!(budget.operator_bytes(), 4_000);
        first.try_grow(1_000).unwrap();
        assert_eq!(budget.operator_bytes(), 4_000, "of its credit");
        drop(first);
        assert_eq!(budget.operator_bytes(), 4_000, "its merge may want it");
        drop(merge);
        assert_eq!((budget.operator_bytes(), pool.reserved()), (0, 0));
    }

    #[test]
    fn a_sort_that_holds_little_is_not_refused() {
        let budget = MemoryBudget::new(80_000);
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(Arc::clone(&budget)));
        let other = MemoryConsumer::new("other").register(&pool);
        other.grow(80_000);
        let (first, merge) = sort(&pool, 0);
        assert_eq!(fill(&first, 100), 5_000);
        assert!(merge.try_grow(100).is_err(), "both together");
        let (second, _merge) = sort(&pool, 1);
        assert_eq!(fill(&second, 100), 2_500);
        let later: Vec<_> = (2..40).map(|n| sort(&pool, n)).collect();
        let all: usize = later.iter().map(|(sort, _)| fill(sort, 100)).sum();
        assert_eq!(all, 2_500, "all together two sixteenths, however many come");
    }

    #[test]
    fn what_is_set_aside_for_merges_does_not_make_a_sort_large() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedPool::new(MemoryBudget::new(80_000)));
        let other = MemoryConsumer::new("other").register(&pool);
        other.grow(78_000);
        // A sort of hundred holds little if it holds 50 bytes.
        let sorts: Vec<_> = (0..100).map(|n| sort(&pool, n)).collect();
        let (first, merge) = &sorts[0];
        merge.try_grow(40).unwrap();
        first.try_grow(1_000).expect("it could not spill instead");
        assert!(first.try_grow(1_000).is_err(), "it can spill now");
    }
}
