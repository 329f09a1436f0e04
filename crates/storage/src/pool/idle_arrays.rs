//! Which decoded arrays go first?
//!
//! Idea: what a running scan is still to read is worth more than what none is known to want (the
//! buffer manager knows the future of running scans, [CoopScans07 §4]); among equals, what was read
//! last stays.
//! Not here: how much goes, and when (`../memory/budget.rs`).
//! Bounds: a look at every idle segment, so `../memory/budget.rs` frees some steps at a time.

use std::cmp::Reverse;
use std::sync::Arc;

use coscan_core::{ChunkId, ColumnSet, TableId};

use super::decoded::DecodedSegment;
use super::state::{DecodedKey, Effects, State};
use crate::memory::MemoryBudget;

/// A segment that nobody reads.
struct Idle {
    wanted: bool,
    /// When its last reader left, in the budget's ticks.
    left: u64,
    bytes: u64,
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
        let settles = memory.prefers_arrays();
        let mut idle = self.idle_arrays();
        idle.sort_unstable_by_key(|segment| Reverse((segment.wanted, segment.left)));
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
            gone += next.bytes;
            effects.dropped.extend(dropped);
        }
    }

    fn idle_arrays(&self) -> Vec<Idle> {
        let mut all = Vec::new();
        for (&table, state) in &self.tables {
            for (&chunk, segments) in &state.decoded {
                for (key, segment) in segments {
                    let Some((left, bytes)) = segment.idle() else {
                        continue;
                    };
                    let column = state.core.column(&key.1.name);
                    let columns: ColumnSet = column.into_iter().collect();
                    all.push(Idle {
                        wanted: self.abm.is_wanted(table, chunk, &columns),
                        left,
                        bytes,
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
