//! Which is the n-th of the segments that may be evicted?
//!
//! Idea: a tree of counts over the chunks [Fenwick94] finds a place in the order of (chunk, column)
//! without a list of all segments.
//! Not here: which columns of a chunk are idle (`Table::idle_segment`).
//! Bounds: O(log chunks) for a change and for a lookup; four bytes per chunk.

use crate::ChunkId;

/// The number of idle segments of each chunk of a table.
#[derive(Debug, Default)]
pub(crate) struct IdleCounts {
    /// Node n (from 1 on) holds the sum over the chunks n − lowest bit of n to n − 1.
    sums: Vec<u32>,
    total: usize,
}

impl IdleCounts {
    /// The number of idle segments of all chunks.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Appends a chunk without idle segments.
    pub(crate) fn push(&mut self) {
        let node = self.sums.len() + 1;
        let mut sum = 0;
        // The range of the new node consists of the ranges of these nodes and the new chunk.
        let mut below = node - 1;
        while below > node - lowest_bit(node) {
            sum += self.sums[below - 1];
            below -= lowest_bit(below);
        }
        self.sums.push(sum);
    }

    /// The number of the chunk's idle segments changes from `before` to `now`.
    pub(crate) fn change(&mut self, chunk: ChunkId, before: usize, now: usize) {
        self.total = self.total + now - before;
        let columns = |n: usize| u32::try_from(n).expect("a chunk has at most 2^16 columns");
        let (before, now) = (columns(before), columns(now));
        let mut node = chunk.0 as usize + 1;
        while let Some(sum) = self.sums.get_mut(node - 1) {
            *sum = *sum + now - before;
            node += lowest_bit(node);
        }
    }

    /// The chunk of the segment in this place, counted from 0, and the segment's place within the
    /// chunk.
    pub(crate) fn at(&self, place: usize) -> Option<(ChunkId, usize)> {
        if place >= self.total {
            return None;
        }
        let (mut before, mut left) = (0, place);
        let mut step = self.sums.len().next_power_of_two();
        while step > 0 {
            if let Some(&sum) = self.sums.get(before + step - 1)
                && sum as usize <= left
            {
                left -= sum as usize;
                before += step;
            }
            step /= 2;
        }
        let chunk = u32::try_from(before).expect("a table has at most 2^32 chunks");
        Some((ChunkId(chunk), left))
    }
}

fn lowest_bit(node: usize) -> usize {
    1 << node.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_a_plain_list() {
        let mut counts = IdleCounts::default();
        let mut plain: Vec<usize> = Vec::new();
        let mut random: usize = 1;
        for round in 0..600 {
            random = random.wrapping_mul(25_214_903_917).wrapping_add(11);
            if round % 5 == 0 {
                counts.push();
                plain.push(0);
            }
            let chunk = (random >> 16) % plain.len();
            let now = (random >> 8) % 4;
            counts.change(ChunkId(u32::try_from(chunk).unwrap()), plain[chunk], now);
            plain[chunk] = now;
            let all: Vec<(ChunkId, usize)> = (0..)
                .map(ChunkId)
                .zip(&plain)
                .flat_map(|(chunk, &count)| (0..count).map(move |place| (chunk, place)))
                .collect();
            assert_eq!(counts.total(), all.len());
            for (place, segment) in all.iter().enumerate() {
                assert_eq!(counts.at(place).as_ref(), Some(segment));
            }
            assert_eq!(counts.at(all.len()), None);
        }
    }
}
