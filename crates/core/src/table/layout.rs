//! The physical shape of a table: chunks, columns, bytes, and pages that several chunks share.

use crate::{ChunkId, ColumnId, DeviceId};

/// What one load brings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StorageModel {
    /// The whole chunk, every column (the paper's NSM/PAX). Tables have one column in the core.
    Nsm,
    /// The segments that scans need.
    Dsm,
}

/// Chunks and their sizes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableLayout {
    /// How many columns each chunk has. Under `nsm` it is 1.
    pub columns: u16,
    /// The chunks; their position is their [`ChunkId`].
    pub chunks: Vec<ChunkLayout>,
    /// Bytes that serve several chunks; their position is their [`crate::ExtentId`].
    pub shared: Vec<SharedExtent>,
}

/// One chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLayout {
    /// Where it is read from.
    pub device: DeviceId,
    /// Own bytes of each column, shared extents not included. A column may have none.
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
    /// The last chunk it serves, not before `first`.
    pub last: ChunkId,
    /// Its size.
    pub bytes: u64,
}
