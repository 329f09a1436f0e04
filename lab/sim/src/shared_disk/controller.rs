//! The state that the driver of the parallelism controller keeps.
//!
//! Not here: events to the controller, and how its orders are carried out (`chosen.rs`).

use std::collections::BTreeMap;
use std::ops::Range;

use coscan_core::ScanId;
use coscan_core::parallelism::Parallelism;

/// The controller and its driver's state.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) parallelism: Parallelism,
    /// The query of each scan that the controller knows.
    pub(super) queries: BTreeMap<ScanId, u32>,
    pub(super) next: u64,
    /// The work of the arms and processors at the last reading of the meters.
    pub(super) arms: Vec<u64>,
    pub(super) processors: u64,
    /// Whether transactions arrived since the last reading.
    pub(super) page_requests: bool,
}

/// A scan's part of this state.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) scan: ScanId,
    /// The pages left on each disk.
    pub(super) left: BTreeMap<u16, Range<u32>>,
}
