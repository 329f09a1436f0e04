//! Which decoded arrays are dropped first?
//!
//! Idea: arrays that a running scan will still read are worth more than arrays that no running
//! scan needs (the buffer manager knows the future of running scans, [CoopScans07 §4]). Among
//! equals the victim is chosen by GreedyDual-Size [CaoIrani97 §4]: arrays stay if decoding them
//! took much processor time per byte, or if they were read recently, because each drop raises the
//! price of arrays that come later. So strings, which take much memory, do not displace all
//! numbers whenever they are read.
//! Not here: how much is dropped, and when (`../../memory/budget.rs`).
//! Bounds: every call visits all idle segments, so `../../memory/budget.rs` frees several steps'
//! worth at a time.

use std::cmp::Reverse;
use std::sync::Arc;

use coscan_core::{ChunkId, ColumnSet, TableId};

use crate::memory::MemoryBudget;
use crate::pool::decode::{DecodedSegment, Idle};
use crate::pool::state::{DecodedKey, Effects, State};

/// An idle segment: its arrays have no reader.
struct Candidate {
    wanted: bool,
    idle: Idle,
    table: TableId,
    key: DecodedKey,
}

impl State {
    /// Drops idle arrays, or instead the frames that they were decoded from (`segment_form.rs`),
    /// the least valuable first, until `bytes` are freed or no idle array is left.
    pub(crate) fn drop_idle_arrays(
        &mut self,
        bytes: u64,
        memory: &MemoryBudget,
        effects: &mut Effects,
    ) {
        // This runs only when memory is short.
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
