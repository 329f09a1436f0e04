//! The memory budget of frames, pages, arrays and operators, and what the process takes.
//!
//! Not here: frames and arrays, which the pool lends (`pool/segments/lend.rs`); the size of a
//! file's metadata (`pool/files/charge.rs`).

mod budget;
mod ledger;
mod process;

pub(crate) use budget::{ARRAYS_PART_MAX, ARRAYS_PART_MIN, Lender};
pub use budget::{Admitted, METADATA_FREE, MemoryBudget, Reclaim};
pub use ledger::Refused;
