//! Parts of a JSON value (`->`, `->>`, `#>`, `#>>`), and its type.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;

use super::{TYPES, path};
use crate::PgError;
use crate::functions::scalar::Take::{Any, Int, Json as JsonText, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Take, Value, marked_type, typed_field};
use crate::values::{Json, Parts};

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![
        Function::new(
            "json_get",
            vec![
                Form::new(&[JsonText, Text], Give::Of(same), |row| {
                    Ok(member(row)?.into())
                }),
                Form::new(&[JsonText, Int], Give::Of(same), |row| {
                    Ok(element(row)?.into())
                }),
            ],
        ),
        Function::new(
            "json_get_text",
            vec![
                Form::new(&[JsonText, Text], Give::Text, |row| as_text(member(row)?)),
                Form::new(&[JsonText, Int], Give::Text, |row| as_text(element(row)?)),
            ],
        ),
        Function::new(
            "json_get_path",
            vec![Form::new(&[JsonText, Any], Give::Of(same), |row| {
                Ok(at_path(row)?.into())
            })],
        ),
        Function::new(
            "json_get_path_text",
            vec![Form::new(&[JsonText, Any], Give::Text, |row| {
                as_text(at_path(row)?)
            })],
        ),
    ];
    for pg_type in TYPES {
        let name = |name: &str| name.replace("json", pg_type);
        all.push(Function::new(
            &name("json_typeof"),
            vec![Form::new(&[JsonText], Give::Text, |row| {
                Ok(Value::Text(match Json::parts(row.text(0))? {
                    Parts::Object(_) => "object".to_owned(),
                    Parts::Array(_) => "array".to_owned(),
                    Parts::Scalar(value) => value.kind().to_owned(),
                }))
            })],
        ));
        all.push(Function::new(
            &name("json_array_length"),
            vec![Form::new(&[JsonText], Give::Int4, array_length)],
        ));
        let (takes, gives): (&[Take], _) = if pg_type == "jsonb" {
            (&[Take::Jsonb, Text], Give::Marked("jsonb"))
        } else {
            (&[JsonText, Text], Give::Marked("json"))
        };
        all.push(Function::new(
            &name("json_extract_path"),
            vec![Form::new(takes, gives, |row| Ok(extracted(row)?.into())).repeated()],
        ));
        all.push(Function::new(
            &name("json_extract_path_text"),
            vec![Form::new(takes, Give::Text, |row| as_text(extracted(row)?)).repeated()],
        ));
    }
    all
}

/// The type of the argument; an unmarked text counts as `json`.
pub(super) fn same(given: &[FieldRef]) -> Result<FieldRef> {
    let pg_type = marked_type(&given[0])
        .filter(|marked| *marked == "jsonb")
        .unwrap_or("json");
    Ok(Arc::new(typed_field("", DataType::Utf8, pg_type)))
}

fn member(row: &Row<'_>) -> Result<Option<String>> {
    find_member(row.text(0), row.text(1))
}

/// The text of the last member with this key.
fn find_member(text: &str, key: &str) -> Result<Option<String>> {
    Ok(match Json::parts(text)? {
        Parts::Object(members) => {
            let found = members.into_iter().rev().find(|(known, _)| known == key);
            found.map(|(_, value)| value)
        }
        _ => None,
    })
}

fn element(row: &Row<'_>) -> Result<Option<String>> {
    // A scalar `jsonb` acts as an array with one element.
    if marked_type(row.field(0)) == Some("jsonb")
        && matches!(row.int(1), 0 | -1)
        && matches!(Json::parts(row.text(0))?, Parts::Scalar(_))
    {
        return Ok(Some(row.text(0).to_owned()));
    }
    find_element(row.text(0), row.int(1))
}

fn find_element(text: &str, index: i64) -> Result<Option<String>> {
    let Parts::Array(mut elements) = Json::parts(text)? else {
        return Ok(None);
    };
    let length = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    let at = if index < 0 { index + length } else { index };
    let at = usize::try_from(at).ok().filter(|at| *at < elements.len());
    Ok(at.map(|at| elements.swap_remove(at)))
}

fn walked(text: &str, path: &[Option<String>]) -> Result<Option<String>> {
    let mut at = text.trim_matches([' ', '\t', '\n', '\r']).to_owned();
    for step in path {
        let Some(step) = step else {
            return Ok(None);
        };
        let found = match Json::parts(&at)? {
            Parts::Object(_) => find_member(&at, step)?,
            Parts::Array(_) => match step.trim().parse() {
                Ok(index) => find_element(&at, index)?,
                Err(_) => None,
            },
            Parts::Scalar(_) => None,
        };
        let Some(found) = found else {
            return Ok(None);
        };
        at = found;
    }
    Ok(Some(at))
}

fn at_path(row: &Row<'_>) -> Result<Option<String>> {
    walked(row.text(0), &path(row, 1)?)
}

fn extracted(row: &Row<'_>) -> Result<Option<String>> {
    let path: Vec<_> = (1..row.len())
        .map(|at| row.text_opt(at).map(str::to_owned))
        .collect();
    walked(row.text(0), &path)
}

/// A value as text: a string without quotes, and null as NULL.
pub(super) fn unquoted(spelled: &str) -> Result<Option<String>> {
    if spelled == "null" {
        return Ok(None);
    }
    if spelled.starts_with('"')
        && let Json::Text(text) = Json::parse(spelled)?
    {
        return Ok(Some(text));
    }
    Ok(Some(spelled.to_owned()))
}

fn as_text(spelled: Option<String>) -> Result<Value> {
    let text = spelled.map(|spelled| unquoted(&spelled)).transpose()?;
    Ok(text.flatten().into())
}

fn array_length(row: &Row<'_>) -> Result<Value> {
    let message = match Json::parts(row.text(0))? {
        Parts::Array(elements) => {
            return Ok(Value::Int(
                i64::try_from(elements.len()).unwrap_or(i64::MAX),
            ));
        }
        Parts::Object(_) => "cannot get array length of a non-array",
        Parts::Scalar(_) => "cannot get array length of a scalar",
    };
    Err(PgError::new("22023", message).into())
}
