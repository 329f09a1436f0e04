//! Work above scans that running queries have in common, done once.
//!
//! | file | what it answers |
//! |---|---|
//! | `key.rs` | what does an operator compute? |
//! | `operator.rs` | who reads an operator, and what part has it in a run? |
//! | `exec.rs` | what stands in the plan? |
//! | `reader.rs` | one partition of a packet: whose batch comes next? |
//! | `coordinator.rs` | all runs of an engine: plans, lists, wakers |
//! | `kept.rs` | a batch that is retained: in memory or on disk |
//!
//! Who joins whom and what is retained is decided in the core (`coscan_core::operators`).
//! Not here: which operators of a plan are shared, and their keys (`plan/share_operators/`).

mod coordinator;
mod exec;
mod kept;
mod key;
mod operator;
mod reader;

pub(crate) use coordinator::Coordinator;
pub(crate) use exec::SharedExec;
pub(crate) use key::{OperatorKey, PlanKey};
pub(crate) use operator::{OwnerCell, SharedOperator};
