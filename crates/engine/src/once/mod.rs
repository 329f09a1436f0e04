//! Rows that several places of one plan read, computed once: queries in WITH that are named more
//! than once.
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
//! Not here: which queries are computed once (`coscan_pg::Once`); work that different queries have
//! in common (`operators/`).
//! WQ1: no statement is answered from two computations of a volatile query in WITH.

mod exec;
mod list;
mod planner;
mod reader;
mod rows;
mod shown;

pub(crate) use exec::OnceExec;
pub(crate) use planner::plan_once;
pub(crate) use shown::ShowOnce;
