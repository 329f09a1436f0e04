//! A transaction block: which statement may run in it, and what does its end restore?
//!
//! | file | question |
//! |---|---|
//! | `status.rs` | which statement may run in which state of a block? |
//! | `statement.rs` | which statements begin and end blocks and savepoints? |
//! | `transaction.rs` | what do ROLLBACK and ROLLBACK TO restore? |
//! | `of_program.rs` | how does a program's session open and end a block? |
//!
//! Not here: what is saved of names and tables (`session_names/saved.rs`) and of settings
//! (`../settings/saved.rs`), and the letter by which a client learns the state.

mod of_program;
mod statement;
mod status;
mod transaction;

pub use of_program::Block;
pub use statement::BlockStatement;
pub use status::{AfterFailure, BlockStatus};
pub use transaction::Transaction;
