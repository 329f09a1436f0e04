//! PostgreSQL's numbers: arithmetic and functions.

pub(crate) mod aggregates;
pub(crate) mod arithmetic;
mod c_math;
pub(crate) mod common;
mod decimal_sum;
mod degrees;
mod float_key;
mod functions;
pub(crate) mod integers;
pub(crate) mod numeric;
mod ordered_set;
mod power;
pub(crate) mod ranks;
mod small;
mod wrapped;

pub use decimal_sum::{Totals, decimal_sum};
pub(crate) use float_key::{
    as_float_key, float_key, float_of_key, is_float_key, shown_float, sign_bit,
};
pub(crate) use functions::TYPEOF;
pub use integers::CheckedInteger;

use datafusion::functions_aggregate::bool_and_or;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// The functions on numbers.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        arithmetic::functions(),
        common::functions(),
        functions::functions(),
    ];
    groups.into_iter().flatten().collect()
}

/// The aggregates of numbers.
pub(crate) fn aggregate() -> Vec<AggregateUDF> {
    let every = bool_and_or::bool_and_udaf().as_ref().clone();
    let groups = [
        aggregates::functions(),
        ordered_set::functions(),
        wrapped::functions(),
        vec![every.with_aliases(["every"])],
    ];
    groups.into_iter().flatten().collect()
}
