//! `as_array` and `subscripts`, which the dialect's rewriting calls (`dialect/arrays.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::dialect::{AS_ARRAY, SUBSCRIPTS, elements};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    vec![
        ScalarUDF::new_from_impl(AsList {
            signature: signature(),
        }),
        ScalarUDF::new_from_impl(Subscripts {
            signature: signature(),
        }),
    ]
}

/// `as_array(text, x)`: turns the text of an array into an array whose elements have the type of
/// `x`. An argument that is an array stays as it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsList {
    signature: Signature,
}

impl ScalarUDFImpl for AsList {
    fn name(&self) -> &str {
        AS_ARRAY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            // The comparison decides the common type: casting the array to integers would cut 1.5
            // to 1.
            [array, _] if array.is_list() => Ok(array.clone()),
            [_, DataType::Null] => Ok(DataType::new_list(DataType::Utf8, true)),
            [_, element] => Ok(DataType::new_list(element.clone(), true)),
            _ => plan_err!("{AS_ARRAY} takes an array and a value"),
        }
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [array, element] if array.is_list() => Ok(vec![array.clone(), element.clone()]),
            [_, element] => Ok(vec![DataType::Utf8, element.clone()]),
            _ => plan_err!("{AS_ARRAY} takes an array and a value"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let target = args.return_type().clone();
        let [array, _] = args.args.as_slice() else {
            return plan_err!("{AS_ARRAY} takes an array and a value");
        };
        match array {
            ColumnarValue::Scalar(array) => Ok(ColumnarValue::Scalar(constant(array, &target)?)),
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(lists(array, &target)?)),
        }
    }

    /// Reads a constant array when the query is planned, whatever it is compared with: the
    /// comparison becomes an IN list, and the array is not written out for every row.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [Expr::Literal(array, _), value] = args.as_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let target = self.return_type(&[array.data_type(), info.get_data_type(value)?])?;
        Ok(match constant(array, &target) {
            Ok(array) => ExprSimplifyResult::Simplified(Expr::Literal(array, None)),
            // The error is left to execution: it belongs to a row that is compared, if there is
            // one.
            Err(_) => ExprSimplifyResult::Original(args),
        })
    }
}

fn constant(array: &ScalarValue, target: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&lists(&array.to_array()?, target)?, 0)
}

/// The arrays that the texts spell, or the arrays as given, with `target`'s element type.
fn lists(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let lists: ArrayRef = match array.as_string_opt::<i32>() {
        Some(texts) => Arc::new(read(texts)?),
        None => Arc::clone(array),
    };
    // Not safe: an element that is no number is an error, not a NULL.
    let options = CastOptions {
        safe: false,
        ..Default::default()
    };
    Ok(cast_with_options(&lists, target, &options)?)
}

fn read(texts: &StringArray) -> Result<ListArray> {
    let mut found: Vec<Option<String>> = vec![];
    let mut lengths = Vec::with_capacity(texts.len());
    for text in texts {
        let before = found.len();
        if let Some(text) = text {
            let Some(read) = elements(text) else {
                let message = format!("malformed array literal: \"{text}\"");
                return Err(DataFusionError::Execution(message));
            };
            found.extend(read);
        }
        lengths.push(found.len() - before);
    }
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    Ok(ListArray::try_new(
        field,
        OffsetBuffer::from_lengths(lengths),
        Arc::new(StringArray::from(found)),
        texts
            .nulls()
            .cloned()
            .map(|nulls| NullBuffer::new(nulls.into_inner())),
    )?)
}

/// `subscripts(array, dimension)`: 1, 2, …, one number for each element of an array.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Subscripts {
    signature: Signature,
}

impl ScalarUDFImpl for Subscripts {
    fn name(&self) -> &str {
        SUBSCRIPTS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::new_list(DataType::Int32, true))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [list, _] if list.is_list() => Ok(vec![list.clone(), DataType::Int64]),
            // PostgreSQL's vectors, which the catalog keeps as text.
            [DataType::Utf8 | DataType::Null, _] => Ok(vec![DataType::Utf8, DataType::Int64]),
            _ => plan_err!("{SUBSCRIPTS} takes an array and a dimension"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array, dimensions] = arrays.as_slice() else {
            return plan_err!("{SUBSCRIPTS} takes an array and a dimension");
        };
        // The coercion leaves a bare NULL without a type.
        let dimensions = cast(dimensions, &DataType::Int64)?;
        let dimensions = dimensions.as_primitive::<Int64Type>();
        let list = DataType::new_list(DataType::Utf8, true);
        let lists: ListArray = match array.as_string_opt::<i32>() {
            Some(texts) => {
                let braced: StringArray = texts
                    .iter()
                    .map(|text| text.map(|text| format!("{{{}}}", text.replace(' ', ","))))
                    .collect();
                read(&braced)?
            }
            None if array.data_type() == &list => array.as_list::<i32>().clone(),
            None => cast(array, &list)?.as_list::<i32>().clone(),
        };
        let subscripts = ListArray::from_iter_primitive::<Int32Type, _, _>(
            lists.iter().zip(dimensions).map(|(list, dimension)| {
                let elements = if dimension? == 1 { list?.len() } else { 0 };
                Some((1..=i32::try_from(elements).unwrap_or(i32::MAX)).map(Some))
            }),
        );
        Ok(ColumnarValue::Array(Arc::new(subscripts)))
    }
}
