//! `float_key(x)`: the same float, but with 0 for -0 and one NaN for all; also for arrays of
//! floats.
//!
//! A group shows one of its values, not its key: `shown_float(key, least)` restores the sign of a
//! zero.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::casts::arrow_cast;

fn is_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(element) => is_float(element.data_type()),
        _ => false,
    }
}

/// Whether an expression is a float that is not a key yet.
pub(crate) fn is_float_key(expr: &Expr, schema: &DFSchema) -> bool {
    let made = match expr {
        Expr::ScalarFunction(call) => call.func.inner().downcast_ref::<FloatKey>().is_some(),
        _ => false,
    };
    !made && expr.get_type(schema).is_ok_and(|of| is_float(&of))
}

/// Converts a float to its key, so that equal floats have equal bits.
pub(crate) fn float_key(expr: Expr) -> Expr {
    ScalarUDF::from(FloatKey::new()).call(vec![expr])
}

/// Converts the expression to a key if it is a float.
pub(crate) fn as_float_key(expr: Expr, schema: &DFSchema) -> Expr {
    if is_float_key(&expr, schema) {
        float_key(expr)
    } else {
        expr
    }
}

/// The float whose key an expression is.
pub(crate) fn float_of_key<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a Expr> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    call.func.inner().downcast_ref::<FloatKey>()?;
    let float = call.args.first()?;
    let held = float.get_type(schema).ok()?;
    matches!(held, DataType::Float32 | DataType::Float64).then_some(float)
}

/// The value that a group shows: its key, or the least of its values if the key is zero.
pub(crate) fn shown_float(key: Expr, least: Expr) -> Expr {
    let signature = Signature::any(2, Volatility::Immutable);
    ScalarUDF::from(ShownFloat { signature }).call(vec![key, least])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ShownFloat {
    signature: Signature,
}

impl ScalarUDFImpl for ShownFloat {
    fn name(&self) -> &'static str {
        "shown_float"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let key = &args.arg_fields[0];
        let field = Field::new(self.name(), key.data_type().clone(), key.is_nullable());
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [keys, least] = arrays.as_slice() else {
            return plan_err!("shown_float takes a key and a float");
        };
        let zero = ScalarValue::new_zero(keys.data_type())?.to_scalar()?;
        let is_zero = eq(keys, &zero)?;
        Ok(ColumnarValue::Array(zip(&is_zero, least, keys)?))
    }
}

/// Whether a float's sign bit is set, as for -0; false for NULL. (C99's `signbit`.)
pub(crate) fn sign_bit(expr: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(SignBit { signature }).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SignBit {
    signature: Signature,
}

impl ScalarUDFImpl for SignBit {
    fn name(&self) -> &'static str {
        "sign_bit"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Boolean, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let floats = arrow_cast(&arrays[0], &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>().iter();
        let signs = floats.map(|float| Some(float.is_some_and(f64::is_sign_negative)));
        Ok(ColumnarValue::Array(Arc::new(
            signs.collect::<BooleanArray>(),
        )))
    }
}

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatKey {
    signature: Signature,
}

impl FloatKey {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for FloatKey {
    fn name(&self) -> &'static str {
        "float_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        Ok(ColumnarValue::Array(keys(&arrays[0])?))
    }
}

/// Converts floats to their keys; other values are unchanged.
pub(crate) fn keys(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>();
            Arc::new(values.unary::<_, Float64Type>(|value| {
                if value.is_nan() {
                    f64::NAN.abs()
                } else {
                    value + 0.0
                }
            }))
        }
        DataType::Float32 => {
            let values = values.as_primitive::<Float32Type>();
            Arc::new(values.unary::<_, Float32Type>(|value| {
                if value.is_nan() {
                    f32::NAN.abs()
                } else {
                    value + 0.0
                }
            }))
        }
        DataType::List(element) => {
            let list = values.as_list::<i32>();
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let keys = keys(list.values())?;
            let list = ListArray::try_new(Arc::clone(element), offsets, keys, nulls)?;
            Arc::new(list)
        }
        _ => Arc::clone(values),
    })
}
