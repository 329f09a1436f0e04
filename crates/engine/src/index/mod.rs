//! Secondary indexes on Parquet tables: made by `CREATE INDEX`, kept beside the table, used by
//! smooth scans.
//!
//! | file | what it answers |
//! |---|---|
//! | `statement.rs` | which statements are about indexes, and what they ask for |
//! | `functions.rs` | how such a statement runs inside a DataFusion plan |
//! | `build.rs` | how an index is built |
//! | `entries.rs` | what the entries of a table's files are |
//! | `merge.rs` | which entries REFRESH keeps |
//! | `draft.rs` | how the data of an index is written, and removed |
//! | `commit.rs` | how an index comes into being, or not at all |
//! | `discovery.rs` | when indexes are looked for |
//! | `cursor.rs` | which rows an index names |
//! | `leaves.rs` | where the leaves of an index's data are |
//! | `key_list.rs` | which leaves can hold a key of a list |
//!
//! An index is a Parquet file of (key, position), sorted by both: its footer is the root, its page
//! index the inner level, its pages the leaves. NULL keys are left out. Contract:
//! `docs/design/index.md`. Not here: which indexes there are (`index_catalog/`).

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
