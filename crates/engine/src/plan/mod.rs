//! Cooperative scans as DataFusion plans them.
//!
//! | file | question |
//! |---|---|
//! | `swap_scans.rs` | which scans become cooperative? |
//! | `parquet_scan.rs` | is this node a scan of Parquet files? |
//! | `interesting_orders.rs` | which sorts do scans by an index make needless? |
//! | `float_bounds.rs` | what may DataFusion conclude from bounds where there may be NaN? |
//! | `source.rs` | what stands in the plan? |
//! | `plain.rs` | which scans are left to DataFusion's reader, with errors that say where? |
//! | `share_operators/` | which operators may be shared with other queries? |
//! | `checked_reader.rs` | does that reader get the file that was planned on? |
//!
//! Not here: what a scan does when it runs (`read/`).

mod checked_reader;
mod float_bounds;
mod interesting_orders;
mod parquet_scan;
mod plain;
mod share_operators;
mod source;
mod swap_scans;

pub(crate) use float_bounds::{HideFloatBounds, hide as without_float_bounds};
pub(crate) use parquet_scan::parquet_scan;
pub(crate) use share_operators::ShareOperators;
pub(crate) use source::CScanSource;
pub(crate) use swap_scans::{MarkScans, SwapScans};
