//! `array_fill`, and row constructors.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;

use super::elements::{elements, list_of, value};
use crate::PgError;
use crate::functions::scalar::Take::{Any, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value, type_name};

/// `array_fill` by the number of dimensions, which the dialect determines.
const FILLS: [&str; 3] = ["array_fill", "array_fill_2", "array_fill_3"];
/// `row(…)` within a row that is compared field by field: `dialect/expressions/rows.rs` writes
/// comparisons of `row(…)` out, and leaves these as values.
pub(crate) const NESTED_ROW: &str = "nested_row";
/// The most elements that a statement may request. (`PostgreSQL` allows 134,217,727.)
const ELEMENTS_MAX: usize = 1 << 20;

type Filled = fn(&[FieldRef]) -> Result<FieldRef>;

pub(super) fn functions() -> Vec<Function> {
    let forms: [Filled; 3] = [
        |given| filled(given, 1),
        |given| filled(given, 2),
        |given| filled(given, 3),
    ];
    let mut all: Vec<Function> = FILLS
        .iter()
        .zip(forms)
        .map(|(name, field)| {
            let form = Form::new(&[Any, List, List], Give::Of(field), fill)
                .optional(1)
                .called();
            Function::new(name, vec![form])
        })
        .collect();
    let rows = ["row", NESTED_ROW].map(|name| {
        let form = Form::new(&[Any], Give::Of(row_field), row);
        Function::new(name, vec![form.repeated().called()])
    });
    all.extend(rows);
    all
}

fn filled(given: &[FieldRef], dimensions: usize) -> Result<FieldRef> {
    if given[0].data_type().is_list() {
        let element = type_name(&given[0]);
        let message = format!("could not find array type for data type {element}");
        return Err(PgError::new("42704", message).into());
    }
    let list = list_of(given[0].clone(), dimensions);
    Ok(Arc::new(Field::new("", list, true)))
}

fn fill(row: &Row<'_>) -> Result<Value> {
    let null = || PgError::new("22004", "dimension array or low bound array cannot be null");
    if row.is_null(1) {
        return Err(null().into());
    }
    let whole = Field::new("", DataType::Int32, true);
    let numbers = |argument| -> Result<Vec<i32>> {
        let elements = elements(row, argument, &whole)?
            .into_iter()
            .map(|element| match element {
                Value::Scalar(ScalarValue::Int32(Some(number))) => Ok(number),
                _ => Err(PgError::new("22004", "dimension values cannot be null")),
            });
        Ok(elements.collect::<Result<_, _>>()?)
    };
    let lengths = numbers(1)?;
    if row.len() > 2 && numbers(2)?.iter().any(|bound| *bound != 1) {
        let message = "arrays whose lower bounds are not 1 are not supported";
        return Err(PgError::unsupported(message).into());
    }
    let lengths: Vec<usize> = lengths
        .into_iter()
        .map(|length| usize::try_from(length).unwrap_or(0))
        .collect();
    let total = lengths
        .iter()
        .fold(1_usize, |all, length| all.saturating_mul(*length));
    if total > ELEMENTS_MAX {
        let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        return Err(PgError::new("54000", message).into());
    }
    if lengths.is_empty() || total == 0 {
        return Ok(Value::List(vec![]));
    }
    let mut filled = value(row, 0, row.field(0))?;
    for length in lengths.iter().rev() {
        filled = Value::List(vec![filled; *length]);
    }
    Ok(filled)
}

fn row_field(given: &[FieldRef]) -> Result<FieldRef> {
    let fields: Vec<Field> = (1..)
        .zip(given)
        .map(|(at, field)| {
            let field = field.as_ref().clone();
            field.with_name(format!("f{at}")).with_nullable(true)
        })
        .collect();
    Ok(Arc::new(Field::new(
        "row",
        DataType::Struct(fields.into()),
        true,
    )))
}

fn row(row: &Row<'_>) -> Result<Value> {
    let mut fields = vec![];
    let mut columns: Vec<ArrayRef> = vec![];
    for argument in 0..row.len() {
        let (array, at) = row.array(argument);
        let field = row.field(argument).clone();
        let column = array.slice(at, 1);
        let field = field
            .with_name(format!("f{}", argument + 1))
            .with_nullable(true);
        fields.push(field.with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    let one = StructArray::try_new_with_length(fields.into(), columns, None, 1)?;
    Ok(Value::Scalar(ScalarValue::Struct(Arc::new(one))))
}
