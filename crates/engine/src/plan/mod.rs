//! Cooperative scans as DataFusion plans them.
//!
//! | file | question |
//! |---|---|
//! | `swap_scans.rs` | which scans become cooperative? |
//! | `interesting_orders.rs` | which sorts do scans by an index make needless? |
//! | `needless_orders.rs` | which scans promise an order that no operator counts on? |
//! | `float_bounds.rs` | what may DataFusion conclude from bounds where there may be NaN? |
//! | `share_operators/` | which operators may be shared with other queries? |
//!
//! Not here: the nodes that stand in the plan then (`cscan/`), what they do when they run (`read/`,
//! `probe/`).

mod float_bounds;
mod interesting_orders;
mod needless_orders;
mod share_operators;
mod swap_scans;

pub(crate) use float_bounds::HideFloatBounds;
pub(crate) use share_operators::{SHARE_OPERATORS, ShareOperators};
pub(crate) use swap_scans::{MarkScans, SwapScans};
