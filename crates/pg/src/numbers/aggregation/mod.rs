//! Aggregates and ranks, and values that are compared or put in one column for them.
//!
//! | file | question |
//! |---|---|
//! | `aggregates.rs` | which types have aggregates of numbers, and `array_agg`? |
//! | `decimal_sum.rs` | how are decimals summed whose sum may leave 128 bits? |
//! | `ordered_set.rs` | `mode`, `percentile_disc` and `percentile_cont` |
//! | `regression.rs` | which digits have `corr`, `covar_*` and `regr_*`? |
//! | `ranks.rs` | `row_number`, `rank`, `dense_rank` and `ntile` |
//! | `wrapped.rs` | `bit_xor(DISTINCT x)` and `regr_count` |
//! | `common.rs` | which type have values that stand in one column? |
//! | `float_key.rs` | when are two floats the same key? |
//!
//! Not here: arithmetic (`../arithmetic.rs`).

pub(super) mod aggregates;
pub(super) mod common;
mod decimal_sum;
mod float_key;
pub(super) mod ordered_set;
pub(crate) mod ranks;
mod regression;
pub(super) mod wrapped;

pub(crate) use aggregates::{Kind, Marker, list_of, variance_of};
pub(crate) use common::{ARRAY, CASE, CASE_OF, Common};
pub use decimal_sum::{Totals, decimal_sum};
pub(crate) use float_key::{
    as_float_key, float_key, float_of_key, is_float_key, keys as float_keys, shown_float, sign_bit,
};
pub(crate) use ordered_set::percentile_of_list;
pub use regression::regressions;
