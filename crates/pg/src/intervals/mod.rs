//! Intervals compare, group, sort and join by their length: a month has 30 days, a day 24 hours.
//!
//! Arrow compares months, days and time in turn, and hashes all three. So an analyzer rule puts
//! `interval_key(x)` in the place of `x` wherever intervals are compared
//! (`comparisons/sort_keys.rs`), and the aggregates of intervals are our own (`aggregates.rs`).
//! Upstream: apache/datafusion compares intervals by their fields.

mod aggregates;
mod overloaded;

pub(crate) use aggregates::{greatest, least};
pub(crate) use overloaded::{Overloaded, with_intervals};
