//! The cooperative clustered merge join: it joins two tables that are clustered on the join key,
//! one interval of keys at a time, in whatever order the chunks of one table come.
//!
//! | file | question |
//! |---|---|
//! | `recognise.rs` | which joins can be computed so, and which table drives? |
//! | `exec.rs` | the plan node |
//! | `stream.rs` | one partition: chunk after chunk of the driving table |
//! | `together.rs` | what do the partitions share: which keys are complete? |
//! | `other_side.rs` | the rows of the other table with keys in an interval |
//! | `key_ranges.rs` | the state machine: which keys are complete on the driving side? |
//! | `key.rs` | how do keys compare with rows? |
//!
//! Design: `docs/design/merge-join.md`.

mod exec;
mod key;
mod key_ranges;
mod other_side;
mod recognise;
mod stream;
mod together;

pub(crate) use exec::ClusteredJoinExec;
