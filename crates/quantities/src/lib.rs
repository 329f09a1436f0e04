//! Quantities in the form that people write and read: `200MB/s`, `25%`, `1.5GB`, `250ms`.
//!
//! Idea: one grammar per quantity, wherever it is typed (a flag, a setting), and one way to show
//! it, so that the shown text can be typed back. Decimal units are powers of 1000 and binary units
//! (`MiB`) powers of 1024: a device's data sheet and a memory limit are each written with their
//! usual units.
//! Not here: the values that an option allows.

#![forbid(unsafe_code)]

use std::str::FromStr;
use std::time::Duration;

/// A text that is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct NotAQuantity {
    /// The text.
    pub text: String,
    /// The accepted forms.
    pub expected: &'static str,
}

type Result<T> = std::result::Result<T, NotAQuantity>;

/// A number of bytes, or a fraction of a size that is known only later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// This many bytes.
    Bytes(u64),
    /// This part of the whole; 1.0 is all of it.
    Fraction(f64),
}

impl Share {
    /// The number of bytes, if the whole has `whole` bytes.
    #[must_use]
    // A fraction is never negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Fraction(fraction) => (whole as f64 * fraction).round() as u64,
        }
    }
}

impl FromStr for Share {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            quantity(
                text,
                "a size or a share: write bytes (1048576), KB, MB, GB, KiB, MiB, GiB (64MiB, 1.5GB) or a share (25%)",
            )
        };
        match text.trim().strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
                if !percent.is_finite() || percent <= 0.0 {
                    return Err(wrong());
                }
                Ok(Self::Fraction(percent / 100.0))
            }
            None => parse_bytes(text).map(Self::Bytes).map_err(|_| wrong()),
        }
    }
}

/// Reads a size such as `64MiB`, `1.5GB`, `1_048_576` or `4096`.
///
/// # Errors
/// [`NotAQuantity`], also for a share.
pub fn parse_bytes(text: &str) -> Result<u64> {
    scaled(text, &BYTE_UNITS).ok_or_else(|| {
        quantity(
            text,
            "a size: write bytes (1048576), or KB, MB, GB, KiB, MiB, GiB (64MiB, 1.5GB)",
        )
    })
}

/// Reads a rate in bytes per second such as `200MB/s`; the `/s` may be left out.
///
/// # Errors
/// [`NotAQuantity`], also for a rate of zero.
pub fn parse_rate(text: &str) -> Result<u64> {
    let bytes = text.trim();
    let bytes = bytes.strip_suffix("/s").unwrap_or(bytes);
    match scaled(bytes, &BYTE_UNITS) {
        Some(rate) if rate > 0 => Ok(rate),
        _ => Err(quantity(text, "a rate, such as 200MB/s")),
    }
}

/// Reads a duration such as `3s`, `250ms`, `2min` or `0`.
///
/// # Errors
/// [`NotAQuantity`].
pub fn parse_duration(text: &str) -> Result<Duration> {
    scaled(text, &TIME_UNITS)
        .map(Duration::from_micros)
        .ok_or_else(|| quantity(text, "a duration, such as 3s or 250ms"))
}

/// A size with three significant digits: `251 MB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let (value, unit) = split(bytes as f64, &["B", "kB", "MB", "GB", "TB", "PB"]);
    format!("{} {unit}", significant(value))
}

/// A rate with three significant digits: `53.4 MB/s`.
#[must_use]
pub fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", bytes(bytes_per_second))
}

/// Seconds in a suitable unit: `380 ms`, `2.35 s`, `4 min 12 s`.
#[must_use]
// Durations are small and not negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn seconds(seconds: f64) -> String {
    if seconds >= 120.0 {
        let whole = seconds.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    } else if seconds >= 1.0 || seconds == 0.0 {
        format!("{} s", significant(seconds))
    } else {
        format!("{} ms", significant(seconds * 1e3))
    }
}

/// Three significant digits, without an exponent; whole numbers from 100 on.
#[must_use]
pub fn significant(value: f64) -> String {
    // Rounding may carry into the next decade (9.996 → 10.0), so the digits are counted after it.
    for (limit, decimals) in [(9.995, 2), (99.95, 1)] {
        if value.abs() < limit {
            return format!("{value:.decimals$}");
        }
    }
    format!("{value:.0}")
}

/// A count with separated thousands: `4 186` (thin space).
#[must_use]
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn quantity(text: &str, expected: &'static str) -> NotAQuantity {
    NotAQuantity {
        text: text.to_owned(),
        expected,
    }
}

fn split<'a>(mut value: f64, units: &[&'a str]) -> (f64, &'a str) {
    let mut at = 0;
    while value >= 999.5 && at + 1 < units.len() {
        value /= 1000.0;
        at += 1;
    }
    (value, units[at])
}

/// A number followed by one of `units`; `None` if the text has another form, or the number is
/// negative or above 2^63.
// The bounds are checked just above.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.replace('_', "").parse().ok()?;
    let unit = unit.trim();
    let (_, factor) = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let value = (number * factor).round();
    (value.is_finite() && value < 9.2e18).then_some(value as u64)
}

const BYTE_UNITS: [(&str, f64); 18] = [
    ("", 1.0),
    ("B", 1.0),
    ("k", 1e3),
    ("kB", 1e3),
    ("M", 1e6),
    ("MB", 1e6),
    ("G", 1e9),
    ("GB", 1e9),
    ("T", 1e12),
    ("TB", 1e12),
    ("Ki", 1024.0),
    ("KiB", 1024.0),
    ("Mi", 1_048_576.0),
    ("MiB", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("GiB", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("TiB", 1_099_511_627_776.0),
];

/// Time units in microseconds, the finest that an option needs. A bare number is in seconds.
const TIME_UNITS: [(&str, f64); 8] = [
    ("", 1e6),
    ("us", 1.0),
    ("ms", 1e3),
    ("s", 1e6),
    ("sec", 1e6),
    ("m", 6e7),
    ("min", 6e7),
    ("h", 3.6e9),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_decimal_and_binary_units() {
        assert_eq!(parse_bytes("1.5GB").unwrap(), 1_500_000_000);
        assert_eq!(parse_bytes(" 64 MiB ").unwrap(), 64 << 20);
        assert_eq!(parse_bytes("4096").unwrap(), 4096);
        assert_eq!(parse_bytes("1_048_576").unwrap(), 1 << 20);
        assert_eq!(parse_bytes("16Mi").unwrap(), 16 << 20);
        for wrong in [
            "",
            "MB",
            "-1MB",
            "1.2.3GB",
            "12 parsecs",
            "1e400GB",
            "99999999999TB",
        ] {
            let error = parse_bytes(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn rates_and_durations() {
        assert_eq!(parse_rate("200MB/s").unwrap(), 200_000_000);
        assert_eq!(parse_rate("125mb").unwrap(), 125_000_000);
        assert!(parse_rate("0MB/s").is_err());
        assert_eq!(parse_duration("3s").unwrap(), Duration::from_secs(3));
        assert_eq!(parse_duration("0.45").unwrap(), Duration::from_millis(450));
        assert_eq!(parse_duration("250ms").unwrap(), Duration::from_millis(250));
        assert!(parse_duration("3 fortnights").is_err());
    }

    #[test]
    fn shares_are_percentages_or_sizes() {
        assert_eq!("25%".parse::<Share>().unwrap().of(1000), 250);
        assert_eq!("1.5GB".parse::<Share>().unwrap().of(7), 1_500_000_000);
        assert!("-5%".parse::<Share>().is_err());
        assert!("NaN%".parse::<Share>().is_err());
    }

    #[test]
    fn three_significant_digits_without_surprises_at_the_borders() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(999_600), "1.00 MB");
        assert_eq!(bytes(251_300_000), "251 MB");
        assert_eq!(significant(9.996), "10.0");
        assert_eq!(significant(99.96), "100");
        assert_eq!(seconds(0.38), "380 ms");
        assert_eq!(seconds(252.2), "4 min 12 s");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }
}
