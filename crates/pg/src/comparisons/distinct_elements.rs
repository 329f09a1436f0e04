//! `distinct_elements(array, descending, nulls_first)`: the distinct elements of each array, in
//! order. They are compared by keys (`functions/keys.rs`).

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BinaryArray, ListArray, UInt32Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use crate::functions::{array_field, key_bytes, lists_and_order};

/// The distinct elements of an array, sorted.
pub(crate) fn distinct_elements(array: Expr, is_ascending: bool, nulls_first: bool) -> Expr {
    called().call(vec![array, lit(!is_ascending), lit(nulls_first)])
}

/// The function that gives them.
pub(super) fn called() -> ScalarUDF {
    ScalarUDF::from(DistinctElements {
        signature: Signature::any(3, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DistinctElements {
    signature: Signature,
}

impl ScalarUDFImpl for DistinctElements {
    fn name(&self) -> &'static str {
        "distinct_elements"
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
        let DataType::List(element) = args.arg_fields[0].data_type() else {
            return internal_err!("distinct_elements takes an array");
        };
        let distinct = distinct(&lists, element, options)?;
        Ok(ColumnarValue::Array(Arc::new(distinct)))
    }
}

fn distinct(lists: &ListArray, element: &Field, options: SortOptions) -> Result<ListArray> {
    let DataType::List(held) = lists.data_type() else {
        return internal_err!("distinct_elements takes a list");
    };
    let keys = key_bytes(lists.values(), element)?;
    let (mut kept, mut lengths) = (vec![], vec![]);
    for bounds in lists.value_offsets().windows(2) {
        let mut places: Vec<u32> = (bounds[0].unsigned_abs()..bounds[1].unsigned_abs()).collect();
        places.sort_by(|one, other| order(key(&keys, *one), key(&keys, *other), options));
        places.dedup_by(|one, other| key(&keys, *one) == key(&keys, *other));
        lengths.push(places.len());
        kept.append(&mut places);
    }
    let values: ArrayRef = take(lists.values(), &UInt32Array::from(kept), None)?;
    Ok(ListArray::try_new(
        Arc::clone(held),
        OffsetBuffer::from_lengths(lengths),
        values,
        lists.nulls().cloned(),
    )?)
}

fn key(keys: &BinaryArray, at: u32) -> Option<&[u8]> {
    let at = at as usize;
    keys.is_valid(at).then(|| keys.value(at))
}

fn order(one: Option<&[u8]>, other: Option<&[u8]>, options: SortOptions) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) if options.descending => other.cmp(one),
        (Some(one), Some(other)) => one.cmp(other),
        (one, other) if options.nulls_first => one.is_some().cmp(&other.is_some()),
        (one, other) => other.is_some().cmp(&one.is_some()),
    }
}
