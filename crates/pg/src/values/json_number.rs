//! Numbers in `jsonb`: numerics that keep their scale and have no exponent.

use std::cmp::Ordering;

/// The maximum number of digits that an exponent may add.
const EXPONENT_MAX: i64 = 10_000;

/// The number without an exponent; `None` if that would be too long.
pub(super) fn normal(number: &str) -> Option<String> {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (digits, 0),
    };
    if exponent.abs() > EXPONENT_MAX {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).ok()? + exponent;
    let length = i64::try_from(digits.len()).ok()?;
    let (whole, fraction) = if point <= 0 {
        let zeros = "0".repeat(usize::try_from(-point).ok()?);
        ("0".to_owned(), zeros + &digits)
    } else if point >= length {
        let zeros = "0".repeat(usize::try_from(point - length).ok()?);
        (digits + &zeros, String::new())
    } else {
        let (whole, fraction) = digits.split_at(usize::try_from(point).ok()?);
        (whole.to_owned(), fraction.to_owned())
    };
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let is_zero = |text: &str| text.bytes().all(|digit| digit == b'0');
    let sign = if is_zero(whole) && is_zero(&fraction) {
        ""
    } else {
        sign
    };
    Some(match fraction.as_str() {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    })
}

/// Compares numbers without exponents.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let parts = |number: &str| {
        let (negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits.to_owned()),
            None => (false, number.to_owned()),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) => (whole.to_owned(), fraction.to_owned()),
            None => (digits, String::new()),
        };
        (negative, whole, fraction.trim_end_matches('0').to_owned())
    };
    let (left, right) = (parts(left), parts(right));
    if left.0 != right.0 {
        return right.0.cmp(&left.0);
    }
    let size = (left.1.len().cmp(&right.1.len()))
        .then_with(|| left.1.cmp(&right.1))
        .then_with(|| left.2.cmp(&right.2));
    if left.0 { size.reverse() } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (given, expected) in [
            ("1e5", "100000"),
            ("1.50", "1.50"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1E-7", "0.0000001"),
            ("1.5e1", "15"),
            ("12.34e-1", "1.234"),
        ] {
            assert_eq!(normal(given).as_deref(), Some(expected), "{given}");
        }
        assert_eq!(compare("1", "1.0"), Ordering::Equal);
        assert_eq!(compare("-2", "-10"), Ordering::Greater);
        assert_eq!(compare("9", "10.5"), Ordering::Less);
    }
}
