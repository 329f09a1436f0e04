//! In how few bytes can a batch be stored?
//!
//! Idea: decoded arrays are the largest data in memory, allocating memory is expensive, and most
//! numbers are small. So a batch of integers, dates or decimals becomes integers of one, two, four
//! or eight bytes, as its own values require, and dictionary keys become as short as the
//! dictionary allows. The values decide, not the file's statistics, so nothing has to be trusted
//! or checked, and a single large value widens one batch, not a column. Only one batch is decoded
//! wide at a time; the allocator reuses its memory for the next.
//! Not here: the meaning of the numbers (coscan's `read/compact.rs` knows the type that the plan
//! wants, and widens), and which consumers request narrow arrays.
//! N1: values, nulls and their order are kept; a decimal becomes its digits as an integer.
//! N2: an array that cannot become narrower is returned as it is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, DictionaryArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Int8Type, Int16Type, Int32Type, Int64Type,
};

/// The same values in fewer bytes: integers of 8, 16, 32 or 64 bits for integers, dates and
/// decimals, shorter keys for dictionaries of strings. An array of another type, or one that
/// cannot be narrowed, is returned as it is.
#[must_use]
pub fn narrowest(array: ArrayRef) -> ArrayRef {
    let narrower = match array.data_type() {
        DataType::Int16 => narrower(array.as_primitive::<Int16Type>()),
        DataType::Int32 => narrower(array.as_primitive::<Int32Type>()),
        DataType::Int64 => narrower(array.as_primitive::<Int64Type>()),
        DataType::Date32 => narrower(array.as_primitive::<Date32Type>()),
        DataType::Decimal32(..) => narrower(array.as_primitive::<Decimal32Type>()),
        DataType::Decimal64(..) => narrower(array.as_primitive::<Decimal64Type>()),
        DataType::Decimal128(..) => narrower(array.as_primitive::<Decimal128Type>()),
        DataType::Dictionary(key, _) if **key == DataType::Int32 => {
            let references = array.as_dictionary::<Int32Type>();
            let keys = references.values().len();
            if keys <= KEYS_OF_8_BITS {
                shorter::<Int8Type>(references)
            } else if keys <= KEYS_OF_16_BITS {
                shorter::<Int16Type>(references)
            } else {
                None
            }
        }
        _ => None,
    };
    narrower.unwrap_or(array)
}

/// Keys are signed.
const KEYS_OF_8_BITS: usize = 1 << 7;
const KEYS_OF_16_BITS: usize = 1 << 15;

/// An integer type of the decoder's arrays.
trait Whole: Copy {
    /// The number of bits of the type.
    const BITS: u32;
    /// The most bits that any of the values needs, its sign included.
    fn needed(values: &[Self]) -> u32;
    fn low_8(self) -> i8;
    fn low_16(self) -> i16;
    fn low_32(self) -> i32;
    fn low_64(self) -> i64;
}

macro_rules! whole {
    ($($native:ty, $unsigned:ty;)*) => {$(
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_lossless,
            trivial_numeric_casts,
            reason = "only the low bits are wanted"
        )]
        impl Whole for $native {
            const BITS: u32 = <$native>::BITS;
            fn needed(values: &[Self]) -> u32 {
                // A number, or the complement of a negative one, is below 2^(n - 1) iff n bits hold
                // it.
                let ones = values.iter().fold(0, |ones: $unsigned, value| {
                    ones | (value ^ (value >> (<$native>::BITS - 1))).cast_unsigned()
                });
                1 + <$unsigned>::BITS - ones.leading_zeros()
            }
            fn low_8(self) -> i8 {
                self as i8
            }
            fn low_16(self) -> i16 {
                self as i16
            }
            fn low_32(self) -> i32 {
                self as i32
            }
            fn low_64(self) -> i64 {
                self as i64
            }
        }
    )*};
}

whole! { i16, u16; i32, u32; i64, u64; i128, u128; }

/// The array with fewer bits per value, if they suffice. The value under a NULL counts too: it is
/// a copy of another value of the batch, or 0.
fn narrower<T>(array: &PrimitiveArray<T>) -> Option<ArrayRef>
where
    T: ArrowPrimitiveType<Native: Whole>,
{
    let (values, nulls) = (array.values(), array.nulls());
    let bits = <T::Native as Whole>::BITS;
    let needed = T::Native::needed(values);
    let fits = |width: u32| needed <= width && bits > width;
    if fits(8) {
        Some(made::<Int8Type>(values.iter().map(|v| v.low_8()), nulls))
    } else if fits(16) {
        Some(made::<Int16Type>(values.iter().map(|v| v.low_16()), nulls))
    } else if fits(32) {
        Some(made::<Int32Type>(values.iter().map(|v| v.low_32()), nulls))
    } else if fits(64) {
        Some(made::<Int64Type>(values.iter().map(|v| v.low_64()), nulls))
    } else {
        None
    }
}

fn made<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = T::Native>,
    nulls: Option<&NullBuffer>,
) -> ArrayRef {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0).cloned();
    Arc::new(PrimitiveArray::<T>::new(values.collect(), nulls))
}

/// The array with shorter keys of type `K`. `None` if a key does not fit although the dictionary
/// is small enough; the array is then kept.
fn shorter<K>(references: &DictionaryArray<Int32Type>) -> Option<ArrayRef>
where
    K: ArrowDictionaryKeyType,
    K::Native: Key,
{
    let keys = references.keys();
    let short = keys.values().iter().map(|key| K::Native::of(*key));
    let keys = PrimitiveArray::<K>::new(short.collect(), keys.nulls().cloned());
    let shorter = DictionaryArray::try_new(keys, Arc::clone(references.values())).ok()?;
    Some(Arc::new(shorter))
}

/// A key of a small dictionary.
trait Key {
    /// The low bits of the key. Under a NULL any value may occur.
    fn of(key: i32) -> Self;
}

impl Key for i8 {
    fn of(key: i32) -> Self {
        key.low_8()
    }
}

impl Key for i16 {
    fn of(key: i32) -> Self {
        key.low_16()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::{Date32Array, Decimal128Array, Int32Array, Int64Array, StringArray};
    use arrow::compute::cast;
    use proptest::prelude::*;

    use super::*;

    fn near(bits: u32) -> impl Strategy<Value = i64> {
        let edge = 1i64 << (bits - 1);
        (-3i64..3).prop_flat_map(move |off| {
            prop_oneof![
                Just(edge.wrapping_add(off)),
                Just((-edge).wrapping_add(off)),
                Just(off)
            ]
        })
    }

    fn batch() -> impl Strategy<Value = Vec<Option<i64>>> {
        let value = prop_oneof![near(8), near(16), near(32), Just(i64::MAX), Just(i64::MIN)];
        let narrow = prop_oneof![Just(8u32), Just(16), Just(32)];
        prop_oneof![
            prop::collection::vec(prop::option::weighted(0.9, value), 0..40),
            narrow.prop_flat_map(|bits| {
                prop::collection::vec(prop::option::weighted(0.9, near(bits)), 0..40)
            }),
        ]
    }

    /// The expected type: the smallest one that holds all values.
    fn smallest(values: &[Option<i64>]) -> DataType {
        let holds = |low: i64, high: i64| values.iter().flatten().all(|v| *v >= low && *v <= high);
        if holds(i8::MIN.into(), i8::MAX.into()) {
            DataType::Int8
        } else if holds(i16::MIN.into(), i16::MAX.into()) {
            DataType::Int16
        } else if holds(i32::MIN.into(), i32::MAX.into()) {
            DataType::Int32
        } else {
            DataType::Int64
        }
    }

    proptest! {
        #[test]
        fn values_stay_and_take_the_fewest_bytes(values in batch()) {
            let expected = Int64Array::from(values.clone());
            let narrow = narrowest(Arc::new(expected.clone()));
            prop_assert_eq!(narrow.data_type(), &smallest(&values));
            let wide = cast(&narrow, &DataType::Int64).unwrap();
            prop_assert_eq!(wide.as_primitive::<Int64Type>(), &expected);

            let digits: Decimal128Array = values.iter().map(|v| v.map(i128::from)).collect();
            let digits = digits.with_precision_and_scale(38, 7).unwrap();
            let narrow = narrowest(Arc::new(digits));
            prop_assert_eq!(narrow.data_type(), &smallest(&values));
            let wide = cast(&narrow, &DataType::Int64).unwrap();
            prop_assert_eq!(wide.as_primitive::<Int64Type>(), &expected);
        }
    }

    #[test]
    fn decimals_beyond_64_bits_stay() {
        for beyond in [
            i128::from(i64::MAX) + 1,
            i128::from(i64::MIN) - 1,
            i128::MAX,
        ] {
            let digits: ArrayRef = Arc::new(Decimal128Array::from(vec![1, beyond]));
            assert!(Arc::ptr_eq(&narrowest(Arc::clone(&digits)), &digits));
        }
    }

    #[test]
    fn days_take_two_bytes_and_nulls_take_one() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(8_036), None, Some(10_591)]));
        assert_eq!(narrowest(days).data_type(), &DataType::Int16);
        let far: ArrayRef = Arc::new(Date32Array::from(vec![Some(i32::MAX), None]));
        assert!(Arc::ptr_eq(&narrowest(Arc::clone(&far)), &far));
        let nothing = narrowest(Arc::new(Int64Array::new_null(5)));
        assert_eq!(
            (nothing.data_type(), nothing.null_count()),
            (&DataType::Int8, 5)
        );
        assert_eq!(
            narrowest(Arc::new(Int32Array::from(vec![7]))).data_type(),
            &DataType::Int8
        );
    }

    #[test]
    fn keys_are_as_short_as_the_dictionary_allows() {
        for (values, key) in [
            (1, DataType::Int8),
            (128, DataType::Int8),
            (129, DataType::Int16),
            (32_768, DataType::Int16),
            (32_769, DataType::Int32),
        ] {
            let strings: StringArray = (0..values).map(|n| Some(n.to_string())).collect();
            let keys = Int32Array::from(vec![Some(0), None, Some(values - 1)]);
            let references = DictionaryArray::new(keys, Arc::new(strings));
            let narrow = narrowest(Arc::new(references.clone()));
            let expected = DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
            assert_eq!(narrow.data_type(), &expected);
            let wide = cast(&narrow, &DataType::Utf8).unwrap();
            assert_eq!(&wide, &cast(&references, &DataType::Utf8).unwrap());
            assert_eq!(narrow.null_count(), 1);
        }
    }
}
