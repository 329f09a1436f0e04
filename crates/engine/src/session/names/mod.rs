//! SQL's prepared statements: which ones does a session have by name, and what does EXECUTE give
//! them?
//!
//! | file | question |
//! |---|---|
//! | `statement.rs` | which statements are about prepared statements? |
//! | `prepared_names.rs` | which prepared statement has a name? |
//! | `arguments.rs` | what are the values of EXECUTE's arguments? |
//!
//! Not here: what a prepared statement is and when it is planned again (`../prepared.rs`).

mod arguments;
mod prepared_names;
mod statement;

pub use arguments::arguments;
pub use prepared_names::PreparedNames;
pub(in crate::session) use statement::folded;
pub use statement::{NamesStatement, declared_types};
