//! `pbm`: what is needed last goes first, as far as the scans' positions and paces tell.
//!
//! Idea: scans go through their chunks in order, each at its own pace, so the time until a segment
//! is needed next can be estimated. The segment for which that is longest is evicted; of those that
//! no scan wants, the one used longest ago. `pbm-sampling` looks at a few idle segments at random
//! instead of all. We differ: estimates are computed when something has to go. The paper keeps
//! pages in buckets by estimated time, because its units are many and small; ours are chunks.
//! Bounds: `pbm` is linear in the idle segments and the scans that want them; `pbm-sampling` looks
//! at `SAMPLE` segments.
//! Source: [PBM12 §3]; sampling: [Vanderkooy23].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::abm::{Abm, LoadChoice};
use crate::table::Table;
use crate::table::scan::Scan;
use crate::{ChunkId, ColumnId, Policy, TableId};

/// Segments that are looked at for an eviction. With ten, the best of them is in the best fifth
/// nine times of ten.
const SAMPLE: usize = 10;

/// An idle segment.
type Idle = (TableId, ChunkId, ColumnId);

impl Abm {
    /// The idle segment that is needed last, but for those of the chunk to be loaded and those that
    /// its scan takes before it.
    pub(crate) fn needed_last(&self, load: Option<&LoadChoice>) -> Option<Idle> {
        let spared = load.map(|load| (load.table, self.taken_before(load)));
        let free = |&(table, chunk, _): &Idle| {
            let spared = spared.as_ref();
            spared.is_none_or(|(of, chunks)| *of != table || !chunks.contains(&chunk))
        };
        if self.config.policy == Policy::PbmSampling {
            let sample = self.sample();
            let last = self.last_of(sample.into_iter().filter(free));
            if last.is_some() {
                return last;
            }
        }
        let all = self.tables.values().flat_map(|table| {
            let idle = table.victims.iter();
            idle.map(|&(_, chunk, column)| (table.id, chunk, column))
        });
        self.last_of(all.filter(free))
    }

    fn last_of(&self, segments: impl Iterator<Item = Idle>) -> Option<Idle> {
        segments.max_by_key(|&(table, chunk, column)| {
            let entry = self.table(table);
            let last_use = entry.last_use_of_segment(chunk, column);
            let next_use = self.next_use(entry, chunk, column);
            (next_use, Reverse((last_use, table, chunk, column)))
        })
    }

    /// In how many nanoseconds the segment is needed, by what the scans do now; `u64::MAX` if no
    /// scan that keeps up wants it.
    fn next_use(&self, table: &Table, chunk: ChunkId, column: ColumnId) -> u64 {
        let wanted = table.interest(chunk).difference(&table.stalled);
        let slots = wanted.iter().map(|slot| table.slot(slot));
        let scans = slots.filter(|slot| slot.columns.contains(column));
        let times = scans.map(|slot| self.time_to(self.scan(slot.scan), chunk));
        times.min().unwrap_or(u64::MAX)
    }

    /// When the scan will come to a chunk that it needs, if it goes on as it has. It begins with
    /// the first chunk, so its place there is how many before it are needed. Before its first chunk
    /// it is expected to want everything at once.
    fn time_to(&self, scan: &Scan, chunk: ChunkId) -> u64 {
        let before = self.table(scan.table).needed_in(scan, &(0..chunk.0)) as u128;
        let elapsed = u128::from(self.now.0 - scan.registered_at.0);
        let handed = u128::from(scan.chunks_worked) + scan.held.len() as u128;
        u64::try_from(before * elapsed / handed.max(1)).unwrap_or(u64::MAX)
    }

    /// Some idle segments, drawn evenly, one perhaps twice. What is drawn depends on the state
    /// alone, which the eviction that follows changes.
    fn sample(&self) -> Vec<Idle> {
        let total: usize = self.tables.values().map(|t| t.idle_list.list.len()).sum();
        if total == 0 {
            return Vec::new();
        }
        let mut state = self.peek_seq() ^ self.used.rotate_left(32);
        let mut drawn = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let place = (u128::from(mix(state)) * total as u128) >> 64;
            let mut place = usize::try_from(place).unwrap_or(0);
            self.tables.values().find_map(|table| {
                let list = &table.idle_list.list;
                let found = list.get(place);
                place = place.saturating_sub(list.len());
                found.map(|&(chunk, column)| (table.id, chunk, column))
            })
        };
        (0..SAMPLE).filter_map(|_| drawn()).collect()
    }
}

/// The output function of splitmix64 [Steele14].
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A table's idle segments, to be drawn from. Kept under `pbm-sampling` only.
#[derive(Debug, Default)]
pub(crate) struct IdleList {
    list: Vec<(ChunkId, ColumnId)>,
    places: BTreeMap<(ChunkId, ColumnId), usize>,
}

impl IdleList {
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
