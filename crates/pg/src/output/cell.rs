//! Writes the values of an Arrow column in PostgreSQL's formats.
//!
//! A column is first cast to one of a few types (every integer below 64 bits, time unit and
//! dictionary fits one of them). Then a closure is built that writes the value of a row. Building
//! it costs once per batch; a value costs one indirect call.

use std::fmt::{self, Write};
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::buffer::{Buffer, OffsetBuffer};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, DurationMicrosecondType, Field, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use datafusion::arrow::util::display::array_value_to_string;
use postgres_types::Type;

use super::float::put_float;
use super::nested::{arrays, rows};
use super::numeric::put_numeric;
use super::text::{put_date, put_interval, put_time, put_timestamp, put_timestamptz};
use super::types::pg_type;
use crate::numbers::arithmetic::has_many_scales;
use crate::time::calendar::{
    DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MICROS_PER_DAY, MINUS_INFINITY,
};
use crate::time::zone::Zone;
use crate::values::uuid_text;
use datafusion::error::{DataFusionError, Result};

/// Appends the value of a row, which must not be null, without a length.
pub type CellWriter = Box<dyn Fn(usize, &mut BytesMut) -> fmt::Result + Send + Sync>;

/// Builds the writer for a column's values, in binary or text.
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
                    let days = cells.value(row);
                    out.put_i32(match days {
                        DATE_INFINITY | DATE_MINUS_INFINITY => days,
                        days => days.saturating_sub(PG_EPOCH_DAYS),
                    });
                    Ok(())
                })
            } else {
                Box::new(move |row, out| put_date(cells.value(row), out))
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
        DataType::Interval(_) | DataType::Duration(_) => intervals(&array, binary)?,
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
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Map(..) => match arrays(&array, binary)? {
            Some(writer) => writer,
            None => displayed(array),
        },
        DataType::Struct(_) => rows(&array, binary)?,
        _ => displayed(array),
    })
}

/// A type that PostgreSQL lacks, as Arrow displays it.
fn displayed(array: ArrayRef) -> CellWriter {
    Box::new(move |row, out| {
        let text = array_value_to_string(&array, row).map_err(|_| fmt::Error)?;
        put_text(&text, out)
    })
}

/// Builds the writer for a column's values. The field may name a type that Arrow lacks.
pub fn field_writer(field: &Field, array: &ArrayRef, binary: bool) -> Result<CellWriter> {
    typed_writer(&pg_type(field), array, binary)
}

/// A column's values as PostgreSQL shows them; NULLs stay NULL.
///
/// # Errors
/// If a value has no text, such as a date beyond the calendar.
pub fn texts(field: &Field, array: &ArrayRef) -> Result<StringArray> {
    let nulls = array.logical_nulls();
    let write = field_writer(field, array, false)?;
    let mut texts = BytesMut::with_capacity(array.len() * 8);
    let mut lengths = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        let before = texts.len();
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            write(row, &mut texts).map_err(|error| DataFusionError::External(error.into()))?;
        }
        lengths.push(texts.len() - before);
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(StringArray::try_new(
        offsets,
        Buffer::from(texts.freeze()),
        nulls,
    )?)
}

/// Builds the writer for a column's values, announced as values of a PostgreSQL type.
pub fn typed_writer(announced: &Type, array: &ArrayRef, binary: bool) -> Result<CellWriter> {
    if *announced == Type::UUID && matches!(array.data_type(), DataType::FixedSizeBinary(16)) {
        let cells = array.as_fixed_size_binary().clone();
        return Ok(Box::new(move |row, out| {
            if binary {
                out.put_slice(cells.value(row));
                return Ok(());
            }
            put_text(&uuid_text(cells.value(row)), out)
        }));
    }
    let write = cell_writer(array, binary)?;
    if !binary {
        return Ok(write);
    }
    Ok(match *announced {
        Type::UUID => Box::new(move |row, out| {
            let mut text = BytesMut::new();
            write(row, &mut text)?;
            let digits = text
                .iter()
                .filter_map(|digit| char::from(*digit).to_digit(16));
            let digits: Vec<u32> = digits.collect();
            for pair in digits.chunks(2) {
                let byte = pair.iter().fold(0, |byte, digit| byte * 16 + digit);
                out.put_u8(u8::try_from(byte).map_err(|_| fmt::Error)?);
            }
            Ok(())
        }),
        // The version byte of the format.
        Type::JSONB => Box::new(move |row, out| {
            out.put_u8(1);
            write(row, out)
        }),
        _ => write,
    })
}

/// The same values with their timestamps in this zone: PostgreSQL shows every timestamptz in the
/// session's zone, whatever zone a file names.
///
/// # Errors
/// A valid array causes none.
pub fn in_zone(array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    let Some(target) = zoned(array.data_type(), zone) else {
        return Ok(Arc::clone(array));
    };
    if let DataType::Timestamp(TimeUnit::Microsecond, _) = target {
        let moments = array.as_primitive::<TimestampMicrosecondType>().clone();
        return Ok(Arc::new(moments.with_data_type(target)));
    }
    Ok(cast_with_options(array, &target, &CastOptions::default())?)
}

/// A type that contains timestamps, with this zone; `None` if nothing changes.
fn zoned(data_type: &DataType, zone: &str) -> Option<DataType> {
    let element = |field: &Arc<Field>| {
        let zoned = zoned(field.data_type(), zone)?;
        Some(Arc::new(field.as_ref().clone().with_data_type(zoned)))
    };
    match data_type {
        DataType::Timestamp(unit, Some(old)) if old.as_ref() != zone => {
            Some(DataType::Timestamp(*unit, Some(zone.into())))
        }
        DataType::List(field) => element(field).map(DataType::List),
        DataType::LargeList(field) => element(field).map(DataType::LargeList),
        DataType::Map(entry, sorted) => element(entry).map(|entry| DataType::Map(entry, *sorted)),
        DataType::FixedSizeList(field, width) => {
            element(field).map(|field| DataType::FixedSizeList(field, *width))
        }
        DataType::Struct(fields) => {
            let members = fields.iter().map(element);
            let members: Vec<Option<Arc<Field>>> = members.collect();
            members.iter().any(Option::is_some).then(|| {
                let pairs = members.into_iter().zip(fields);
                let fields = pairs.map(|(zoned, field)| zoned.unwrap_or_else(|| Arc::clone(field)));
                DataType::Struct(fields.collect())
            })
        }
        DataType::Dictionary(_, values) => zoned(values, zone),
        _ => None,
    }
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
    // Not safe: a value that does not fit is an error, not NULL.
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
        // PostgreSQL has no unsigned integers, so these are numerics.
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
            put_float(value, out)
        });
    }
    let cells = array.as_primitive::<Float64Type>().clone();
    Box::new(move |row, out| {
        let value = cells.value(row);
        if binary {
            out.put_f64(value);
            return Ok(());
        }
        put_float(value, out)
    })
}

fn decimals<T: DecimalType>(array: &ArrayRef, binary: bool) -> CellWriter {
    let cells = array.as_primitive::<T>().clone();
    let scale = cells.scale();
    let open = has_many_scales(array.data_type());
    Box::new(move |row, out| {
        // Formatting by the column's precision would cut digits.
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
            let micros = cells.value(row);
            out.put_i64(match micros {
                INFINITY | MINUS_INFINITY => micros,
                micros => micros.saturating_sub(PG_EPOCH_MICROS),
            });
            Ok(())
        }));
    }
    let Some(zone_name) = zone_name else {
        return Ok(Box::new(move |row, out| {
            put_timestamp(cells.value(row), "", out)
        }));
    };
    let zone = Zone::of_session(Some(zone_name));
    Ok(Box::new(move |row, out| {
        put_timestamptz(cells.value(row), zone, out)
    }))
}

fn intervals(array: &ArrayRef, binary: bool) -> Result<CellWriter> {
    let span = spans(array)?;
    Ok(Box::new(move |row, out| {
        let (months, days, micros) = span(row);
        if binary {
            out.put_i64(micros);
            out.put_i32(days);
            out.put_i32(months);
            return Ok(());
        }
        put_interval(months, days, micros, out)
    }))
}

/// The months, days and microseconds of a row's interval, which must not be null.
type Spans = Box<dyn Fn(usize) -> (i32, i32, i64) + Send + Sync>;

/// Reads a column of intervals or durations.
pub(super) fn spans(array: &ArrayRef) -> Result<Spans> {
    let array = simplified(array)?;
    Ok(match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            let cells = array.as_primitive::<IntervalYearMonthType>().clone();
            Box::new(move |row| (cells.value(row), 0, 0))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let cells = array.as_primitive::<IntervalDayTimeType>().clone();
            Box::new(move |row| {
                let value = cells.value(row);
                (0, value.days, i64::from(value.milliseconds) * 1000)
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let cells = array.as_primitive::<IntervalMonthDayNanoType>().clone();
            Box::new(move |row| {
                let value = cells.value(row);
                (value.months, value.days, value.nanoseconds / 1000)
            })
        }
        _ => {
            let cells = array.as_primitive::<DurationMicrosecondType>().clone();
            Box::new(move |row| (0, 0, cells.value(row)))
        }
    })
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

const HEX: &[u8; 16] = b"0123456789abcdef";
/// PostgreSQL counts from 2000-01-01.
const PG_EPOCH_DAYS: i32 = 10_957;
const PG_EPOCH_MICROS: i64 = PG_EPOCH_DAYS as i64 * MICROS_PER_DAY;

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        DictionaryArray, Int32Array, Int32Builder, IntervalMonthDayNanoArray, ListArray,
        MapBuilder, StringBuilder, StructArray, TimestampNanosecondArray, UInt8Array,
    };
    use datafusion::arrow::datatypes::{Int8Type, IntervalMonthDayNano};

    use super::*;

    fn text(array: impl Array + 'static, row: usize) -> String {
        let array: ArrayRef = Arc::new(array);
        let mut out = BytesMut::new();
        cell_writer(&array, false).unwrap()(row, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn unusual_types_are_written_as_text() {
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
        assert_eq!(text(pair, 0), "(1)");
    }

    #[test]
    fn maps_are_arrays_of_rows() {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        maps.keys().append_value("a b");
        maps.values().append_value(1);
        maps.keys().append_value("c");
        maps.values().append_null();
        maps.append(true).unwrap();
        maps.append(true).unwrap();
        let maps = maps.finish();
        let field = Field::new("m", maps.data_type().clone(), true);
        assert_eq!(pg_type(&field), Type::RECORD_ARRAY);
        assert_eq!(text(maps.clone(), 0), r#"{"(\"a b\",1)","(c,)"}"#);
        assert_eq!(text(maps, 1), "{}");
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
}
