//! Which scans need each chunk.
//!
//! Idea: the count stands beside the set, because most chunks of a search are refused by their count, which costs four bytes of
//! memory instead of thirty-two.
//! I10: the count is the size of the set.

use crate::ChunkId;
use crate::bits::Bits;

/// Slots (see `table.rs`) of the scan parts that need each chunk.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    slots: Vec<Bits>,
    counts: Vec<u32>,
}

impl Interest {
    /// A chunk that nobody needs is appended.
    pub(crate) fn push(&mut self) {
        self.slots.push(Bits::default());
        self.counts.push(0);
    }

    pub(crate) fn slots(&self, chunk: ChunkId) -> &Bits {
        &self.slots[chunk.0 as usize]
    }

    pub(crate) fn count(&self, chunk: ChunkId) -> u32 {
        self.counts[chunk.0 as usize]
    }

    pub(crate) fn set(&mut self, chunk: ChunkId, slot: usize, on: bool) {
        let slots = &mut self.slots[chunk.0 as usize];
        if slots.contains(slot) != on {
            slots.set(slot, on);
            let count = &mut self.counts[chunk.0 as usize];
            *count = if on { *count + 1 } else { *count - 1 };
        }
    }

    /// A chunk as a search looks at it.
    pub(crate) fn member(&self, chunk: ChunkId) -> Member<'_> {
        Member {
            chunk,
            count: self.count(chunk),
            slots: self.slots(chunk),
        }
    }
}

/// A chunk and who is interested in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) chunk: ChunkId,
    /// How many. Look at this first.
    pub(crate) count: u32,
    pub(crate) slots: &'a Bits,
}
