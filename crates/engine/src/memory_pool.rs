//! DataFusion's operators and Coscan's buffer draw on one budget.
//!
//! An operator that wants memory gets it from what is free; if nothing is, the buffer gives up chunks that nobody reads; if
//! that does not suffice, the operator is refused and spills. The buffer never takes memory back from an operator.
//! Not here: the budget itself and how the buffer shrinks (`coscan-storage`).
//! I3: what operators reserve by `try_grow`, frames, decoded columns and loads in flight stay within the budget together.
//! `grow`, which DataFusion uses where it has the memory already, may exceed it; the buffer then shrinks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_storage::pool::MemoryBudget;
use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};

/// A memory pool for DataFusion over the engine's budget.
#[derive(Debug)]
pub(crate) struct SharedPool {
    budget: Arc<MemoryBudget>,
    /// What operators hold of it, in bytes.
    reserved: AtomicUsize,
}

impl SharedPool {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            reserved: AtomicUsize::new(0),
        }
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "coscan"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        self.budget.reserve(additional as u64);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        self.budget.release(shrink as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.budget.try_reserve(additional as u64) {
            self.reserved.fetch_add(additional, Ordering::Relaxed);
            return Ok(());
        }
        Err(resources_datafusion_err!(
            "{} needs {additional} more bytes, and has {}; of the {} bytes of coscan.memory, operators have {} and everything else is in use",
            reservation.consumer().name(),
            reservation.size(),
            self.budget.limit(),
            self.reserved.load(Ordering::Relaxed)
        ))
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.budget.limit()).unwrap_or(usize::MAX))
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
