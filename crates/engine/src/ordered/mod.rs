//! Operators that use the order of a table: they group a sorted table without a hash table, and
//! join two such tables, in whatever order their chunks come.
//!
//! | file | question |
//! |---|---|
//! | `recognise.rs` | which aggregates can be computed in order? |
//! | `sequence.rs` | how do the chunks of the table follow each other? |
//! | `order_aggregates.rs` | which rule puts these operators into a plan? |
//! | `exec.rs` | the plan node |
//! | `stream.rs` | how does one partition process its chunks? |
//! | `wanted.rs` | what do statistics say about the chunks that an execution wants? |
//! | `shared_state.rs` | what do the partitions share: which groups are complete? |
//! | `chunk_groups.rs` | which groups does a chunk have, and which of them are complete? |
//! | `runs.rs` | where does a key begin and end? |
//! | `accumulators.rs` | which state has each group so far? |
//! | `join/` | joins of two tables that are clustered by the same key |
//!
//! The core decides which groups at the borders of chunks are complete
//! ([`coscan_core::group_borders`]). Design: `docs/design/ordered.md`, `docs/design/merge-join.md`.

mod accumulators;
mod chunk_groups;
mod exec;
mod join;
mod order_aggregates;
mod recognise;
mod runs;
mod sequence;
mod shared_state;
mod stream;
mod wanted;

pub(crate) use exec::OrderedAggregateExec;
pub(crate) use join::ClusteredJoinExec;
pub(crate) use order_aggregates::OrderAggregates;
