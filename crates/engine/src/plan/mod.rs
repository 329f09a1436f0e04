//! Cooperative scans as DataFusion plans them.
//!
//! | file | question |
//! |---|---|
//! | `swap_scans.rs` | which scans become cooperative? |
//! | `interesting_orders.rs` | which sorts do scans by an index make needless? |
//! | `grouping_sets.rs` | how are grouping sets computed without adding each row to all of them? |
//! | `needless_keys/` | which keys of GROUP BY, ORDER BY and windows say nothing? |
//! | `needless_orders.rs` | which scans promise an order that no operator counts on? |
//! | `checked_orders.rs` | are the rows of a scan in the order that its files promise? |
//! | `float_bounds.rs` | what may DataFusion conclude from bounds where there may be NaN? |
//! | `null_bounds.rs` | which orders may it conclude from bounds where there are NULLs? |
//! | `yielding_joins.rs` | which operators give way to other queries while they multiply rows? |
//! | `share_operators/` | which operators may be shared with other queries? |
//!
//! Not here: the nodes that stand in the plan then (`cscan/`), what they do when they run (`read/`,
//! `probe/`).

mod checked_orders;
mod float_bounds;
mod grouping_sets;
mod interesting_orders;
mod needless_keys;
mod needless_orders;
mod null_bounds;
mod share_operators;
mod swap_scans;
mod yielding_joins;

pub(crate) use checked_orders::CheckOrders;
pub(crate) use float_bounds::HideFloatBounds;
pub(crate) use grouping_sets::FinestGroups;
pub(crate) use needless_keys::NeedlessKeys;
pub(crate) use null_bounds::HideNullBounds;
pub(crate) use share_operators::{SHARE_OPERATORS, ShareOperators};
pub(crate) use swap_scans::{MARK, MarkScans, SwapScans, needed_bytes};
pub(crate) use yielding_joins::{YIELDING_JOINS, YieldingJoins};
