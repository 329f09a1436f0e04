//! What a scan asks for, and what a registered one holds.
//!
//! Not here: what it still needs (`needed.rs`), whether it is starved (`state.rs`).

use std::collections::{BTreeMap, BTreeSet};

use crate::bits::Bits;
use crate::{ChunkId, ChunkSet, ColumnSet, ScanId, TableId, Time};

/// A set of chunks of which a scan wants the same columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The chunks. Not empty.
    pub chunks: ChunkSet,
    /// The columns wanted of each of them. Not empty.
    pub columns: ColumnSet,
}

/// What a scan asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSpec {
    /// The table.
    pub table: TableId,
    /// Disjoint sets of chunks, each with its columns. May be empty: such a scan is exhausted at
    /// once.
    pub parts: Vec<Part>,
    /// How many streams ask for chunks at once, at least 1.
    pub consumers: u32,
    /// Chunks must be handed out in ascending order.
    pub ordered: bool,
    /// From how many devices loads are chosen for it at a time, at least 1. None: from all.
    pub devices_max: Option<u32>,
}

/// A part with its slot in the table's interest masks.
#[derive(Clone, Debug)]
pub(crate) struct PartState {
    pub(crate) slot: usize,
    pub(crate) columns: ColumnSet,
}

/// A chunk in a consumer's hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When it was handed out.
    pub(crate) begun: Time,
    /// When it stops counting as in work, unless the consumer goes on.
    pub(crate) end: Time,
    /// The scan's part that the chunk is of.
    pub(crate) part: usize,
    /// Between how many scans the work is shared: 1, but for a chunk job that served more.
    pub(crate) served: u64,
}

impl Turn {
    /// How long the chunk has been in work.
    pub(crate) fn worked_ns(&self, now: Time) -> u64 {
        now.min(self.end).0 - self.begun.0
    }
}

/// A chunk that a scan has joined a job for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    pub(crate) leader: ScanId,
    /// The scan's part that the chunk is of.
    pub(crate) part: usize,
}

/// A scan's state.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "two facts of its registration, three of its situation"
)]
pub(crate) struct Scan {
    pub(crate) id: ScanId,
    pub(crate) table: TableId,
    pub(crate) parts: Vec<PartState>,
    /// Chunks handed out, neither given back nor lapsed.
    pub(crate) held: BTreeMap<ChunkId, Turn>,
    /// Chunks handed out of which the consumer has not come back: not pinned, not in work, and not
    /// released.
    pub(crate) lapsed: BTreeSet<ChunkId>,
    /// Chunks that others' chunk jobs work on for it.
    pub(crate) joined: BTreeMap<ChunkId, Joined>,
    /// See [`ScanSpec::devices_max`].
    pub(crate) devices_max: Option<u32>,
    /// How many available chunks keep it fed.
    pub(crate) lookahead: usize,
    /// Takes its chunks in a fixed order, which begins at `start`.
    pub(crate) sequential: bool,
    /// Was registered as ordered (so that nobody attaches to it).
    pub(crate) ordered: bool,
    pub(crate) start: ChunkId,
    pub(crate) waiting: u32,
    pub(crate) wait_since: Time,
    /// The last event of its consumers or hand-out.
    pub(crate) last_activity: Time,
    pub(crate) stalled: bool,
    pub(crate) starved: bool,
    /// The places of the devices that it is starved of, if its table is on several.
    pub(crate) starved_of: Bits,
    pub(crate) almost: bool,
    /// Sequence number of the registration.
    pub(crate) registered_seq: u64,
    pub(crate) registered_at: Time,
    /// Its share of the time its chunks were in work, as far as they are done with, and how many
    /// those are.
    pub(crate) worked_ns: u64,
    pub(crate) chunks_worked: u64,
    /// Its place in the queue for turns, if it is in it.
    pub(crate) rank: Option<u64>,
    /// Sequence number of the last load start, of the registration before the first.
    pub(crate) last_load_seq: u64,
}

impl Scan {
    /// Chunks handed out and not released. A lapsed one counts: its consumer is away, and needs
    /// nothing in its place.
    pub(crate) fn in_hands(&self) -> usize {
        self.held.len() + self.lapsed.len()
    }

    pub(crate) fn slots(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.slot).collect()
    }

    /// The slots of its parts of which `holds`.
    pub(crate) fn slots_where(&self, holds: impl Fn(&PartState) -> bool) -> Bits {
        let parts = self.parts.iter().filter(|part| holds(part));
        parts.map(|part| part.slot).collect()
    }
}
