//! A query's side of a run: where it is in each list, and what it waits for.

use super::{Owner, RunId};

/// One query's request for one operator.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// OPS-I1: the one run that it reads; `None` once it is to rerun by itself.
    pub(super) run: Option<RunId>,
    pub(super) owner: Owner,
    pub(super) host: bool,
    /// By partition.
    pub(super) places: Vec<Place>,
}

/// Where a packet is in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The number of the batch that it takes next.
    pub(super) next: u64,
    /// It was told that there is no more.
    pub(super) ended: bool,
    /// It takes nothing more.
    pub(super) closed: bool,
    pub(super) wait: Option<Wait>,
}

/// What a packet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The list is empty for it: for the run.
    Empty,
    /// The list is full: for the slowest of its readers.
    Full,
}

impl Packet {
    /// Whether it has seen nothing of the run.
    pub(super) fn is_untouched(&self) -> bool {
        let untouched = |place: &Place| place.next == 0 && !place.ended;
        self.places.iter().all(untouched)
    }
}
