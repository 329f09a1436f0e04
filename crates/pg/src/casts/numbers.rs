//! Casts to numbers and to boolean.
//!
//! Floats round half to even and numerics half away from zero, both to integers and to fewer
//! digits. A cast from a float to numeric keeps the first 15 digits (6 of a `real`).

use std::sync::Arc;

use arrow::datatypes::i256;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Decimal256Array,
    Float64Array, Int64Array, PrimitiveArray,
};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, Field, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type,
};
use datafusion::common::internal_err;
use datafusion::error::Result;

use super::{Target, arrow_cast, json};
use crate::error::PgError;
use crate::numbers::numeric::Numeric;

/// Casts to a number or to boolean, with values of the Arrow type `held`.
pub(super) fn cast(
    array: &ArrayRef,
    from: &Field,
    to: &Target,
    held: &DataType,
) -> Result<ArrayRef> {
    match from.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let texts = arrow_cast(array, &DataType::Utf8)?;
            if matches!(Target::of_field(from), Some(Target::Jsonb)) {
                let texts: ArrayRef = Arc::new(json::scalars(texts.as_string::<i32>(), to)?);
                return parsed(&texts, to, held);
            }
            parsed(&texts, to, held)
        }
        DataType::Float16 | DataType::Float32 => {
            let single = arrow_cast(array, &DataType::Float32)?;
            from_floats(&single, FLT_DIG, to, held)
        }
        DataType::Float64 => from_floats(array, DBL_DIG, to, held),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => {
            let wide = arrow_cast(array, &DataType::Decimal128(*p, *s))?;
            from_decimals(&wide, to, held)
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => from_decimals(array, to, held),
        DataType::UInt64 => {
            from_decimals(&arrow_cast(array, &DataType::Decimal128(20, 0))?, to, held)
        }
        DataType::Boolean => arrow_cast(array, held),
        source if source.is_integer() => {
            from_integers(&arrow_cast(array, &DataType::Int64)?, to, held)
        }
        _ => arrow_cast(array, held),
    }
}

/// The decimal digits that a double always preserves.
const DBL_DIG: usize = 15;
/// The decimal digits that a `real` always preserves.
const FLT_DIG: usize = 6;

fn each<T: ArrowPrimitiveType>(
    texts: &ArrayRef,
    read: impl Fn(&str) -> Result<T::Native, PgError>,
) -> Result<PrimitiveArray<T>> {
    let texts = texts.as_string::<i32>();
    let values = texts.iter().map(|text| text.map(&read).transpose());
    Ok(values.collect::<Result<_, _>>()?)
}

fn parsed(texts: &ArrayRef, to: &Target, held: &DataType) -> Result<ArrayRef> {
    let integer = |text: &str| parse_integer(text, to);
    Ok(match to {
        Target::Bool => {
            let texts = texts.as_string::<i32>().iter();
            let values = texts.map(|text| text.map(parse_bool).transpose());
            Arc::new(values.collect::<Result<BooleanArray, _>>()?)
        }
        Target::Int2 => Arc::new(each::<Int16Type>(texts, |text| {
            i16::try_from(integer(text)?).map_err(|_| outside(text, to))
        })?),
        Target::Int4 => Arc::new(each::<Int32Type>(texts, |text| {
            i32::try_from(integer(text)?).map_err(|_| outside(text, to))
        })?),
        Target::Int8 => Arc::new(each::<Int64Type>(texts, integer)?),
        Target::Float4 => Arc::new(each::<Float32Type>(texts, parse_float4)?),
        Target::Float8 => Arc::new(each::<Float64Type>(texts, parse_float8)?),
        _ => {
            let texts = texts.as_string::<i32>().iter();
            let values = texts.map(|text| text.map(parse_numeric).transpose());
            numerics(values, to, held)?
        }
    })
}

fn outside(text: &str, to: &Target) -> PgError {
    let message = format!("value \"{text}\" is out of range for type {}", to.name());
    PgError::new("22003", message)
}

fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\x0b'
}

/// Parses an integer as PostgreSQL does: optional blanks, a sign, digits.
fn parse_integer(text: &str, to: &Target) -> Result<i64, PgError> {
    let trimmed = text.trim_matches(is_space);
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(PgError::invalid_text(&to.name(), text));
    }
    trimmed.parse().map_err(|_| outside(text, to))
}

/// Parses a double as PostgreSQL does.
fn parse_float8(text: &str) -> Result<f64, PgError> {
    let value: f64 = parse_float(text, "double precision")?;
    check_float(value.is_infinite(), value == 0.0, text, "double precision")?;
    Ok(value)
}

fn parse_float4(text: &str) -> Result<f32, PgError> {
    let value: f32 = parse_float(text, "real")?;
    check_float(value.is_infinite(), value == 0.0, text, "real")?;
    Ok(value)
}

fn parse_float<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, PgError> {
    let trimmed = text.trim_matches(is_space);
    trimmed
        .parse()
        .map_err(|_| PgError::invalid_text(name, text))
}

/// Refuses a text whose value is too large or too small for the type.
fn check_float(infinite: bool, zero: bool, text: &str, name: &str) -> Result<(), PgError> {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let has =
        |digits: std::ops::RangeInclusive<u8>| mantissa.bytes().any(|byte| digits.contains(&byte));
    if (infinite && has(b'0'..=b'9')) || (zero && has(b'1'..=b'9')) {
        let text = text.trim_matches(is_space);
        let message = format!("\"{text}\" is out of range for type {name}");
        return Err(PgError::new("22003", message));
    }
    Ok(())
}

fn parse_numeric(text: &str) -> Result<Numeric, PgError> {
    Numeric::parse(text).ok_or_else(|| {
        let word = text.trim_matches(is_space).to_ascii_lowercase();
        match word.trim_start_matches(['+', '-']) {
            "nan" | "inf" | "infinity" => no_numeric(&word),
            _ => PgError::invalid_text("numeric", text),
        }
    })
}

/// The error for NaN and infinity, which Arrow's decimals lack.
fn no_numeric(word: &str) -> PgError {
    PgError::unsupported(format!("numeric {word} is not supported"))
}

/// Parses a boolean as PostgreSQL does: any unambiguous prefix of its words.
pub(crate) fn parse_bool(text: &str) -> Result<bool, PgError> {
    let word = text.trim_matches(is_space).to_ascii_lowercase();
    let begins = |full: &str| !word.is_empty() && full.starts_with(&word);
    match word.as_str() {
        "1" | "on" => Ok(true),
        "0" | "of" | "off" => Ok(false),
        _ if begins("true") || begins("yes") => Ok(true),
        _ if begins("false") || begins("no") => Ok(false),
        _ => Err(PgError::invalid_text("boolean", text)),
    }
}

fn from_floats(array: &ArrayRef, digits: usize, to: &Target, held: &DataType) -> Result<ArrayRef> {
    if let (Target::Float4, DataType::Float64) = (to, array.data_type()) {
        let doubles = array.as_primitive::<Float64Type>();
        return Ok(Arc::new(
            doubles.try_unary::<_, Float32Type, PgError>(narrowed)?,
        ));
    }
    if matches!(to, Target::Float4 | Target::Float8) {
        return arrow_cast(array, held);
    }
    let doubles = arrow_cast(array, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    let whole = |value: f64, low: f64| -> Result<f64, PgError> {
        let value = value.round_ties_even();
        // The minimum is a power of two, so both bounds are exact.
        if value >= low && value < -low {
            Ok(value)
        } else {
            Err(PgError::out_of_range(&to.name()))
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "checked by `whole`")]
    Ok(match to {
        Target::Int2 => Arc::new(doubles.try_unary::<_, Int16Type, PgError>(|value| {
            whole(value, f64::from(i16::MIN)).map(|value| value as i16)
        })?),
        Target::Int4 => Arc::new(doubles.try_unary::<_, Int32Type, PgError>(|value| {
            whole(value, f64::from(i32::MIN)).map(|value| value as i32)
        })?),
        Target::Int8 => Arc::new(doubles.try_unary::<_, Int64Type, PgError>(|value| {
            whole(value, TWO_TO_63).map(|value| value as i64)
        })?),
        _ => {
            let values = doubles.iter().map(|value| {
                value
                    .map(|value| {
                        let word = if value.is_nan() { "NaN" } else { "infinity" };
                        Numeric::of_float(value, digits).ok_or_else(|| no_numeric(word))
                    })
                    .transpose()
            });
            numerics(values, to, held)?
        }
    })
}

/// The minimum of a bigint.
const TWO_TO_63: f64 = -9_223_372_036_854_775_808.0;

/// Converts a double to a `real`.
#[expect(clippy::cast_possible_truncation, reason = "intended, and checked")]
fn narrowed(value: f64) -> Result<f32, PgError> {
    let single = value as f32;
    if single.is_infinite() && value.is_finite() {
        return Err(PgError::new("22003", "value out of range: overflow"));
    }
    if single == 0.0 && value != 0.0 {
        return Err(PgError::new("22003", "value out of range: underflow"));
    }
    Ok(single)
}

fn from_integers(array: &ArrayRef, to: &Target, held: &DataType) -> Result<ArrayRef> {
    let wide = array.as_primitive::<Int64Type>();
    let outside = || PgError::out_of_range(&to.name());
    Ok(match to {
        Target::Bool => Arc::new(BooleanArray::from_unary(wide, |value| value != 0)),
        Target::Int2 => Arc::new(wide.try_unary::<_, Int16Type, PgError>(|value| {
            i16::try_from(value).map_err(|_| outside())
        })?),
        Target::Int4 => Arc::new(wide.try_unary::<_, Int32Type, PgError>(|value| {
            i32::try_from(value).map_err(|_| outside())
        })?),
        Target::Int8 => Arc::clone(array),
        Target::Float4 | Target::Float8 => arrow_cast(array, held)?,
        _ => from_decimals(&arrow_cast(array, &DataType::Decimal128(19, 0))?, to, held)?,
    })
}

fn from_decimals(array: &ArrayRef, to: &Target, held: &DataType) -> Result<ArrayRef> {
    let (DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale)) = array.data_type()
    else {
        return internal_err!("{} is not a decimal", array.data_type());
    };
    // Only files have negative scales.
    let scale = u32::try_from(*scale).unwrap_or(0);
    let outside = || PgError::out_of_range(&to.name());
    Ok(match to {
        Target::Bool => return internal_err!("a decimal cannot be cast to boolean"),
        Target::Int2 | Target::Int4 | Target::Int8 => {
            let long = |value: Option<i128>| {
                let value = value.and_then(|value| i64::try_from(value).ok());
                value.ok_or_else(outside)
            };
            let long: Int64Array = match array.as_primitive_opt::<Decimal128Type>() {
                Some(cells) => {
                    let divisor = 10_i128.pow(scale);
                    cells.try_unary(|cell| long(Some(rounded(cell, divisor))))?
                }
                None => {
                    let cells = array.as_primitive::<Decimal256Type>();
                    cells.try_unary(|cell| {
                        let whole = Numeric::of_i256(cell, scale).rounded(0).to_i256(0);
                        long(whole.and_then(i256::to_i128))
                    })?
                }
            };
            from_integers(&(Arc::new(long) as ArrayRef), to, held)?
        }
        Target::Float8 => {
            let value = |text: &str| text.parse().unwrap_or(f64::NAN);
            match array.as_primitive_opt::<Decimal128Type>() {
                Some(cells) => Arc::new(doubles(cells, scale)),
                None => {
                    let cells = array.as_primitive::<Decimal256Type>();
                    Arc::new(cells.unary::<_, Float64Type>(|cell| {
                        value(&Numeric::of_i256(cell, scale).to_string())
                    }))
                }
            }
        }
        Target::Float4 => {
            let wide = wide(array)?;
            let cells = wide.as_primitive::<Decimal256Type>();
            Arc::new(cells.try_unary::<_, Float32Type, PgError>(|cell| {
                parse_float4(&Numeric::of_i256(cell, scale).to_string())
            })?)
        }
        _ => rescaled(array, scale, to, held)?,
    })
}

fn wide(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Decimal128(_, scale) => arrow_cast(array, &DataType::Decimal256(76, *scale)),
        _ => Ok(Arc::clone(array)),
    }
}

/// Divides and rounds half away from zero; the divisor is a power of ten.
fn rounded(value: i128, divisor: i128) -> i128 {
    if let (Ok(value), Ok(divisor)) = (i64::try_from(value), i64::try_from(divisor)) {
        // Division of 64 bits is far faster.
        let (quotient, rest) = (value / divisor, value % divisor);
        let up = divisor > 1 && rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
        return i128::from(quotient) + i128::from(if up { value.signum() } else { 0 });
    }
    let (quotient, rest) = (value / divisor, value % divisor);
    // `rest * 2` may overflow; `divisor - rest` may not.
    if divisor > 1 && rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs() {
        quotient + value.signum()
    } else {
        quotient
    }
}

/// Converts decimals to the nearest doubles. A division of two exact doubles rounds once.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "exact up to 2^53"
)]
fn doubles(cells: &Decimal128Array, scale: u32) -> Float64Array {
    let is_exact = |cell: i128| cell.unsigned_abs() <= 1 << 53;
    let divisor = (scale <= 22).then(|| 10_f64.powi(scale.cast_signed()));
    // Conversion from 64 bits is far faster than from 128.
    let quick = |cell: i128, divisor: f64| cell as i64 as f64 / divisor;
    match divisor {
        Some(divisor)
            if cells
                .values()
                .iter()
                .fold(true, |all, &cell| all & is_exact(cell)) =>
        {
            cells.unary(|cell| quick(cell, divisor))
        }
        _ => cells.unary(|cell| match divisor {
            Some(divisor) if is_exact(cell) => quick(cell, divisor),
            _ => Numeric::new(cell, scale).to_f64(),
        }),
    }
}

/// Converts decimals to another precision and scale.
fn rescaled(array: &ArrayRef, scale: u32, to: &Target, held: &DataType) -> Result<ArrayRef> {
    if array.data_type() == held && !to.has_modifier() {
        return Ok(Arc::clone(array));
    }
    if let (Some(cells), DataType::Decimal128(precision, to_scale)) =
        (array.as_primitive_opt::<Decimal128Type>(), held)
        && !matches!(to, Target::Numeric(Some((_, ..0))))
    {
        let limit = 10_u128.pow(u32::from(*precision));
        let to_scale_abs = u32::try_from(*to_scale).unwrap_or(0);
        let cut = 10_i128.pow(scale.saturating_sub(to_scale_abs));
        let grow = 10_i128.pow(to_scale_abs.saturating_sub(scale));
        let fits = |value: i128| -> Result<i128, PgError> {
            let value = rounded(value, cut)
                .checked_mul(grow)
                .ok_or_else(field_overflow)?;
            if value.unsigned_abs() < limit {
                Ok(value)
            } else {
                Err(field_overflow())
            }
        };
        let cells: Decimal128Array = cells.try_unary(fits)?;
        return Ok(Arc::new(
            cells.with_precision_and_scale(*precision, *to_scale)?,
        ));
    }
    let wide = wide(array)?;
    let cells = wide.as_primitive::<Decimal256Type>();
    let values = cells
        .iter()
        .map(|cell| Ok::<_, PgError>(cell.map(|cell| Numeric::of_i256(cell, scale))));
    numerics(values, to, held)
}

/// The error for a value that exceeds the declared precision.
fn field_overflow() -> PgError {
    PgError::new("22003", "numeric field overflow")
}

/// The error for a number of more than 76 digits.
pub(crate) fn overflow() -> PgError {
    PgError::new("22003", "value overflows numeric format")
}

/// Builds an array of the decimal type `held`. Each value is rounded to the target's declared
/// scale and checked against its precision.
fn numerics(
    values: impl Iterator<Item = Result<Option<Numeric>, PgError>>,
    to: &Target,
    held: &DataType,
) -> Result<ArrayRef> {
    let (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) = held
    else {
        return internal_err!("{held} is not a decimal");
    };
    let held_scale = u32::try_from(*scale).unwrap_or(0);
    let cell = |value: Numeric| -> Result<i256, PgError> {
        let value = match to {
            Target::Numeric(Some((precision, scale))) => {
                let value = value.rounded(i64::from(*scale));
                let limit = i64::from(*precision) - i64::from(*scale);
                let whole = value.truncated(0);
                let digits = whole.digits.magnitude().to_string();
                let count = if whole.is_zero() { 0 } else { digits.len() };
                let fraction = Numeric::new(1, u32::try_from((-limit).max(0)).unwrap_or(0));
                let magnitude = Numeric::new(
                    num_bigint::BigInt::from(value.digits.magnitude().clone()),
                    value.scale,
                );
                if i64::try_from(count).unwrap_or(i64::MAX) > limit.max(0)
                    || (limit < 0 && magnitude.compare(&fraction).is_ge())
                {
                    return Err(field_overflow());
                }
                value
            }
            _ => value,
        };
        value.to_i256(held_scale).ok_or_else(overflow)
    };
    let cells = values
        .map(|value| value?.map(cell).transpose())
        .collect::<Result<Decimal256Array, _>>()?;
    let wide = cells.with_precision_and_scale(76, *scale)?;
    if let DataType::Decimal256(..) = held {
        return Ok(Arc::new(wide.with_precision_and_scale(*precision, *scale)?));
    }
    let limit = 10_u128.pow(u32::from(*precision));
    let narrow: Decimal128Array = wide.try_unary(|cell| {
        let cell = cell.to_i128().filter(|cell| cell.unsigned_abs() < limit);
        cell.ok_or_else(overflow)
    })?;
    Ok(Arc::new(
        narrow.with_precision_and_scale(*precision, *scale)?,
    ))
}
