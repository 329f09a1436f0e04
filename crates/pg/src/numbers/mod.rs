//! PostgreSQL's numbers: their arithmetic, and the functions on them.

pub(crate) mod aggregates;
pub(crate) mod arithmetic;
pub(crate) mod common;
mod functions;
pub(crate) mod integers;
pub(crate) mod numeric;
mod power;

pub(crate) use functions::TYPEOF;
pub use integers::CheckedInteger;

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
    aggregates::functions()
}
