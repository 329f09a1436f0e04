//! Which parts of a table are in memory?
//!
//! S3: for every segment that the core calls resident there is a frame, or arrays in its place
//! (`../segments/segment_form.rs`).
//! Not here: what is loaded and evicted (the core decides), how it is read
//! (`../segments/load.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_core::{ChunkId, ColumnId, ExtentId};

use super::super::decode::{ArrayKey, DecodedSegment};
use super::super::files::Charge;
use super::core_table::CoreTable;

/// The bytes of a segment or shared extent, with their places in the file.
pub(crate) type Frame = Arc<Vec<(Range<u64>, Bytes)>>;

/// Identifies a decoded segment within a table: chunk, column and type, rows per batch.
pub(crate) type DecodedKey = (ChunkId, ArrayKey, usize);

/// A table: its chunks as the core knows them, and its parts in memory.
pub(crate) struct TableState {
    pub(crate) core: CoreTable,
    /// When a query last requested the table, by the clock of [`super::TableIds::now`].
    pub(crate) used: u64,
    /// The memory of the table's metadata in the core and in the pool.
    pub(crate) known: Charge,
    /// Every view of the table holds a reference, and through its view every scan.
    pub(crate) users: Arc<()>,
    pub(crate) frames: BTreeMap<(ChunkId, ColumnId), Frame>,
    pub(crate) extents: BTreeMap<ExtentId, Frame>,
    pub(crate) decoded: BTreeMap<ChunkId, Vec<(DecodedKey, Arc<DecodedSegment>)>>,
    /// Segments that are in memory as arrays instead of as a frame; the arrays are in `decoded`.
    pub(crate) as_arrays: BTreeSet<(ChunkId, ColumnId)>,
    /// For each chunk, the rows of the batches that rows were picked from (`pick.rs`). The count
    /// starts again at 0 when the chunk loses a frame, or when its arrays are dropped for lack of
    /// memory.
    pub(crate) picked: BTreeMap<ChunkId, usize>,
    /// Segments whose own bytes have arrived while another chunk's load still reads their shared
    /// extents.
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

    /// Evicts a segment: removes its frame, and returns its arrays for the caller to drop.
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

    /// Whether one of these root columns of a chunk is in memory only as arrays.
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
    /// `None` if a wanted byte is not in memory. Pages that the segment shares with a neighbour
    /// may be in memory without its own bytes.
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

/// Whether the buffers, which ascend, hold every byte of the ranges.
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
