//! What does a scan register with, and what is the state of a registered scan?
//!
//! Not here: the chunks that it still needs (`needed.rs`), whether it is starved (`state.rs`).

use std::collections::{BTreeMap, BTreeSet};

use crate::bits::Bits;
use crate::{ChunkId, ChunkSet, ColumnSet, ScanId, TableId, Time};

/// A set of chunks of which a scan wants the same columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The chunks. Not empty.
    pub chunks: ChunkSet,
    /// The columns wanted of each chunk. Not empty.
    pub columns: ColumnSet,
}

/// The request that a scan registers with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSpec {
    /// The table.
    pub table: TableId,
    /// Disjoint sets of chunks, each with its columns. May be empty: such a scan is exhausted at
    /// once.
    pub parts: Vec<Part>,
    /// The number of streams that may ask for chunks at once, at least 1.
    pub consumers: u32,
    /// Whether chunks must be handed out in ascending order.
    pub ordered: bool,
    /// The number of devices that loads are chosen from for the scan at a time, at least 1.
    /// `None`: all devices.
    pub devices_max: Option<u32>,
}

/// A part and its slot in the table's interest masks.
#[derive(Clone, Debug)]
pub(crate) struct PartState {
    pub(crate) slot: usize,
    pub(crate) columns: ColumnSet,
}

/// The turn of a held chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When the chunk was handed out.
    pub(crate) begun: Time,
    /// When the chunk stops counting as in work, unless its consumer makes progress.
    pub(crate) end: Time,
    /// The scan's part that has the chunk.
    pub(crate) part: usize,
    /// The number of scans that share the work: 1, or more for a chunk job.
    pub(crate) served: u64,
}

impl Turn {
    /// How long the chunk has been in work.
    pub(crate) fn worked_ns(&self, now: Time) -> u64 {
        now.min(self.end).0 - self.begun.0
    }
}

/// A chunk for which a scan has joined a chunk job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) leader: ScanId,
    /// The scan's part that has the chunk.
    pub(crate) part: usize,
}

/// The state of a registered scan.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "two facts of its registration, three of its situation"
)]
pub(crate) struct Scan {
    pub(crate) id: ScanId,
    pub(crate) table: TableId,
    pub(crate) parts: Vec<PartState>,
    /// Delivered chunks, neither released nor lapsed.
    pub(crate) held: BTreeMap<ChunkId, Turn>,
    /// Delivered chunks whose consumers have gone silent: not pinned, not in work, and not
    /// released.
    pub(crate) lapsed: BTreeSet<ChunkId>,
    /// Chunks that other scans' chunk jobs work on for this scan.
    pub(crate) joined: BTreeMap<ChunkId, Joined>,
    /// See [`ScanSpec::devices_max`].
    pub(crate) devices_max: Option<u32>,
    /// The number of available chunks that keeps the scan fed.
    pub(crate) lookahead: usize,
    /// Whether the scan takes its chunks in a fixed order, which begins at `start`.
    pub(crate) sequential: bool,
    /// Whether the scan was registered as ordered; other scans do not attach to it.
    pub(crate) ordered: bool,
    pub(crate) start: ChunkId,
    pub(crate) waiting: u32,
    pub(crate) wait_since: Time,
    /// The last event of the scan's consumers, or the last delivery.
    pub(crate) last_activity: Time,
    pub(crate) stalled: bool,
    pub(crate) starved: bool,
    /// The places of the devices that the scan is starved of, if its table lies on several.
    pub(crate) starved_of: Bits,
    pub(crate) almost: bool,
    /// Sequence number of the registration.
    pub(crate) registered_seq: u64,
    pub(crate) registered_at: Time,
    /// The scan's share of the time that its consumed chunks were in work. `chunks_worked` is the
    /// number of these chunks.
    pub(crate) worked_ns: u64,
    pub(crate) chunks_worked: u64,
    /// The scan's rank in the queue for turns, if it is queued.
    pub(crate) rank: Option<u64>,
    /// Sequence number of the last load start; before the first, of the registration.
    pub(crate) last_load_seq: u64,
}

impl Scan {
    /// The number of chunks delivered and not released. A lapsed chunk counts: its consumer is
    /// silent, and needs no other chunk in its place.
    pub(crate) fn in_hands(&self) -> usize {
        self.held.len() + self.lapsed.len()
    }

    pub(crate) fn slots(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.slot).collect()
    }

    /// The slots of the parts for which `holds` is true.
    pub(crate) fn slots_where(&self, holds: impl Fn(&PartState) -> bool) -> Bits {
        let parts = self.parts.iter().filter(|part| holds(part));
        parts.map(|part| part.slot).collect()
    }
}
