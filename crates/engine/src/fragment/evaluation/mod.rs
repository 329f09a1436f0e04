//! What does a fragment compute for a chunk, and how is it computed once for all members of a job?
//!
//! | file | question |
//! |---|---|
//! | `work.rs` | what does a fragment compute for a chunk of one file? |
//! | `merge.rs` | how many states may a batch for the final aggregate have? |
//! | `program.rs` | the works of all members of a job, computed together |
//! | `graph.rs` | each distinct expression once |
//! | `expr_key.rs` | when are two expressions the same? |
//! | `narrow.rs` | decimals in 64 bits |
//! | `sums.rs` | counts and sums of decimals |
//! | `query_sets.rs` | which members does a row qualify for? |
//! | `groups.rs` | which group does a row belong to? |
//!
//! Not here: which members a job has (`../board.rs`, `../job.rs`).

mod expr_key;
mod graph;
mod groups;
mod merge;
mod narrow;
mod program;
mod query_sets;
mod sums;
mod work;

pub(super) use expr_key::Key;
pub(crate) use expr_key::{Elsewhere, KeyWriter};
pub(super) use merge::Merge;
pub(crate) use merge::merge_of;
pub(super) use program::{BatchColumns, Program, Sharing, Stop};
pub(super) use query_sets::PREDICATES_MAX;
pub(crate) use work::PlannedAggregate;
pub(super) use work::{FragmentPlan, Work, inline};
