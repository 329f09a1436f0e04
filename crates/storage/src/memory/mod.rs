//! The budget that all that is held draws on.
//!
//! Not here: frames and arrays, which the pool lends (`pool/lend.rs`); what a file's metadata takes
//! (`pool/charge.rs`).

mod budget;

pub(crate) use budget::Lender;
pub use budget::{METADATA_FREE, MemoryBudget, Reclaim};
