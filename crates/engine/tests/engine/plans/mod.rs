//! Plans of whole queries: joins, orders, aggregates, and what EXPLAIN says of them.
//!
//! | file | what is tested |
//! |---|---|
//! | `tpch_rows_equal.rs` | all of TPC-H, many sessions at once |
//! | `clustered_joins.rs`, `ordered_aggregates.rs` | joins and groups in the order of the tables |
//! | `grouping_sets.rs` | several sets of keys |
//! | `needless_keys.rs` | keys that are removed |
//! | `small_plans.rs` | small tables, whose plans have one partition |
//! | `spilled_repartitions.rs` | repartitions whose batches are spilled |
//! | `explain.rs` | EXPLAIN ANALYZE |

mod clustered_joins;
mod explain;
mod grouping_sets;
mod needless_keys;
mod ordered_aggregates;
mod small_plans;
mod spilled_repartitions;
pub(super) mod tpch_rows_equal;
