//! Tables: from a path to something that can be scanned.
//!
//! | where | question |
//! |---|---|
//! | `registration.rs` | which files are the table at a path? |
//! | `locations.rs` | how are files in several places one table? |
//! | `parquet_format.rs` | which file of a table cannot be read, or does not fit the others? |
//! | `promised_order.rs` | which order does a file promise as a whole? |
//! | `partition_types.rs` | of which type are the values of folders named `key=value`? |
//! | `footers.rs` | which footers does DataFusion plan with? |
//!
//! Not here: object stores (`object_stores/`), who sees which table (`own/`).

pub(crate) mod footers;
mod locations;
mod parquet_format;
mod partition_types;
mod promised_order;
pub(crate) mod registration;

/// The schema of the system tables, which describe the engine itself.
pub(crate) const SYSTEM_SCHEMA: &str = "coscan";
