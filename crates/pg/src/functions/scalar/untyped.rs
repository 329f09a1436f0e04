//! `array_cat(a, '{1}')`, `array_position('{1,2}', x)`: the type of an array that is written as a
//! text without a type follows from the argument beside it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};

/// The arguments of a function that may be such arrays, each with the one beside it.
fn places(function: &str) -> &'static [(usize, usize)] {
    match function {
        "array_cat" => &[(0, 1), (1, 0)],
        "array_append" | "array_position" | "array_positions" => &[(0, 1)],
        "array_remove" | "array_replace" => &[(0, 1)],
        "array_prepend" => &[(1, 0)],
        _ => &[],
    }
}

/// The untyped texts among the arguments that are arrays, with their fields.
pub(crate) fn untyped_arrays(
    function: &str,
    given: &[FieldRef],
    is_untyped: impl Fn(usize) -> bool,
) -> Vec<(usize, FieldRef)> {
    let places = places(function).iter().filter(|(at, beside)| {
        let is_given = given.len() > *at.max(beside);
        is_given && is_untyped(*at) && !is_untyped(*beside)
    });
    let found = places.filter_map(|(at, beside)| {
        let beside = &given[*beside];
        let array = match (function, beside.data_type()) {
            (_, DataType::Null) => return None,
            ("array_cat", DataType::List(_)) => Arc::clone(beside),
            ("array_cat", _) | (_, DataType::List(_)) => return None,
            (_, held) => {
                let element = Field::new_list_field(held.clone(), true);
                let element = element.with_metadata(beside.metadata().clone());
                Arc::new(Field::new("", DataType::List(Arc::new(element)), true))
            }
        };
        Some((*at, array))
    });
    found.collect()
}
