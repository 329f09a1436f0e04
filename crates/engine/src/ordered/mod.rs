//! Operators that use the order of arriving rows: groups of a sorted table without a hash table,
//! and joins of two such tables, whatever order their chunks come in.
//!
//! | file | question |
//! |---|---|
//! | `recognise.rs` | which aggregates can be computed in order? |
//! | `sequence.rs` | how do the chunks of the table follow each other? |
//! | `order_aggregates.rs` | the rule that puts these operators into a plan |
//! | `exec.rs` | the plan node |
//! | `stream.rs` | one partition: chunk after chunk |
//! | `wanted.rs` | what do statistics say about the chunks that an execution wants? |
//! | `together.rs` | what do the partitions share: which groups are complete? |
//! | `chunk_groups.rs` | the groups of a chunk |
//! | `runs.rs` | where does a key begin and end? |
//! | `accumulators.rs` | the state of each group so far |
//! | `join/` | joins of two tables that are clustered by the same key |
//!
//! Which groups at the borders of chunks are complete is decided in the core
//! ([`coscan_core::group_borders`]). Design: `docs/design/ordered.md`, `docs/design/merge-join.md`.

mod accumulators;
mod chunk_groups;
mod exec;
mod join;
mod order_aggregates;
mod recognise;
mod runs;
mod sequence;
mod stream;
mod together;
mod wanted;

pub(crate) use exec::OrderedAggregateExec;
pub(crate) use join::ClusteredJoinExec;
pub(crate) use order_aggregates::OrderAggregates;
