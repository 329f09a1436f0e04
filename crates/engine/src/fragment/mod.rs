//! Chunks processed once: fragments shared by all queries that want a chunk.
//!
//! | file | what it answers |
//! |---|---|
//! | `recognise.rs`, `share_fragments.rs` | which part of a plan is a fragment; the rule |
//! | `merge.rs` | in which shape the states of an aggregate may be merged |
//! | `over_scan.rs` | what an aggregate does, in terms of the scan below it |
//! | `exec.rs` | the plan node, and its streams |
//! | `rows_exec.rs` | how a fragment goes on without sharing |
//! | `member.rs` | a query's side: its chunks under way, its states |
//! | `board.rs` | which other members want a chunk |
//! | `totals.rs` | counts over all members |
//! | `job.rs` | one chunk, processed for all members that want it |
//! | `work.rs` | what a fragment does with a chunk of one file |
//! | `program.rs` | the works of all members of a job, computed together |
//! | `graph.rs` | each distinct expression once |
//! | `narrow.rs` | decimals in 64 bits |
//! | `sums.rs` | counts and sums of decimals |
//! | `query_sets.rs` | which members a row qualifies for |
//! | `groups.rs` | which group a row belongs to |
//! | `state_cache.rs` | the states of chunks that were processed already |
//! | `expr_key.rs` | when two expressions are the same |

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
