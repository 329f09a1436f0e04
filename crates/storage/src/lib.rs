//! Drives the scheduling core with real devices: reads, frames, memory budget, chunk maps, decode.

mod batches;
mod chunk_map;
mod decode;
mod delta;
pub mod device;
mod error;
mod footer;
mod page_guard;
mod page_map;
mod panics;
mod parquet_grammar;
pub mod pool;
mod segment_bytes;
mod thrift_bounds;

pub use batches::Batches;
pub use chunk_map::{
    CHUNK_BYTES_DEFAULT, FileChunk, FileChunks, JOINED_ROWS_MAX, Piece, SharedPages,
};
pub use decode::{SegmentDecoder, without_pages};
pub use error::{Result, StorageError};
pub use footer::{INDEX_SPREAD_MAX, RangeRead, TAIL_BYTES, read_footer};
pub use page_guard::{PAGE_BYTES_MAX, check_pages};
pub use page_map::{PageMap, PagePiece, TablePage, bytes_of_rows};
