//! How is a chunk processed once for all queries that want it?
//!
//! | file | question |
//! |---|---|
//! | `recognise.rs`, `share_fragments.rs` | which part of a plan is a fragment, and which rule replaces it? |
//! | `merge.rs` | how many states may a batch for the final aggregate have? |
//! | `over_scan.rs` | what does an aggregate compute, in terms of the scan below it? |
//! | `exec.rs` | the plan node, and its streams |
//! | `rows_exec.rs` | how does a fragment continue without sharing? |
//! | `member.rs` | a query's side: which chunks are in jobs, delivered, or left to process alone? |
//! | `board.rs` | which other members want a chunk? |
//! | `totals.rs` | counts over all members |
//! | `job.rs` | one chunk, processed for all members that want it |
//! | `work.rs` | what does a fragment compute for a chunk of one file? |
//! | `program.rs` | the works of all members of a job, computed together |
//! | `graph.rs` | each distinct expression once |
//! | `narrow.rs` | decimals in 64 bits |
//! | `sums.rs` | counts and sums of decimals |
//! | `query_sets.rs` | which members does a row qualify for? |
//! | `groups.rs` | which group does a row belong to? |
//! | `state_cache.rs` | which states are kept of chunks that were already processed? |
//! | `expr_key.rs` | when are two expressions the same? |

mod board;
mod exec;
mod expr_key;
mod graph;
mod groups;
mod job;
mod member;
mod merge;
mod narrow;
mod over_scan;
mod program;
mod query_sets;
mod recognise;
mod rows_exec;
mod share_fragments;
mod state_cache;
mod sums;
mod totals;
mod work;

pub(crate) use board::Board;
pub(crate) use exec::FragmentExec;
pub(crate) use expr_key::{Elsewhere, KeyWriter};
pub(crate) use merge::merge_of;
pub(crate) use over_scan::{OverScan, over_scan};
pub(crate) use share_fragments::ShareFragments;
pub(crate) use state_cache::{Counts, StateCache};
pub(crate) use work::PlannedAggregate;
