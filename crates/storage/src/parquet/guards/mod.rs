//! What of a file is safe for parquet's decoder, and which of its statistics are trusted?
//!
//! | file | question |
//! |---|---|
//! | `thrift_bounds.rs`, `grammar.rs` | is this metadata safe for parquet's decoder? |
//! | `page_guard.rs`, `delta.rs` | is this page undamaged, and safe for parquet's decoder? |
//! | `trusted.rs` | which of a file's statistics are trusted? |
//!
//! Not here: reading footers (`../footer.rs`), decoding (`../decode.rs`).

mod delta;
mod grammar;
mod page_guard;
mod thrift_bounds;
mod trusted;

pub(super) use page_guard::GuardedPages;
pub use page_guard::{PAGE_BYTES_MAX, PageRules, check_pages};
pub(super) use thrift_bounds::{Flaw, check_column_index, check_file_metadata, check_offset_index};
pub use trusted::{has_uncounted, without_uncounted};
pub(super) use trusted::{trusted, trusted_pages};
