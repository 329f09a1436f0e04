//! Which files make a table, with which columns, and what does a file hold?
//!
//! | file | what it answers |
//! |---|---|
//! | `file_cache.rs` | which footers and chunk maps the process keeps |
//! | `file_schema.rs` | which columns a file has |
//! | `columns.rs` | which of the core's columns belong to a root column |
//! | `packed.rs` | how the bytes of tiny column chunks are read and held |
//! | `bloom.rs` | bloom filters of a file |
//! | `charge.rs` | the memory of metadata, counted in the budget |
//!
//! Not here: tables as queries see them (`../tables`), the format (`../../parquet`).

mod bloom;
mod charge;
mod columns;
mod file_cache;
mod file_schema;
mod packed;

pub(super) use charge::{Charge, bytes_of_chunk, bytes_of_table};
pub(super) use columns::TableColumns;
pub use file_cache::{FileCache, FileKey, TableFile};
pub use file_schema::FileSchema;
pub(super) use packed::{Buffers, answered, asked, held};
