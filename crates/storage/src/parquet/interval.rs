//! How does Parquet's INTERVAL become Arrow's?
//!
//! An INTERVAL is three unsigned numbers of four bytes: months, days, milliseconds. parquet 59.3
//! reads either the months or the rest and drops the other (arrow-rs `fixed_len_byte_array.rs`).
//! So the column is decoded as plain bytes, which become months, days and nanoseconds here.
//! Not here: which columns are intervals (coscan `tables/metadata/columns.rs`); intervals within
//! lists and structs.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use parquet::basic::{ConvertedType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// The bytes of an interval.
const BYTES: i32 = 12;

/// The type that an INTERVAL column is decoded to.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Whether a root column is an INTERVAL.
#[must_use]
pub fn is_interval(root: &Type) -> bool {
    root.is_primitive()
        && root.get_physical_type() == Physical::FIXED_LEN_BYTE_ARRAY
        && root.get_basic_info().converted_type() == ConvertedType::INTERVAL
}

/// The column as plain bytes, and their type.
pub(super) fn as_bytes(root: &Type) -> Result<(TypePtr, DataType), ParquetError> {
    let mut plain = Type::primitive_type_builder(root.name(), Physical::FIXED_LEN_BYTE_ARRAY)
        .with_length(BYTES);
    if root.get_basic_info().has_repetition() {
        plain = plain.with_repetition(root.get_basic_info().repetition());
    }
    Ok((Arc::new(plain.build()?), DataType::FixedSizeBinary(BYTES)))
}

/// The intervals that these bytes encode.
pub(super) fn intervals(bytes: &ArrayRef) -> Result<ArrayRef, ParquetError> {
    let bytes = bytes.as_fixed_size_binary();
    let of = |value: &[u8]| -> Option<IntervalMonthDayNano> {
        let part = |at: usize| {
            value
                .get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_le_bytes)
        };
        let (months, days, millis) = (part(0)?, part(4)?, part(8)?);
        Some(IntervalMonthDayNano::new(
            i32::try_from(months).ok()?,
            i32::try_from(days).ok()?,
            i64::from(millis) * 1_000_000,
        ))
    };
    let values = bytes.iter().map(|value| match value {
        None => Ok(None),
        Some(value) => of(value).map(Some).ok_or_else(|| {
            ParquetError::General("an interval of more than 2147483647 months or days".to_owned())
        }),
    });
    let values = values.collect::<Result<IntervalMonthDayNanoArray, _>>()?;
    Ok(Arc::new(values))
}
