//! Comparisons of rows that are not of one type: `pg_rows_eq(a, b)` and similar functions.
//!
//! PostgreSQL compares two rows when it runs, field by field in their order, until two differ. Two
//! fields of different types are error 42804 there, fields of `json` 42883; the names of fields do
//! not matter. DataFusion finds fields by their names, and casts them to a common type.
//!
//! Not here: which rows these are (`arrays/row_types.rs`); rows of one type, which DataFusion
//! compares (`arrays/compare.rs` has their order); and `(a, b) = (c, d)`, which compares values
//! (`dialect/expressions/rows.rs`).

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Operator};

use crate::functions::arrays::{COMPARISON, EQUALITY, common, converted, has_comparison, leaf};
use crate::functions::arrays::{have_one_length, have_one_type};
use crate::functions::key_bytes;
use crate::functions::scalar::Take::Any;
use crate::functions::scalar::{Body, Form, Function, Give, Row, Value};

/// The comparison functions, by operator.
const COMPARISONS: [(Operator, &str, Body); 6] = [
    (Operator::Eq, "pg_rows_eq", |row| is(are_equal(row)?)),
    (Operator::NotEq, "pg_rows_ne", |row| is(!are_equal(row)?)),
    (Operator::Lt, "pg_rows_lt", |row| is(order(row)?.is_lt())),
    (Operator::LtEq, "pg_rows_le", |row| is(order(row)?.is_le())),
    (Operator::Gt, "pg_rows_gt", |row| is(order(row)?.is_gt())),
    (Operator::GtEq, "pg_rows_ge", |row| is(order(row)?.is_ge())),
];

#[expect(clippy::unnecessary_wraps, reason = "the result of a function body")]
fn is(found: bool) -> Result<Value> {
    Ok(Value::Bool(found))
}

pub(super) fn functions() -> Vec<Function> {
    let compared = COMPARISONS.iter();
    let compared = compared.map(|(_, name, body)| Function::new(name, vec![form(*body)]));
    compared.chain([distinct()]).collect()
}

fn form(body: Body) -> Form {
    Form::new(&[Any, Any], Give::Bool, body)
}

/// `a IS DISTINCT FROM b`.
fn distinct() -> Function {
    let body: Body = |row| is(!are_equal(row)?);
    Function::new("pg_rows_distinct", vec![form(body).called()])
}

/// `left op right` of two rows; `None` for operators that do not compare.
pub(crate) fn rows_compared(op: Operator, left: Expr, right: Expr) -> Option<Expr> {
    let call = |function: Function| function.udf().call(vec![left, right]);
    match op {
        Operator::IsDistinctFrom => Some(call(distinct())),
        Operator::IsNotDistinctFrom => Some(!call(distinct())),
        _ => {
            let (_, name, body) = COMPARISONS.iter().find(|(of, _, _)| *of == op)?;
            Some(call(Function::new(name, vec![form(*body)])))
        }
    }
}

fn are_equal(row: &Row<'_>) -> Result<bool> {
    Ok(order_of(row, EQUALITY)?.is_eq())
}

fn order(row: &Row<'_>) -> Result<Ordering> {
    order_of(row, COMPARISON)
}

/// The order of both arguments. `missing` is what a field has not that has no order.
fn order_of(row: &Row<'_>, missing: &str) -> Result<Ordering> {
    let one_row = |argument| {
        let (rows, at) = row.array(argument);
        rows.slice(at, 1)
    };
    let (left, right) = (one_row(0), one_row(1));
    field_order((&left, row.field(0)), (&right, row.field(1)), missing)
}

/// The order of the first values of two arrays. NULLs are equal and sort last.
fn field_order(
    (left, one): (&ArrayRef, &Field),
    (right, other): (&ArrayRef, &Field),
    missing: &str,
) -> Result<Ordering> {
    let is_null = |values: &ArrayRef| {
        let nulls = values.logical_nulls();
        nulls.is_some_and(|nulls| nulls.is_null(0))
    };
    match (is_null(left), is_null(right)) {
        (true, true) => return Ok(Ordering::Equal),
        (true, false) => return Ok(Ordering::Greater),
        (false, true) => return Ok(Ordering::Less),
        (false, false) => {}
    }
    if let (DataType::Struct(one), DataType::Struct(other)) = (one.data_type(), other.data_type()) {
        return row_order((left.as_struct(), one), (right.as_struct(), other), missing);
    }
    has_comparison(&leaf(one).0, missing)?;
    let field = common("record_cmp", one, other)?;
    let key = |values: &ArrayRef| key_bytes(&converted(values, &field)?, &field);
    let (left, right) = (key(left)?, key(right)?);
    Ok(left.value(0).cmp(right.value(0)))
}

/// The order of the first rows of two arrays.
fn row_order(
    (left, one): (&StructArray, &Fields),
    (right, other): (&StructArray, &Fields),
    missing: &str,
) -> Result<Ordering> {
    let left = left.columns().iter().zip(one);
    let right = right.columns().iter().zip(other);
    for (at, ((left, one), (right, other))) in left.zip(right).enumerate() {
        have_one_type(at, one, other)?;
        has_comparison(one, missing)?;
        let order = field_order((left, one.as_ref()), (right, other.as_ref()), missing)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    have_one_length(one, other)?;
    Ok(Ordering::Equal)
}
