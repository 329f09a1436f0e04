//! PostgreSQL's functions, by topic.

mod array_text;
pub(crate) mod arrays;
mod as_it_is;
mod fail;
mod fields_null;
mod joined_texts;
pub(crate) mod json;
mod keys;
mod marked;
pub(crate) mod regex;
mod row_counts;
mod rows;
pub(crate) mod scalar;
mod single_row;
mod stored_as;
pub(crate) mod text;
pub(crate) mod time;

pub(crate) use arrays::{array_field, lists_and_order, sorted_array};
pub(crate) use as_it_is::{as_it_is, with_key, without_key};
pub(crate) use fail::FAIL;
pub(crate) use fields_null::{FIELDS_NULL, fields_null};
pub(crate) use joined_texts::joined_texts;
pub(crate) use keys::{are_alike, has_floats, has_key, key_bytes, needs_keys};
pub(crate) use marked::{
    MARKED, first_value, is_marked_array, mark_of, marked_like, plain as plain_array, some_value,
    unmarked,
};
pub(crate) use row_counts::{LIMIT_ROWS, OFFSET_ROWS};
pub(crate) use rows::{named_row, rows_compared};

use datafusion::logical_expr::ScalarUDF;

pub(crate) use single_row::single_row;
pub(crate) use stored_as::stored_as;
pub(crate) use text::{IS_NORMALIZED, unescaped};

/// All scalar functions.
pub(crate) fn scalar() -> Vec<ScalarUDF> {
    let groups = [
        array_text::functions(),
        arrays::functions(),
        json::functions(),
        vec![
            fail::udf(),
            fields_null::udf(),
            marked::udf(),
            single_row::udf(),
            text::gen_random_uuid(),
        ],
        regex::functions(),
        row_counts::functions()
            .into_iter()
            .map(scalar::Function::udf)
            .collect(),
        rows::functions(),
        text::functions(),
        time::functions(),
    ];
    groups.into_iter().flatten().collect()
}

/// Whether there is a scalar function of this name.
pub(crate) fn is_scalar(name: &str) -> bool {
    static NAMES: std::sync::LazyLock<std::collections::HashSet<String>> =
        std::sync::LazyLock::new(|| scalar().iter().map(|udf| udf.name().to_owned()).collect());
    NAMES.contains(name)
}
