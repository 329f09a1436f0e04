//! Which scans need each chunk?
//!
//! Idea: the same interest is stored in three ways, because a search rejects most chunks and must
//! reject them cheaply. By slot: one word for 64 chunks. By count: four bytes per chunk. By chunk:
//! the set of interested slots, for the chunks that are not rejected.
//! ABM-I10: the three ways agree.

use std::ops::Range;

use crate::ChunkId;
use crate::bits::Bits;

/// Slots (see `Table`) of the scan parts that need each chunk.
#[derive(Debug, Default)]
pub(crate) struct Interest {
    slots: Vec<Bits>,
    counts: Vec<u32>,
    by_slot: Vec<Chunks>,
}

/// The chunks that a slot needs.
#[derive(Clone, Debug, Default)]
struct Chunks {
    /// One word per 64 chunks, up to the last chunk that the slot was ever interested in.
    words: Vec<u64>,
    len: usize,
}

impl Chunks {
    fn word(&self, block: usize) -> u64 {
        self.words.get(block).copied().unwrap_or(0)
    }

    /// The words from a chunk on, with the numbers of their blocks; bits before the chunk are
    /// cleared.
    fn from(&self, chunk: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (block, mask) = (chunk / 64, u64::MAX << (chunk % 64));
        let words = self.words.iter().copied().skip(block as usize);
        let rest = (block..).zip(words);
        rest.map(move |(at, word)| (at, if at == block { word & mask } else { word }))
    }

    /// The lowest chunk above a needed chunk that is not needed.
    fn gap(&self, chunk: u32) -> u32 {
        let mut end = chunk + 1;
        while self.word(end as usize / 64) >> (end % 64) & 1 == 1 {
            // Ones from here to the end of the word, or to the first zero.
            end += (self.word(end as usize / 64) >> (end % 64)).trailing_ones();
        }
        end
    }
}

impl Interest {
    /// Appends a chunk that no scan needs.
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
            if self.by_slot.len() <= slot {
                self.by_slot.resize(slot + 1, Chunks::default());
            }
            let (chunks, block) = (&mut self.by_slot[slot], chunk.0 as usize / 64);
            if chunks.words.len() <= block {
                chunks.words.resize(block + 1, 0);
            }
            chunks.words[block] ^= 1 << (chunk.0 % 64);
            chunks.len = if on { chunks.len + 1 } else { chunks.len - 1 };
        }
    }

    /// Which of a block's 64 chunks at least one of the slots needs, one bit each.
    pub(crate) fn of_block(&self, block: u32, slots: &Bits) -> u64 {
        let words = slots.iter().map(|slot| self.chunks_of(block, slot));
        words.fold(0, |all, word| all | word)
    }

    /// Which of a block's 64 chunks the slot needs, one bit each.
    pub(crate) fn chunks_of(&self, block: u32, slot: usize) -> u64 {
        let chunks = self.by_slot.get(slot);
        chunks.map_or(0, |chunks| chunks.word(block as usize))
    }

    /// The smallest interest count among the chunks of a block that are set in `mask`, which is not
    /// 0.
    pub(crate) fn least_of(&self, block: u32, mask: u64) -> u32 {
        let first = block as usize * 64;
        let counts = &self.counts[first..self.counts.len().min(first + 64)];
        let (low, high) = counts.split_at(counts.len().min(32));
        #[expect(clippy::cast_possible_truncation, reason = "a half each")]
        let halves = [(low, mask as u32), (high, (mask >> 32) as u32)];
        // Counts outside the mask are raised to the largest number without a branch, so the
        // compiler vectorises the loop over eight counts.
        let raised = |mask: u32, at: u32| (mask >> at & 1).wrapping_sub(1);
        let least = halves.map(|(counts, mask)| {
            let counts = (0..32).zip(counts);
            let least = counts.map(|(at, count)| count | raised(mask, at)).min();
            least.unwrap_or(u32::MAX)
        });
        least[0].min(least[1])
    }

    /// Whether the slot needs the chunk.
    pub(crate) fn contains(&self, chunk: ChunkId, slot: usize) -> bool {
        self.chunks_of(chunk.0 / 64, slot) >> (chunk.0 % 64) & 1 == 1
    }

    /// The number of chunks that the slot needs.
    pub(crate) fn len(&self, slot: usize) -> usize {
        self.by_slot.get(slot).map_or(0, |chunks| chunks.len)
    }

    /// The number of chunks of a range that the slot needs.
    pub(crate) fn len_in(&self, slot: usize, range: &Range<u32>) -> usize {
        let chunks = self.by_slot.get(slot).filter(|_| !range.is_empty());
        let words = chunks
            .into_iter()
            .flat_map(|chunks| chunks.from(range.start));
        let (last, mask) = (range.end / 64, !(u64::MAX << (range.end % 64)));
        let words = words.take_while(|&(at, _)| at <= last);
        let words = words.map(|(at, word)| if at == last { word & mask } else { word });
        words.map(|word| word.count_ones() as usize).sum()
    }

    /// The lowest chunk at or above `from` that the slot needs.
    pub(crate) fn first(&self, slot: usize, from: ChunkId) -> Option<ChunkId> {
        let mut words = self.by_slot.get(slot)?.from(from.0);
        let (at, word) = words.find(|&(_, word)| word != 0)?;
        Some(ChunkId(at * 64 + word.trailing_zeros()))
    }

    /// The chunks of a range that the slot needs, as maximal runs, ascending.
    pub(crate) fn runs(
        &self,
        slot: usize,
        range: Range<u32>,
    ) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut from = range.start;
        std::iter::from_fn(move || {
            let start = self.first(slot, ChunkId(from))?.0;
            from = self.by_slot[slot].gap(start).min(range.end);
            (start < range.end).then_some(start..from)
        })
    }

    /// Asserts ABM-I10.
    pub(crate) fn check(&self) {
        for (at, slots) in self.slots.iter().enumerate() {
            assert_eq!(self.counts[at], slots.len(), "ABM-I10");
        }
        for (slot, Chunks { words, len }) in self.by_slot.iter().enumerate() {
            let ones = words.iter().map(|word| word.count_ones() as usize);
            assert_eq!(ones.sum::<usize>(), *len, "ABM-I10");
            let bits = words
                .iter()
                .flat_map(|word| (0..64).map(move |at| word >> at & 1 == 1));
            let mut chunks = bits.zip(&self.slots);
            assert!(
                chunks.all(|(on, slots)| on == slots.contains(slot)),
                "ABM-I10"
            );
            let mut rest = self.slots.iter().skip(words.len() * 64);
            assert!(!rest.any(|slots| slots.contains(slot)), "ABM-I10");
        }
    }

    /// A chunk and its interest, as a search examines it.
    pub(crate) fn member(&self, chunk: ChunkId) -> Member<'_> {
        Member {
            chunk,
            count: self.count(chunk),
            slots: self.slots(chunk),
        }
    }
}

/// A chunk and the slots interested in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) chunk: ChunkId,
    /// The number of interested slots. Cheaper than `slots`, so a search reads it first.
    pub(crate) count: u32,
    pub(crate) slots: &'a Bits,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SLOT: usize = 3;

    proptest! {
        #[test]
        fn a_slot_needs_the_chunks_that_were_set(
            needed in prop::collection::btree_set(0u32..200, 0..200),
            gone in prop::collection::btree_set(0u32..200, 0..60),
            range in (0u32..220, 0u32..220).prop_map(|(a, b)| a.min(b)..a.max(b)),
        ) {
            let mut interest = Interest::default();
            (0..200).for_each(|_| interest.push());
            for &chunk in &needed {
                interest.set(ChunkId(chunk), SLOT, true);
            }
            for &chunk in &gone {
                interest.set(ChunkId(chunk), SLOT, false);
            }
            interest.check();
            let left: BTreeSet<u32> = needed.difference(&gone).copied().collect();
            let within: Vec<u32> = left.range(range.clone()).copied().collect();
            prop_assert_eq!(interest.len(SLOT), left.len());
            prop_assert_eq!(interest.len_in(SLOT, &range), within.len());
            let first = interest.first(SLOT, ChunkId(range.start));
            prop_assert_eq!(first.map(|chunk| chunk.0), left.range(range.start..).next().copied());
            let runs: Vec<Range<u32>> = interest.runs(SLOT, range).collect();
            prop_assert!(runs.windows(2).all(|two| two[0].end < two[1].start), "maximal");
            prop_assert_eq!(runs.into_iter().flatten().collect::<Vec<_>>(), within);
        }
    }
}
