//! Drives the scheduling core (coscan-core) with real devices, threads and memory.
//!
//! The core decides what to load, deliver and evict; this crate carries the decisions out.
//! `device/` reads byte ranges of files, `parquet/` finds chunks in a file's metadata and decodes
//! them, `pool/` holds frames and decoded arrays and hands them to scans, and `memory/` divides
//! the process's memory budget. `threads.rs`, `panics.rs` and `orphans.rs` serve all of them.
//!
//! Not here: SQL, plans and predicates (the engine); scheduling decisions (coscan-core).
//! Invariants: `docs/design/storage.md`, `docs/design/memory.md`.

pub mod device;
mod error;
mod memory;
pub mod orphans;
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
