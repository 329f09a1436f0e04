//! Arrays to text and back: `array_to_string`, `string_to_array`.

use datafusion::error::{DataFusionError, Result};

use super::elements::leaf;
use crate::functions::scalar::Take::{List, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::output::field_writer;

pub(super) fn functions() -> Vec<Function> {
    let split = |name: &str| {
        let form = Form::new(&[Text, Text, Text], Give::Texts, split)
            .optional(1)
            .called();
        Function::new(name, vec![form])
    };
    vec![
        split("string_to_array"),
        split("string_to_table_array"),
        Function::new(
            "array_to_string",
            vec![
                Form::new(&[List, Text, Text], Give::Text, joined)
                    .optional(1)
                    .called(),
            ],
        ),
    ]
}

fn split(row: &Row<'_>) -> Result<Value> {
    let Some(text) = row.text_opt(0) else {
        return Ok(Value::Null);
    };
    let null = row.text_opt(2);
    let part = |part: &str| (Some(part) != null).then(|| part.to_owned());
    Ok(Value::Texts(match row.text_opt(1) {
        _ if text.is_empty() => vec![],
        None => text
            .chars()
            .map(|letter| part(&letter.to_string()))
            .collect(),
        Some("") => vec![part(text)],
        Some(delimiter) => text.split(delimiter).map(part).collect(),
    }))
}

fn joined(row: &Row<'_>) -> Result<Value> {
    if row.is_null(0) || row.is_null(1) {
        return Ok(Value::Null);
    }
    let (array, at) = row.array(0);
    let (mut values, mut leaf_field) = (array.slice(at, 1), row.field(0).clone());
    let (last, levels) = leaf(row.field(0));
    for _ in 0..levels {
        use datafusion::arrow::array::{Array, AsArray};
        use datafusion::arrow::datatypes::DataType;
        let lists = match values.data_type() {
            DataType::List(_) => values.clone(),
            DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
                crate::casts::arrow_cast(&values, &DataType::List(inner.clone()))?
            }
            _ => return Ok(Value::Null),
        };
        let lists = lists.as_list::<i32>();
        let parts: Vec<_> = (0..lists.len()).filter(|at| lists.is_valid(*at)).collect();
        let parts: Vec<_> = parts.into_iter().map(|at| lists.value(at)).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(Value::Text(String::new()));
        }
        values = datafusion::arrow::compute::concat(&parts)?;
        leaf_field = last.as_ref().clone();
    }
    let nulls = values.logical_nulls();
    let write = field_writer(&leaf_field, &values, false)?;
    let mut out = bytes::BytesMut::new();
    let mut begun = false;
    for at in 0..values.len() {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
        if is_null && row.text_opt(2).is_none() {
            continue;
        }
        if begun {
            out.extend_from_slice(row.text(1).as_bytes());
        }
        begun = true;
        if is_null {
            out.extend_from_slice(row.text(2).as_bytes());
        } else {
            write(at, &mut out).map_err(|error| DataFusionError::External(error.into()))?;
        }
    }
    Ok(Value::Text(String::from_utf8_lossy(&out).into_owned()))
}
