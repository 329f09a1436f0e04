//! Writes the cells of one Arrow column.
//!
//! A column is first cast to one of few types (every integer below 64 bits, every time unit, every
//! dictionary has one it fits in), then a closure is made that writes one cell by its row. Making
//! it costs once per batch; a cell costs one indirect call.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, DurationMicrosecondType, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::arrow::util::display::array_value_to_string;
use postgres_types::Type;

use super::numeric::{put_float, put_numeric};
use super::text::{MICROS_PER_DAY, put_date, put_interval, put_time, put_timestamp, zone};
use super::types::scalar_type;
use crate::numbers::arithmetic::OPEN;
use datafusion::error::Result;

/// Appends the value of a row, which must not be null, without its length.
pub type CellWriter = Box<dyn Fn(usize, &mut BytesMut) -> fmt::Result + Send + Sync>;

/// Makes the writer of a column's cells, in binary or text.
#[expect(clippy::too_many_lines, reason = "a table: one arm per type")]
pub fn cell_writer(array: &ArrayRef, binary: bool) -> Result<CellWriter> {
    let array = simplified(array)?;
    Ok(match array.data_type() {
        DataType::Boolean => {
            let cells = array.as_boolean().clone();
            Box::new(move |row, out| {
                out.put_u8(match (binary, cells.value(row)) {
                    (true, value) => u8::from(value),
                    (false, true) => b't',
                    (false, false) => b'f',
                });
                Ok(())
            })
        }
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::UInt64 => {
            integers(&array, binary)
        }
        DataType::Float32 | DataType::Float64 => floats(&array, binary),
        DataType::Decimal32(..) => decimals::<Decimal32Type>(&array, binary),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(&array, binary),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(&array, binary),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(&array, binary),
        DataType::Date32 => {
            let cells = array.as_primitive::<Date32Type>().clone();
            if binary {
                Box::new(move |row, out| {
                    out.put_i32(cells.value(row).saturating_sub(PG_EPOCH_DAYS));
                    Ok(())
                })
            } else {
                Box::new(move |row, out| put_date(i64::from(cells.value(row)), out))
            }
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let cells = array.as_primitive::<Time64MicrosecondType>().clone();
            if binary {
                Box::new(move |row, out| {
                    out.put_i64(cells.value(row));
                    Ok(())
                })
            } else {
                Box::new(move |row, out| put_time(cells.value(row), out))
            }
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            timestamps(&array, zone.as_deref(), binary)?
        }
        DataType::Interval(_) | DataType::Duration(_) => intervals(&array, binary),
        DataType::Utf8 => {
            let cells = array.as_string::<i32>().clone();
            Box::new(move |row, out| put_text(cells.value(row), out))
        }
        DataType::LargeUtf8 => {
            let cells = array.as_string::<i64>().clone();
            Box::new(move |row, out| put_text(cells.value(row), out))
        }
        DataType::Utf8View => {
            let cells = array.as_string_view().clone();
            Box::new(move |row, out| put_text(cells.value(row), out))
        }
        DataType::Binary => {
            let cells = array.as_binary::<i32>().clone();
            Box::new(move |row, out| put_bytes(cells.value(row), binary, out))
        }
        DataType::LargeBinary => {
            let cells = array.as_binary::<i64>().clone();
            Box::new(move |row, out| put_bytes(cells.value(row), binary, out))
        }
        DataType::BinaryView => {
            let cells = array.as_binary_view().clone();
            Box::new(move |row, out| put_bytes(cells.value(row), binary, out))
        }
        DataType::FixedSizeBinary(_) => {
            let cells = array.as_fixed_size_binary().clone();
            Box::new(move |row, out| put_bytes(cells.value(row), binary, out))
        }
        DataType::List(element) if scalar_type(element.data_type()).is_some() => {
            let (list, values) = (
                array.as_list::<i32>().clone(),
                array.as_list::<i32>().values(),
            );
            let range = move |row| {
                let offsets = list.value_offsets();
                // The offsets of a valid array are not negative.
                (
                    index(i64::from(offsets[row])),
                    index(i64::from(offsets[row + 1])),
                )
            };
            elements(values, range, binary)?
        }
        DataType::LargeList(element) if scalar_type(element.data_type()).is_some() => {
            let (list, values) = (
                array.as_list::<i64>().clone(),
                array.as_list::<i64>().values(),
            );
            let range = move |row| {
                let offsets = list.value_offsets();
                (index(offsets[row]), index(offsets[row + 1]))
            };
            elements(values, range, binary)?
        }
        DataType::FixedSizeList(element, width) if scalar_type(element.data_type()).is_some() => {
            let list = array.as_fixed_size_list().clone();
            let width = index((*width).into());
            let range = move |row| {
                let start = index(list.value_offset(row).into());
                (start, start + width)
            };
            elements(array.as_fixed_size_list().values(), range, binary)?
        }
        _ => Box::new(move |row, out| {
            let text = array_value_to_string(&array, row).map_err(|_| fmt::Error)?;
            put_text(&text, out)
        }),
    })
}

/// The same values in a type that has a writer.
fn simplified(array: &ArrayRef) -> Result<ArrayRef> {
    let target = match array.data_type() {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => {
            DataType::Time64(TimeUnit::Microsecond)
        }
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        DataType::RunEndEncoded(_, values) => values.data_type().clone(),
        _ => return Ok(Arc::clone(array)),
    };
    if target == *array.data_type() {
        return Ok(Arc::clone(array));
    }
    // Not safe: a value that does not fit is an error, not a NULL.
    let options = CastOptions {
        safe: false,
        ..Default::default()
    };
    simplified(&cast_with_options(array, &target, &options)?)
}

fn integers(array: &ArrayRef, binary: bool) -> CellWriter {
    macro_rules! cells {
        ($type:ty, $put:ident) => {{
            let cells = array.as_primitive::<$type>().clone();
            if binary {
                Box::new(move |row, out| {
                    out.$put(cells.value(row));
                    Ok(())
                })
            } else {
                Box::new(move |row, out| write!(out, "{}", cells.value(row)))
            }
        }};
    }
    match array.data_type() {
        DataType::Int16 => cells!(Int16Type, put_i16),
        DataType::Int32 => cells!(Int32Type, put_i32),
        DataType::Int64 => cells!(Int64Type, put_i64),
        // PostgreSQL has no unsigned integers: these are numerics.
        _ => {
            let cells = array.as_primitive::<UInt64Type>().clone();
            Box::new(move |row, out| put_decimal(&cells.value(row).to_string(), binary, out))
        }
    }
}

fn floats(array: &ArrayRef, binary: bool) -> CellWriter {
    if let Some(cells) = array.as_primitive_opt::<Float32Type>().cloned() {
        return Box::new(move |row, out| {
            let value = cells.value(row);
            if binary {
                out.put_f32(value);
                return Ok(());
            }
            put_float(f64::from(value), &value, FLOAT4_PLAIN_MAX, out)
        });
    }
    let cells = array.as_primitive::<Float64Type>().clone();
    Box::new(move |row, out| {
        let value = cells.value(row);
        if binary {
            out.put_f64(value);
            return Ok(());
        }
        put_float(value, &value, FLOAT8_PLAIN_MAX, out)
    })
}

fn decimals<T: DecimalType>(array: &ArrayRef, binary: bool) -> CellWriter {
    let cells = array.as_primitive::<T>().clone();
    let scale = cells.scale();
    // Such a column holds numerics of different scales.
    let open = array.data_type() == &OPEN;
    Box::new(move |row, out| {
        // Not by the column's precision, which would cut digits.
        let text = T::format_decimal(cells.value(row), u8::MAX, scale);
        if open && text.contains('.') {
            let text = text.trim_end_matches('0').trim_end_matches('.');
            return put_decimal(text, binary, out);
        }
        put_decimal(&text, binary, out)
    })
}

fn timestamps(array: &ArrayRef, zone_name: Option<&str>, binary: bool) -> Result<CellWriter> {
    let cells = array.as_primitive::<TimestampMicrosecondType>().clone();
    if binary {
        return Ok(Box::new(move |row, out| {
            out.put_i64(cells.value(row).saturating_sub(PG_EPOCH_MICROS));
            Ok(())
        }));
    }
    let Some(zone_name) = zone_name else {
        return Ok(Box::new(move |row, out| {
            put_timestamp(cells.value(row), "", out)
        }));
    };
    let tz = Tz::from_str(zone_name)?;
    Ok(Box::new(move |row, out| {
        let micros = cells.value(row);
        let offset = as_datetime_with_timezone::<TimestampMicrosecondType>(micros, tz)
            .map_or(0, |time| time.fixed_offset().offset().local_minus_utc());
        put_timestamp(
            micros.saturating_add(i64::from(offset) * 1_000_000),
            &zone(offset),
            out,
        )
    }))
}

fn intervals(array: &ArrayRef, binary: bool) -> CellWriter {
    let put = move |months: i32, days: i32, micros: i64, out: &mut BytesMut| {
        if binary {
            out.put_i64(micros);
            out.put_i32(days);
            out.put_i32(months);
            return Ok(());
        }
        put_interval(months, days, micros, out)
    };
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            let cells = array.as_primitive::<IntervalYearMonthType>().clone();
            Box::new(move |row, out| put(cells.value(row), 0, 0, out))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let cells = array.as_primitive::<IntervalDayTimeType>().clone();
            Box::new(move |row, out| {
                let value = cells.value(row);
                put(0, value.days, i64::from(value.milliseconds) * 1000, out)
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let cells = array.as_primitive::<IntervalMonthDayNanoType>().clone();
            Box::new(move |row, out| {
                let value = cells.value(row);
                put(value.months, value.days, value.nanoseconds / 1000, out)
            })
        }
        _ => {
            let cells = array.as_primitive::<DurationMicrosecondType>().clone();
            Box::new(move |row, out| put(0, 0, cells.value(row), out))
        }
    }
}

/// A list's cells: `range` says which of `values` belong to a row.
fn elements(
    values: &ArrayRef,
    range: impl Fn(usize) -> (usize, usize) + Send + Sync + 'static,
    binary: bool,
) -> Result<CellWriter> {
    let oid = scalar_type(values.data_type()).unwrap_or(Type::TEXT).oid();
    let write = cell_writer(values, binary)?;
    let nulls = values.logical_nulls();
    let is_null = move |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    if binary {
        return Ok(Box::new(move |row, out| {
            let (start, end) = range(row);
            out.put_i32(i32::from(start < end));
            out.put_i32(i32::from((start..end).any(&is_null)));
            out.put_u32(oid);
            if start == end {
                return Ok(());
            }
            out.put_i32(i32::try_from(end - start).map_err(|_| fmt::Error)?);
            out.put_i32(1);
            for row in start..end {
                if is_null(row) {
                    out.put_i32(-1);
                } else {
                    with_length(out, |out| write(row, out))?;
                }
            }
            Ok(())
        }));
    }
    Ok(Box::new(move |row, out| {
        let (start, end) = range(row);
        let mut element = BytesMut::new();
        out.put_u8(b'{');
        for row in start..end {
            if row > start {
                out.put_u8(b',');
            }
            if is_null(row) {
                out.put_slice(b"NULL");
                continue;
            }
            element.clear();
            write(row, &mut element)?;
            put_element(&element, out);
        }
        out.put_u8(b'}');
        Ok(())
    }))
}

/// An array's element in text, quoted where it could be taken for something else.
fn put_element(element: &[u8], out: &mut BytesMut) {
    let special =
        |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    if !element.is_empty() && !element.eq_ignore_ascii_case(b"null") && !element.iter().any(special)
    {
        return out.put_slice(element);
    }
    out.put_u8(b'"');
    for byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// Writes a value, preceded by its length in bytes.
pub fn with_length(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> fmt::Result,
) -> fmt::Result {
    let at = out.len();
    out.put_i32(0);
    write(out)?;
    let length = i32::try_from(out.len() - at - 4).map_err(|_| fmt::Error)?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "one signature for all kinds of cells"
)]
fn put_decimal(text: &str, binary: bool, out: &mut BytesMut) -> fmt::Result {
    if binary {
        put_numeric(text, out);
    } else {
        out.put_slice(text.as_bytes());
    }
    Ok(())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "one signature for all kinds of cells"
)]
fn put_text(text: &str, out: &mut BytesMut) -> fmt::Result {
    out.put_slice(text.as_bytes());
    Ok(())
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "one signature for all kinds of cells"
)]
fn put_bytes(bytes: &[u8], binary: bool, out: &mut BytesMut) -> fmt::Result {
    if binary {
        out.put_slice(bytes);
        return Ok(());
    }
    out.put_slice(b"\\x");
    for byte in bytes {
        out.put_u8(HEX[usize::from(byte >> 4)]);
        out.put_u8(HEX[usize::from(byte & 15)]);
    }
    Ok(())
}

fn index(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

const HEX: &[u8; 16] = b"0123456789abcdef";
/// PostgreSQL counts from 2000-01-01.
const PG_EPOCH_DAYS: i32 = 10_957;
const PG_EPOCH_MICROS: i64 = PG_EPOCH_DAYS as i64 * MICROS_PER_DAY;
const FLOAT4_PLAIN_MAX: i32 = 6;
const FLOAT8_PLAIN_MAX: i32 = 15;

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        DictionaryArray, Int32Array, IntervalMonthDayNanoArray, ListArray, StructArray,
        TimestampNanosecondArray, UInt8Array,
    };
    use datafusion::arrow::datatypes::{Field, Int8Type, IntervalMonthDayNano};

    use super::*;

    fn text(array: impl Array + 'static, row: usize) -> String {
        let array: ArrayRef = Arc::new(array);
        let mut out = BytesMut::new();
        cell_writer(&array, false).unwrap()(row, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn unusual_types_have_a_text() {
        assert_eq!(text(UInt8Array::from(vec![255]), 0), "255");
        let words: DictionaryArray<Int8Type> = ["a", "b", "a"].into_iter().collect();
        assert_eq!(text(words, 1), "b");
        let interval = IntervalMonthDayNano::new(1, 2, 3_000_000_000);
        let interval = IntervalMonthDayNanoArray::from(vec![Some(interval), None]);
        assert_eq!(text(interval, 0), "1 mon 2 days 00:00:03");
        let berlin = TimestampNanosecondArray::from(vec![0]).with_timezone("Europe/Berlin");
        assert_eq!(text(berlin, 0), "1970-01-01 01:00:00+01");
        let ones: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let pair = StructArray::from(vec![(
            Arc::new(Field::new("a", DataType::Int32, true)),
            ones,
        )]);
        assert_eq!(text(pair, 0), "{a: 1}");
    }

    #[test]
    fn lists_are_arrays() {
        let numbers = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![]),
            Some(vec![Some(1), None, Some(-3)]),
        ]);
        assert_eq!(text(numbers.clone(), 0), "{}");
        assert_eq!(text(numbers, 1), "{1,NULL,-3}");
    }

    #[test]
    fn elements_are_quoted_where_needed() {
        for (element, quoted) in [
            ("a", "a"),
            ("", "\"\""),
            ("NULL", "\"NULL\""),
            ("a b", "\"a b\""),
            ("\"", "\"\\\"\""),
        ] {
            let mut out = BytesMut::new();
            put_element(element.as_bytes(), &mut out);
            assert_eq!(&out[..], quoted.as_bytes());
        }
    }
}
