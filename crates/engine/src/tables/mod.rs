//! How does a path become a table that can be scanned?
//!
//! | where | question |
//! |---|---|
//! | `registration.rs` | which files are the table at a path? |
//! | `shared.rs` | which tables do all sessions see, and with which columns? |
//! | `stamp.rs` | has a local file or folder changed since a table was made of it? |
//! | `locations.rs` | how are files in several places one table? |
//! | `partitioned.rs` | what are the values of columns that are folders named `key=value`? |
//! | `parquet_format.rs` | which file of a table cannot be read, or does not fit the others? |
//! | `promised_order.rs` | which order does a file promise as a whole? |
//! | `columns.rs` | which columns does a file have, and which a table of files? |
//! | `wider.rs` | which type has a column whose files store it differently? |
//! | `statistics.rs` | what do a file's statistics say about the table's columns? |
//! | `writing.rs` | how are the rows of an INSERT written? |
//! | `one_listing.rs` | does a statement that names a table several times see one state of its files? |
//! | `pending.rs` | which files did a session's open transaction write? |
//! | `footers.rs` | which footers does DataFusion plan with? |
//!
//! Not here: object stores (`object_stores/`), who sees which table (`own/`).

pub(crate) mod columns;
pub(crate) mod footers;
mod locations;
pub(crate) mod one_listing;
mod parquet_format;
pub(crate) mod partitioned;
pub(crate) mod pending;
mod promised_order;
pub(crate) mod registration;
pub(crate) mod shared;
mod stamp;
mod statistics;
mod wider;
mod writing;

/// The schema of the system tables, which describe the engine itself.
pub(crate) const SYSTEM_SCHEMA: &str = "coscan";

/// The name of the folder for rows whose partition column is NULL.
pub(crate) const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";
