//! Where is a packet in each list of its run, and what does it wait for?
//!
//! Not here: the lists (`list.rs`), who waits for whom (`waits.rs`).

use super::{Owner, RunId};

/// One query's request for one operator.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// OPS-I1: the one run that the packet reads; `None` after the packet was detached.
    pub(super) run: Option<RunId>,
    pub(super) owner: Owner,
    pub(super) host: bool,
    /// By partition.
    pub(super) places: Vec<Place>,
}

/// The state of a packet in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The number of the batch that the packet takes next.
    pub(super) next: u64,
    /// Whether the packet has seen the end.
    pub(super) ended: bool,
    /// Whether the packet is closed: it takes no more batches.
    pub(super) closed: bool,
    pub(super) wait: Option<Wait>,
}

/// What a packet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The list is empty for the packet: it waits for the run.
    Empty,
    /// The list is full: the packet waits for the slowest reader.
    Full,
}

impl Packet {
    /// Whether the packet has seen no batch and no end of the run.
    pub(super) fn is_untouched(&self) -> bool {
        let untouched = |place: &Place| place.next == 0 && !place.ended;
        self.places.iter().all(untouched)
    }
}
