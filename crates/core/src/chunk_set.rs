//! Sets of chunks, kept as maximal runs.
//!
//! A scan announces ranges, and the chunks that it still needs stay close to ranges, so the cost of
//! a set grows with its runs, not with its chunks.
//! Bounds: every operation on one chunk is O(log runs); set operations are linear in the runs they
//! touch.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ChunkId;

/// An ordered set of [`ChunkId`]s.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ChunkSet {
    /// start → end (exclusive). Runs are not empty, do not touch and do not overlap.
    runs: BTreeMap<u32, u32>,
    len: u32,
}

impl ChunkSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            runs: BTreeMap::new(),
            len: 0,
        }
    }

    /// The chunks `range.start..range.end`.
    #[must_use]
    pub fn from_range(range: Range<u32>) -> Self {
        let mut set = Self::new();
        set.insert_range(range);
        set
    }

    /// The number of chunks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the set holds the chunk.
    #[must_use]
    pub fn contains(&self, chunk: ChunkId) -> bool {
        self.runs
            .range(..=chunk.0)
            .next_back()
            .is_some_and(|(_, &end)| chunk.0 < end)
    }

    /// Adds a chunk; false if the set holds it already.
    pub fn insert(&mut self, chunk: ChunkId) -> bool {
        let before = self.len;
        self.insert_range(chunk.0..chunk.0 + 1);
        self.len != before
    }

    /// Adds every chunk of a range.
    pub fn insert_range(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        // Absorbs the run that reaches into or touches the start, then all runs that begin at or
        // before the end.
        if let Some((&s, &e)) = self.runs.range(..=start).next_back()
            && e >= start
        {
            if e >= end {
                return;
            }
            start = s;
            end = end.max(e);
            self.runs.remove(&s);
            self.len -= e - s;
        }
        while let Some((&s, &e)) = self.runs.range(start..=end).next() {
            end = end.max(e);
            self.runs.remove(&s);
            self.len -= e - s;
        }
        self.runs.insert(start, end);
        self.len += end - start;
    }

    /// Removes a chunk; false if the set does not hold it.
    pub fn remove(&mut self, chunk: ChunkId) -> bool {
        let mut runs = self.runs.range_mut(..=chunk.0);
        let Some((&start, end)) = runs.next_back().filter(|(_, end)| chunk.0 < **end) else {
            return false;
        };
        let past = std::mem::replace(end, chunk.0);
        if start == chunk.0 {
            self.runs.remove(&start);
        }
        if chunk.0 + 1 < past {
            self.runs.insert(chunk.0 + 1, past);
        }
        self.len -= 1;
        true
    }

    /// Removes every chunk of a range.
    pub fn remove_range(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        if let Some((&s, &e)) = self.runs.range(..range.start).next_back()
            && e > range.start
        {
            self.runs.insert(s, range.start);
            self.len -= e - range.start;
            if e > range.end {
                self.runs.insert(range.end, e);
                self.len += e - range.end;
                return;
            }
        }
        while let Some((&s, &e)) = self.runs.range(range.start..range.end).next() {
            self.runs.remove(&s);
            self.len -= e - s;
            if e > range.end {
                self.runs.insert(range.end, e);
                self.len += e - range.end;
            }
        }
    }

    /// The lowest chunk.
    #[must_use]
    pub fn first(&self) -> Option<ChunkId> {
        self.runs.first_key_value().map(|(&s, _)| ChunkId(s))
    }

    /// The chunks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.runs.iter().flat_map(|(&s, &e)| (s..e).map(ChunkId))
    }

    /// The maximal runs, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs.iter().map(|(&s, &e)| s..e)
    }

    /// The runs that meet `range`, cut to it, ascending.
    pub fn clip(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let first = self
            .runs
            .range(..range.start)
            .next_back()
            .filter(|&(_, &e)| e > range.start && range.start < range.end)
            .map(|(_, &e)| range.start..e.min(range.end));
        let end = range.end;
        let rest = (range.start < end).then(|| {
            self.runs
                .range(range.start..end)
                .map(move |(&s, &e)| s..e.min(end))
        });
        first.into_iter().chain(rest.into_iter().flatten())
    }

    /// The chunks in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (small, large) = if self.runs.len() <= other.runs.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut both = Self::new();
        for run in small.runs() {
            for cut in large.clip(run) {
                both.insert_range(cut);
            }
        }
        both
    }

    /// The number of chunks in both sets.
    #[must_use]
    pub fn intersection_len(&self, other: &Self) -> usize {
        let (small, large) = if self.runs.len() <= other.runs.len() {
            (self, other)
        } else {
            (other, self)
        };
        small
            .runs()
            .flat_map(|run| large.clip(run))
            .map(|r| r.len())
            .sum()
    }
}

impl FromIterator<ChunkId> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = ChunkId>>(chunks: I) -> Self {
        let mut set = Self::new();
        for chunk in chunks {
            set.insert(chunk);
        }
        set
    }
}

impl FromIterator<Range<u32>> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = Range<u32>>>(ranges: I) -> Self {
        let mut set = Self::new();
        for range in ranges {
            set.insert_range(range);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(Range<u32>),
        Remove(Range<u32>),
        RemoveOne(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        (0..3, 0u32..40, 0u32..12).prop_map(|(kind, start, len)| match kind {
            0 => Op::Insert(start..start + len),
            1 => Op::Remove(start..start + len),
            _ => Op::RemoveOne(start),
        })
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(ops in prop::collection::vec(op(), 0..40), from in 0u32..50) {
            let (mut set, mut model) = (ChunkSet::new(), BTreeSet::new());
            for op in ops {
                match op {
                    Op::Insert(r) => { model.extend(r.clone()); set.insert_range(r); }
                    Op::Remove(r) => { model.retain(|c| !r.contains(c)); set.remove_range(r); }
                    Op::RemoveOne(c) => prop_assert_eq!(set.remove(ChunkId(c)), model.remove(&c)),
                }
                prop_assert_eq!(set.len(), model.len());
                prop_assert!(set.iter().map(|c| c.0).eq(model.iter().copied()));
                // Runs are maximal: no two touch.
                let runs: Vec<_> = set.runs().collect();
                prop_assert!(runs.windows(2).all(|w| w[0].end < w[1].start));
                let clipped: Vec<u32> = set.clip(from..from + 7).flatten().collect();
                prop_assert!(clipped.into_iter().eq(model.range(from..from + 7).copied()));
            }
        }

        #[test]
        fn intersects(a in prop::collection::btree_set(0u32..60, 0..40), b in prop::collection::btree_set(0u32..60, 0..40)) {
            let set = |s: &BTreeSet<u32>| s.iter().map(|&c| ChunkId(c)).collect::<ChunkSet>();
            let both: BTreeSet<u32> = a.intersection(&b).copied().collect();
            prop_assert_eq!(set(&a).intersection(&set(&b)), set(&both));
            prop_assert_eq!(set(&a).intersection_len(&set(&b)), both.len());
        }
    }
}
