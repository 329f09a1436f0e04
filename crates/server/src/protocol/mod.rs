//! PostgreSQL's protocol: one connection, and what each of its messages does.
//!
//! | file | question |
//! |---|---|
//! | `protocol/connection.rs` | what happens from a connection's first byte to its last? |
//! | `protocol/shared.rs` | what does every connection need of the server? |
//! | `protocol/simple.rs` | the simple query protocol |
//! | `protocol/extended.rs` | Parse, Bind, Describe, Execute, Close |
//! | `protocol/params.rs` | the values of a Bind message |
//! | `protocol/perform.rs` | what does each statement do? |
//! | `protocol/prepared.rs` | SQL's PREPARE and EXECUTE |
//! | `protocol/transactions.rs` | what ends with a transaction? |
//! | `protocol/results.rs` | how do rows and tags reach the client? |
//!
//! Not here: which connections get a task (`../listen.rs`), bytes (`../net`), rows (`../encode`).

mod connection;
mod extended;
mod params;
mod perform;
mod prepared;
mod results;
mod shared;
mod simple;
mod transactions;

pub(super) use connection::serve;
pub(super) use shared::Shared;
