//! Arrays to text and back: `array_to_string`, `string_to_array`.

use std::sync::LazyLock;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::elements::leaf;
use crate::functions::scalar::Take::{Int, List, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::output::field_writer;

/// `pg_split_element(n, text, delimiter, null)`: `string_to_array(text, delimiter, null)[n]`
/// without building the array.
pub(super) fn split_element(index: Expr, of: &ScalarFunction) -> Option<Expr> {
    static UDF: LazyLock<ScalarUDF> = LazyLock::new(|| element_function().udf());
    let is_split = of.func.name() == SPLIT;
    is_split.then(|| {
        UDF.call(
            std::iter::once(index)
                .chain(of.args.iter().cloned())
                .collect(),
        )
    })
}

fn element_function() -> Function {
    let form = Form::new(&[Int, Text, Text, Text], Give::Text, |row| {
        let at = row.int_opt(0).and_then(|at| usize::try_from(at).ok());
        let (Some(text), Some(at)) = (row.text_opt(1), at.and_then(|at| at.checked_sub(1))) else {
            return Ok(Value::Null);
        };
        let part = match row.text_opt(2) {
            _ if text.is_empty() => None,
            None => text
                .char_indices()
                .nth(at)
                .map(|(at, letter)| &text[at..at + letter.len_utf8()]),
            Some("") => Some(text).filter(|_| at == 0),
            Some(delimiter) => text.split(delimiter).nth(at),
        };
        let part = part.filter(|part| Some(*part) != row.text_opt(3));
        Ok(part.map(ToOwned::to_owned).into())
    });
    Function::new("pg_split_element", vec![form.optional(1).called()])
}

const SPLIT: &str = "string_to_array";

pub(super) fn functions() -> Vec<Function> {
    let split = |name: &str| {
        let form = Form::new(&[Text, Text, Text], Give::Texts, split)
            .optional(1)
            .called();
        Function::new(name, vec![form])
    };
    vec![
        split(SPLIT),
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

/// The elements of an array of any number of dimensions, and their field. `None` if it has none.
fn leaves(row: &Row<'_>, argument: usize) -> Result<Option<(ArrayRef, Field)>> {
    let (array, at) = row.array(argument);
    let (mut values, mut leaf_field) = (array.slice(at, 1), row.field(argument).clone());
    let (last, levels) = leaf(row.field(argument));
    for _ in 0..levels {
        let lists = match values.data_type() {
            DataType::List(_) => values.clone(),
            DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
                crate::casts::arrow_cast(&values, &DataType::List(inner.clone()))?
            }
            _ => return Ok(None),
        };
        let lists = lists.as_list::<i32>();
        let parts: Vec<_> = (0..lists.len()).filter(|at| lists.is_valid(*at)).collect();
        let parts: Vec<_> = parts.into_iter().map(|at| lists.value(at)).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() {
            return Ok(None);
        }
        values = datafusion::arrow::compute::concat(&parts)?;
        leaf_field = last.as_ref().clone();
    }
    Ok(Some((values, leaf_field)))
}

/// The elements of an array in their output format.
pub(crate) fn shown_elements(row: &Row<'_>, argument: usize) -> Result<Vec<Option<String>>> {
    let Some((values, field)) = leaves(row, argument)? else {
        return Ok(vec![]);
    };
    let nulls = values.logical_nulls();
    let write = field_writer(&field, &values, false)?;
    let shown = (0..values.len()).map(|at| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
            return Ok(None);
        }
        let mut out = bytes::BytesMut::new();
        write(at, &mut out).map_err(|error| DataFusionError::External(error.into()))?;
        Ok(Some(String::from_utf8_lossy(&out).into_owned()))
    });
    shown.collect()
}

fn joined(row: &Row<'_>) -> Result<Value> {
    if row.is_null(0) || row.is_null(1) {
        return Ok(Value::Null);
    }
    let Some((values, field)) = leaves(row, 0)? else {
        return Ok(Value::Text(String::new()));
    };
    let nulls = values.logical_nulls();
    let write = field_writer(&field, &values, false)?;
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
