//! Which values of a file have several encodings, and which encoding is kept?
//!
//! | a file's value | becomes | written by |
//! |---|---|---|
//! | a NaN of any sign and payload | the NaN of `f64::NAN` | numpy, which sets the sign |
//! | the second-lowest date or timestamp | the lowest: -infinity | `DuckDB` |
//!
//! Arrays are compared bit by bit, so with one encoding per value these comparisons are
//! PostgreSQL's. Only timestamps in microseconds can be infinite: no reader of ours takes a value
//! of another unit for infinity.
//! Not here: which of a footer's bounds are trusted (`guards/trusted.rs`).
//! Cost: one pass over each decoded batch of floats, dates and timestamps, while it is in the
//! cache; a batch without such a value is returned as it is.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, make_array,
};
use arrow::datatypes::{
    DataType, Date32Type, Float16Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;

/// The pass can stop only after a whole block of values.
const BLOCK: usize = 1024;

/// Whether values of this type can have several encodings.
#[must_use]
pub fn has_other_forms(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Float16 | T::Float32 | T::Float64 => true,
        T::Date32 | T::Timestamp(TimeUnit::Microsecond, _) => true,
        T::List(of) | T::LargeList(of) | T::ListView(of) | T::LargeListView(of) => {
            has_other_forms(of.data_type())
        }
        T::FixedSizeList(of, _) | T::Map(of, _) | T::RunEndEncoded(_, of) => {
            has_other_forms(of.data_type())
        }
        T::Dictionary(_, of) => has_other_forms(of),
        T::Struct(fields) => fields
            .iter()
            .any(|field| has_other_forms(field.data_type())),
        _ => false,
    }
}

/// The array with one encoding per value.
///
/// # Errors
/// Arrow's, if it cannot rebuild a nested array.
pub fn in_one_form(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    if array.data_type().is_primitive() {
        return Ok(primitive(&array).unwrap_or(array));
    }
    if !has_other_forms(array.data_type()) {
        return Ok(array);
    }
    Ok(nested(&array.to_data())?.map_or(array, make_array))
}

/// `None` if nothing changes.
fn nested(data: &ArrayData) -> Result<Option<ArrayData>, ArrowError> {
    if data.data_type().is_primitive() {
        let changed = primitive(&make_array(data.clone()));
        return Ok(changed.map(|array| array.to_data()));
    }
    let mut changed = false;
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        let own = nested(child)?;
        changed |= own.is_some();
        children.push(own.unwrap_or_else(|| child.clone()));
    }
    if !changed {
        return Ok(None);
    }
    let whole = data.clone().into_builder().child_data(children);
    whole.build().map(Some)
}

fn primitive(array: &ArrayRef) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::Float64 => replaced::<Float64Type>(
            array,
            |value| value.is_nan() & (value.to_bits() != f64::NAN.to_bits()),
            f64::NAN,
        ),
        DataType::Float32 => replaced::<Float32Type>(
            array,
            |value| value.is_nan() & (value.to_bits() != f32::NAN.to_bits()),
            f32::NAN,
        ),
        DataType::Float16 => {
            let nan = <Float16Type as ArrowPrimitiveType>::Native::NAN;
            let other = |value: <Float16Type as ArrowPrimitiveType>::Native| {
                value.is_nan() & (value.to_bits() != nan.to_bits())
            };
            replaced::<Float16Type>(array, other, nan)
        }
        DataType::Date32 => replaced::<Date32Type>(array, |day| day == i32::MIN + 1, i32::MIN),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            replaced::<TimestampMicrosecondType>(array, |moment| moment == i64::MIN + 1, i64::MIN)
        }
        _ => None,
    }
}

/// The array with `by` in place of each value for which `other` holds; `None` if there is none.
fn replaced<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    other: impl Fn(T::Native) -> bool,
    by: T::Native,
) -> Option<ArrayRef> {
    let array = array.as_primitive::<T>();
    let mut blocks = array.values().chunks(BLOCK);
    // The fold does not stop inside a block, so that the compiler can vectorise it.
    blocks
        .any(|block| {
            let mut values = block.iter();
            values
                .by_ref()
                .fold(false, |found, value| found | other(*value))
        })
        .then(|| {
            let one = |value| if other(value) { by } else { value };
            let values: PrimitiveArray<T> = array.unary(one);
            Arc::new(values.with_data_type(array.data_type().clone())) as ArrayRef
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{
        Date32Array, Float32Array, Float64Array, ListArray, StructArray, TimestampMicrosecondArray,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    fn bits(array: &ArrayRef) -> Vec<u64> {
        let values = array.as_primitive::<Float64Type>().values();
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn every_nan_becomes_the_same_nan() {
        let payload = f64::from_bits(0x7ff8_0000_0000_0123);
        let given: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, payload, -0.0, 1.0]));
        let one = in_one_form(given).unwrap();
        let nan = f64::NAN.to_bits();
        assert_eq!(
            bits(&one),
            [nan, nan, (-0.0_f64).to_bits(), 1.0_f64.to_bits()]
        );
        let singles: ArrayRef = Arc::new(Float32Array::from(vec![Some(-f32::NAN), None]));
        let one = in_one_form(singles).unwrap();
        let one = one.as_primitive::<Float32Type>();
        assert_eq!(one.value(0).to_bits(), f32::NAN.to_bits());
        assert!(one.is_null(1));
    }

    #[test]
    fn an_array_in_one_form_is_not_copied() {
        let given: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.0]));
        let before = given.as_primitive::<Float64Type>().values().as_ptr();
        let after = in_one_form(given).unwrap();
        assert_eq!(
            after.as_primitive::<Float64Type>().values().as_ptr(),
            before
        );
    }

    #[test]
    fn the_second_lowest_moment_becomes_the_lowest() {
        let moments = TimestampMicrosecondArray::from(vec![i64::MIN + 1, i64::MAX, 0]);
        let moments: ArrayRef = Arc::new(moments.with_timezone("UTC"));
        let one = in_one_form(Arc::clone(&moments)).unwrap();
        assert_eq!(one.data_type(), moments.data_type());
        let values = one
            .as_primitive::<TimestampMicrosecondType>()
            .values()
            .to_vec();
        assert_eq!(values, [i64::MIN, i64::MAX, 0]);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![i32::MIN + 1, 7]));
        let one = in_one_form(days).unwrap();
        assert_eq!(
            one.as_primitive::<Date32Type>().values().to_vec(),
            [i32::MIN, 7]
        );
    }

    #[test]
    fn elements_and_fields_are_converted_too() {
        let rows = vec![
            Some(vec![Some(1)]),
            None,
            Some(vec![Some(i32::MIN + 1), None]),
        ];
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
        let element = arrow::datatypes::Field::new_list_field(DataType::Date32, true);
        let days = arrow::compute::cast(&list, &DataType::List(Arc::new(element))).unwrap();
        let field = arrow::datatypes::Field::new("l", days.data_type().clone(), true);
        let whole: ArrayRef = Arc::new(StructArray::from(vec![(Arc::new(field), days)]));
        let read = in_one_form(whole.slice(1, 2)).unwrap();
        let found = read.as_struct().column(0).as_list::<i32>().clone();
        assert!(found.is_null(0));
        let second = found.value(1);
        let second = second.as_primitive::<Date32Type>();
        assert_eq!((second.value(0), second.is_null(1)), (i32::MIN, true));
    }
}
