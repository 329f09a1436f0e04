//! Dimensions and lengths of arrays.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;

use super::elements::{dimensions, elements, flat, flat_elements, leaf, list_of};
use crate::PgError;
use crate::functions::first_value;
use crate::functions::scalar::Take::{Int, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value, type_name};

/// `pg_flat(array)`: the elements below all dimensions, in the order of `unnest`.
pub(crate) const FLAT: &str = "pg_flat";

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "array_ndims",
            vec![Form::new(&[List], Give::Int4, |row| {
                Ok(match shape(row)?.len() {
                    0 => Value::Null,
                    count => number(count),
                })
            })],
        ),
        Function::new(
            "array_dims",
            vec![Form::new(&[List], Give::Text, |row| {
                let mut out = String::new();
                for length in shape(row)? {
                    let _ = write!(out, "[1:{length}]");
                }
                Ok((!out.is_empty()).then_some(out).into())
            })],
        ),
        Function::new(
            "array_length",
            vec![Form::new(&[List, Int], Give::Int4, length)],
        ),
        Function::new(
            "array_upper",
            vec![Form::new(&[List, Int], Give::Int4, length)],
        ),
        Function::new(
            "array_lower",
            vec![Form::new(&[List, Int], Give::Int4, |row| {
                Ok(match length(row)? {
                    Value::Null => Value::Null,
                    _ => Value::Int(1),
                })
            })],
        ),
        Function::new(
            "cardinality",
            vec![Form::new(&[List], Give::Int4, |row| {
                Ok(number(match flat_elements(row, 0) {
                    Some((_, own)) => own.len(),
                    None => flat(all(row)?).len(),
                }))
            })],
        ),
        Function::new(
            crate::dialect::OR_EMPTY,
            vec![Form::new(&[List], Give::Of(itself), or_empty).called()],
        ),
        Function::new(
            crate::dialect::SUBSCRIPTS,
            vec![Form::new(
                &[List, Int],
                Give::Of(|_| {
                    Ok(Arc::new(Field::new(
                        "",
                        DataType::new_list(DataType::Int32, true),
                        true,
                    )))
                }),
                |row| {
                    let Value::Int(length) = length(row)? else {
                        return Ok(Value::List(vec![]));
                    };
                    let numbers = 1..=i32::try_from(length).unwrap_or(i32::MAX);
                    Ok(Value::List(
                        numbers.map(|at| Value::Scalar(at.into())).collect(),
                    ))
                },
            )],
        ),
        Function::new(
            FLAT,
            vec![Form::new(
                &[crate::functions::scalar::Take::Any],
                Give::Of(flat_field),
                |row| Ok(Value::List(flat(all(row)?))),
            )],
        )
        .simplified(|args, info| {
            let [array] = args else {
                return Ok(None);
            };
            let Ok(data_type) = info.get_data_type(array) else {
                return Ok(None);
            };
            let given = Field::new("", data_type, true);
            Ok((leaf(&given).1 == 1).then(|| array.clone()))
        }),
    ]
}

fn itself(given: &[FieldRef]) -> Result<FieldRef> {
    let own = given[0].as_ref().clone();
    Ok(Arc::new(own.with_nullable(true)))
}

/// The array itself, or an empty one for NULL.
fn or_empty(row: &Row<'_>) -> Result<Value> {
    let (array, at) = row.array(0);
    if !row.is_null(0) {
        return Ok(Value::Scalar(first_value(&array.slice(at, 1))?));
    }
    empty(array)
}

/// An array of the type of `lists`, without elements.
pub(super) fn empty(lists: &ArrayRef) -> Result<Value> {
    let DataType::List(element) = lists.data_type() else {
        return Ok(Value::Null);
    };
    let none = new_empty_array(element.data_type());
    let offsets = OffsetBuffer::from_lengths([0]);
    let empty = ListArray::try_new(Arc::clone(element), offsets, none, None)?;
    Ok(Value::Scalar(ScalarValue::List(Arc::new(empty))))
}

fn flat_field(given: &[FieldRef]) -> Result<FieldRef> {
    let (element, dimensions) = leaf(&given[0]);
    if dimensions == 0 && !given[0].data_type().is_null() {
        let signature = format!("function unnest({})", type_name(&given[0]));
        return Err(PgError::undefined_function(&signature).into());
    }
    Ok(Arc::new(Field::new("", list_of(element, 1), true)))
}

fn number(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn all(row: &Row<'_>) -> Result<Vec<Value>> {
    let (leaf, _) = leaf(row.field(0));
    elements(row, 0, &leaf)
}

fn shape(row: &Row<'_>) -> Result<Vec<usize>> {
    match flat_elements(row, 0) {
        Some((_, own)) if own.is_empty() => Ok(vec![]),
        Some((_, own)) => Ok(vec![own.len()]),
        None => dimensions(&all(row)?),
    }
}

fn length(row: &Row<'_>) -> Result<Value> {
    let shape = shape(row)?;
    let dimension = usize::try_from(row.int(1))
        .ok()
        .and_then(|at| at.checked_sub(1));
    let found = dimension.and_then(|at| shape.get(at));
    Ok(found.map_or(Value::Null, |length| number(*length)))
}
