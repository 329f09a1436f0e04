//! An array as a list of values.

use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::binary::comparison_coercion;
use datafusion::scalar::ScalarValue;

use crate::PgError;
use crate::casts::{Context, Target, arrow_cast, cast_array};
use crate::functions::scalar::{Row, Value, is_text, type_name};
use crate::operators;

/// The type of the elements below all dimensions, and the number of dimensions of the array's
/// type.
pub(crate) fn leaf(field: &Field) -> (FieldRef, usize) {
    let mut found = std::sync::Arc::new(field.clone());
    let mut dimensions = 0;
    while let DataType::List(inner)
    | DataType::LargeList(inner)
    | DataType::FixedSizeList(inner, _) = found.data_type()
    {
        let inner = inner.clone();
        found = inner;
        dimensions += 1;
    }
    (found, dimensions)
}

/// The number of dimensions of a field's type; 0 if it is no array.
pub(crate) fn depth(field: &Field) -> usize {
    leaf(field).1
}

/// A list type with the given number of dimensions.
pub(super) fn list_of(element: FieldRef, dimensions: usize) -> DataType {
    let named = |field: &Field| field.clone().with_name(Field::LIST_FIELD_DEFAULT_NAME);
    let mut field = named(&element).with_nullable(true);
    for _ in 1..dimensions {
        let list = DataType::List(field.into());
        field = Field::new(Field::LIST_FIELD_DEFAULT_NAME, list, true);
    }
    if dimensions == 0 {
        return field.data_type().clone();
    }
    DataType::List(field.into())
}

/// The type in which elements of two types are compared or combined.
pub(crate) fn common(function: &str, left: &Field, right: &Field) -> Result<FieldRef> {
    let (left_type, right_type) = (left.data_type(), right.data_type());
    let missing = || {
        let (left, right) = (type_name(left), type_name(right));
        PgError::undefined_function(&format!("function {function}({left}[], {right})"))
    };
    let chosen = match (left_type, right_type) {
        (DataType::Null, _) => right.clone(),
        (_, DataType::Null) => left.clone(),
        (left_type, right_type) if left_type == right_type => left.clone(),
        // A literal gets the other side's type.
        (left_type, right_type) if is_text(left_type) && !is_text(right_type) => right.clone(),
        (left_type, right_type) if is_text(right_type) && !is_text(left_type) => left.clone(),
        (left_type, right_type) => {
            let fields = [left, right].map(|field| (FieldRef::from(field.clone()), false));
            if let Some(common) = operators::common(&fields) {
                return Ok(common);
            }
            let common = comparison_coercion(left_type, right_type).ok_or_else(missing)?;
            Field::new("", common, true)
        }
    };
    Ok(chosen.into())
}

/// The elements of an array argument, cast to the type `leaf`.
pub(super) fn elements(row: &Row<'_>, argument: usize, leaf: &Field) -> Result<Vec<Value>> {
    let (array, at) = row.array(argument);
    read(array, at, leaf)
}

/// The elements of an array of one dimension: the elements of all rows, and the range of this
/// row's. `None` for more dimensions.
pub(super) fn flat_elements<'a>(
    row: &Row<'a>,
    argument: usize,
) -> Option<(&'a ArrayRef, Range<usize>)> {
    let (array, at) = row.array(argument);
    let (values, range) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let place = |at: usize| list.value_offsets()[at].as_usize();
            (list.values(), place(at)..place(at + 1))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let place = |at: usize| list.value_offsets()[at].as_usize();
            (list.values(), place(at)..place(at + 1))
        }
        _ => return None,
    };
    (!values.data_type().is_nested()).then_some((values, range))
}

/// One element of `values`.
pub(super) fn element(values: &ArrayRef, at: usize) -> Result<Value> {
    if values.is_null(at) {
        return Ok(Value::Null);
    }
    if *values.data_type() == DataType::Utf8 {
        return Ok(Value::Text(values.as_string::<i32>().value(at).to_owned()));
    }
    Ok(Value::Scalar(ScalarValue::try_from_array(values, at)?))
}

fn read(array: &ArrayRef, at: usize, leaf: &Field) -> Result<Vec<Value>> {
    let values = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(at),
        DataType::LargeList(_) => array.as_list::<i64>().value(at),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().value(at),
        _ => return Ok(vec![]),
    };
    let nested = matches!(
        values.data_type(),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    );
    let nulls = values.logical_nulls();
    let is_null = |at| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
    if nested {
        return (0..values.len())
            .map(|at| {
                if is_null(at) {
                    return Ok(Value::Null);
                }
                Ok(Value::List(read(&values, at, leaf)?))
            })
            .collect();
    }
    let values = converted(&values, leaf)?;
    (0..values.len())
        .map(|at| {
            if is_null(at) {
                return Ok(Value::Null);
            }
            Ok(Value::Scalar(ScalarValue::try_from_array(&values, at)?))
        })
        .collect()
}

/// An argument that is not an array, as a value of the type `leaf`.
pub(super) fn value(row: &Row<'_>, argument: usize, leaf: &Field) -> Result<Value> {
    if row.is_null(argument) {
        return Ok(Value::Null);
    }
    let (array, at) = row.array(argument);
    let one = converted(&array.slice(at, 1), leaf)?;
    Ok(Value::Scalar(ScalarValue::try_from_array(&one, 0)?))
}

/// Values as those of the type `leaf`.
pub(crate) fn converted(values: &ArrayRef, leaf: &Field) -> Result<ArrayRef> {
    if values.data_type() == leaf.data_type() {
        return Ok(values.clone());
    }
    let is_casts = match values.data_type() {
        DataType::Date32 => true,
        held => is_text(held) && !is_text(leaf.data_type()),
    };
    if is_casts && let Some(target) = Target::of_field(leaf) {
        let from = Field::new("", values.data_type().clone(), true);
        let context = Context::in_zone("+00:00");
        let cast = cast_array(values, &from, &target, &context)?;
        return arrow_cast(&cast, leaf.data_type());
    }
    arrow_cast(values, leaf.data_type())
}

/// The values below all dimensions, in order.
pub(super) fn flat(values: Vec<Value>) -> Vec<Value> {
    let mut out = vec![];
    for value in values {
        match value {
            Value::List(inner) => out.extend(flat(inner)),
            other => out.push(other),
        }
    }
    out
}

/// The length of each dimension; empty for an empty array.
///
/// # Errors
/// 2202E, if the array's lists differ in length.
pub(super) fn dimensions(values: &[Value]) -> Result<Vec<usize>> {
    if values.is_empty() {
        return Ok(vec![]);
    }
    let mut inner: Option<Vec<usize>> = None;
    for value in values {
        let found = match value {
            Value::List(list) => dimensions(list)?,
            _ => vec![],
        };
        if inner.as_ref().is_some_and(|known| *known != found) {
            let message = "multidimensional arrays must have array expressions with matching \
                           dimensions";
            return Err(PgError::new("2202E", message).into());
        }
        inner = Some(found);
    }
    let inner = inner.unwrap_or_default();
    if matches!(values.first(), Some(Value::List(list)) if list.is_empty()) {
        return Ok(vec![]);
    }
    let mut all = vec![values.len()];
    all.extend(inner);
    Ok(all)
}

/// The elements of an array of texts, or of the text of an array (`'{a,1}'`).
pub(crate) fn text_elements(row: &Row<'_>, argument: usize) -> Result<Vec<Option<String>>> {
    let (array, at) = row.array(argument);
    let spelled = if is_text(array.data_type()) {
        let texts = arrow_cast(array, &DataType::Utf8)?;
        let text = texts.as_string::<i32>().value(at).to_owned();
        let wrong = || PgError::new("22P02", format!("malformed array literal: \"{text}\""));
        return Ok(crate::dialect::elements(&text).ok_or_else(wrong)?);
    } else {
        Field::new("", DataType::Utf8, true)
    };
    let values = flat(elements(row, argument, &spelled)?).into_iter();
    Ok(values
        .map(|value| match value {
            Value::Scalar(value) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        })
        .collect())
}
