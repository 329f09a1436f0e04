//! SQL's prepared statements: which ones does a session have by name, and what does EXECUTE give
//! them?
//!
//! | file | question |
//! |---|---|
//! | `prepared_names.rs` | which prepared statement has a name? |
//! | `arguments.rs` | what are the values of EXECUTE's arguments? |
//!
//! Not here: what a prepared statement is and when it is planned again (`../prepared.rs`).

mod arguments;
mod prepared_names;

pub use arguments::arguments;
pub use prepared_names::PreparedNames;
