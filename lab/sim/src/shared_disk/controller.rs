//! What does the system keep of the controller of scan parallelism?
//!
//! Not here: what it is told, and how its orders are carried out (`chosen.rs`).

use std::collections::BTreeMap;
use std::ops::Range;

use coscan_core::ScanId;
use coscan_core::parallelism::Parallelism;

/// The controller and what it is told.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) parallelism: Parallelism,
    /// The queries of the scans that it knows.
    pub(super) queries: BTreeMap<ScanId, u32>,
    pub(super) next: u64,
    /// What the arms and the processors had worked when the meters were last read.
    pub(super) arms: Vec<u64>,
    pub(super) processors: u64,
    /// Transactions have come meanwhile.
    pub(super) page_requests: bool,
}

/// A scan's part of it.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) scan: ScanId,
    /// What is left on each disk.
    pub(super) left: BTreeMap<u16, Range<u32>>,
}
