//! Arrays compared: order, containment, overlap, and elements that are searched for.

use std::cmp::Ordering;

use datafusion::error::Result;

use super::elements::{common, dimensions, elements, flat, leaf, value};
use crate::PgError;
use crate::functions::scalar::Take::{Any, Int, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value};

pub(super) fn functions() -> Vec<Function> {
    vec![
        compared("array_eq", |row| {
            Ok(Value::Bool(order(row)? == Ordering::Equal))
        }),
        compared("array_ne", |row| {
            Ok(Value::Bool(order(row)? != Ordering::Equal))
        }),
        compared("array_lt", |row| {
            Ok(Value::Bool(order(row)? == Ordering::Less))
        }),
        compared("array_le", |row| {
            Ok(Value::Bool(order(row)? != Ordering::Greater))
        }),
        compared("array_gt", |row| {
            Ok(Value::Bool(order(row)? == Ordering::Greater))
        }),
        compared("array_ge", |row| {
            Ok(Value::Bool(order(row)? != Ordering::Less))
        }),
        compared("arraycontains", |row| {
            let (left, right) = both(row)?;
            Ok(Value::Bool(right.iter().all(|wanted| has(&left, wanted))))
        }),
        compared("arraycontained", |row| {
            let (left, right) = both(row)?;
            Ok(Value::Bool(left.iter().all(|wanted| has(&right, wanted))))
        }),
        compared("arrayoverlap", |row| {
            let (left, right) = both(row)?;
            Ok(Value::Bool(right.iter().any(|wanted| has(&left, wanted))))
        }),
        Function::new(
            "array_position",
            vec![
                Form::new(&[List, Any, Int], Give::Int4, |row| {
                    let places = places(row, "array_position")?;
                    let start = if row.len() > 2 {
                        if row.is_null(2) {
                            return Err(
                                PgError::new("22004", "initial position must not be null").into()
                            );
                        }
                        row.int(2)
                    } else {
                        1
                    };
                    let found = places.into_iter().find(|place| *place >= start);
                    Ok(found.map_or(Value::Null, Value::Int))
                })
                .optional(1)
                .called(),
            ],
        ),
        Function::new(
            "array_positions",
            vec![
                Form::new(
                    &[List, Any],
                    Give::Of(|_| {
                        use datafusion::arrow::datatypes::{DataType, Field};
                        let list = DataType::new_list(DataType::Int32, true);
                        Ok(std::sync::Arc::new(Field::new("", list, true)))
                    }),
                    |row| {
                        if row.is_null(0) {
                            return Ok(Value::Null);
                        }
                        let places = places(row, "array_positions")?;
                        let number = |place| i32::try_from(place).unwrap_or(i32::MAX);
                        let places = places
                            .into_iter()
                            .map(|place| Value::Scalar(number(place).into()));
                        Ok(Value::List(places.collect()))
                    },
                )
                .called(),
            ],
        ),
    ]
}

fn compared(name: &str, body: crate::functions::scalar::Body) -> Function {
    Function::new(name, vec![Form::new(&[List, List], Give::Bool, body)])
}

/// The elements of both arrays, below all dimensions.
fn both(row: &Row<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
    let (left, _) = leaf(row.field(0));
    let (right, _) = leaf(row.field(1));
    let leaf = common("array", &left, &right)?;
    Ok((
        flat(elements(row, 0, &leaf)?),
        flat(elements(row, 1, &leaf)?),
    ))
}

/// The order of two elements; NULLs are equal, and last.
pub(super) fn element_order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => {
            left.partial_cmp(right).unwrap_or(Ordering::Equal)
        }
        (Value::List(left), Value::List(right)) => list_order(left, right),
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        _ => Ordering::Equal,
    }
}

fn list_order(left: &[Value], right: &[Value]) -> Ordering {
    let mut pairs = left.iter().zip(right);
    let found = pairs.find_map(|(left, right)| {
        let order = element_order(left, right);
        (order != Ordering::Equal).then_some(order)
    });
    found.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn order(row: &Row<'_>) -> Result<Ordering> {
    let (left, _) = leaf(row.field(0));
    let (right, _) = leaf(row.field(1));
    let leaf = common("array", &left, &right)?;
    let (left, right) = (elements(row, 0, &leaf)?, elements(row, 1, &leaf)?);
    let (left_shape, right_shape) = (dimensions(&left)?, dimensions(&right)?);
    let elements = list_order(&flat(left), &flat(right));
    Ok(elements
        .then_with(|| left_shape.len().cmp(&right_shape.len()))
        .then_with(|| left_shape.cmp(&right_shape)))
}

/// NULL is in no array.
fn has(elements: &[Value], wanted: &Value) -> bool {
    !matches!(wanted, Value::Null)
        && elements
            .iter()
            .any(|element| element_order(element, wanted) == Ordering::Equal)
}

/// Where an element is, counted from 1. NULL is found where NULL is.
fn places(row: &Row<'_>, function: &str) -> Result<Vec<i64>> {
    if row.is_null(0) {
        return Ok(vec![]);
    }
    let (left, _) = leaf(row.field(0));
    let leaf = common(function, &left, row.field(1))?;
    let elements = elements(row, 0, &leaf)?;
    if matches!(elements.first(), Some(Value::List(_))) {
        let message = "searching for elements in multidimensional arrays is not supported";
        return Err(PgError::unsupported(message).into());
    }
    let wanted = value(row, 1, &leaf)?;
    let found = (1_i64..).zip(&elements).filter(|(_, element)| {
        matches!((element, &wanted), (Value::Null, Value::Null))
            || (!matches!(element, Value::Null)
                && element_order(element, &wanted) == Ordering::Equal)
    });
    Ok(found.map(|(place, _)| place).collect())
}
