//! A registered scan: what it still needs, what it holds, and whether it goes hungry.

use std::collections::BTreeMap;

use crate::bits::Bits;
use crate::{ChunkId, ChunkSet, ColumnSet, ScanId, TableId, Time};

/// A part with its slot in the table's interest masks.
#[derive(Clone, Debug)]
pub(crate) struct PartState {
    pub(crate) slot: usize,
    pub(crate) columns: ColumnSet,
    /// Chunks of this part in needed(q). Those of a scan's parts are disjoint, and together needed(q).
    pub(crate) needed: ChunkSet,
}

/// A chunk in a consumer's hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// When it was handed out.
    pub(crate) begun: Time,
    /// When it stops counting as in work, unless the consumer goes on.
    pub(crate) end: Time,
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
    /// Chunks handed out and not given back.
    pub(crate) held: BTreeMap<ChunkId, Turn>,
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
    /// Time its chunks were in work, as far as they have been given back, and how many that were.
    pub(crate) worked_ns: u64,
    pub(crate) chunks_worked: u64,
    /// Its place in the queue for turns, if it is in it.
    pub(crate) rank: Option<u64>,
    /// Sequence number of the last load start, of the registration before the first.
    pub(crate) last_load_seq: u64,
}

impl Scan {
    /// How many chunks are in needed(q).
    pub(crate) fn needed_len(&self) -> usize {
        self.parts.iter().map(|part| part.needed.len()).sum()
    }

    /// How many chunks below this one are in needed(q).
    pub(crate) fn needed_below(&self, chunk: ChunkId) -> usize {
        let parts = self.parts.iter();
        parts.map(|part| part.needed.len_below(chunk)).sum()
    }

    /// cols(q, c), for a chunk that is needed.
    pub(crate) fn part_of(&self, chunk: ChunkId) -> Option<usize> {
        self.parts
            .iter()
            .position(|part| part.needed.contains(chunk))
    }

    pub(crate) fn slots(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.slot).collect()
    }

    /// The slots of its parts of which `holds`.
    pub(crate) fn slots_where(&self, holds: impl Fn(&PartState) -> bool) -> Bits {
        let parts = self.parts.iter().filter(|part| holds(part));
        parts.map(|part| part.slot).collect()
    }

    /// Needed chunks in the order a sequential scan takes them.
    pub(crate) fn order(&self) -> impl Iterator<Item = ChunkId> + '_ {
        let from = |chunk| {
            let parts = self.parts.iter();
            parts
                .filter_map(move |part| part.needed.first_from(chunk))
                .min()
        };
        let after = move |&chunk: &ChunkId| from(ChunkId(chunk.0 + 1));
        let head = std::iter::successors(from(ChunkId(0)), after);
        std::iter::successors(from(self.start), after)
            .chain(head.take_while(|&chunk| chunk < self.start))
    }

    /// Takes a chunk out of needed(q); gives the part it was in.
    pub(crate) fn take(&mut self, chunk: ChunkId) -> Option<usize> {
        let mut parts = self.parts.iter_mut();
        parts.position(|part| part.needed.remove(chunk))
    }
}
