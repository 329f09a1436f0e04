//! Which loads are outstanding, and what does the core still expect of each?
//!
//! A target leaves its load when it has arrived, or when a failure cancels it. A failure may
//! cancel targets of other loads, too.
//! Not here: how a load is read, and what a failure cancels (`../segments/load.rs`).

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{ChunkId, ColumnId, DeviceId, ExtentId, ScanId, TableId};

use crate::StorageError;

/// A segment or a shared extent of a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    Segment(ColumnId),
    Extent(ExtentId),
}

/// A load that is outstanding.
pub(crate) struct Outstanding {
    pub(super) table: TableId,
    pub(super) chunk: ChunkId,
    /// What the core still expects from it.
    pub(super) targets: BTreeSet<Target>,
    /// The scan that the load was chosen for, and the device that it reads from.
    pub(crate) scan: ScanId,
    pub(crate) device: DeviceId,
}

/// A read to start.
pub(crate) struct LoadJob {
    /// Its key in [`Loads`].
    pub(crate) id: u64,
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    /// The device that the chunk is on.
    pub(crate) device: DeviceId,
    /// In reading order.
    pub(crate) columns: Vec<ColumnId>,
    pub(crate) extents: Vec<ExtentId>,
}

/// The outstanding loads.
#[derive(Default)]
pub(crate) struct Loads {
    by_id: BTreeMap<u64, Outstanding>,
    next: u64,
    /// The error for the `Fail` actions that follow a failed load.
    error: Option<StorageError>,
}

impl Loads {
    /// Adds a load. Returns its id.
    pub(super) fn begin(&mut self, load: Outstanding) -> u64 {
        let id = self.next;
        self.next += 1;
        self.by_id.insert(id, load);
        id
    }

    /// What the core still expects of a load; `None` if the load has ended.
    pub(crate) fn expected(&self, id: u64) -> Option<&BTreeSet<Target>> {
        self.by_id.get(&id).map(|load| &load.targets)
    }

    /// A target has arrived. False if the core does not expect it of this load.
    pub(crate) fn arrived(&mut self, id: u64, target: Target) -> bool {
        let load = self.by_id.get_mut(&id);
        load.is_some_and(|load| load.targets.remove(&target))
    }

    /// Cancels a target in all loads of the table, or of one of its chunks.
    pub(super) fn cancel(&mut self, table: TableId, chunk: Option<ChunkId>, target: Target) {
        let of_table = self.by_id.values_mut().filter(|load| load.table == table);
        for load in of_table {
            if chunk.is_none_or(|chunk| load.chunk == chunk) {
                load.targets.remove(&target);
            }
        }
    }

    /// A load has ended.
    pub(crate) fn end(&mut self, id: u64) -> Option<Outstanding> {
        self.by_id.remove(&id)
    }

    /// All loads.
    pub(super) fn all(&self) -> impl Iterator<Item = &Outstanding> {
        self.by_id.values()
    }

    /// Whether a load of the table is outstanding.
    pub(crate) fn reads(&self, table: TableId) -> bool {
        self.all().any(|load| load.table == table)
    }

    /// Sets why loads fail of which the core learns next.
    pub(crate) fn fail_for(&mut self, error: Option<StorageError>) {
        self.error = error;
    }

    /// Why a load failed.
    pub(super) fn why_failed(&self) -> StorageError {
        let unknown = || StorageError::Internal("a load failed without a cause".into());
        self.error.clone().unwrap_or_else(unknown)
    }

    /// The core that chose the loads is gone.
    pub(super) fn forget_all(&mut self) {
        self.by_id.clear();
        self.error = None;
    }
}
