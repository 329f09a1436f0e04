//! Arrays: chapter 9.19 of `PostgreSQL`'s manual.
//!
//! An array of several dimensions is a list of lists. The lower bound of every array is 1.

mod any;
mod build;
mod change;
mod compare;
mod elements;
mod of_arrays;
mod row_types;
mod shape;
mod sorted;
mod subscript;
mod text;

pub(crate) use any::{ALL, ANY};
pub(crate) use build::NESTED_ROW;
pub(crate) use compare::{
    ARRAY_EQ, comparison, extreme, row_comparison, sign_of as sign_of_arrays,
};
pub(crate) use elements::{common, converted, depth, leaf, text_elements};
pub(crate) use of_arrays::{OF_ARRAYS, as_deep, collected, make_array, written_out};
pub(crate) use row_types::{
    COMPARISON, EQUALITY, are_unlike, check_rows, has_comparison, has_json, have_one_length,
    have_one_type,
};
pub(crate) use shape::FLAT;
pub(crate) use sorted::{array_field, lists_and_order, sorted_array};
pub(crate) use subscript::{SLICE, SUBSCRIPT};
pub(crate) use text::shown_elements;

use datafusion::logical_expr::ScalarUDF;

pub(super) fn functions() -> Vec<ScalarUDF> {
    [
        any::functions(),
        build::functions(),
        change::functions(),
        compare::functions(),
        of_arrays::functions(),
        shape::functions(),
        subscript::functions(),
        text::functions(),
    ]
    .into_iter()
    .flatten()
    .map(super::scalar::Function::udf)
    .collect()
}
