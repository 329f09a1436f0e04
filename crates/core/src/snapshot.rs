//! What the buffer manager holds and whom it serves, for system tables and tests.

use crate::abm::Abm;
use crate::{ChunkId, ColumnSet, ExtentId, ScanId, TableId};

/// A running scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSnapshot {
    /// Its id.
    pub scan: ScanId,
    /// The table it scans.
    pub table: TableId,
    /// Chunks it has not been handed yet.
    pub chunks_needed: usize,
    /// Chunks it holds.
    pub chunks_held: usize,
    /// Needed chunks that are in memory or on their way.
    pub chunks_coming: usize,
    /// Consumers that wait.
    pub waiting: u32,
    /// Fewer chunks are available than keep it fed.
    pub starved: bool,
    /// Its consumers have been silent for long.
    pub stalled: bool,
}

/// A chunk with something in memory or on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkSnapshot {
    /// Its table.
    pub table: TableId,
    /// Its id.
    pub chunk: ChunkId,
    /// Columns in memory.
    pub resident: ColumnSet,
    /// Columns in an outstanding load.
    pub loading: ColumnSet,
    /// Columns that someone reads now.
    pub pinned: ColumnSet,
    /// Scans that still need the chunk, ascending.
    pub interested: Vec<ScanId>,
}

impl Abm {
    /// Whether a scan holds a chunk that was handed to it.
    #[must_use]
    pub fn holds(&self, scan: ScanId, chunk: ChunkId) -> bool {
        self.scans
            .get(&scan)
            .is_some_and(|scan| scan.held.contains(&chunk))
    }

    /// Whether the core holds the shared extent in memory: its load completed, it did not fail, and it was not evicted. False for
    /// extents and tables it does not know.
    #[must_use]
    pub fn extent_is_resident(&self, table: TableId, extent: ExtentId) -> bool {
        self.tables
            .get(&table)
            .is_some_and(|table| table.extent_is_resident(extent))
    }

    /// The running scans, ascending by id.
    pub fn scans(&self) -> impl Iterator<Item = ScanSnapshot> + '_ {
        self.scans.values().map(|scan| ScanSnapshot {
            scan: scan.id,
            table: scan.table,
            chunks_needed: scan.needed.len(),
            chunks_held: scan.held.len(),
            chunks_coming: scan.coming,
            waiting: scan.waiting,
            starved: scan.starved,
            stalled: scan.stalled,
        })
    }

    /// The chunks that hold or await bytes, in no particular order.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkSnapshot> + '_ {
        self.tables.values().flat_map(|table| {
            let classes = table
                .classes
                .iter()
                .filter(|class| !class.coming.is_empty());
            classes.flat_map(move |class| {
                let slots = class.key.interest.iter().map(|slot| table.slot(slot).scan);
                let mut interested: Vec<ScanId> = slots.collect();
                interested.sort_unstable();
                class.members.iter().map(move |chunk| ChunkSnapshot {
                    table: table.id,
                    chunk,
                    resident: class.key.resident.clone(),
                    loading: class.key.loading.clone(),
                    pinned: class.key.pinned.clone(),
                    interested: interested.clone(),
                })
            })
        })
    }
}
