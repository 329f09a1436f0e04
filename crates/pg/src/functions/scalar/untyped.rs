//! `array_cat(a, '{1}')`, `array_position('{1,2}', x)`: the type of an array that is written as a
//! text without a type follows from the argument beside it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};

use crate::numbers::arithmetic::OPEN;

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
        let element = match (function, beside.data_type()) {
            (_, DataType::Null) => return None,
            ("array_cat", DataType::List(element)) => of_any_digits(element),
            ("array_cat", _) | (_, DataType::List(_)) => return None,
            _ => of_any_digits(beside),
        };
        let array = DataType::List(Arc::new(element));
        Some((*at, Arc::new(Field::new("", array, true))))
    });
    found.collect()
}

/// The field of an element beside such elements. A numeric that is written as a text has digits of
/// its own.
pub(crate) fn of_any_digits(field: &Field) -> Field {
    let held = if field.data_type().is_decimal() {
        OPEN
    } else {
        field.data_type().clone()
    };
    Field::new_list_field(held, true).with_metadata(field.metadata().clone())
}
