//! Segments that may be evicted, to be drawn from at random.

use std::collections::BTreeMap;

use crate::{ChunkId, ColumnId};

/// A table's idle segments, each in a place of its own.
#[derive(Debug, Default)]
pub(crate) struct IdleList {
    list: Vec<(ChunkId, ColumnId)>,
    places: BTreeMap<(ChunkId, ColumnId), usize>,
}

impl IdleList {
    /// In no particular order.
    pub(crate) fn segments(&self) -> &[(ChunkId, ColumnId)] {
        &self.list
    }

    pub(crate) fn insert(&mut self, segment: (ChunkId, ColumnId)) {
        self.places.insert(segment, self.list.len());
        self.list.push(segment);
    }

    pub(crate) fn remove(&mut self, segment: (ChunkId, ColumnId)) {
        if let Some(place) = self.places.remove(&segment) {
            self.list.swap_remove(place);
            if let Some(&moved) = self.list.get(place) {
                self.places.insert(moved, place);
            }
        }
    }

    /// The segments ascending, after a check that each is where it should be.
    pub(crate) fn check(&self) -> Vec<(ChunkId, ColumnId)> {
        for (place, segment) in self.list.iter().enumerate() {
            assert_eq!(self.places.get(segment), Some(&place));
        }
        assert_eq!(self.places.len(), self.list.len());
        self.places.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_segments_come_and_go() {
        let segment = |n: u32| (ChunkId(n), ColumnId(0));
        let mut idle = IdleList::default();
        for n in 0..5 {
            idle.insert(segment(n));
        }
        for n in [1, 4, 7, 0] {
            idle.remove(segment(n));
        }
        idle.insert(segment(1));
        assert_eq!(idle.check(), [1, 2, 3].map(segment));
    }
}
