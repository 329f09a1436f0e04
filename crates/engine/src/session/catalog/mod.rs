//! Which names do all sessions see?
//!
//! | file | question |
//! |---|---|
//! | `shared_tables.rs` | which tables do all sessions see, and with which columns? |
//! | `system_tables.rs` | what do the tables `coscan.*` show? |
//!
//! Not here: names of a session's own (`session_names/`).

mod shared_tables;
pub(super) mod system_tables;

pub(super) use shared_tables::{Place, SharedTables};
