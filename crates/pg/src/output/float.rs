//! Floats in PostgreSQL's text format: the shortest text that reads back as the same value.
//!
//! PostgreSQL (`d2s.c`, Ryu) and Rust differ in two points. Halfway between two shortest texts,
//! PostgreSQL takes the even one (139979.62 for the float4 139979.625). And PostgreSQL does not
//! accept a text exactly halfway between two floats, although it reads back as the even one: 1e23
//! is written 9.999999999999999e+22.

use std::fmt::{self, LowerExp, Write};
use std::str::FromStr;

use bytes::BytesMut;

/// The properties of a float type that determine its texts.
pub(super) trait Float: Copy + PartialEq + LowerExp + FromStr + Into<f64> {
    /// Exponents from this one on are written as such.
    const PLAIN_MAX: i32;
    /// With fewer digits than this, no other text is equally short and near.
    const UNIQUE: usize;
    /// A number of digits that suffices for every value.
    const DIGITS: usize;
    /// Only values in this range have a text of few digits exactly halfway to the next value.
    const EDGES: (f64, f64);

    fn is_even(self) -> bool;
}

impl Float for f32 {
    const PLAIN_MAX: i32 = 6;
    const UNIQUE: usize = 6;
    const DIGITS: usize = 9;
    const EDGES: (f64, f64) = (1e6, 1e20);

    fn is_even(self) -> bool {
        self.to_bits() & 1 == 0
    }
}

impl Float for f64 {
    const PLAIN_MAX: i32 = 15;
    const UNIQUE: usize = 15;
    const DIGITS: usize = 17;
    const EDGES: (f64, f64) = (1e15, 1e41);

    fn is_even(self) -> bool {
        self.to_bits() & 1 == 0
    }
}

/// Writes a float, with an exponent if it is below 1e-4 or has more than `PLAIN_MAX` digits before
/// the decimal point.
pub(super) fn put_float<F: Float>(value: F, out: &mut BytesMut) -> fmt::Result {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return out.write_str("NaN");
    }
    if wide.is_infinite() {
        return out.write_str(if wide > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = shortest(value, wide.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..F::PLAIN_MAX).contains(&exponent) {
        return put_plain(mantissa, exponent, out);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{mantissa}e{sign}{:02}", exponent.abs())
}

/// The shortest text of a finite value, with an exponent (`-1.25e7`).
fn shortest<F: Float>(value: F, size: f64) -> String {
    let rust = format!("{value:e}");
    let mantissa = rust.split('e').next().unwrap_or(&rust);
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let has_edges = value.is_even() && (F::EDGES.0..F::EDGES.1).contains(&size);
    if digits < F::UNIQUE && !has_edges {
        return rust;
    }
    let reads_back = |text: &str| match has_edges {
        true => around(text).is_some_and(|near| near.iter().all(|text| is(text, value))),
        false => is(text, value),
    };
    let nearest = format!("{value:.*e}", digits - 1);
    if reads_back(&nearest) {
        return nearest;
    }
    if reads_back(&rust) {
        return rust;
    }
    (digits..F::DIGITS)
        .map(|fraction| format!("{value:.fraction$e}"))
        .find(|text| reads_back(text))
        .unwrap_or(rust)
}

fn is<F: Float>(text: &str, value: F) -> bool {
    text.parse().is_ok_and(|read: F| read == value)
}

/// The texts slightly below and above a text.
fn around(text: &str) -> Option<[String; 2]> {
    let (mantissa, exponent) = text.split_once('e')?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let fraction = mantissa
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    let digits: u64 = mantissa.replace('.', "").parse().ok()?;
    let below = digits.checked_sub(1)?;
    let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction).ok()? - 40;
    Some([
        format!("{sign}{digits}{:040}e{exponent}", 1),
        format!("{sign}{below}{:9<40}e{exponent}", ""),
    ])
}

/// Moves the decimal point of `mantissa` (`-1.25`) by `exponent` digits.
fn put_plain(mantissa: &str, exponent: i32, out: &mut BytesMut) -> fmt::Result {
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.write_str(sign)?;
    let Ok(exponent) = usize::try_from(exponent) else {
        let zeros = exponent.unsigned_abs() as usize - 1;
        return write!(out, "0.{:0<zeros$}{digits}", "");
    };
    if digits.len() <= exponent + 1 {
        write!(out, "{digits:0<width$}", width = exponent + 1)
    } else {
        let (whole, fraction) = digits.split_at(exponent + 1);
        write!(out, "{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<F: Float>(value: F) -> String {
        let mut out = BytesMut::new();
        put_float(value, &mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn floats_are_written_as_in_postgres() {
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (123_456.789, "123456.789"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (1e23, "9.999999999999999e+22"),
            (929_783_312_831_207.3, "929783312831207.2"),
            (-55_685_667_466_816_816.0, "-5.5685667466816816e+16"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(text(value), expected);
        }
        for (value, expected) in [
            (1e6_f32, "1e+06"),
            (139_979.63, "139979.62"),
            (109_200_576.0, "1.09200576e+08"),
            (-1_716_473.3, "-1.7164732e+06"),
            (f32::MIN_POSITIVE, "1.1754944e-38"),
        ] {
            assert_eq!(text(value), expected);
        }
    }
}
