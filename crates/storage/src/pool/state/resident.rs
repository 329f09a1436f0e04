//! What of a table is in memory?
//!
//! S3: what the core calls resident is a frame, or arrays in its place (`../settled.rs`).
//! Not here: what is loaded and evicted (the core decides), how it is read (`../load.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_core::{ChunkId, ColumnId, ExtentId};

use super::super::charge::Charge;
use super::super::column_request::ArrayKey;
use super::super::decoded::DecodedSegment;
use super::core_table::CoreTable;

/// The bytes of a segment or shared extent, with their places in the file.
pub(crate) type Frame = Arc<Vec<(Range<u64>, Bytes)>>;

/// What identifies a decoded segment within a table.
pub(crate) type DecodedKey = (ChunkId, ArrayKey, usize);

/// One table: what the core knows of it and what is in memory.
pub(crate) struct TableState {
    pub(crate) core: CoreTable,
    /// When the table was last asked for, counted by [`super::State::uses`].
    pub(crate) used: u64,
    /// The memory of what the core and the pool know of its chunks.
    pub(crate) known: Charge,
    /// Held by every view of the table, and so by its scans.
    pub(crate) users: Arc<()>,
    pub(crate) frames: BTreeMap<(ChunkId, ColumnId), Frame>,
    pub(crate) extents: BTreeMap<ExtentId, Frame>,
    pub(crate) decoded: BTreeMap<ChunkId, Vec<(DecodedKey, Arc<DecodedSegment>)>>,
    /// Segments that are in memory as arrays instead of as a frame; the arrays are in `decoded`.
    pub(crate) as_arrays: BTreeSet<(ChunkId, ColumnId)>,
    /// For each chunk, the rows of batches that rows were picked from since the chunk last lost a
    /// frame, or arrays that took memory from others (`pick.rs`).
    pub(crate) picked: BTreeMap<ChunkId, usize>,
    /// Segments whose own bytes have arrived, but whose shared extents are still in another chunk's
    /// load.
    pub(crate) incomplete: Vec<Incomplete>,
}

/// See [`TableState::incomplete`].
pub(crate) struct Incomplete {
    pub(crate) chunk: ChunkId,
    pub(crate) column: ColumnId,
    pub(crate) frame: Frame,
}

impl TableState {
    pub(crate) fn new(core: CoreTable, known: Charge) -> Self {
        Self {
            core,
            used: 0,
            known,
            users: Arc::default(),
            frames: BTreeMap::new(),
            extents: BTreeMap::new(),
            decoded: BTreeMap::new(),
            as_arrays: BTreeSet::new(),
            picked: BTreeMap::new(),
            incomplete: Vec::new(),
        }
    }

    /// Evicts a segment: its frame, and its arrays, which are returned.
    pub(super) fn evict(&mut self, chunk: ChunkId, column: ColumnId) -> Vec<Arc<DecodedSegment>> {
        self.frames.remove(&(chunk, column));
        self.as_arrays.remove(&(chunk, column));
        self.picked.remove(&chunk);
        let Some(list) = self.decoded.get_mut(&chunk) else {
            return Vec::new();
        };
        let core = &self.core;
        let gone = list.extract_if(.., |(key, _)| core.column(&key.1.name) == Some(column));
        let gone = gone.map(|(_, segment)| segment).collect();
        if list.is_empty() {
            self.decoded.remove(&chunk);
        }
        gone
    }

    /// Whether one of these root columns of a chunk is in memory as arrays only.
    pub(crate) fn has_only_arrays<'a>(
        &self,
        chunk: ChunkId,
        mut names: impl Iterator<Item = &'a str>,
    ) -> bool {
        names.any(|name| {
            let column = self.core.column(name);
            column.is_some_and(|column| self.as_arrays.contains(&(chunk, column)))
        })
    }

    /// The parts of a segment's frames, own and shared, that overlap the wanted ranges, ascending;
    /// `None` if a wanted byte is not in memory. When a segment's own bytes are gone, pages that it
    /// shares with a neighbour may still be here.
    pub(crate) fn buffers(
        &self,
        chunk: ChunkId,
        column: ColumnId,
        wanted: &[Range<u64>],
    ) -> Option<Vec<(Range<u64>, Bytes)>> {
        let own = self.frames.get(&(chunk, column));
        let extents = self.core.extents_of(chunk, column);
        let shared = extents.filter_map(|extent| self.extents.get(&extent));
        let overlaps = |range: &Range<u64>| {
            wanted
                .iter()
                .any(|w| w.start < range.end && range.start < w.end)
        };
        let mut buffers: Vec<(Range<u64>, Bytes)> = own
            .into_iter()
            .chain(shared)
            .flat_map(|frame| frame.iter())
            .filter(|(range, _)| overlaps(range))
            .cloned()
            .collect();
        buffers.sort_unstable_by_key(|(range, _)| range.start);
        covers(&buffers, wanted).then_some(buffers)
    }
}

/// Whether the buffers, ascending, have every byte of the ranges.
fn covers(buffers: &[(Range<u64>, Bytes)], wanted: &[Range<u64>]) -> bool {
    wanted.iter().all(|range| {
        let mut at = range.start;
        for (part, _) in buffers {
            if part.start > at {
                break;
            }
            at = at.max(part.end);
        }
        at >= range.end
    })
}
