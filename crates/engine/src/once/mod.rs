//! Rows that several places of one plan read, computed once: those of queries in WITH that are
//! named more than once, and of equal subtrees.
//!
//! | file | question |
//! |---|---|
//! | `planner.rs` | who plans the query of all its mentions? |
//! | `exec.rs` | the plan node of a mention |
//! | `list.rs` | who computes the next batch, and who waits for it? |
//! | `rows.rs` | where are the batches: in memory or on disk? |
//! | `reader.rs` | the stream of a mention |
//! | `shown.rs` | below which mention does EXPLAIN show the query? |
//!
//! Not here: which queries are computed once (`coscan_pg::Once`), which subtrees are equal
//! (`plan/share_operators/equal.rs`); work that different queries have in common (`operators/`).
//! WQ1: no statement is answered from two computations of a volatile query in WITH.

mod exec;
mod list;
mod planner;
mod reader;
mod rows;
mod shown;

pub(crate) use exec::{OnceExec, Shared};
pub(crate) use planner::plan_once;
pub(crate) use shown::ShowOnce;
