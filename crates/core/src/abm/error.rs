//! How can an event contradict the state? Each error is a bug in the driver.

use crate::{ChunkId, ColumnId, PageRequestId, ScanId, TableId};

/// Why an event was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No such table.
    #[error("table {0} is not registered")]
    UnknownTable(TableId),
    /// The id is taken.
    #[error("table {0} is registered already")]
    TableExists(TableId),
    /// The table still has scans, loads, jobs or page requests.
    #[error("table {0} is in use")]
    TableInUse(TableId),
    /// The chunks and columns of the layout do not add up.
    #[error("the layout of table {0} is inconsistent")]
    BadLayout(TableId),
    /// No such scan.
    #[error("scan {0} is not registered")]
    UnknownScan(ScanId),
    /// Scan ids must ascend.
    #[error("scan id {0} is not greater than all before")]
    ScanIdReused(ScanId),
    /// A part is empty, overlaps another, or names chunks or columns that the table lacks; or the
    /// scan has no consumers.
    #[error("the parts of scan {0} are inconsistent")]
    BadPart(ScanId),
    /// No such chunk.
    #[error("table {0} has no chunk {1} with these columns")]
    UnknownChunk(TableId, ChunkId),
    /// The scan does not hold the chunk.
    #[error("scan {0} does not hold chunk {1}")]
    NotHeld(ScanId, ChunkId),
    /// The scan leads a chunk job on the chunk already.
    #[error("scan {0} leads a chunk job on chunk {1} already")]
    JobExists(ScanId, ChunkId),
    /// The scan leads no chunk job on the chunk.
    #[error("scan {0} leads no chunk job on chunk {1}")]
    NoJob(ScanId, ChunkId),
    /// The scan does not need the chunk: it holds it, has consumed it, has joined another job on
    /// it, or never wanted it.
    #[error("scan {0} does not need chunk {1}")]
    NotNeeded(ScanId, ChunkId),
    /// The chunk job does not work for the scan.
    #[error("the chunk job on chunk {1} does not serve scan {0}")]
    NotServed(ScanId, ChunkId),
    /// The scan reads another table.
    #[error("scan {0} does not scan table {1}")]
    OtherTable(ScanId, TableId),
    /// An ordered scan takes its chunks one after another, so it takes part in no chunk job.
    #[error("scan {0} is ordered")]
    OrderedScan(ScanId),
    /// The column is not in an outstanding load.
    #[error("table {0}, chunk {1}: column {2} is not being loaded")]
    NotLoading(TableId, ChunkId, ColumnId),
    /// The segment is not in memory.
    #[error("table {0}, chunk {1}: column {2} is not resident")]
    NotResident(TableId, ChunkId, ColumnId),
    /// A column was reported complete although one of its shared extents is neither resident nor
    /// loading.
    #[error("table {0}, chunk {1}: column {2} lacks a shared extent")]
    ExtentAbsent(TableId, ChunkId, ColumnId),
    /// Page request ids must ascend.
    #[error("page request id {0} is not greater than all before")]
    PageRequestIdReused(PageRequestId),
}
