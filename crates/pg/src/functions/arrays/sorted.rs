//! `sorted_array(array, descending, nulls_first)`: sorts the elements of each array.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

pub(crate) fn sorted_array() -> ScalarUDF {
    ScalarUDF::new_from_impl(SortedArray {
        signature: Signature::any(3, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SortedArray {
    signature: Signature,
}

impl ScalarUDFImpl for SortedArray {
    fn name(&self) -> &'static str {
        "sorted_array"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        array_field(self.name(), &args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (lists, options) = lists_and_order(self.name(), &args)?;
        Ok(ColumnarValue::Array(Arc::new(sorted(&lists, options)?)))
    }
}

/// The field of a function that returns arrays of its first argument's type.
pub(crate) fn array_field(function: &str, args: &ReturnFieldArgs) -> Result<FieldRef> {
    match args.arg_fields.first() {
        Some(array) => Ok(Arc::clone(array)),
        None => internal_err!("{function} takes an array"),
    }
}

/// The arguments of a function of `(array, descending, nulls_first)`, the last two of which are
/// constants: the arrays, and the order of their elements.
pub(crate) fn lists_and_order(
    function: &str,
    args: &ScalarFunctionArgs,
) -> Result<(ListArray, SortOptions)> {
    let [
        array,
        ColumnarValue::Scalar(ScalarValue::Boolean(Some(descending))),
        ColumnarValue::Scalar(ScalarValue::Boolean(Some(nulls_first))),
    ] = args.args.as_slice()
    else {
        return internal_err!("{function} takes an array and two constants");
    };
    let array = array.to_array(args.number_rows)?;
    match array.as_list_opt::<i32>() {
        Some(lists) => Ok((lists.clone(), SortOptions::new(*descending, *nulls_first))),
        None => internal_err!("{function} takes an array"),
    }
}

fn sorted(lists: &ListArray, options: SortOptions) -> Result<ListArray> {
    let DataType::List(element) = lists.data_type() else {
        return internal_err!("sorted_array takes a list");
    };
    let values = lists.values();
    let field = SortField::new_with_options(values.data_type().clone(), options);
    let keys = RowConverter::new(vec![field])?.convert_columns(std::slice::from_ref(values))?;
    let first = lists.value_offsets().first().copied().unwrap_or(0);
    let last = lists.value_offsets().last().copied().unwrap_or(0);
    let mut order: Vec<u32> = (first.unsigned_abs()..last.unsigned_abs()).collect();
    for bounds in lists.value_offsets().windows(2) {
        let [from, to] = [bounds[0], bounds[1]].map(|at| (at - first).unsigned_abs() as usize);
        order[from..to]
            .sort_by(|one, other| keys.row(*one as usize).cmp(&keys.row(*other as usize)));
    }
    let values: ArrayRef = take(values, &UInt32Array::from(order), None)?;
    let offsets = lists
        .value_offsets()
        .iter()
        .map(|at| at - first)
        .collect::<Vec<_>>();
    let offsets = datafusion::arrow::buffer::OffsetBuffer::new(offsets.into());
    let nulls = lists.nulls().cloned();
    Ok(ListArray::try_new(
        Arc::clone(element),
        offsets,
        values,
        nulls,
    )?)
}
