//! `to_char` and `to_number`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::format::TO_CHAR;
use super::rowwise::{invoke, overload, undefined};
use crate::casts::{self, Target, arrow_cast, cast_array};
use crate::time::formats::{Number, NumberPattern};

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(ToChar {
        signature: Signature::user_defined(Volatility::Stable),
    })
}

pub(super) fn to_number() -> ScalarUDF {
    ScalarUDF::new_from_impl(ToNumber {
        signature: Signature::user_defined(Volatility::Stable),
    })
}

/// `to_number(text, pattern)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToNumber {
    signature: Signature,
}

impl ScalarUDFImpl for ToNumber {
    fn name(&self) -> &'static str {
        "to_number"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        if given.len() != 2 || !given.iter().all(is_text) {
            return Err(undefined("to_number", given).into());
        }
        Ok(vec![DataType::Utf8, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(Target::Numeric(None).arrow(&DataType::Utf8))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [texts, patterns] = arrays.as_slice() else {
            return internal_err!("to_number takes two arguments");
        };
        let (texts, patterns) = (texts.as_string::<i32>(), patterns.as_string::<i32>());
        let mut numbers = StringBuilder::new();
        for (text, pattern) in texts.iter().zip(patterns) {
            match (text, pattern) {
                (Some(text), Some(pattern)) if !pattern.is_empty() => {
                    numbers.append_value(NumberPattern::new(pattern)?.read(text)?);
                }
                _ => numbers.append_null(),
            }
        }
        let numbers: ArrayRef = Arc::new(numbers.finish());
        let context = casts::Context::of(&args.config_options);
        let field = Field::new("text", DataType::Utf8, true);
        let array = cast_array(&numbers, &field, &Target::Numeric(None), &context)?;
        if is_scalar {
            let value = ScalarValue::try_from_array(&array, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// `to_char(x, pattern)` for times and numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    signature: Signature,
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &'static str {
        "to_char"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [number, _] if number.is_numeric() => Ok(vec![number.clone(), DataType::Utf8]),
            [of, _] if matches!(of, DataType::Boolean) => Err(undefined("to_char", given).into()),
            _ => {
                overload("to_char", TO_CHAR, given)?;
                Ok(given.to_vec())
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.arg_fields[0].data_type().is_numeric() {
            return invoke("to_char", TO_CHAR, false, &args);
        }
        let is_scalar = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [numbers, patterns] = arrays.as_slice() else {
            return internal_err!("to_char takes two arguments");
        };
        let context = casts::Context::of(&args.config_options);
        let texts = numbers_of(numbers, &args, &context)?;
        let patterns = arrow_cast(patterns, &DataType::Utf8)?;
        let patterns = patterns.as_string::<i32>();
        let mut out = StringBuilder::new();
        let mut known: Option<(String, NumberPattern)> = None;
        for row in 0..numbers.len() {
            if numbers.is_null(row) || patterns.is_null(row) {
                out.append_null();
                continue;
            }
            let text = patterns.value(row);
            if text.is_empty() {
                out.append_value("");
                continue;
            }
            let pattern = match &known {
                Some((of, pattern)) if of == text => pattern,
                _ => &known.insert((text.to_owned(), NumberPattern::new(text)?)).1,
            };
            out.append_value(pattern.write(&texts(row))?);
        }
        let array: ArrayRef = Arc::new(out.finish());
        if is_scalar {
            let value = ScalarValue::try_from_array(&array, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// Returns a function that reads the number of each row.
fn numbers_of(
    numbers: &ArrayRef,
    args: &ScalarFunctionArgs,
    context: &casts::Context,
) -> Result<Box<dyn Fn(usize) -> Number>> {
    use datafusion::arrow::datatypes::{Float32Type, Float64Type};
    if let Some(floats) = numbers.as_primitive_opt::<Float64Type>().cloned() {
        return Ok(Box::new(move |row| Number::Float(floats.value(row), 15)));
    }
    if let Some(floats) = numbers.as_primitive_opt::<Float32Type>().cloned() {
        return Ok(Box::new(move |row| {
            Number::Float(f64::from(floats.value(row)), 6)
        }));
    }
    let texts = cast_array(numbers, &args.arg_fields[0], &Target::Text, context)?;
    let texts = arrow_cast(&texts, &DataType::Utf8)?;
    let is_integer = numbers.data_type().is_integer();
    let texts = texts.as_string::<i32>().clone();
    Ok(Box::new(move |row| {
        let text = texts.value(row).to_owned();
        if is_integer {
            Number::Integer(text)
        } else {
            Number::Numeric(text)
        }
    }))
}
