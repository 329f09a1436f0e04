//! Which scans need each chunk.
//!
//! Idea: the same bits three ways, for a search refuses most chunks and must do so cheaply: by scan, 64 chunks with one word, and the
//! next 64 with the next; by count, a chunk with four bytes; by chunk, whoever is left.
//! I10: the three agree.

use crate::ChunkId;
use crate::bits::Bits;

/// Slots (see `table.rs`) of the scan parts that need each chunk.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    slots: Vec<Bits>,
    counts: Vec<u32>,
    /// Of each slot: a word per 64 chunks, up to the last that it ever was interested in.
    words: Vec<Vec<u64>>,
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
            if self.words.len() <= slot {
                self.words.resize(slot + 1, Vec::new());
            }
            let (words, block) = (&mut self.words[slot], chunk.0 as usize / 64);
            if words.len() <= block {
                words.resize(block + 1, 0);
            }
            words[block] ^= 1 << (chunk.0 % 64);
        }
    }

    /// Which of 64 chunks one of the slots needs, a bit each.
    pub(crate) fn of_block(&self, block: u32, slots: &Bits) -> u64 {
        let words = slots.iter().map(|slot| self.chunks_of(block, slot));
        words.fold(0, |all, word| all | word)
    }

    /// Which of 64 chunks the slot needs, a bit each.
    pub(crate) fn chunks_of(&self, block: u32, slot: usize) -> u64 {
        let word = self.words.get(slot).and_then(|of| of.get(block as usize));
        word.copied().unwrap_or(0)
    }

    /// Asserts I10.
    pub(crate) fn check(&self) {
        for (at, slots) in self.slots.iter().enumerate() {
            assert_eq!(self.counts[at], slots.len(), "I10");
        }
        for (slot, words) in self.words.iter().enumerate() {
            let bits = words
                .iter()
                .flat_map(|word| (0..64).map(move |at| word >> at & 1 == 1));
            let mut chunks = bits.zip(&self.slots);
            assert!(chunks.all(|(on, slots)| on == slots.contains(slot)), "I10");
            let mut rest = self.slots.iter().skip(words.len() * 64);
            assert!(!rest.any(|slots| slots.contains(slot)), "I10");
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
