//! Which part of the memory that they share with the buffer may operators take?
//!
//! | file | question |
//! |---|---|
//! | `admission.rs` | when does a query begin? |
//! | `connections.rs` | what may connections take? |
//! | `pool.rs` | may this operator grow? |
//! | `shared.rs` | whose memory is it where DataFusion does not say? |
//! | `spill.rs` | where do operators spill? |
//! | `limit.rs` | how much memory may the process use? |
//! | `minimum.rs` | how much does a plan need at least? |
//!
//! Not here: the budget itself and the buffer (`coscan-storage`).

mod admission;
mod connections;
pub(crate) mod limit;
mod minimum;
mod pool;
mod shared;
mod spill;

pub(crate) use admission::{Admission, OpenQueries, OpenQuery, Promise, WAIT_MAX};
pub(crate) use pool::QueryMemory;
pub(crate) use shared::SharedMemory;
pub use shared::connection_memory;
pub(crate) use spill::{SPILL_FILE_BYTES, SPILL_FILE_BYTES_DEFAULT, SpillFolder};

/// The value that a SET of `coscan.memory` uses to restore the default.
pub(crate) const LIMIT_BY_DEFAULT: &str = "default";
