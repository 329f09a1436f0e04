//! Drives the scheduling core with real devices: reads, frames, memory budget, chunk maps, decode.

pub mod device;
mod error;
pub mod litter;
mod memory;
mod panics;
mod parquet;
pub mod pool;
pub mod threads;

pub use error::{Result, StorageError};
pub use parquet::{
    Batches, CHUNK_BYTES_DEFAULT, FileChunk, FileChunks, INDEX_SPREAD_MAX, INTERVAL,
    JOINED_ROWS_MAX, PAGE_BYTES_MAX, PageRules, Piece, RangeRead, SegmentDecoder, SharedPages,
    TAIL_BYTES, UNKNOWN_TYPES, check_pages, has_other_forms, has_uncounted, in_one_form,
    is_interval, narrowest, read_footer, without_pages, without_uncounted,
};
pub use pool::{PageMap, PagePiece, TablePage, bytes_of_rows};
