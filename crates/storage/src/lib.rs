//! Drives the scheduling core with real devices: reads, frames, memory budget, chunk maps, decode.

mod chunk_map;
mod decode;
pub mod device;
mod error;
mod footer;
mod page_map;
mod panics;
pub mod pool;
mod thrift_bounds;

pub use chunk_map::{
    CHUNK_BYTES_DEFAULT, FileChunk, FileChunks, JOINED_ROWS_MAX, Piece, SharedPages,
};
pub use decode::{SegmentDecoder, batch_rows_of, without_pages};
pub use error::{Result, StorageError};
pub use footer::{INDEX_SPREAD_MAX, RangeRead, TAIL_BYTES, read_footer};
pub use page_map::{PageMap, PagePiece, PageRun, TablePage, bytes_of_rows};
