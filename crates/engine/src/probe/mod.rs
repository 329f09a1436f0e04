//! Scans by an index: the access paths other than the full scan, and how they end in one.
//!
//! | file | what it answers |
//! |---|---|
//! | `plan.rs` | which index serves a scan, and what it is asked |
//! | `probe_side.rs` | which keys a join wants, and whether an index finds them |
//! | `execution.rs` | what the streams of one execution share |
//! | `prices.rs` | what pages cost, before any is read |
//! | `probing.rs` | drives the state machine that says what is read next |
//! | `rows.rs` | which rows of pages are in the answer |
//! | `fetched_rows.rs` | which rows of a piece were not fetched one by one |
//! | `takeover.rs` | what is left when a cooperative scan takes over |
//! | `reader.rs` | how one stream finds its rows |
//! | `lapsing.rs` | how a read that is not polled gives its memory back |
//! | `stream.rs` | one partition, rows in any order |
//! | `ordered.rs`, `result_cache.rs` | rows in the order of the key; rows found before their turn |
//! | `metrics.rs`, `region_sizes.rs`, `index_used.rs` | what EXPLAIN ANALYZE shows |
//!
//! The state machine `coscan_core::smooth::Probe` decides what is read next, for every access path;
//! `coscan_storage` reads the pages. Contract: `docs/design/smooth.md`.

mod execution;
mod fetched_rows;
mod index_used;
mod lapsing;
mod metrics;
mod ordered;
mod plan;
mod prices;
mod probe_side;
mod probing;
mod reader;
mod region_sizes;
mod result_cache;
mod rows;
mod stream;
mod takeover;

pub(crate) use execution::SmoothExecution;
pub(crate) use plan::SmoothPlan;
pub(crate) use probe_side::{ProbeSideExecution, ProbeSidePlan, open as open_probe_side};
pub(crate) use stream::open;
