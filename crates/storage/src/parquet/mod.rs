//! Parquet files: where are their chunks and pages, and how do bytes become arrays?
//!
//! | where | question |
//! |---|---|
//! | `footer.rs` | what does a file hold, and where? |
//! | `guards/` | what of it is safe for parquet's decoder, and which statistics are trusted? |
//! | `chunk_map.rs` | which row groups, or parts of them, form a chunk? |
//! | `segment_bytes.rs` | how does parquet's reader see a file of which only some bytes are in memory? |
//! | `decode.rs`, `batches.rs` | which arrays does a segment become? |
//! | `interval.rs` | how does Parquet's INTERVAL become Arrow's? |
//! | `one_form.rs` | which values have several encodings, and which encoding is kept? |
//! | `narrow.rs` | in how few bytes can a batch be stored? |

mod batches;
mod chunk_map;
mod decode;
mod footer;
mod guards;
mod interval;
mod narrow;
mod one_form;
mod segment_bytes;

pub use batches::Batches;
pub(crate) use chunk_map::page_index;
pub use chunk_map::{
    CHUNK_BYTES_DEFAULT, FileChunk, FileChunks, JOINED_ROWS_MAX, Piece, SharedPages,
};
pub use decode::{SegmentDecoder, without_pages};
pub use footer::{INDEX_SPREAD_MAX, RangeRead, TAIL_BYTES, UNKNOWN_TYPES, read_footer};
pub use guards::{PAGE_BYTES_MAX, PageRules, check_pages, has_uncounted, without_uncounted};
pub use interval::{INTERVAL, is_interval};
pub use narrow::narrowest;
pub use one_form::{has_other_forms, in_one_form};
