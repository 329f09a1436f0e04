//! The memory budget of frames, pages, arrays and operators, and what the process takes.
//!
//! Not here: frames and arrays, which the pool lends (`pool/segments/lend.rs`); the size of a
//! file's metadata (`pool/files/charge.rs`).

mod arrays;
mod budget;
mod ledger;
mod process;
mod retained;

pub(crate) use arrays::{ARRAYS_PART_MAX, ARRAYS_PART_MIN};
pub(crate) use budget::Lender;
pub use budget::{Admitted, METADATA_FREE, MemoryBudget};
pub use ledger::Refused;
pub use retained::Reclaim;
