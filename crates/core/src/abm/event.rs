//! What a driver tells the core, and what the core tells it to do.
//!
//! Events are past tense, actions imperative. `docs/design/abm.md` says what each one does.

use crate::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, ExtentId, PageRequestId, ScanId, ScanSpec,
    SharedExtent, TableId, TableLayout,
};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A table can be scanned from now on.
    TableRegistered {
        /// Its id.
        table: TableId,
        /// Its chunks and their sizes.
        layout: TableLayout,
    },
    /// A table grew (new files). The chunks get the next ids.
    ChunksAppended {
        /// The table.
        table: TableId,
        /// The new chunks, with as many columns as the table has.
        chunks: Vec<ChunkLayout>,
        /// Shared extents of the new chunks; they get the next extent ids.
        shared: Vec<SharedExtent>,
    },
    /// A table without scans is forgotten.
    TableDropped {
        /// The table.
        table: TableId,
    },
    /// A scan announced what it needs.
    ScanRegistered {
        /// Its id, greater than all before.
        scan: ScanId,
        /// What it needs.
        spec: ScanSpec,
    },
    /// From how many devices loads are chosen for a scan at a time has changed (`parallelism/`).
    DegreeChanged {
        /// The scan.
        scan: ScanId,
        /// As many, at least 1. None: all.
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
    /// A consumer still works on a chunk it holds. To be told a few times per
    /// `TurnLimit::length_ns_max`.
    ChunkProgressed {
        /// The scan.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
    },
    /// A consumer of the scan has not come back to a chunk it holds: the driver takes the chunk's
    /// memory back. The chunk stays the consumer's, who reads what is left of it as a scan of its
    /// own, and releases it at the end.
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
    /// The scan no longer needs these chunks (dynamic filters). Chunks already handed out, or
    /// with a chunk job, are not affected.
    ChunksWithdrawn {
        /// The scan.
        scan: ScanId,
        /// The chunks.
        chunks: ChunkSet,
    },
    /// The consumer of a scan that holds a chunk works on it for other scans too, which need no
    /// delivery of it any more. The job
    /// pins what of their columns is in memory. It goes on whoever of them ends, the first scan
    /// included.
    ChunkJobBegun {
        /// The scan that holds the chunk.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
        /// The other scans, all of which need the chunk. None of them, nor the first, is ordered.
        members: Vec<ScanId>,
    },
    /// A chunk job is over: the chunk is done with for all its members, those excepted that it is
    /// given back to. These need it
    /// again. The scan that began the job is one of them if it is named, else it is done with the
    /// chunk when it releases it.
    ChunkJobEnded {
        /// The scan that held the chunk when the job began. It need not be registered any more.
        scan: ScanId,
        /// The chunk.
        chunk: ChunkId,
        /// Registered scans for which the job did not do it.
        given_back: Vec<ScanId>,
    },
    /// The scan is over: finished, cancelled or failed.
    ScanEnded {
        /// The scan.
        scan: ScanId,
    },
    /// Columns of a load are in memory.
    LoadCompleted {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The columns, all of them in an outstanding load.
        columns: Vec<ColumnId>,
    },
    /// Columns of a load could not be read; the driver has given up on them.
    LoadFailed {
        /// The table.
        table: TableId,
        /// The chunk.
        chunk: ChunkId,
        /// The columns, all of them in an outstanding load.
        columns: Vec<ColumnId>,
    },
    /// A smooth scan wants a page of a chunk.
    PageRequested {
        /// Its id, greater than all before.
        request: PageRequestId,
        /// The table.
        table: TableId,
        /// The chunk that holds the page.
        chunk: ChunkId,
        /// The columns wanted. Not empty.
        columns: ColumnSet,
    },
    /// The driver read a queued page by itself.
    PageCompleted {
        /// The request.
        request: PageRequestId,
    },
    /// A page that was served from a chunk is no longer used.
    PageReleased {
        /// The request.
        request: PageRequestId,
    },
    /// The bytes the core may hold changed.
    BudgetChanged {
        /// The new budget.
        bytes: u64,
    },
    /// Time passed; see `next_deadline`.
    TimePassed,
}

/// Why a chunk that is handed out was in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LoadOrigin {
    /// It was there when the scan registered.
    FromBuffer,
    /// It was loaded on behalf of this scan.
    LoadedForMe,
    /// It was loaded on behalf of another scan while this one ran.
    LoadedForOthers,
}

/// What to do.
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
        /// Shared extents of these columns that are to be read too, ascending.
        extents: Vec<ExtentId>,
        /// Own bytes of the columns plus bytes of the extents.
        bytes: u64,
        /// The scan it was chosen for.
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
        /// Where it came from.
        origin: LoadOrigin,
    },
    /// Tell a waiting consumer that nothing is left, nor with a chunk job that may give it back.
    Exhausted {
        /// The scan.
        scan: ScanId,
    },
    /// A chunk the scan needs could not be loaded. The scan needs nothing any more; end it.
    Fail {
        /// The scan.
        scan: ScanId,
        /// The chunk that failed.
        chunk: ChunkId,
    },
    /// The page is in memory; it stays until `PageReleased`.
    ServePage {
        /// The request.
        request: PageRequestId,
    },
    /// Do not read this page by itself: a load brings it, `ServePage` or `FailPage` follows.
    DropPageRequest {
        /// The request.
        request: PageRequestId,
    },
    /// The load that was to bring the page failed.
    FailPage {
        /// The request.
        request: PageRequestId,
    },
}
