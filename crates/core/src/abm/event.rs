//! What a driver tells the core, and what the core tells the driver to do.
//!
//! Events are past tense, actions imperative. `docs/design/abm.md` defines each one.

use crate::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, ExtentId, PageRequestId, ScanId, ScanSpec,
    SharedExtent, TableId, TableLayout,
};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A new table can be scanned.
    TableRegistered {
        /// Its id.
        table: TableId,
        /// Its chunks and their sizes.
        layout: TableLayout,
    },
    /// A table grew (new files). The new chunks get the next ids.
    ChunksAppended {
        /// The table.
        table: TableId,
        /// The new chunks, with as many columns as the table has.
        chunks: Vec<ChunkLayout>,
        /// Shared extents of the new chunks; they get the next extent ids.
        shared: Vec<SharedExtent>,
    },
    /// A table without scans was dropped.
    TableDropped {
        /// The table.
        table: TableId,
    },
    /// A scan announced the chunks and columns that it needs.
    ScanRegistered {
        /// Its id, greater than all earlier ids.
        scan: ScanId,
        /// What it needs.
        spec: ScanSpec,
    },
    /// `parallelism/` has changed the number of devices that loads are chosen from for a scan at a
    /// time.
    DegreeChanged {
        /// The scan.
        scan: ScanId,
        /// The number of devices, at least 1. `None`: all.
        devices_max: Option<u32>,
    },
    /// A consumer of the scan waits for a chunk. Answered by `Deliver`, `Exhausted` or `Fail`.
    ChunkRequested {
        /// The scan.
        scan: ScanId,
    },
    /// A consumer gave up waiting.
    RequestWithdrawn {
        /// The scan.
        scan: ScanId,
    },
    /// A consumer still works on a chunk that it holds. The driver reports this a few times per
    /// `TurnLimit::length_ns_max`.
    ChunkProgressed {
        /// The scan.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
    },
    /// A consumer of the scan is silent while it holds a chunk: the driver takes the chunk's
    /// memory back. The chunk stays assigned to the consumer, which reads the rest of it through a
    /// scan of its own and releases the chunk at the end.
    ChunkLapsed {
        /// The scan.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
    },
    /// A consumer is done with a chunk, lapsed or not.
    ChunkReleased {
        /// The scan.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
    },
    /// The scan has stopped needing these chunks (dynamic filters). Chunks already delivered, and
    /// chunks that the scan has joined a job for, are not affected.
    ChunksWithdrawn {
        /// The scan.
        scan: ScanId,
        /// The chunks.
        chunks: ChunkSet,
    },
    /// The consumer of a scan that holds a chunk works on it for other scans too; these need no
    /// delivery of the chunk. The job pins the resident columns among those that its scans want.
    /// The job continues if one of its scans ends, even the one that began it.
    ChunkJobBegun {
        /// The scan that holds the chunk.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
        /// The other scans. Each needs the chunk, or got it delivered too. No scan of the job is
        /// ordered.
        members: Vec<ScanId>,
    },
    /// A chunk job has ended. Every member has consumed the chunk, except those in `given_back`,
    /// which need it from now on. If the scan that began the job is among these, it needs the
    /// chunk too; otherwise it has consumed the chunk when it releases it.
    ChunkJobEnded {
        /// The scan that held the chunk when the job began. It may have ended.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
        /// The registered scans for which the job did not consume the chunk.
        given_back: Vec<ScanId>,
    },
    /// The scan has ended: finished, cancelled or failed.
    ScanEnded {
        /// The scan.
        scan: ScanId,
    },
    /// Columns of a load are resident.
    LoadCompleted {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The columns, all of them in an outstanding load.
        columns: Vec<ColumnId>,
    },
    /// Columns of a load could not be read; the driver does not retry.
    LoadFailed {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The columns, all of them in an outstanding load.
        columns: Vec<ColumnId>,
    },
    /// A resident segment takes another amount of memory from now on, because the driver keeps it
    /// in another form, such as decoded arrays. A load of it still brings the bytes of its layout.
    /// Its shared extents do not change.
    SegmentResized {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The column, which is resident.
        column: ColumnId,
        /// Own bytes of the segment in memory until it is evicted.
        bytes: u64,
    },
    /// A smooth scan wants a page of a chunk.
    PageRequested {
        /// Its id, greater than all earlier ids.
        request: PageRequestId,
        /// The table.
        table: TableId,
        /// The chunk that holds the page.
        chunk: ChunkId,
        /// The columns wanted. Not empty.
        columns: ColumnSet,
    },
    /// The driver itself has read a queued page.
    PageCompleted {
        /// The request.
        request: PageRequestId,
    },
    /// A request has stopped using a page that was served from a chunk.
    PageReleased {
        /// The request.
        request: PageRequestId,
    },
    /// The memory budget changed.
    BudgetChanged {
        /// The new budget.
        bytes: u64,
    },
    /// Time passed; see [`Abm::next_deadline`](crate::Abm::next_deadline).
    TimePassed,
}

/// Which load brought a delivered chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LoadOrigin {
    /// Its newest load was chosen for another scan and started before this scan registered.
    FromBuffer,
    /// Its newest load was chosen for this scan.
    LoadedForMe,
    /// Its newest load was chosen for another scan while this scan was registered.
    LoadedForOthers,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Read segments into memory. Answered by `LoadCompleted` or `LoadFailed`, in any number of
    /// steps.
    Load {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The columns, in the order to read them: increasing size, then id.
        columns: Vec<ColumnId>,
        /// The shared extents of these columns that the load has to read too, ascending.
        extents: Vec<ExtentId>,
        /// Own bytes of the columns plus bytes of the extents.
        bytes: u64,
        /// The scan that the load was chosen for.
        scan: ScanId,
    },
    /// Free the own bytes of a segment.
    Evict {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The column.
        column: ColumnId,
    },
    /// Free a shared extent.
    EvictExtent {
        /// The table.
        table: TableId,
        /// The extent.
        extent: ExtentId,
    },
    /// Hand a chunk to a waiting consumer. Its columns stay in memory until `ChunkReleased`,
    /// `ChunkLapsed` or `ScanEnded`.
    Deliver {
        /// The scan.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
        /// Which load brought the chunk.
        origin: LoadOrigin,
    },
    /// Tell a waiting consumer that the scan needs no more chunks, and that no chunk job could
    /// give one back.
    Exhausted {
        /// The scan.
        scan: ScanId,
    },
    /// A chunk that the scan needs could not be loaded. The scan needs no chunk from now on; end
    /// it.
    Fail {
        /// The scan.
        scan: ScanId,
        /// The chunk that failed.
        chunk: ChunkId,
    },
    /// The page is resident, and stays so until `PageReleased`.
    ServePage {
        /// The request.
        request: PageRequestId,
    },
    /// Do not read this page alone, because a load brings it; `ServePage` or `FailPage` follows.
    DropPageRequest {
        /// The request.
        request: PageRequestId,
    },
    /// The load that should have brought the page failed.
    FailPage {
        /// The request.
        request: PageRequestId,
    },
}
