//! The physical shape of a table: its chunks, columns, bytes, and the extents that several chunks
//! share.

use crate::{ChunkId, ColumnId, DeviceId};

/// The storage model: what one load brings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StorageModel {
    /// A load brings the whole chunk, every column (the paper's NSM/PAX). In the core such a table
    /// has one column.
    Nsm,
    /// A load brings the segments that scans need.
    Dsm,
}

/// Chunks and their sizes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableLayout {
    /// The number of columns. Under `nsm` it is 1.
    pub columns: u16,
    /// The chunks; the position of a chunk is its [`ChunkId`].
    pub chunks: Vec<ChunkLayout>,
    /// Extents that serve several chunks; the position of an extent is its [`crate::ExtentId`].
    pub shared: Vec<SharedExtent>,
}

/// One chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLayout {
    /// The device that the chunk is read from.
    pub device: DeviceId,
    /// Own bytes of each column, without shared extents. May be 0.
    pub bytes: Box<[u64]>,
}

/// A page (or dictionary page) of one column that serves a run of neighbouring chunks.
/// [CoopScans07 §6.1: "a single physical page can contain data for multiple logical chunks"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedExtent {
    /// The column.
    pub column: ColumnId,
    /// The first chunk it serves.
    pub first: ChunkId,
    /// The last chunk it serves, at or after `first`.
    pub last: ChunkId,
    /// The size of the page.
    pub bytes: u64,
}
