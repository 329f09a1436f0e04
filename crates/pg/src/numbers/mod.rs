//! PostgreSQL's numbers: arithmetic and functions.

pub(crate) mod aggregation;
pub(crate) mod arithmetic;
mod c_math;
mod degrees;
mod float_range;
mod functions;
pub(crate) mod integers;
pub(crate) mod numeric;
mod power;
mod small;

pub use aggregation::{Totals, decimal_sum, regressions};
pub(crate) use aggregation::{
    as_float_key, float_key, float_keys, float_of_key, is_float_key, shown_float, sign_bit,
    variance_of,
};
pub(crate) use functions::TYPEOF;
pub use integers::CheckedInteger;
pub(crate) use power::{SCALED, result_scale};

use datafusion::functions_aggregate::bool_and_or;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// The functions on numbers.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        arithmetic::functions(),
        aggregation::common::functions(),
        aggregation::ordered_set::of_lists(),
        functions::functions(),
    ];
    groups.into_iter().flatten().collect()
}

/// The aggregates of numbers.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    let every = bool_and_or::bool_and_udaf().as_ref().clone();
    let groups = [
        aggregation::aggregates::functions(),
        aggregation::ordered_set::functions(),
        aggregation::wrapped::functions(),
        vec![every.with_aliases(["every"])],
        regressions().iter().map(|of| of.as_ref().clone()).collect(),
    ];
    groups.into_iter().flatten().collect()
}
