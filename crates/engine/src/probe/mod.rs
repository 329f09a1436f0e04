//! How does an index scan find its rows, and how does it end as a full scan?
//!
//! | file | question |
//! |---|---|
//! | `plan.rs` | which index serves a scan, and with which condition? |
//! | `probe_side.rs` | when does a join's probe side use an index? |
//! | `execution.rs` | what do the streams of one execution share? |
//! | `prices.rs` | what do pages cost, before any is read? |
//! | `probing.rs` | how is the state machine driven that decides what is read next? |
//! | `rows.rs` | which rows of pages are in the result? |
//! | `fetched_rows.rs` | which rows of a piece were not fetched one by one? |
//! | `single_rows/` | how are rows that are fetched one by one taken out of pages? |
//! | `takeover.rs` | what is left when a cooperative scan takes over? |
//! | `streams/` | how do streams find rows and return them, in any order or in that of the key? |
//! | `metrics.rs`, `region_sizes.rs`, `index_used.rs` | what does EXPLAIN ANALYZE show? |
//!
//! The state machine `coscan_core::smooth::Probe` decides what is read next, for every access
//! path; `coscan_storage` reads the pages.
//! Contract: `docs/design/smooth.md`.

mod execution;
mod fetched_rows;
mod index_used;
mod metrics;
mod plan;
mod prices;
mod probe_side;
mod probing;
mod region_sizes;
mod rows;
mod single_rows;
mod streams;
mod takeover;

pub(crate) use execution::SmoothExecution;
pub(crate) use plan::SmoothPlan;
pub(crate) use probe_side::{ProbeSideExecution, ProbeSidePlan, open as open_probe_side};
pub(crate) use streams::open;
