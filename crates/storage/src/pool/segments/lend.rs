//! The pool's side of the memory budget: what does it hold, what does it need, and how does it
//! give memory back?
//!
//! Not here: how the limit is divided (`../../memory/budget.rs`); which frames are evicted
//! (coscan-core).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coscan_core::{ChunkSet, Event, ScanId};

use crate::memory::Lender;
use crate::pool::Inner;
use crate::pool::state::{Effects, LargestLoad, State};

impl Lender for Inner {
    fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    fn largest_load_bytes(&self) -> u64 {
        self.largest_load_bytes.load(Ordering::Relaxed)
    }

    fn set_budget(self: Arc<Self>, bytes: u64) {
        let bytes = bytes.min(self.config.buffer_bytes_max.unwrap_or(u64::MAX));
        self.with_state(|state, effects| {
            if state.abm.budget_bytes() != bytes {
                Self::log(state.handle(Event::BudgetChanged { bytes }, effects));
            }
        });
    }

    fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::Relaxed)
    }

    fn drop_stalled(self: Arc<Self>, bytes: u64) {
        self.with_state(|state, effects| {
            let budget = state.abm.budget_bytes();
            // The core counts frames that only stalled scans need as garbage and evicts garbage
            // first, the oldest first, so lowering the budget for a moment evicts them.
            let bytes = bytes.min(state.abm.stalled_bytes());
            let less = state.abm.used_bytes().saturating_sub(bytes).min(budget);
            for bytes in [less, budget] {
                Self::log(state.handle(Event::BudgetChanged { bytes }, effects));
            }
            state.stalled.count(&state.abm);
        });
    }

    fn drop_idle_arrays(self: Arc<Self>, bytes: u64) {
        let memory = &self.shared.memory;
        self.with_state(|state, effects| state.drop_idle_arrays(bytes, memory, effects));
    }

    fn drop_idle_tables(self: Arc<Self>, bytes: u64) {
        self.with_state(|state, effects| state.drop_idle_tables(bytes, effects));
    }

    fn limit_lowered(self: Arc<Self>, limit: u64) {
        let budget = limit.min(self.config.buffer_bytes_max.unwrap_or(u64::MAX));
        Arc::clone(&self).drop_idle_arrays(u64::MAX);
        self.with_state(|state, effects| {
            for (id, largest) in state.scans.that_need_more(budget) {
                state.fail_too_large(id, largest, budget, effects);
            }
        });
    }
}

impl State {
    /// Fails a scan that would wait for a chunk that can never fit; its consumers get the reason.
    fn fail_too_large(
        &mut self,
        id: ScanId,
        largest: LargestLoad,
        budget: u64,
        effects: &mut Effects,
    ) {
        let Some(table) = self.tables.get(&largest.table) else {
            return;
        };
        let error = table.core.too_large(largest.chunk, largest.bytes, budget);
        let all = u32::try_from(table.core.chunks.len()).unwrap_or(u32::MAX);
        let chunks = ChunkSet::from_range(0..all);
        if !self.scans.needs_no_load(id) {
            return;
        }
        self.fail_scan(id, error, effects);
        Inner::log(self.handle(Event::ChunksWithdrawn { scan: id, chunks }, effects));
    }

    /// Recounts the frames that only stalled scans need, if the last count is old.
    pub(crate) fn recount_stalled(&mut self) {
        self.stalled.recount(&self.abm);
    }
}
