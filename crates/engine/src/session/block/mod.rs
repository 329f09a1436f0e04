//! A transaction block: which statement may run in it, and what does its end restore?
//!
//! | file | question |
//! |---|---|
//! | `status.rs` | which statement may run in which state of a block? |
//! | `statement.rs` | which statements begin and end blocks and savepoints? |
//! | `modes.rs` | READ ONLY and ISOLATION LEVEL: when may they change? |
//! | `transaction.rs` | what do ROLLBACK and ROLLBACK TO restore? |
//! | `of_program.rs` | how does a program run statements in a block? |
//!
//! Not here: what is saved of names and tables (`session_names/saved.rs`), settings, which a
//! server's client has and a program has not, and the letter by which a client learns the state.

mod modes;
mod of_program;
mod statement;
mod status;
mod transaction;

pub use modes::TransactionModes;
pub use of_program::Block;
pub use statement::BlockStatement;
pub use status::{AfterFailure, BlockStatus};
pub use transaction::Transaction;
