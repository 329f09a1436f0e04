//! Intervals are compared by their length, with months of 30 days and days of 24 hours.
//!
//! Arrow compares months, days and time in turn, and hashes all three. So an analyzer rule
//! replaces `x` with `interval_key(x)` wherever intervals are compared, grouped, sorted or joined
//! (`comparisons/sort_keys.rs`), and the aggregates of intervals are our own (`aggregates.rs`).
//! Upstream: apache/datafusion compares intervals by their fields.

mod aggregates;
mod overloaded;

pub(crate) use aggregates::{greatest, least, resolved};
pub(crate) use overloaded::{Overloaded, percentile_of_times, with_intervals};
