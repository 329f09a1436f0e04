//! Parses numerics with exactly the digits they are written with.

use datafusion::arrow::datatypes::i256;
use datafusion::scalar::ScalarValue;

use crate::PgError;

/// The maximum number of digits in Arrow's decimals.
const DIGITS_MAX: usize = 76;
/// The maximum number of digits in the smaller of Arrow's decimals.
const DIGITS_MAX_128: usize = 38;

/// Parses a numeric: a sign, digits with a point, an exponent.
///
/// # Errors
/// 22P02 if the text is not one; 0A000 for NaN, infinity, and numbers with too many digits for
/// Arrow's decimals.
pub(super) fn numeric(text: &str) -> Result<ScalarValue, PgError> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let wrong = || PgError::invalid_text("numeric", text);
    let (negative, unsigned) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    if ["nan", "inf", "infinity"]
        .iter()
        .any(|word| unsigned.eq_ignore_ascii_case(word))
    {
        let message = format!("numeric {trimmed} is not supported");
        return Err(PgError::unsupported(message));
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| wrong())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let scale = i64::try_from(fraction.len()).unwrap_or(i64::MAX) - i64::from(exponent);
    let significant = all.trim_start_matches('0');
    let zeros = usize::try_from(-scale).unwrap_or(0);
    let scale = usize::try_from(scale).unwrap_or(0);
    // The exponent of a zero does not count: 0e100 is 0.
    let zeros = if significant.is_empty() { 0 } else { zeros };
    let digits = (significant.len() + zeros).max(scale).max(1);
    if digits > DIGITS_MAX {
        return Err(PgError::unsupported(format!(
            "a numeric of {digits} digits is not supported: the limit is {DIGITS_MAX}"
        )));
    }
    let sign = if negative { "-" } else { "" };
    let shown = if significant.is_empty() {
        "0"
    } else {
        significant
    };
    let value = format!("{sign}{shown}{:0<zeros$}", "");
    let (precision, scale) = (
        u8::try_from(digits).unwrap_or(u8::MAX),
        i8::try_from(scale).unwrap_or(i8::MAX),
    );
    if digits <= DIGITS_MAX_128 {
        let value = value.parse().map_err(|_| wrong())?;
        return Ok(ScalarValue::Decimal128(Some(value), precision, scale));
    }
    let value = i256::from_string(&value).ok_or_else(wrong)?;
    Ok(ScalarValue::Decimal256(Some(value), precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_keeps_its_digits() {
        for (text, value, precision, scale) in [
            ("0.05", 5, 2, 2),
            ("-12", -12, 2, 0),
            ("1E-7", 1, 7, 7),
            ("1.50e+3", 1500, 4, 0),
            (" +007.10 ", 710, 3, 2),
            ("0", 0, 1, 0),
            ("0e100", 0, 1, 0),
            (".5", 5, 1, 1),
            ("5.", 5, 1, 0),
        ] {
            let expected = ScalarValue::Decimal128(Some(value), precision, scale);
            assert_eq!(numeric(text).unwrap(), expected, "{text}");
        }
        let wide = numeric("1e40").unwrap();
        assert!(
            matches!(wide, ScalarValue::Decimal256(Some(_), 41, 0)),
            "{wide:?}"
        );
    }

    #[test]
    fn texts_that_are_no_numerics_are_errors() {
        for (text, code) in [
            ("twelve", "22P02"),
            ("", "22P02"),
            (".", "22P02"),
            ("1e", "22P02"),
            ("1 2", "22P02"),
            ("--1", "22P02"),
            ("NaN", "0A000"),
            ("1e300", "0A000"),
        ] {
            assert_eq!(numeric(text).unwrap_err().code(), code, "{text}");
        }
    }
}
