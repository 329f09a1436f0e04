//! Does an event concern the current core, or a core that panicked?
//!
//! Ids only grow: an id below the current core's first one belongs to a core that panicked, and
//! events with such an id are discarded.
//! Not here: how a new core begins (`mod.rs`).

use coscan_core::{Event, PageRequestId, ScanId, TableId};

use crate::StorageError;

/// The first ids of the current core.
#[derive(Default)]
pub(crate) struct Epoch {
    scan: ScanId,
    table: TableId,
    page: PageRequestId,
    /// The error of the last panic.
    error: Option<StorageError>,
}

impl Epoch {
    /// The epoch of a core that begins after this panic.
    pub(crate) fn begin(
        scan: ScanId,
        table: TableId,
        page: PageRequestId,
        error: StorageError,
    ) -> Self {
        let error = Some(error);
        Self {
            scan,
            table,
            page,
            error,
        }
    }

    /// Whether the event concerns something that only an earlier core knew.
    pub(crate) fn is_before(&self, event: &Event) -> bool {
        match event {
            Event::ChunkRequested { scan }
            | Event::RequestWithdrawn { scan }
            | Event::DegreeChanged { scan, .. }
            | Event::ChunkProgressed { scan, .. }
            | Event::ChunkLapsed { scan, .. }
            | Event::ChunkReleased { scan, .. }
            | Event::ChunksWithdrawn { scan, .. }
            | Event::ChunkJobBegun { scan, .. }
            | Event::ChunkJobEnded { scan, .. }
            | Event::ScanEnded { scan } => *scan < self.scan,
            Event::LoadCompleted { table, .. } | Event::LoadFailed { table, .. } => {
                *table < self.table
            }
            Event::PageCompleted { request } | Event::PageReleased { request } => {
                *request < self.page
            }
            _ => false,
        }
    }

    /// The panic's error, if an earlier core knew the table.
    pub(crate) fn error_of(&self, table: TableId) -> Option<&StorageError> {
        self.error.as_ref().filter(|_| table < self.table)
    }
}
