//! Functions that combine values into text: `concat`, `concat_ws`, `format`.

use super::format::formatted;
use crate::functions::scalar::Take::{Any, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use datafusion::error::Result;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "concat",
            vec![
                Form::new(&[Any], Give::Text, |row| joined(row, 0, ""))
                    .repeated()
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
    ]
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
