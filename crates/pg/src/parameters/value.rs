//! Reads the value of a parameter as a client sends it: as text or in PostgreSQL's binary format.
//!
//! Not here: the protocol's messages, and the types of parameters.
//! PA2: bytes that are not exactly a value of the type are an error.

use bytes::{Buf, Bytes, TryGetError};
use datafusion::arrow::array::{ArrayRef, ListArray, StringArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use datafusion::scalar::ScalarValue;
use postgres_types::Type;
use std::str::FromStr;
use std::sync::Arc;

use super::numeric::numeric;
use super::types::{sql_name, target};
use crate::PgError;
use crate::array_types::element_of;
use crate::casts::{Context, cast_array};
use crate::dialect::{elements, nested};
use crate::output::numeric_text;
use crate::time::calendar::{DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MINUS_INFINITY};
use crate::values::uuid_text;

/// The format in which a value is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The text format that PostgreSQL reads in literals.
    Text,
    /// The format of PostgreSQL's `…send` functions.
    Binary,
}

/// Days between 1970, Arrow's epoch, and 2000, PostgreSQL's.
const EPOCH_DAYS: i32 = 10_957;
/// Microseconds between the two epochs.
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400 * 1_000_000;

/// The value of a parameter of this type. Numerics have the digits with which they are sent.
/// `zone` is the session's time zone, which applies to texts of times without one.
///
/// # Errors
/// 22P02, 22P03, 22007, 22008 or 22003 if it is not a value of the type; 0A000 if the value is not
/// supported.
pub fn value(
    pg_type: &Type,
    encoding: Encoding,
    raw: Option<&Bytes>,
    zone: &str,
) -> Result<ScalarValue, PgError> {
    let Some(raw) = raw else {
        let data_type = data_type(pg_type);
        return ScalarValue::try_from(&data_type).map_err(|error| internal(&error));
    };
    if let Some(element) = element_of(pg_type) {
        return array(&element, encoding, raw, zone);
    }
    match encoding {
        Encoding::Binary => binary(pg_type, raw.clone()),
        Encoding::Text => from_text(pg_type, text(raw)?, zone),
    }
}

/// The Arrow type for a type whose digits do not matter.
fn data_type(pg_type: &Type) -> DataType {
    if let Some(element) = element_of(pg_type) {
        return DataType::new_list(data_type(&element), true);
    }
    match *pg_type {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => DataType::Decimal128(1, 0),
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::BYTEA => DataType::Binary,
        _ => DataType::Utf8,
    }
}

fn text(raw: &Bytes) -> Result<&str, PgError> {
    let text = std::str::from_utf8(raw)
        .map_err(|_| PgError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
    if text.contains('\0') {
        return Err(PgError::new(
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    Ok(text)
}

fn from_text(pg_type: &Type, text: &str, zone: &str) -> Result<ScalarValue, PgError> {
    Ok(match *pg_type {
        Type::BOOL => ScalarValue::Boolean(Some(boolean(text)?)),
        Type::INT2 => ScalarValue::Int16(Some(integer(pg_type, text)?)),
        Type::INT4 => ScalarValue::Int32(Some(integer(pg_type, text)?)),
        Type::INT8 => ScalarValue::Int64(Some(integer(pg_type, text)?)),
        Type::OID => ScalarValue::Int64(Some(integer::<u32>(pg_type, text)?.into())),
        Type::FLOAT4 => ScalarValue::Float32(Some(float(pg_type, text, f32::is_infinite)?)),
        Type::FLOAT8 => ScalarValue::Float64(Some(float(pg_type, text, f64::is_infinite)?)),
        Type::NUMERIC => numeric(text)?,
        Type::BYTEA => ScalarValue::Binary(Some(bytea(text)?)),
        Type::DATE
        | Type::TIME
        | Type::TIMESTAMP
        | Type::TIMESTAMPTZ
        | Type::INTERVAL
        | Type::UUID
        | Type::JSON
        | Type::JSONB => cast(pg_type, text, zone)?,
        _ => ScalarValue::Utf8(Some(text.to_owned())),
    })
}

/// A value that is parsed like a cast. `zone` applies to texts of times without one.
fn cast(pg_type: &Type, text: &str, zone: &str) -> Result<ScalarValue, PgError> {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let field = Field::new("", DataType::Utf8, true);
    let context = Context::in_zone(zone);
    let read = cast_array(&texts, &field, &target(pg_type, (1, 0)), &context);
    let read = read.and_then(|array| ScalarValue::try_from_array(&array, 0));
    read.map_err(|error| match PgError::of(&error) {
        Some(said) => said.clone(),
        None => {
            let name = sql_name(pg_type);
            let message = format!("invalid input syntax for type {name}: \"{text}\"");
            PgError::new("22007", message)
        }
    })
}

fn boolean(text: &str) -> Result<bool, PgError> {
    let word = text.trim().to_ascii_lowercase();
    let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(PgError::invalid_text("boolean", text))
    }
}

fn integer<T: TryFrom<i128>>(pg_type: &Type, text: &str) -> Result<T, PgError> {
    let name = sql_name(pg_type);
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let digits = trimmed.trim_start_matches(['-', '+']);
    let is_number = !digits.is_empty()
        && trimmed.len() - digits.len() <= 1
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(PgError::invalid_text(&name, text));
    }
    let value: Option<i128> = trimmed.parse().ok();
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| {
            let message = format!("value \"{text}\" is out of range for type {name}");
            PgError::new("22003", message)
        })
}

fn float<T: FromStr>(pg_type: &Type, text: &str, is_infinite: fn(T) -> bool) -> Result<T, PgError>
where
    T: Copy,
{
    let name = sql_name(pg_type);
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let value: T = trimmed
        .parse()
        .map_err(|_| PgError::invalid_text(&name, text))?;
    if is_infinite(value) && trimmed.bytes().any(|byte| byte.is_ascii_digit()) {
        let message = format!("\"{text}\" is out of range for type {name}");
        return Err(PgError::new("22003", message));
    }
    Ok(value)
}

/// Parses `\x6162`, or bytes with `\\` and `\ooo`.
fn bytea(text: &str) -> Result<Vec<u8>, PgError> {
    let wrong = || PgError::invalid_text("bytea", text);
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = hex
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        let invalid = || PgError::new("22023", "invalid hexadecimal digit");
        return digits
            .chunks(2)
            .map(|pair| match pair {
                [high, low] => {
                    let (high, low) = (digit(*high), digit(*low));
                    Ok(high.ok_or_else(invalid)? << 4 | low.ok_or_else(invalid)?)
                }
                _ => Err(PgError::new(
                    "22023",
                    "invalid hexadecimal data: odd number of digits",
                )),
            })
            .collect();
    }
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let octal = |byte: Option<u8>| byte.filter(|b| (b'0'..=b'7').contains(b)).map(|b| b - b'0');
        match bytes.next() {
            Some(b'\\') => out.push(b'\\'),
            Some(first @ b'0'..=b'3') => {
                let (second, third) = (octal(bytes.next()), octal(bytes.next()));
                let (second, third) = (second.ok_or_else(wrong)?, third.ok_or_else(wrong)?);
                out.push((first - b'0') << 6 | second << 3 | third);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(out)
}

fn binary(pg_type: &Type, mut raw: Bytes) -> Result<ScalarValue, PgError> {
    let malformed = || malformed(pg_type);
    let read = match *pg_type {
        Type::BOOL => ScalarValue::Boolean(Some(raw.try_get_u8().map_err(short)? != 0)),
        Type::INT2 => ScalarValue::Int16(Some(raw.try_get_i16().map_err(short)?)),
        Type::INT4 => ScalarValue::Int32(Some(raw.try_get_i32().map_err(short)?)),
        Type::INT8 => ScalarValue::Int64(Some(raw.try_get_i64().map_err(short)?)),
        Type::OID => ScalarValue::Int64(Some(raw.try_get_u32().map_err(short)?.into())),
        Type::FLOAT4 => ScalarValue::Float32(Some(raw.try_get_f32().map_err(short)?)),
        Type::FLOAT8 => ScalarValue::Float64(Some(raw.try_get_f64().map_err(short)?)),
        Type::NUMERIC => {
            // A sign of 0xC000 or above means NaN or infinity.
            if raw.len() >= NUMERIC_HEAD_BYTES && raw[4] >= 0xC0 {
                return Err(PgError::unsupported(
                    "numeric NaN and infinity are not supported",
                ));
            }
            if raw.len() < NUMERIC_HEAD_BYTES {
                return Err(too_short());
            }
            return numeric(&numeric_text(&raw).ok_or_else(malformed)?);
        }
        Type::DATE => match raw.try_get_i32().map_err(short)? {
            infinite @ (DATE_MINUS_INFINITY | DATE_INFINITY) => ScalarValue::Date32(Some(infinite)),
            days => ScalarValue::Date32(Some(days.checked_add(EPOCH_DAYS).ok_or_else(malformed)?)),
        },
        Type::TIME => {
            let micros = raw.try_get_i64().map_err(short)?;
            if !(0..=86_400_000_000).contains(&micros) {
                return Err(PgError::new("22008", "time out of range"));
            }
            ScalarValue::Time64Microsecond(Some(micros))
        }
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let zone = (*pg_type == Type::TIMESTAMPTZ).then(|| Arc::from("UTC"));
            let micros = match raw.try_get_i64().map_err(short)? {
                infinite @ (MINUS_INFINITY | INFINITY) => infinite,
                micros => micros.checked_add(EPOCH_US).ok_or_else(malformed)?,
            };
            ScalarValue::TimestampMicrosecond(Some(micros), zone)
        }
        Type::INTERVAL => {
            let micros = raw.try_get_i64().map_err(short)?;
            let days = raw.try_get_i32().map_err(short)?;
            let months = raw.try_get_i32().map_err(short)?;
            let nanos = micros.checked_mul(1000);
            let nanos = nanos.ok_or_else(|| PgError::new("22008", "interval out of range"))?;
            let interval = IntervalMonthDayNano::new(months, days, nanos);
            ScalarValue::IntervalMonthDayNano(Some(interval))
        }
        Type::BYTEA => return Ok(ScalarValue::Binary(Some(raw.to_vec()))),
        Type::UUID => {
            return match raw.len() {
                UUID_BYTES => Ok(ScalarValue::Utf8(Some(uuid_text(&raw)))),
                0..UUID_BYTES => Err(too_short()),
                _ => Err(malformed()),
            };
        }
        Type::JSONB => {
            // The version of the format, followed by the text.
            match raw.try_get_u8().map_err(short)? {
                1 => {}
                other => {
                    let message = format!("unsupported jsonb version number {other}");
                    return Err(PgError::new("XX000", message));
                }
            }
            return cast(pg_type, text(&raw)?, "");
        }
        Type::JSON => return cast(pg_type, text(&raw)?, ""),
        _ => return Ok(ScalarValue::Utf8(Some(text(&raw)?.to_owned()))),
    };
    if raw.has_remaining() {
        return Err(malformed());
    }
    Ok(read)
}

/// The length of a uuid in bytes.
const UUID_BYTES: usize = 16;
/// The length of a numeric's header in bytes.
const NUMERIC_HEAD_BYTES: usize = 8;

fn too_short() -> PgError {
    PgError::new("08P01", "insufficient data left in message")
}

fn short(_: TryGetError) -> PgError {
    too_short()
}

fn malformed(pg_type: &Type) -> PgError {
    let name = sql_name(pg_type);
    PgError::new(
        "22P03",
        format!("incorrect binary data format for type {name}"),
    )
}

/// The list for a value of an array type; a list of lists for several dimensions.
fn array(
    element: &Type,
    encoding: Encoding,
    raw: &Bytes,
    zone: &str,
) -> Result<ScalarValue, PgError> {
    let (lengths, found) = match encoding {
        Encoding::Binary => binary_elements(element, raw)?,
        Encoding::Text => {
            let text = text(raw)?;
            let malformed =
                || PgError::new("22P02", format!("malformed array literal: \"{text}\""));
            let (lengths, texts) = text_elements(text, DIMENSIONS_MAX).ok_or_else(malformed)?;
            let texts = texts.into_iter().map(|text| text.map(Bytes::from));
            (lengths, texts.collect())
        }
    };
    let values = found
        .iter()
        .map(|raw| {
            Ok(unpadded(
                element,
                value(element, encoding, raw.as_ref(), zone)?,
            ))
        })
        .collect::<Result<Vec<_>, PgError>>()?;
    let data_type = common(element, &values)?;
    let cast = |value: ScalarValue| value.cast_to(&data_type).map_err(|error| internal(&error));
    let values: Vec<_> = values.into_iter().map(cast).collect::<Result<_, _>>()?;
    let mut items: ArrayRef = if values.is_empty() {
        datafusion::arrow::array::new_empty_array(&data_type)
    } else {
        ScalarValue::iter_to_array(values).map_err(|error| internal(&error))?
    };
    let mut list = None;
    for (at, length) in lengths.iter().enumerate().rev() {
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let lists = lengths[..at].iter().product();
        let offsets = OffsetBuffer::from_repeated_length(*length, lists);
        let made = ListArray::try_new(field, offsets, items, None);
        let made = Arc::new(made.map_err(|error| internal(&error.into()))?);
        items = Arc::clone(&made) as ArrayRef;
        list = Some(made);
    }
    list.map(ScalarValue::List)
        .ok_or_else(|| PgError::new("XX000", "an array without dimensions"))
}

/// An element without the trailing blanks of `character(n)`. The field of a list's elements does
/// not say that they have no meaning.
fn unpadded(element: &Type, value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Utf8(Some(text)) if *element == Type::BPCHAR => {
            ScalarValue::from(text.trim_end_matches(' '))
        }
        other => other,
    }
}

/// PostgreSQL's maximum number of dimensions.
const DIMENSIONS_MAX: usize = 6;

/// The lengths of the dimensions, and the elements.
type Elements<T> = (Vec<usize>, Vec<Option<T>>);

/// Parses an array of at most `dimensions_max` dimensions; `None` if the text is not one.
fn text_elements(text: &str, dimensions_max: usize) -> Option<Elements<String>> {
    if let Some(found) = elements(text) {
        return Some((vec![found.len()], found));
    }
    let parts = nested(text)?;
    let below = dimensions_max.checked_sub(1)?;
    let (mut lengths, mut all) = (vec![parts.len()], vec![]);
    for part in parts {
        let (own, found) = text_elements(part, below)?;
        if lengths.len() == 1 {
            lengths.extend(&own);
        }
        if lengths[1..] != own || found.is_empty() {
            return None;
        }
        all.extend(found);
    }
    (lengths.len() <= DIMENSIONS_MAX).then_some((lengths, all))
}

/// The type of all elements. Each numeric has its own digits, and the array's type holds all of
/// them.
fn common(element: &Type, values: &[ScalarValue]) -> Result<DataType, PgError> {
    if *element != Type::NUMERIC {
        return Ok(data_type(element));
    }
    let digits = values.iter().map(|value| match value {
        ScalarValue::Decimal128(Some(_), precision, scale)
        | ScalarValue::Decimal256(Some(_), precision, scale) => {
            (i16::from(*precision) - i16::from(*scale), i16::from(*scale))
        }
        _ => (1, 0),
    });
    let (whole, scale) = digits.fold((1, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    let (precision, scale) = (u8::try_from(whole + scale), i8::try_from(scale));
    match (precision, scale) {
        (Ok(precision @ ..=38), Ok(scale)) => Ok(DataType::Decimal128(precision, scale)),
        (Ok(precision @ ..=76), Ok(scale)) => Ok(DataType::Decimal256(precision, scale)),
        _ => Err(PgError::unsupported(
            "an array of numerics of more than 76 digits is not supported",
        )),
    }
}

/// Parses an array in PostgreSQL's binary format.
fn binary_elements(element: &Type, raw: &Bytes) -> Result<Elements<Bytes>, PgError> {
    let wrong = || PgError::new("22P03", "not an array in binary");
    let mut rest = raw.clone();
    let number = |rest: &mut Bytes| rest.try_get_i32().map_err(short);
    let dimensions = number(&mut rest)?;
    // The flag for NULLs.
    number(&mut rest)?;
    let sent = rest.try_get_u32().map_err(short)?;
    let dimensions = usize::try_from(dimensions).map_err(|_| wrong())?;
    if dimensions > DIMENSIONS_MAX {
        let message = format!(
            "number of array dimensions ({dimensions}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
        );
        return Err(PgError::new("54000", message));
    }
    if dimensions == 0 {
        return Ok((vec![0], vec![]));
    }
    if sent != element.oid() {
        return Err(PgError::new("42804", "wrong element type"));
    }
    let mut lengths = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        let length = usize::try_from(number(&mut rest)?).map_err(|_| wrong())?;
        let lower_bound = number(&mut rest)?;
        if length > 0 && lower_bound != 1 {
            let message = "arrays whose lower bound is not 1 are not supported";
            return Err(PgError::unsupported(message));
        }
        lengths.push(length);
    }
    let count = lengths
        .iter()
        .try_fold(1_usize, |all, length| all.checked_mul(*length));
    // Every element has at least a length, so the count cannot reserve more than was sent.
    let count = count.filter(|count| *count <= rest.remaining() / 4);
    let count = count.ok_or_else(wrong)?;
    if count == 0 {
        lengths.truncate(1);
        lengths[0] = 0;
    }
    let found = (0..count)
        .map(|_| match number(&mut rest)? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| wrong())?;
                if length > rest.remaining() {
                    return Err(wrong());
                }
                Ok(Some(rest.split_to(length)))
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    if rest.has_remaining() {
        return Err(wrong());
    }
    Ok((lengths, found))
}

fn internal(error: &datafusion::error::DataFusionError) -> PgError {
    PgError::new("XX000", error.strip_backtrace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(pg_type: &Type, text: &str) -> Result<ScalarValue, PgError> {
        value(
            pg_type,
            Encoding::Text,
            Some(&Bytes::from(text.to_owned())),
            "UTC",
        )
    }

    fn bytes_of(pg_type: &Type, raw: &[u8]) -> Result<ScalarValue, PgError> {
        value(
            pg_type,
            Encoding::Binary,
            Some(&Bytes::copy_from_slice(raw)),
            "UTC",
        )
    }

    #[test]
    fn texts_are_values_or_errors() {
        for (pg_type, text, expected) in [
            (Type::BOOL, " t ", Ok(ScalarValue::Boolean(Some(true)))),
            (Type::BOOL, "of", Ok(ScalarValue::Boolean(Some(false)))),
            (Type::BOOL, "o", Err("22P02")),
            (Type::INT2, "-32768", Ok(ScalarValue::Int16(Some(-32768)))),
            (Type::INT2, "32768", Err("22003")),
            (Type::INT4, "2.5", Err("22P02")),
            (Type::INT4, " +7 ", Ok(ScalarValue::Int32(Some(7)))),
            (
                Type::INT8,
                "1099511627776",
                Ok(ScalarValue::Int64(Some(1 << 40))),
            ),
            (
                Type::OID,
                "4294967295",
                Ok(ScalarValue::Int64(Some(4_294_967_295))),
            ),
            (Type::OID, "-1", Err("22003")),
            (Type::FLOAT8, "1e300", Ok(ScalarValue::Float64(Some(1e300)))),
            (
                Type::FLOAT8,
                "-Infinity",
                Ok(ScalarValue::Float64(Some(f64::NEG_INFINITY))),
            ),
            (Type::FLOAT8, "1e400", Err("22003")),
            (Type::FLOAT4, "1e39", Err("22003")),
            (
                Type::NUMERIC,
                "2.50",
                Ok(ScalarValue::Decimal128(Some(250), 3, 2)),
            ),
            (
                Type::JSONB,
                r#"{"b":1, "a":2,"a":3}"#,
                Ok(ScalarValue::from(r#"{"a": 3, "b": 1}"#)),
            ),
            (Type::JSON, r#"{"b":1,}"#, Err("22P02")),
            (
                Type::UUID,
                "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}",
                Ok(ScalarValue::from("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
            ),
            (
                Type::BYTEA,
                "\\x6162",
                Ok(ScalarValue::Binary(Some(b"ab".to_vec()))),
            ),
            (
                Type::BYTEA,
                "a\\\\b\\001",
                Ok(ScalarValue::Binary(Some(b"a\\b\x01".to_vec()))),
            ),
            (Type::BYTEA, "a\\9", Err("22P02")),
            (
                Type::TEXT,
                " a",
                Ok(ScalarValue::Utf8(Some(" a".to_owned()))),
            ),
            (Type::DATE, "2024-02-30", Err("22008")),
        ] {
            let found = text_of(&pg_type, text).map_err(|error| error.code());
            assert_eq!(found, expected, "{pg_type} {text:?}");
        }
    }

    #[test]
    fn bytes_are_values_or_errors() {
        for (pg_type, raw, expected) in [
            (
                Type::INT8,
                &[0, 0, 1, 0, 0, 0, 0, 0][..],
                Ok(ScalarValue::Int64(Some(1 << 40))),
            ),
            (Type::INT4, &[0, 0, 1][..], Err("08P01")),
            (Type::INT4, &[0, 0, 0, 1, 0][..], Err("22P03")),
            (
                Type::DATE,
                &[0, 0, 0, 1][..],
                Ok(ScalarValue::Date32(Some(10_958))),
            ),
            (
                Type::DATE,
                &[0x7f, 0xff, 0xff, 0xff][..],
                Ok(ScalarValue::Date32(Some(DATE_INFINITY))),
            ),
            (
                Type::TIMESTAMP,
                &[0x80, 0, 0, 0, 0, 0, 0, 0][..],
                Ok(ScalarValue::TimestampMicrosecond(
                    Some(MINUS_INFINITY),
                    None,
                )),
            ),
            // 2.5
            (
                Type::NUMERIC,
                &[0, 2, 0, 0, 0, 0, 0, 1, 0, 2, 0x13, 0x88][..],
                Ok(ScalarValue::Decimal128(Some(25), 2, 1)),
            ),
            (Type::JSONB, b"\x01[1,  2]", Ok(ScalarValue::from("[1, 2]"))),
            (Type::JSON, b"[1", Err("22P02")),
            (Type::JSONB, b"1", Err("XX000")),
            (Type::UUID, &[0, 1][..], Err("08P01")),
            (
                Type::NUMERIC,
                &[0, 0, 0, 0, 0xC0, 0, 0, 0][..],
                Err("0A000"),
            ),
            (
                Type::NUMERIC,
                &[0, 2, 0, 0, 0, 0, 0, 1, 0, 2][..],
                Err("22P03"),
            ),
        ] {
            let found = bytes_of(&pg_type, raw).map_err(|error| error.code());
            assert_eq!(found, expected, "{pg_type} {raw:?}");
        }
    }

    #[test]
    fn arrays_have_dimensions() {
        let list = text_of(&Type::INT4_ARRAY, "{{1,2},{3,NULL}}").unwrap();
        let inner = DataType::new_list(DataType::Int32, true);
        assert_eq!(list.data_type(), DataType::new_list(inner, true));
        assert_eq!(list.to_string(), "[[1, 2], [3, ]]");
        let raw = [2, 0, 23, 2, 1, 1, 1, 4, 5, 4, 6].map(i32::to_be_bytes);
        let sent = bytes_of(&Type::INT4_ARRAY, raw.as_flattened()).unwrap();
        assert_eq!(sent.to_string(), "[[5], [6]]");
        let from_0 = [1, 0, 23, 1, 0, 4, 5].map(i32::to_be_bytes);
        let error = bytes_of(&Type::INT4_ARRAY, from_0.as_flattened());
        assert_eq!(error.map_err(|error| error.code()), Err("0A000"));
        for wrong in ["{{1},{2,3}}", "{{1},2}", "{{{{{{{1}}}}}}}"] {
            let error = text_of(&Type::INT4_ARRAY, wrong).map_err(|error| error.code());
            assert_eq!(error, Err("22P02"), "{wrong}");
        }
    }

    #[test]
    fn elements_of_characters_are_not_padded() {
        let list = text_of(&Type::BPCHAR_ARRAY, "{\"ab  \",x}").unwrap();
        assert_eq!(list.to_string(), "[ab, x]");
        let list = text_of(&Type::TEXT_ARRAY, "{\"ab  \",x}").unwrap();
        assert_eq!(list.to_string(), "[ab  , x]");
    }

    #[test]
    fn numerics_in_an_array_share_a_type() {
        let list = text_of(&Type::NUMERIC_ARRAY, "{1E-7,12.5,NULL}").unwrap();
        let expected = DataType::new_list(DataType::Decimal128(9, 7), true);
        assert_eq!(list.data_type(), expected);
    }
}
