//! What can go wrong between a device and an array, and where?
//!
//! Idea: every error names its file, and its row group and column if they are known; an error that
//! wraps another keeps it as its source.
//! Not here: what a query reports (the engine).

use std::ops::Range;
use std::sync::Arc;

/// An error of the storage layer. It is cheap to clone: one failed load reaches every scan that
/// needed it (I7).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The file does not exist.
    #[error("{file}: no such file")]
    NotFound {
        /// Path or URL.
        file: String,
    },
    /// The device refused or failed a request.
    #[error("{file}: reading bytes {}..{} failed: {source}", range.start, range.end)]
    Read {
        /// Path or URL.
        file: String,
        /// The bytes that were requested.
        range: Range<u64>,
        /// The device's error.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The file ended before the bytes that its metadata promises.
    #[error("{file}: reading bytes {}..{} gave only {got}: the file is shorter than its metadata says", range.start, range.end)]
    ShortRead {
        /// Path or URL.
        file: String,
        /// The bytes that were requested.
        range: Range<u64>,
        /// How many bytes arrived.
        got: u64,
    },
    /// The device did not answer in time.
    #[error("{file}: reading bytes {}..{} timed out after {seconds} s", range.start, range.end)]
    TimedOut {
        /// Path or URL.
        file: String,
        /// The bytes that were requested.
        range: Range<u64>,
        /// How long the reader waited, retries included.
        seconds: u64,
    },
    /// The file system that holds the file does not answer: its server is gone, or its disk hangs.
    #[error("{file}: its file system did not answer within {seconds} s")]
    NoAnswer {
        /// Path or URL.
        file: String,
        /// How long the reader waited.
        seconds: u64,
    },
    /// A device that the configuration names failed.
    #[error("{reason} (device {device})")]
    OnDevice {
        /// The device's name.
        device: String,
        /// The device's error; it names the file.
        #[source]
        reason: Box<StorageError>,
    },
    /// Bytes of a column could not be read.
    #[error("{reason} (row group {row_group}, column {column})")]
    Unread {
        /// The row group, from 0. If several ranges were requested at once, the row group and the
        /// column are those of the first range that lacks bytes.
        row_group: usize,
        /// The root column's name.
        column: String,
        /// The device's error; it names the file.
        #[source]
        reason: Box<StorageError>,
    },
    /// The file is not the version that the scan was planned for.
    #[error("{file}: the file was replaced while it was being read; run the query again")]
    Replaced {
        /// Path or URL.
        file: String,
    },
    /// The file is not Parquet, or its footer is damaged.
    #[error("{file}: {reason}")]
    BadFooter {
        /// Path or URL.
        file: String,
        /// The Parquet reader's message.
        reason: String,
    },
    /// A column chunk or page could not be decoded.
    #[error("{file}: row group {row_group}, column {column}: {reason}")]
    BadPage {
        /// Path or URL.
        file: String,
        /// The row group, from 0.
        row_group: usize,
        /// The root column's name.
        column: String,
        /// The Parquet reader's message.
        reason: String,
    },
    /// A chunk does not fit in the buffer, even an empty one.
    #[error(
        "{file}: a chunk of {bytes} bytes does not fit in the {budget} bytes that the buffer has; raise coscan.memory or lower coscan.chunk_bytes"
    )]
    ChunkTooLarge {
        /// Path or URL.
        file: String,
        /// What the scan needs of the chunk.
        bytes: u64,
        /// The bytes that the buffer has.
        budget: u64,
    },
    /// A bug in Coscan: something panicked. Other queries keep running.
    #[error("{place}: internal error: a panic: {reason}")]
    Panicked {
        /// Where it panicked: a file and its column, or a part of the engine.
        place: String,
        /// The panic's message.
        reason: String,
    },
    /// The storage layer has been shut down.
    #[error("the engine is shutting down")]
    ShutDown,
    /// A bug in Coscan: the buffer manager refused an event.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Result of a storage operation.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;
