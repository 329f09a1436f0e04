//! DataFusion's operators and Coscan's buffer draw on one budget.
//!
//! An operator that wants memory gets it from what is free; if nothing is, the buffer gives up chunks that nobody reads; if
//! that does not suffice, the operator is refused and spills. The buffer never takes memory back from an operator.
//! Operators are fair to each other where it matters: the last quarter of what operators may have is for those that have less
//! than their part of all that can spill. Without that, one sort that fills the memory leaves a second one nothing, not even
//! something to spill.
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
}

/// The part of the budget that the buffer keeps in any case, as a divisor; `MemoryBudget` enforces it.
const BUFFER_FLOOR: usize = 8;

impl SharedPool {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            reserved: AtomicUsize::new(0),
            fixed: AtomicUsize::new(0),
            spillers: AtomicUsize::new(0),
        }
    }
}

impl SharedPool {
    fn limit(&self) -> usize {
        usize::try_from(self.budget.limit()).unwrap_or(usize::MAX)
    }

    fn grew(&self, reservation: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        if !reservation.consumer().can_spill() {
            self.fixed.fetch_add(additional, Ordering::Relaxed);
        }
    }

    /// Whether an operator that can spill may grow, as far as the others are concerned. The counters are read one after the
    /// other: a grant too many or too few between them does no harm, the budget has the last word.
    fn is_fair(&self, reservation: &MemoryReservation, additional: usize) -> bool {
        let limit = self.limit();
        let decoded = usize::try_from(self.budget.decoded_bytes()).unwrap_or(usize::MAX);
        let operators = (limit - limit / BUFFER_FLOOR).saturating_sub(decoded);
        let plenty = operators / 4 * 3;
        let fixed = self.fixed.load(Ordering::Relaxed);
        let part = operators.saturating_sub(fixed) / self.spillers.load(Ordering::Relaxed).max(1);
        self.reserved().saturating_add(additional) <= plenty
            || reservation.size().saturating_add(additional) <= part
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "coscan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.spillers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.spillers.fetch_sub(1, Ordering::Relaxed);
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
        let fair = !reservation.consumer().can_spill() || self.is_fair(reservation, additional);
        if fair && self.budget.try_reserve(additional as u64) {
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
