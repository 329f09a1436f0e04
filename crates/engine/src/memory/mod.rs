//! Which part of the memory that they share with the buffer may operators take?
//!
//! | file | question |
//! |---|---|
//! | `batches.rs` | how many rows has a batch at most? |
//! | `connections.rs` | what may connections take? |
//! | `growing.rs` | which functions make large results from small arguments, and what bounds them? |
//! | `pool.rs` | may this operator grow? |
//! | `promise.rs` | how long is memory promised to a query? |
//! | `record.rs` | what does a query wait for, and why does it run once more? |
//! | `shared.rs` | whose memory is it where DataFusion does not say? |
//! | `spill.rs` | where do operators spill, and how many files does a merge read at a time? |
//! | `tables.rs` | when are all hash tables of a query complete? |
//! | `telling.rs` | when is one of them? |
//! | `limit.rs` | how much memory may the process use? |
//!
//! Not here: the budget itself and the buffer (`coscan-storage`).

mod batches;
mod connections;
mod growing;
pub(crate) mod limit;
mod pool;
mod promise;
mod record;
mod shared;
mod spill;
mod tables;
mod telling;

pub(crate) use batches::batch_rows_max;
pub use growing::{bounded, bounded_one, unbounded};
pub(crate) use pool::QueryMemory;
pub(crate) use promise::{Promise, WAIT_MAX};
pub use record::Wait;
pub(crate) use record::{Cause, Look, Record};
pub use shared::connection_memory;
pub(crate) use shared::{SharedMemory, of_connections};
pub(crate) use spill::{SPILL_FILE_BYTES, SPILL_FILE_BYTES_DEFAULT, SpillFolder, bound_merges};
pub(crate) use telling::telling;

/// The value that a SET of `coscan.memory` uses to restore the default.
pub(crate) const LIMIT_BY_DEFAULT: &str = "default";
