//! `as_array`, which the dialect inserts (`dialect/expressions/arrays.rs`).
//!
//! Here it reads texts and parameters. Beside a value of another type the analysis replaces it with
//! a cast (`analysis/mixed_types.rs`), because Arrow reads numerics, moments and intervals
//! differently from PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::dialect::{AS_ARRAY, elements};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    vec![ScalarUDF::new_from_impl(AsList {
        signature: signature(),
    })]
}

/// `as_array(text, x)`: parses the text as an array whose elements have the type of `x`. An
/// argument that already is an array is left as it is.
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
            // The comparison determines the common type: a cast of the array to integers would
            // truncate 1.5 to 1.
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

    /// Parses a constant array during planning: the comparison then becomes an IN list, and the
    /// array is not repeated for every row.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [Expr::Literal(array, _), value] = args.as_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let target = self.return_type(&[array.data_type(), info.get_data_type(value)?])?;
        Ok(match constant(array, &target) {
            Ok(array) => ExprSimplifyResult::Simplified(Expr::Literal(array, None)),
            // The error is left to execution, because it is only raised if a row is compared.
            Err(_) => ExprSimplifyResult::Original(args),
        })
    }
}

fn constant(array: &ScalarValue, target: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&lists(&array.to_array()?, target)?, 0)
}

/// Parses the texts, or takes the arrays as given, and casts their elements to those of `target`.
fn lists(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let lists: ArrayRef = match array.as_string_opt::<i32>() {
        Some(texts) => Arc::new(read(texts)?),
        None => Arc::clone(array),
    };
    // Not safe: an element that is not a number is an error, not NULL.
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
