//! Work above scans that running queries have in common, done once.
//!
//! | file | what it answers |
//! |---|---|
//! | `key.rs` | what does an operator compute? |
//! | `operator.rs` | who reads a shared operator, and what is its part in a run? |
//! | `exec.rs` | the plan node |
//! | `hash_join.rs` | the plan node of a hash join whose table is shared |
//! | `hash_table.rs` | the plan of a run that makes a hash table |
//! | `first.rs` | does a stream belong to the first execution of a plan node? |
//! | `reader.rs` | one partition of a packet: where does its next batch come from? |
//! | `coordinator.rs` | all runs of an engine: plans, lists, wakers |
//! | `kept.rs` | a retained batch: in memory or on disk |
//! | `trace.rs` | who shared what with whom, for experiments |
//!
//! The core decides which packet joins which run and what is retained (`coscan_core::operators`).
//! Not here: which operators of a plan are shared, and their keys (`plan/share_operators/`).

mod coordinator;
mod exec;
mod first;
mod hash_join;
mod hash_table;
mod kept;
mod key;
mod operator;
mod reader;
mod trace;

pub(crate) use coordinator::Coordinator;
pub(crate) use exec::share;
pub(crate) use hash_join::{HashTable, SharedHashJoinExec};
pub(crate) use hash_table::{dynamic_filter, has_shareable_table};
pub(crate) use kept::Buffers;
pub use kept::compacted;
pub(crate) use key::{Function, KeptFunctions, OperatorKey, PlanKey};
pub(crate) use operator::{OwnerCell, SharedOperator};
pub use trace::{OperatorTaker, OperatorTrace};
