//! The values that functions return, and the arrays built from them.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray,
    StringArray, StructArray, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;

use super::typed_field;

/// The type of a function's result.
#[expect(
    dead_code,
    reason = "the enum is complete, although some variants are unused"
)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Give {
    Text,
    Int4,
    Int8,
    Float,
    Bool,
    Bytes,
    Texts,
    /// An array of text arrays, one for each row of a set-returning function.
    Lists,
    /// A text marked as this type, which Arrow lacks.
    Marked(&'static str),
    /// An array of texts marked as this type.
    Marks(&'static str),
    /// An array of rows of two texts, the second marked as this type (or `text`).
    Pairs(&'static str),
    Of(fn(&[FieldRef]) -> Result<FieldRef>),
}

impl Give {
    pub(super) fn field(self, name: &str, given: &[FieldRef]) -> Result<FieldRef> {
        let plain = |data_type| Ok(Arc::new(Field::new(name, data_type, true)));
        match self {
            Self::Text => plain(DataType::Utf8),
            Self::Int4 => plain(DataType::Int32),
            Self::Int8 => plain(DataType::Int64),
            Self::Float => plain(DataType::Float64),
            Self::Bool => plain(DataType::Boolean),
            Self::Bytes => plain(DataType::Binary),
            Self::Texts => plain(texts()),
            Self::Lists => plain(DataType::new_list(texts(), true)),
            Self::Marked(pg_type) => Ok(Arc::new(typed_field(name, DataType::Utf8, pg_type))),
            Self::Marks(pg_type) => {
                let element = typed_field(Field::LIST_FIELD_DEFAULT_NAME, DataType::Utf8, pg_type);
                plain(DataType::List(Arc::new(element)))
            }
            Self::Pairs(pg_type) => {
                let pair = DataType::Struct(pair(pg_type).into());
                plain(DataType::new_list(pair, true))
            }
            Self::Of(field) => field(given),
        }
    }
}

fn texts() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

fn pair(pg_type: &'static str) -> Vec<Field> {
    let key = Field::new("key", DataType::Utf8, true);
    let value = match pg_type {
        "text" => Field::new("value", DataType::Utf8, true),
        marked => typed_field("value", DataType::Utf8, marked),
    };
    vec![key, value]
}

/// The result for one row.
#[expect(
    dead_code,
    reason = "the enum is complete, although some variants are unused"
)]
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Bytes(Vec<u8>),
    Texts(Vec<Option<String>>),
    Lists(Vec<Vec<Option<String>>>),
    Pairs(Vec<(String, Option<String>)>),
    /// An element of an array, or a value of any type.
    Scalar(ScalarValue),
    /// An array of any element type.
    List(Vec<Value>),
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Null, Self::Text)
    }
}

macro_rules! primitives {
    ($values:expr, $kind:ident, $array:ty, $convert:expr) => {{
        let cells = $values.into_iter().map(|value| match value {
            Value::$kind(value) => $convert(value).map(Some),
            _ => Ok(None),
        });
        Arc::new(cells.collect::<Result<$array>>()?) as ArrayRef
    }};
}

/// Builds the array of a column from its values.
pub(super) fn array(values: Vec<Value>, field: &Field) -> Result<ArrayRef> {
    Ok(match field.data_type() {
        _ if values.iter().any(|value| matches!(value, Value::Scalar(_))) => {
            scalars(values, field.data_type())?
        }
        DataType::Utf8 => primitives!(values, Text, StringArray, Ok),
        DataType::Int32 => primitives!(values, Int, Int32Array, int4),
        DataType::Int64 => primitives!(values, Int, Int64Array, Ok),
        DataType::Float64 => primitives!(values, Float, Float64Array, Ok),
        DataType::Boolean => primitives!(values, Bool, BooleanArray, Ok),
        DataType::Binary => {
            let cells = values.iter().map(|value| match value {
                Value::Bytes(bytes) => Some(bytes.as_slice()),
                _ => None,
            });
            Arc::new(cells.collect::<BinaryArray>())
        }
        DataType::List(element) => list(values, element)?,
        other => scalars(values, other)?,
    })
}

fn int4(value: i64) -> Result<i32> {
    i32::try_from(value).map_err(|_| crate::PgError::out_of_range("integer").into())
}

fn scalars(values: Vec<Value>, data_type: &DataType) -> Result<ArrayRef> {
    let null = ScalarValue::try_from(data_type)?;
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let values = values.into_iter().map(|value| match value {
        Value::Scalar(scalar) if scalar.data_type() == *data_type => Ok(scalar),
        Value::Scalar(scalar) => scalar.cast_to(data_type),
        _ => Ok(null.clone()),
    });
    ScalarValue::iter_to_array(values.collect::<Result<Vec<_>>>()?)
}

fn list(values: Vec<Value>, element: &FieldRef) -> Result<ArrayRef> {
    let nulls: Vec<bool> = values
        .iter()
        .map(|value| !matches!(value, Value::Null))
        .collect();
    let mut lengths = Vec::with_capacity(values.len());
    let (mut keys, mut texts, mut lists, mut elements) = (vec![], vec![], vec![], vec![]);
    let is_general = values.iter().any(|value| matches!(value, Value::List(_)));
    for value in values {
        match value {
            Value::Null => lengths.push(0),
            Value::Texts(elements) => {
                lengths.push(elements.len());
                texts.extend(elements);
            }
            Value::List(list) => {
                lengths.push(list.len());
                elements.extend(list);
            }
            Value::Lists(elements) => {
                lengths.push(elements.len());
                lists.extend(elements.into_iter().map(Value::Texts));
            }
            Value::Pairs(pairs) => {
                lengths.push(pairs.len());
                for (key, value) in pairs {
                    keys.push(key);
                    texts.push(value);
                }
            }
            other => return internal_err!("unexpected list element {other:?}"),
        }
    }
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let elements: ArrayRef = match element.data_type() {
        _ if is_general => array(elements, element)?,
        nested if keys.is_empty() && texts.is_empty() && lists.is_empty() => {
            new_empty_array(nested)
        }
        DataType::List(inner) => list(lists, inner)?,
        DataType::Struct(fields) => {
            let keys: ArrayRef = Arc::new(StringArray::from(keys));
            Arc::new(StructArray::try_new(
                fields.clone(),
                vec![keys, texts],
                None,
            )?)
        }
        _ => texts,
    };
    Ok(Arc::new(ListArray::try_new(
        element.clone(),
        OffsetBuffer::from_lengths(lengths),
        elements,
        Some(NullBuffer::from(nulls)),
    )?))
}
