//! JSON built from values: `to_json`, `json_build_object`, `json_agg`, …
//!
//! The aggregates are an `array_agg` of texts and a function that joins them.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;

use super::{TYPES, given, write};
use crate::PgError;
use crate::casts::arrow_cast;
use crate::dialect::{elements, nested};
use crate::functions::arrays::text_elements;
use crate::functions::scalar::Take::{Any, Bool, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value, is_text};
use crate::values::json_quoted;

/// One element of `json_agg`: `pg_element(value)`, a JSON text. (The list that `array_agg` builds
/// does not keep the mark of json.)
pub(crate) const ELEMENT: &str = "pg_element";
/// Prefix of elements that are written on separate lines: rows and arrays, but no NULLs.
const NESTED: char = '\u{1}';
/// `json_agg` from the array of elements: `pg_join_json`.
pub(crate) const JOIN: &str = "pg_join_";
/// `json_agg` from the array of distinct values: `pg_collect_json`.
pub(crate) const COLLECT: &str = "pg_collect_";
/// One member of `json_object_agg`: `pg_pair(key, value)`.
pub(crate) const PAIR: &str = "pg_pair";
/// `json_object_agg` from the array of members: `pg_pairs_json`.
pub(crate) const PAIRS: &str = "pg_pairs_";

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![
        Function::new(
            "row_to_json",
            vec![Form::new(&[Any, Bool], Give::Marked("json"), pretty).optional(1)],
        ),
        Function::new(
            "array_to_json",
            vec![Form::new(&[List, Bool], Give::Marked("json"), pretty).optional(1)],
        ),
        Function::new(
            PAIR,
            vec![
                Form::new(&[Any, Any], Give::Text, |row| {
                    let Some(key) = write::key(row, 0)? else {
                        return Err(PgError::new("22023", "field name must not be null").into());
                    };
                    let value = write::argument(row, 1)?;
                    Ok(Value::Text(format!("{} : {value}", json_quoted(&key))))
                })
                .called(),
            ],
        ),
    ];
    all.push(Function::new(
        ELEMENT,
        vec![Form::new(&[Any], Give::Text, |row| Ok(Value::Text(element(row)?))).called()],
    ));
    for pg_type in TYPES {
        all.extend(of_type(pg_type));
    }
    all
}

fn of_type(pg_type: &'static str) -> Vec<Function> {
    let binary = pg_type == "jsonb";
    let marked = Give::Marked(pg_type);
    let name = |name: &str| name.replace("json", pg_type);
    macro_rules! both {
        ($name:expr, $takes:expr, $body:expr) => {
            Function::new(
                &name($name),
                vec![if binary {
                    Form::new($takes, marked, |row| given($body(row)?, "jsonb"))
                        .repeated()
                        .called()
                } else {
                    Form::new($takes, marked, |row| given($body(row)?, "json"))
                        .repeated()
                        .called()
                }],
            )
        };
    }
    macro_rules! strict {
        ($name:expr, $takes:expr, $optional:expr, $body:expr) => {
            Function::new(
                &name($name),
                vec![if binary {
                    Form::new($takes, marked, |row| given($body(row)?, "jsonb")).optional($optional)
                } else {
                    Form::new($takes, marked, |row| given($body(row)?, "json")).optional($optional)
                }],
            )
        };
    }
    vec![
        strict!("to_json", &[Any], 0, |row: &Row<'_>| write::argument(
            row, 0
        )),
        both!("json_build_array", &[Any], build_array),
        both!("json_build_object", &[Any], build_object),
        strict!("json_object", &[Any, Any], 1, object),
        strict!(&format!("{COLLECT}json"), &[List], 0, collect),
        strict!(&format!("{JOIN}json"), &[List], 0, join),
        strict!(&format!("{PAIRS}json"), &[List], 0, |row: &Row<'_>| {
            let members: Vec<String> = text_elements(row, 0)?.into_iter().flatten().collect();
            Ok::<_, datafusion::error::DataFusionError>(format!("{{ {} }}", members.join(", ")))
        }),
    ]
}

fn pretty(row: &Row<'_>) -> Result<Value> {
    let (array, at) = row.array(0);
    let between = if row.bool(1) { ",\n " } else { "," };
    let mut out = String::new();
    write::write(array, at, row.field(0), between, &mut out)?;
    Ok(Value::Text(out))
}

fn build_array(row: &Row<'_>) -> Result<String> {
    let elements = (0..row.len()).map(|at| write::argument(row, at));
    Ok(format!(
        "[{}]",
        elements.collect::<Result<Vec<_>>>()?.join(", ")
    ))
}

fn build_object(row: &Row<'_>) -> Result<String> {
    if row.len() % 2 == 1 {
        let message = "argument list must have even number of elements";
        return Err(PgError::new("22023", message).into());
    }
    let mut members = vec![];
    for at in (0..row.len()).step_by(2) {
        let Some(key) = write::key(row, at)? else {
            let message = format!("argument {} cannot be null", at + 1);
            return Err(PgError::new("22023", message).into());
        };
        members.push(format!(
            "{} : {}",
            json_quoted(&key),
            write::argument(row, at + 1)?
        ));
    }
    Ok(format!("{{{}}}", members.join(", ")))
}

/// The elements of a text such as `{{a,1},{b,2}}`; `None` for other texts and other values.
fn pairs_in_text(row: &Row<'_>) -> Result<Option<Vec<Option<String>>>> {
    let (array, at) = row.array(0);
    if !is_text(array.data_type()) {
        return Ok(None);
    }
    let texts = arrow_cast(array, &DataType::Utf8)?;
    let Some(parts) = nested(texts.as_string::<i32>().value(at)) else {
        return Ok(None);
    };
    let parts = parts.into_iter().map(elements);
    let Some(parts) = parts.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let width = parts.first().map_or(0, Vec::len);
    if parts.iter().any(|part| part.len() != width) {
        return Ok(None);
    }
    if width != 2 {
        return Err(PgError::new("2202E", "array must have two columns").into());
    }
    Ok(Some(parts.into_iter().flatten().collect()))
}

/// `json_object` from keys and values in one array or two.
fn object(row: &Row<'_>) -> Result<String> {
    let first = match pairs_in_text(row)? {
        Some(pairs) if row.len() == 1 => pairs,
        _ => text_elements(row, 0)?,
    };
    let pairs: Vec<(Option<String>, Option<String>)> = if row.len() > 1 {
        let values = text_elements(row, 1)?;
        if values.len() != first.len() {
            return Err(PgError::new("2202E", "mismatched array dimensions").into());
        }
        first.into_iter().zip(values).collect()
    } else {
        if first.len() % 2 == 1 {
            let message = "array must have even number of elements";
            return Err(PgError::new("2202E", message).into());
        }
        first
            .chunks(2)
            .map(|pair| (pair[0].clone(), pair[1].clone()))
            .collect()
    };
    let mut members = vec![];
    for (key, value) in pairs {
        let Some(key) = key else {
            return Err(PgError::new("22004", "null value not allowed for object key").into());
        };
        let value = value.map_or_else(|| "null".to_owned(), |value| json_quoted(&value));
        members.push(format!("{} : {value}", json_quoted(&key)));
    }
    Ok(format!("{{{}}}", members.join(", ")))
}

fn element(row: &Row<'_>) -> Result<String> {
    let value = write::argument(row, 0)?;
    Ok(if row.field(0).data_type().is_nested() && !row.is_null(0) {
        format!("{NESTED}{value}")
    } else {
        value
    })
}

fn collect(row: &Row<'_>) -> Result<String> {
    let (array, at) = row.array(0);
    let DataType::List(element) = array.data_type() else {
        let mut out = String::new();
        write::write(array, at, row.field(0), ", ", &mut out)?;
        return Ok(out);
    };
    let values = array.as_list::<i32>().value(at);
    let is_nested = element.data_type().is_nested();
    let elements = (0..values.len()).map(|at| -> Result<String> {
        let mut out = String::new();
        if is_nested && values.is_valid(at) {
            out.push(NESTED);
        }
        write::write(&values, at, element, ",", &mut out)?;
        Ok(out)
    });
    Ok(listed(&elements.collect::<Result<Vec<_>>>()?))
}

fn join(row: &Row<'_>) -> Result<String> {
    let elements: Vec<String> = text_elements(row, 0)?.into_iter().flatten().collect();
    Ok(listed(&elements))
}

/// The array of these elements, on separate lines if they have the prefix of nested ones.
fn listed(elements: &[String]) -> String {
    let mut out = "[".to_owned();
    for (at, element) in elements.iter().enumerate() {
        let nested = element.strip_prefix(NESTED);
        out.push_str(match nested {
            _ if at == 0 => "",
            Some(_) => ", \n ",
            None => ", ",
        });
        out.push_str(nested.unwrap_or(element));
    }
    out.push(']');
    out
}
