//! `array_or_empty(array)`: an empty array in place of NULL, which `array_agg` gives for no rows
//! (`dialect/arrays.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::dialect::ARRAY_OR_EMPTY;

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(ArrayOrEmpty {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayOrEmpty {
    signature: Signature,
}

impl ScalarUDFImpl for ArrayOrEmpty {
    fn name(&self) -> &str {
        ARRAY_OR_EMPTY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [list @ DataType::List(_)] => Ok(list.clone()),
            _ => plan_err!("{ARRAY_OR_EMPTY} takes an array"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [given] = args.arg_fields else {
            return plan_err!("{ARRAY_OR_EMPTY} takes an array");
        };
        self.return_type(&[given.data_type().clone()])?;
        Ok(Arc::new(given.as_ref().clone().with_name(self.name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(without_nulls(array)?)),
            [ColumnarValue::Scalar(value)] => {
                let array = without_nulls(&value.to_array()?)?;
                let value = ScalarValue::try_from_array(&array, 0)?;
                Ok(ColumnarValue::Scalar(value))
            }
            _ => internal_err!("{ARRAY_OR_EMPTY} takes an array"),
        }
    }
}

/// The lists without their mark for NULL. A list that was NULL keeps no element.
fn without_nulls(array: &ArrayRef) -> Result<ArrayRef> {
    if array.null_count() == 0 {
        return Ok(Arc::clone(array));
    }
    let lists = array.as_list::<i32>();
    let DataType::List(element) = lists.data_type() else {
        return internal_err!("a list without an element");
    };
    let lengths = (0..lists.len()).map(|row| {
        if lists.is_null(row) {
            0
        } else {
            usize::try_from(lists.value_length(row)).unwrap_or(0)
        }
    });
    let kept: Vec<ArrayRef> = (0..lists.len())
        .filter(|row| lists.is_valid(*row))
        .map(|row| lists.value(row))
        .collect();
    let kept: Vec<&dyn Array> = kept.iter().map(AsRef::as_ref).collect();
    let values = if kept.is_empty() {
        lists.values().slice(0, 0)
    } else {
        datafusion::arrow::compute::concat(&kept)?
    };
    let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(Arc::clone(element), offsets, values, None)?;
    Ok(Arc::new(lists))
}
