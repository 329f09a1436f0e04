//! Which chunks does a scan still need? needed(q) is the interest of its slots, which are disjoint.
//!
//! Not here: the storage of interest (`interest.rs`).

use std::collections::BTreeSet;
use std::ops::Range;

use crate::table::Table;
use crate::table::scan::{PartState, Scan};
use crate::{ChunkId, ChunkSet, Part};

impl Table {
    /// The number of chunks that the scan needs.
    pub(crate) fn needed_len(&self, scan: &Scan) -> usize {
        let parts = scan.parts.iter();
        parts.map(|part| self.interests().len(part.slot)).sum()
    }

    /// The number of devices that hold the chunks of these parts, at least one.
    pub(crate) fn devices_of(&self, parts: &[Part]) -> usize {
        if self.devices.len() <= 1 {
            return 1;
        }
        let chunks = parts.iter().flat_map(|part| part.chunks.iter());
        let places: BTreeSet<usize> = chunks.map(|chunk| self.place(chunk)).collect();
        places.len().max(1)
    }

    /// The number of chunks of a range that the scan needs.
    pub(crate) fn needed_in(&self, scan: &Scan, range: &Range<u32>) -> usize {
        let parts = scan.parts.iter();
        parts.map(|part| self.needed_of_part(part, range)).sum()
    }

    /// The number of chunks of a range that the scan needs of one part.
    pub(crate) fn needed_of_part(&self, part: &PartState, range: &Range<u32>) -> usize {
        self.interests().len_in(part.slot, range)
    }

    /// The part of the scan that needs the chunk: its columns are cols(q, c).
    pub(crate) fn part_of(&self, scan: &Scan, chunk: ChunkId) -> Option<usize> {
        let mut parts = scan.parts.iter();
        parts.position(|part| self.interests().contains(chunk, part.slot))
    }

    /// The needed chunks in the order of a sequential scan.
    pub(crate) fn order<'a>(&'a self, scan: &'a Scan) -> impl Iterator<Item = ChunkId> + 'a {
        let from = move |chunk| {
            let parts = scan.parts.iter();
            let firsts = parts.filter_map(move |part| self.interests().first(part.slot, chunk));
            firsts.min()
        };
        let after = move |&chunk: &ChunkId| from(ChunkId(chunk.0 + 1));
        let head = std::iter::successors(from(ChunkId(0)), after);
        std::iter::successors(from(scan.start), after)
            .chain(head.take_while(|&chunk| chunk < scan.start))
    }

    /// Every chunk that the scan needs.
    pub(crate) fn needed(&self, scan: &Scan) -> ChunkSet {
        let parts = scan.parts.iter();
        let runs = parts.flat_map(|part| self.interests().runs(part.slot, 0..u32::MAX));
        runs.collect()
    }
}
