//! How are secondary indexes on Parquet tables built, found and read?
//!
//! `CREATE INDEX` builds an index beside the table, and smooth scans use it. It is a Parquet file
//! of (key, position), sorted by both: its footer is the root, its page index the inner level, its
//! pages the leaves. NULL keys are left out.
//! Contract: `docs/design/index.md`.
//!
//! | file | question |
//! |---|---|
//! | `statement.rs` | which statements are about indexes, and what do they ask for? |
//! | `functions.rs` | how does such a statement run inside a DataFusion plan? |
//! | `build.rs` | how is an index built? |
//! | `entries.rs` | which entries do a table's files have? |
//! | `merge.rs` | which entries does REFRESH keep? |
//! | `draft.rs` | how are the data of an index written, and removed? |
//! | `commit.rs` | how is an index committed, completely or not at all? |
//! | `discovery.rs` | when does an engine look for indexes? |
//! | `cursor.rs` | which rows does an index find for a predicate? |
//! | `leaves.rs` | where in an index's file are the leaves? |
//! | `key_list.rs` | which leaves can hold a key of a list? |
//!
//! Not here: the catalogue of indexes (`index_catalog/`).

mod build;
mod commit;
mod cursor;
mod discovery;
mod draft;
mod entries;
mod functions;
mod key_list;
mod leaves;
mod merge;
pub(crate) mod statement;

pub(crate) use cursor::{ASCENDING, Cursor};
pub(crate) use discovery::{find_indexes, look_again, look_for_indexes};
pub(crate) use functions::register as register_functions;
pub use statement::{IndexStatement, index_statement};
