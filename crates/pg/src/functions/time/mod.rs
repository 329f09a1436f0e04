//! PostgreSQL's functions for dates, times and intervals (chapter 9.9 of its manual).

mod clock;
mod days;
mod format;
mod make;
pub(crate) mod operators;
mod parts;
pub(crate) mod rowwise;
mod series;
mod series_array;
mod to_char;
mod values;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use parts::extract;
pub(crate) use rowwise::{Kind, Overload};
pub(crate) use series::{install as install_series, series_falls};
pub(crate) use series_array::SERIES;
pub(crate) use values::{is_value_function, value_of};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let groups = [
        clock::functions(),
        format::functions(),
        make::functions(),
        operators::functions(),
        parts::functions(),
        values::functions(),
        vec![series_array::udf(), to_char::udf(), to_char::to_number()],
    ];
    groups.into_iter().flatten().collect()
}
