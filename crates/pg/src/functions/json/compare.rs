//! Comparisons of `jsonb`: order, containment, and existence of keys.

use std::cmp::Ordering;

use datafusion::error::Result;

use super::path;
use crate::functions::scalar::Take::{Any, Json as JsonText, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::values::Json;

pub(super) fn functions() -> Vec<Function> {
    let compared = |name: &str, body| {
        Function::new(
            name,
            vec![Form::new(&[JsonText, JsonText], Give::Bool, body)],
        )
    };
    vec![
        compared("jsonb_eq", |row| {
            Ok(Value::Bool(order(row)? == Ordering::Equal))
        }),
        compared("jsonb_ne", |row| {
            Ok(Value::Bool(order(row)? != Ordering::Equal))
        }),
        compared("jsonb_lt", |row| {
            Ok(Value::Bool(order(row)? == Ordering::Less))
        }),
        compared("jsonb_le", |row| {
            Ok(Value::Bool(order(row)? != Ordering::Greater))
        }),
        compared("jsonb_gt", |row| {
            Ok(Value::Bool(order(row)? == Ordering::Greater))
        }),
        compared("jsonb_ge", |row| {
            Ok(Value::Bool(order(row)? != Ordering::Less))
        }),
        compared("jsonb_contains", |row| {
            Ok(Value::Bool(contains(&read(row, 0)?, &read(row, 1)?)))
        }),
        compared("jsonb_contained", |row| {
            Ok(Value::Bool(contains(&read(row, 1)?, &read(row, 0)?)))
        }),
        Function::new(
            "jsonb_exists",
            vec![Form::new(&[JsonText, Text], Give::Bool, |row| {
                Ok(Value::Bool(exists(&read(row, 0)?, row.text(1))))
            })],
        ),
        Function::new(
            "jsonb_exists_any",
            vec![Form::new(&[JsonText, Any], Give::Bool, |row| {
                let value = read(row, 0)?;
                let mut keys = path(row, 1)?.into_iter().flatten();
                Ok(Value::Bool(keys.any(|key| exists(&value, &key))))
            })],
        ),
        Function::new(
            "jsonb_exists_all",
            vec![Form::new(&[JsonText, Any], Give::Bool, |row| {
                let value = read(row, 0)?;
                let mut keys = path(row, 1)?.into_iter().flatten();
                Ok(Value::Bool(keys.all(|key| exists(&value, &key))))
            })],
        ),
    ]
}

pub(super) fn read(row: &Row<'_>, argument: usize) -> Result<Json> {
    Ok(Json::parse(row.text(argument))?.normal())
}

fn order(row: &Row<'_>) -> Result<Ordering> {
    let (left, right) = (read(row, 0)?, read(row, 1)?);
    // For historical reasons an empty array is less than a scalar.
    let is_empty = |value: &Json| matches!(value, Json::Array(elements) if elements.is_empty());
    let is_scalar = |value: &Json| !matches!(value, Json::Array(_) | Json::Object(_));
    if is_empty(&left) && is_scalar(&right) {
        return Ok(Ordering::Less);
    }
    if is_scalar(&left) && is_empty(&right) {
        return Ok(Ordering::Greater);
    }
    Ok(left.order(&right))
}

/// Whether `left` contains `right`. At the outermost level, an array also contains its scalar
/// elements.
fn contains(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Array(elements), scalar) if !matches!(scalar, Json::Array(_) | Json::Object(_)) => {
            elements.iter().any(|element| element.contains(scalar))
        }
        _ => left.contains(right),
    }
}

fn exists(value: &Json, key: &str) -> bool {
    match value {
        Json::Object(members) => members.iter().any(|(known, _)| known == key),
        Json::Array(elements) => elements
            .iter()
            .any(|element| matches!(element, Json::Text(text) if text == key)),
        Json::Text(text) => text == key,
        _ => false,
    }
}
