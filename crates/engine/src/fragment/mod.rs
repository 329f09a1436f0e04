//! How is a chunk processed once for all queries that want it?
//!
//! | file | question |
//! |---|---|
//! | `recognise.rs`, `share_fragments.rs` | which part of a plan is a fragment, and which rule replaces it? |
//! | `evaluation/` | what does a fragment compute for a chunk, once for all members of a job? |
//! | `over_scan.rs` | what does an aggregate compute, in terms of the scan below it? |
//! | `exec.rs` | the plan node, and its streams |
//! | `rows_exec.rs` | how does a fragment continue without sharing? |
//! | `member.rs` | a query's side: which chunks are in jobs, delivered, or left to process alone? |
//! | `board.rs` | which other members want a chunk? |
//! | `totals.rs` | counts over all members |
//! | `job.rs` | one chunk, processed for all members that want it |
//! | `state_cache.rs` | which states are kept of chunks that were already processed? |

mod board;
mod evaluation;
mod exec;
mod job;
mod member;
mod over_scan;
mod recognise;
mod rows_exec;
mod share_fragments;
mod state_cache;
mod totals;

pub(crate) use board::Board;
pub(crate) use evaluation::{Elsewhere, KeyWriter, PlannedAggregate, merge_of};
pub(crate) use exec::FragmentExec;
pub(crate) use over_scan::{OverScan, over_scan};
pub(crate) use share_fragments::ShareFragments;
pub(crate) use state_cache::{Counts, StateCache};
