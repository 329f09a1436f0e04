//! Functions that combine values into text: `concat`, `concat_ws`, `format`, and
//! `pg_format_array(template, array)`, which is `format(template, VARIADIC array)`.

use super::format::formatted;
use crate::functions::arrays::shown_elements;
use crate::functions::scalar::Take::{Any, List, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use datafusion::error::Result;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "concat",
            vec![
                Form::new(&[Any], Give::Text, |row| joined(row, 0, ""))
                    .repeated()
                    .optional(0)
                    .called(),
            ],
        ),
        Function::new(
            "concat_ws",
            vec![
                Form::new(&[Text, Any], Give::Text, |row| match row.text_opt(0) {
                    None => Ok(Value::Null),
                    Some(separator) => joined(row, 1, separator),
                })
                .repeated()
                .called(),
            ],
        ),
        Function::new(
            "format",
            vec![
                Form::new(&[Text, Any], Give::Text, |row| {
                    let Some(template) = row.text_opt(0) else {
                        return Ok(Value::Null);
                    };
                    let value = |at: usize| (at < row.len()).then(|| row.shown(at)).transpose();
                    Ok(Value::Text(formatted(template, value)?))
                })
                .repeated()
                .called(),
            ],
        ),
        Function::new(
            FORMAT_ARRAY,
            vec![Form::new(&[Text, List], Give::Text, format_array).called()],
        ),
    ]
}

/// See the file's header.
pub(crate) const FORMAT_ARRAY: &str = "pg_format_array";

/// NULL is an array without elements.
fn format_array(row: &Row<'_>) -> Result<Value> {
    let Some(template) = row.text_opt(0) else {
        return Ok(Value::Null);
    };
    let values = match row.is_null(1) {
        true => vec![],
        false => shown_elements(row, 1)?,
    };
    let value = |at: usize| Ok(at.checked_sub(1).and_then(|at| values.get(at)).cloned());
    Ok(Value::Text(formatted(template, value)?))
}

/// Joins the arguments from `first` on, skipping NULLs.
fn joined(row: &Row<'_>, first: usize, separator: &str) -> Result<Value> {
    let mut out = String::new();
    let mut begun = false;
    for argument in first..row.len() {
        if let Some(shown) = row.shown(argument)? {
            if begun {
                out.push_str(separator);
            }
            begun = true;
            out.push_str(&shown);
        }
    }
    Ok(Value::Text(out))
}
