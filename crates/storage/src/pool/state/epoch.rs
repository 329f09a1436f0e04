//! Does an event concern the core that is in use, or one that panicked?
//!
//! Numbers only grow: what has a lower one than the first of the core in use belongs to one that
//! panicked, and its owner's words are not passed on.
//! Not here: how a new core is begun (`../restart.rs`).

use coscan_core::{Event, PageRequestId, ScanId, TableId};

use crate::StorageError;

/// The first numbers of the core that is in use.
#[derive(Default)]
pub(crate) struct Epoch {
    scan: ScanId,
    table: TableId,
    page: PageRequestId,
    /// What the last panic was.
    error: Option<StorageError>,
}

impl Epoch {
    /// That of a core that was begun after this panic.
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

    /// Whether the event is about something that only a core of before knew.
    pub(super) fn is_before(&self, event: &Event) -> bool {
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

    /// What became of a table, if a core of before knew it.
    pub(crate) fn error_of(&self, table: TableId) -> Option<&StorageError> {
        self.error.as_ref().filter(|_| table < self.table)
    }
}
