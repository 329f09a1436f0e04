//! Comparisons of arrays: order, containment, overlap, and searches for elements.

use std::cmp::Ordering;

use datafusion::arrow::array::StructArray;
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::scalar::ScalarValue;

use super::elements::{common, dimensions, element, elements, flat, leaf, value};
use super::row_types::{COMPARISON, EQUALITY, check_rows, has_comparison};
use crate::PgError;
use crate::functions::first_value;
use crate::functions::scalar::Take::{Any, Int, List};
use crate::functions::scalar::{Body, Form, Function, Give, Row, Value};
use crate::operators::padded::is_padded;
use crate::time::span::Span;

/// `=` of arrays, which `comparisons/sort_keys.rs` makes a key of joins.
pub(crate) const ARRAY_EQ: &str = "array_eq";

/// The comparison functions of arrays, by operator.
const COMPARISONS: [(Operator, &str, Body); 6] = [
    (Operator::Eq, ARRAY_EQ, |row| is(are_equal(row)?)),
    (Operator::NotEq, "array_ne", |row| is(!are_equal(row)?)),
    (Operator::Lt, "array_lt", |row| is(order(row)?.is_lt())),
    (Operator::LtEq, "array_le", |row| is(order(row)?.is_le())),
    (Operator::Gt, "array_gt", |row| is(order(row)?.is_gt())),
    (Operator::GtEq, "array_ge", |row| is(order(row)?.is_ge())),
];

/// The comparison functions of rows, by operator.
const OF_ROWS: [(Operator, &str, Body); 4] = [
    (Operator::Lt, "record_lt", |row| is(row_order(row)?.is_lt())),
    (Operator::LtEq, "record_le", |row| {
        is(row_order(row)?.is_le())
    }),
    (Operator::Gt, "record_gt", |row| is(row_order(row)?.is_gt())),
    (Operator::GtEq, "record_ge", |row| {
        is(row_order(row)?.is_ge())
    }),
];

#[expect(clippy::unnecessary_wraps, reason = "the result of a function body")]
fn is(found: bool) -> Result<Value> {
    Ok(Value::Bool(found))
}

pub(super) fn functions() -> Vec<Function> {
    let comparisons = COMPARISONS.iter();
    let comparisons = comparisons.map(|(_, name, body)| compared(name, *body));
    let of_rows = OF_ROWS.iter().map(|(_, name, body)| rows(name, *body));
    comparisons.chain(of_rows).chain(others()).collect()
}

fn others() -> Vec<Function> {
    vec![
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
        greatest(),
        least(),
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

/// The function that compares arrays like an operator; `None` for other operators.
pub(crate) fn comparison(op: Operator) -> Option<ScalarUDF> {
    let (_, name, body) = COMPARISONS.iter().find(|(of, _, _)| *of == op)?;
    Some(compared(name, *body).udf())
}

/// The operator of PostgreSQL's for which the planner calls a function of two arrays.
pub(crate) fn sign_of(function: &str) -> Option<&'static str> {
    Some(match function {
        ARRAY_EQ => "=",
        "array_ne" => "<>",
        "array_lt" => "<",
        "array_le" => "<=",
        "array_gt" => ">",
        "array_ge" => ">=",
        "arraycontains" => "@>",
        "arraycontained" => "<@",
        "arrayoverlap" => "&&",
        _ => return None,
    })
}

/// The function that compares rows like an operator; `None` for other operators.
pub(crate) fn row_comparison(op: Operator) -> Option<ScalarUDF> {
    let (_, name, body) = OF_ROWS.iter().find(|(of, _, _)| *of == op)?;
    Some(rows(name, *body).udf())
}

/// `greatest` or `least` of arrays.
pub(crate) fn extreme(is_greatest: bool) -> ScalarUDF {
    if is_greatest { greatest() } else { least() }.udf()
}

fn compared(name: &str, body: Body) -> Function {
    Function::new(name, vec![Form::new(&[List, List], Give::Bool, body)])
}

fn rows(name: &str, body: Body) -> Function {
    Function::new(name, vec![Form::new(&[Any, Any], Give::Bool, body)])
}

fn greatest() -> Function {
    extreme_function("pg_array_greatest", |row| {
        extreme_of(row, Ordering::Greater)
    })
}

fn least() -> Function {
    extreme_function("pg_array_least", |row| extreme_of(row, Ordering::Less))
}

fn extreme_function(name: &str, body: Body) -> Function {
    let form = Form::new(
        &[List],
        Give::Of(|given| Ok(FieldRef::clone(&given[0]))),
        body,
    );
    Function::new(name, vec![form.repeated().called()])
}

/// `greatest` or `least` of the arguments that are not NULL.
fn extreme_of(row: &Row<'_>, wanted: Ordering) -> Result<Value> {
    let mut best: Option<usize> = None;
    for at in (0..row.len()).filter(|at| !row.is_null(*at)) {
        let is_better = match best {
            Some(known) => order_of(row, at, known, COMPARISON)? == wanted,
            None => true,
        };
        if is_better {
            best = Some(at);
        }
    }
    match best {
        Some(at) => {
            let (array, place) = row.array(at);
            Ok(Value::Scalar(first_value(&array.slice(place, 1))?))
        }
        None => Ok(Value::Null),
    }
}

/// The type in which the elements of two arrays are compared.
fn compared_in(left: &Field, right: &Field, missing: &str) -> Result<FieldRef> {
    let ((left, _), (right, _)) = (leaf(left), leaf(right));
    has_comparison(&left, missing)?;
    has_comparison(&right, missing)?;
    check_rows(&left, &right, missing)?;
    common("array", &left, &right)
}

/// The elements of both arrays, across all dimensions.
fn both(row: &Row<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
    let leaf = compared_in(row.field(0), row.field(1), EQUALITY)?;
    let compared = |argument| -> Result<Vec<Value>> {
        Ok(as_compared(flat(elements(row, argument, &leaf)?), &leaf))
    };
    Ok((compared(0)?, compared(1)?))
}

/// Removes what comparisons ignore: the trailing blanks of `character(n)`.
pub(super) fn as_compared(values: Vec<Value>, leaf: &Field) -> Vec<Value> {
    if !is_padded(leaf) {
        return values;
    }
    let trimmed = |value| match &value {
        Value::Scalar(scalar) => match scalar.try_as_str().flatten() {
            Some(text) => Value::Text(text.trim_end_matches(' ').to_owned()),
            None => value,
        },
        _ => value,
    };
    values.into_iter().map(trimmed).collect()
}

/// A value that is searched among elements from [`as_compared`]. The blanks of a text are kept.
pub(super) fn searched(row: &Row<'_>, argument: usize, leaf: &Field) -> Result<Value> {
    let given = value(row, argument, leaf)?;
    if !is_padded(leaf) {
        return Ok(given);
    }
    if is_padded(row.field(argument)) {
        let mut given = as_compared(vec![given], leaf);
        return Ok(given.pop().unwrap_or(Value::Null));
    }
    let text = match &given {
        Value::Scalar(scalar) => scalar.try_as_str().flatten().map(str::to_owned),
        _ => None,
    };
    Ok(text.map_or(given, Value::Text))
}

/// The order of two elements. NULLs are equal and sort last.
pub(super) fn element_order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => scalar_order(left, right),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::List(left), Value::List(right)) => list_order(left, right),
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        _ => Ordering::Equal,
    }
}

/// Orders two values as PostgreSQL orders their type.
fn scalar_order(left: &ScalarValue, right: &ScalarValue) -> Ordering {
    use ScalarValue::{Float32, Float64, IntervalMonthDayNano, Struct};
    match (left, right) {
        (Struct(left), Struct(right)) => field_order(left, right),
        (Float64(Some(left)), Float64(Some(right))) => float_order(*left, *right),
        (Float32(Some(left)), Float32(Some(right))) => float_order(*left, *right),
        (IntervalMonthDayNano(Some(left)), IntervalMonthDayNano(Some(right))) => {
            Span::of_arrow(*left).compare(Span::of_arrow(*right))
        }
        _ => left.partial_cmp(right).unwrap_or(Ordering::Equal),
    }
}

/// -0 equals 0; NaN equals itself and is greater than all numbers.
fn float_order<F: Into<f64>>(left: F, right: F) -> Ordering {
    let (left, right): (f64, f64) = (left.into(), right.into());
    let order = left.partial_cmp(&right);
    order.unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// Rows compare field by field. NULL fields are equal, and greater than all values.
fn field_order(left: &StructArray, right: &StructArray) -> Ordering {
    let pairs = left.columns().iter().zip(right.columns());
    let orders = pairs.map(|(left, right)| {
        let [left, right] = [left, right].map(|field| element(field, 0));
        element_order(&left.unwrap_or(Value::Null), &right.unwrap_or(Value::Null))
    });
    orders.fold(Ordering::Equal, Ordering::then)
}

fn row_order(row: &Row<'_>) -> Result<Ordering> {
    let value = |argument| {
        let (array, at) = row.array(argument);
        ScalarValue::try_from_array(array, at)
    };
    Ok(scalar_order(&value(0)?, &value(1)?))
}

fn list_order(left: &[Value], right: &[Value]) -> Ordering {
    let mut pairs = left.iter().zip(right);
    let found = pairs.find_map(|(left, right)| {
        let order = element_order(left, right);
        (order != Ordering::Equal).then_some(order)
    });
    found.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn are_equal(row: &Row<'_>) -> Result<bool> {
    Ok(order_of(row, 0, 1, EQUALITY)?.is_eq())
}

fn order(row: &Row<'_>) -> Result<Ordering> {
    order_of(row, 0, 1, COMPARISON)
}

/// The order of two arguments. `missing` is what elements have not that have no order.
fn order_of(row: &Row<'_>, one: usize, other: usize, missing: &str) -> Result<Ordering> {
    let leaf = compared_in(row.field(one), row.field(other), missing)?;
    let (left, right) = (elements(row, one, &leaf)?, elements(row, other, &leaf)?);
    let (left_shape, right_shape) = (dimensions(&left)?, dimensions(&right)?);
    let [left, right] = [left, right].map(|values| as_compared(flat(values), &leaf));
    let elements = list_order(&left, &right);
    Ok(elements
        .then_with(|| left_shape.len().cmp(&right_shape.len()))
        .then_with(|| left_shape.cmp(&right_shape)))
}

/// Whether an array contains an element. No array contains NULL.
fn has(elements: &[Value], wanted: &Value) -> bool {
    !matches!(wanted, Value::Null)
        && elements
            .iter()
            .any(|element| element_order(element, wanted) == Ordering::Equal)
}

/// The positions of an element, from 1. A search for NULL finds NULLs.
fn places(row: &Row<'_>, function: &str) -> Result<Vec<i64>> {
    if row.is_null(0) {
        return Ok(vec![]);
    }
    let (left, _) = leaf(row.field(0));
    let leaf = common(function, &left, row.field(1))?;
    let elements = as_compared(elements(row, 0, &leaf)?, &leaf);
    if matches!(elements.first(), Some(Value::List(_))) {
        let message = "searching for elements in multidimensional arrays is not supported";
        return Err(PgError::unsupported(message).into());
    }
    if !elements.is_empty() {
        has_comparison(&leaf, EQUALITY)?;
    }
    let wanted = searched(row, 1, &leaf)?;
    let found = (1_i64..).zip(&elements).filter(|(_, element)| {
        matches!((element, &wanted), (Value::Null, Value::Null))
            || (!matches!(element, Value::Null)
                && element_order(element, &wanted) == Ordering::Equal)
    });
    Ok(found.map(|(place, _)| place).collect())
}
