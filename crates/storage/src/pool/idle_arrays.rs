//! Which decoded arrays go first?
//!
//! Idea: what a running scan is still to read is worth more than what none is known to want (the
//! buffer manager knows the future of running scans, [CoopScans07 §4]). Among equals, those stay
//! whose decode took the most processor time per byte, and what was read lately, by GreedyDual-Size
//! [CaoIrani97 §4]: what is dropped raises the price of what comes after it. So texts, which take
//! much memory, do not displace all numbers whenever they are read.
//! Not here: how much goes, and when (`../memory/budget.rs`).
//! Bounds: a look at every idle segment, so `../memory/budget.rs` frees some steps at a time.

use std::cmp::Reverse;
use std::sync::Arc;

use coscan_core::{ChunkId, ColumnSet, TableId};

use super::decoded::{DecodedSegment, Idle};
use super::state::{DecodedKey, Effects, State};
use crate::memory::MemoryBudget;

/// A segment that nobody reads.
struct Candidate {
    wanted: bool,
    idle: Idle,
    table: TableId,
    key: DecodedKey,
}

impl State {
    /// Drops arrays that nobody reads, or the frames that they were decoded from (`settled.rs`),
    /// the least valuable first, until `bytes` have gone or none is left.
    pub(crate) fn drop_idle_arrays(
        &mut self,
        bytes: u64,
        memory: &MemoryBudget,
        effects: &mut Effects,
    ) {
        // Memory is short: that is why some are to go.
        let settles = memory.has_few_arrays();
        let mut idle = self.idle_arrays();
        idle.sort_unstable_by_key(|segment| Reverse((segment.wanted, segment.idle.price)));
        let mut gone = 0;
        while gone < bytes
            && let Some(next) = idle.pop()
        {
            let settled = settles.then(|| self.settle(next.table, &next.key, memory, effects));
            if let Some(freed) = settled.flatten() {
                gone += freed;
                continue;
            }
            let dropped = self.drop_array(next.table, &next.key);
            gone += next.idle.bytes;
            memory.dropped_at(next.idle.price);
            effects.dropped.extend(dropped);
        }
    }

    fn idle_arrays(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        for (&table, state) in &self.tables {
            for (&chunk, segments) in &state.decoded {
                for (key, segment) in segments {
                    let Some(idle) = segment.idle() else {
                        continue;
                    };
                    let column = state.core.column(&key.1.name);
                    let columns: ColumnSet = column.into_iter().collect();
                    all.push(Candidate {
                        wanted: self.abm.is_wanted(table, chunk, &columns),
                        idle,
                        table,
                        key: key.clone(),
                    });
                }
            }
        }
        all
    }

    fn drop_array(&mut self, table: TableId, key: &DecodedKey) -> Option<Arc<DecodedSegment>> {
        let table = self.tables.get_mut(&table)?;
        let chunk: ChunkId = key.0;
        table.picked.remove(&chunk);
        let list = table.decoded.get_mut(&chunk)?;
        let at = list.iter().position(|(known, _)| known == key)?;
        let (_, segment) = list.swap_remove(at);
        if list.is_empty() {
            table.decoded.remove(&chunk);
        }
        Some(segment)
    }
}
