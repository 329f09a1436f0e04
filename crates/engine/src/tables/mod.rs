//! How does a path become a table that can be scanned?
//!
//! | where | question |
//! |---|---|
//! | `registration.rs` | which files are the table at a path? |
//! | `stamp.rs` | has a local file or folder changed since a table was made of it? |
//! | `locations.rs` | how are files in several places one table? |
//! | `partitioned.rs` | what are the values of columns that are folders named `key=value`? |
//! | `parquet_format.rs` | which file of a table cannot be read, or does not fit the others? |
//! | `metadata/` | what do footers say of columns, types, statistics and order? |
//! | `writing.rs` | how are the rows of an INSERT written? |
//! | `one_listing.rs` | does a statement that names a table several times see one state of its files? |
//! | `pending.rs` | which files did a session's open transaction write? |
//!
//! Not here: object stores (`object_stores/`), who sees which table (`session_names/`,
//! `session/catalog/shared_tables.rs`).

mod locations;
pub(crate) mod metadata;
pub(crate) mod one_listing;
mod parquet_format;
pub(crate) mod partitioned;
pub(crate) mod pending;
pub(crate) mod registration;
mod stamp;
mod writing;

pub(crate) use parquet_format::is_outdated;
pub(crate) use stamp::Stamp;

/// The schema of the system tables, which describe the engine itself.
pub(crate) const SYSTEM_SCHEMA: &str = "coscan";

/// The name of the folder for rows whose partition column is NULL.
pub(crate) const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";
