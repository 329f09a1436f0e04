//! The budget that all that is held draws on.
//!
//! | file | question |
//! |---|---|
//! | `budget.rs` | who may hold how much, and who makes way? |
//! | `charge.rs` | what do a file's footer, page index and chunk map take? |
//!
//! Not here: frames and arrays, which the pool lends (`pool/lend.rs`).

mod budget;
mod charge;

pub(crate) use budget::Lender;
pub use budget::{METADATA_FREE, MemoryBudget, Reclaim};
pub(crate) use charge::{Charge, bytes_of_chunk, bytes_of_map};
