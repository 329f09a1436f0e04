//! A registered scan: what it holds, and whether it goes hungry. What it still needs: `needed.rs`.

use std::collections::{BTreeMap, BTreeSet};

use crate::abm::handle::jobs::Joined;
use crate::bits::Bits;
use crate::{ChunkId, ColumnSet, ScanId, TableId, Time};

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
