//! The cooperative clustered merge join: it joins two tables that are clustered by the join key,
//! one interval of keys at a time, in whatever order the chunks of one table come.
//!
//! | file | question |
//! |---|---|
//! | `recognise.rs` | which joins can be computed this way, and which table drives? |
//! | `exec.rs` | the plan node |
//! | `stream.rs` | how does one partition process the chunks of the driving table? |
//! | `shared_state.rs` | what do the partitions share: which keys are complete? |
//! | `other_side.rs` | which rows of the other table have keys in an interval? |
//! | `key_ranges.rs` | the state machine: which keys are complete on the driving side? |
//! | `key.rs` | how do keys compare with rows? |
//!
//! Design: `docs/design/merge-join.md`.

mod exec;
mod key;
mod key_ranges;
mod other_side;
mod recognise;
mod shared_state;
mod stream;

pub(crate) use exec::ClusteredJoinExec;
