//! PostgreSQL's arithmetic of `numeric`.
//!
//! A [`Numeric`] is an integer of any length with a number of decimal places, the display scale.
//! Its operations choose the scale of a result and round it like PostgreSQL's `numeric.c`, and use
//! the names of its constants. NaN and infinity are not represented.
//!
//! Not here: columns (`arithmetic.rs`, `functions.rs`).

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use arrow::datatypes::i256;
use num_bigint::{BigInt, BigUint, Sign};

/// Decimal digits per digit of PostgreSQL's base 10000.
const DEC_DIGITS: i64 = 4;
/// The minimum number of significant digits of a quotient.
const NUMERIC_MIN_SIG_DIGITS: i64 = 16;
/// The maximum number of decimal places of a function's result.
const NUMERIC_MAX_DISPLAY_SCALE: i64 = 1000;
/// Texts with larger exponents have no value that fits.
const EXPONENT_MAX: i64 = 2000;

/// A decimal number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numeric {
    /// The number without its decimal point.
    pub(crate) digits: BigInt,
    /// The number of digits after the decimal point.
    pub(crate) scale: u32,
}

/// 10 to the power of `exponent`.
pub(crate) fn ten(exponent: u32) -> BigInt {
    static SMALL: LazyLock<Vec<BigInt>> =
        LazyLock::new(|| (0..128).map(|at| BigInt::from(10).pow(at)).collect());
    match SMALL.get(exponent as usize) {
        Some(power) => power.clone(),
        None => BigInt::from(10).pow(exponent),
    }
}

/// 10 to the power of `exponent`; `None` if it needs more than 77 digits.
pub(crate) fn power_of_ten(exponent: u32) -> Option<i256> {
    static POWERS: LazyLock<[i256; 77]> = LazyLock::new(|| {
        let mut next = i256::ONE;
        std::array::from_fn(|_| {
            let power = next;
            next = next.wrapping_mul(i256::from_i128(10));
            power
        })
    });
    POWERS.get(exponent as usize).copied()
}

/// Whether a value has at most 76 digits.
pub(crate) fn fits(value: i256) -> bool {
    power_of_ten(76).is_some_and(|limit| value < limit && value > limit.wrapping_neg())
}

/// A value with PostgreSQL's display scale. A column with a wide scale holds values of different
/// scales, so trailing zeros are not significant.
pub(crate) fn shown_scale(value: i256, scale: u32) -> Numeric {
    let value = Numeric::of_i256(value, scale);
    if scale <= PLAIN_SCALE_MAX {
        value
    } else {
        value.trimmed()
    }
}

/// The largest scale that is taken for a declared one.
pub(crate) const PLAIN_SCALE_MAX: u32 = 18;

/// Divides and rounds half away from zero.
fn divided(value: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = value / divisor;
    let rest: BigInt = (value - &quotient * divisor) * 2;
    if rest.magnitude() < divisor.magnitude() {
        return quotient;
    }
    if (value.sign() == Sign::Minus) == (divisor.sign() == Sign::Minus) {
        quotient + 1
    } else {
        quotient - 1
    }
}

impl Numeric {
    pub(crate) fn new(digits: impl Into<BigInt>, scale: u32) -> Self {
        let digits = digits.into();
        Self { digits, scale }
    }

    pub(crate) fn of_i256(value: i256, scale: u32) -> Self {
        Self::new(BigInt::from_signed_bytes_le(&value.to_le_bytes()), scale)
    }

    /// The number at this scale, without its decimal point; `None` if it needs more than 76
    /// digits, or if the scale would cut digits.
    pub(crate) fn to_i256(&self, scale: u32) -> Option<i256> {
        let digits = if scale >= self.scale {
            &self.digits * ten(scale - self.scale)
        } else {
            let cut = ten(self.scale - scale);
            let kept = &self.digits / &cut;
            if &kept * cut != self.digits {
                return None;
            }
            kept
        };
        big_to_i256(&digits)
    }

    /// Parses a decimal number like `numeric_in`; `None` if the text is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => {
                let exponent = &rest[at + 1..];
                let plain = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                (&rest[..at], exponent.parse::<i64>().ok()?)
            }
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let all = format!("{whole}{fraction}");
        if !all.bytes().all(|byte| byte.is_ascii_digit()) || exponent.abs() > EXPONENT_MAX {
            return None;
        }
        let mut digits = BigInt::from(BigUint::parse_bytes(all.as_bytes(), 10)?);
        if negative {
            digits = -digits;
        }
        let scale = i64::try_from(fraction.len()).ok()? - exponent;
        if scale < 0 {
            digits *= ten(u32::try_from(-scale).ok()?);
        }
        Some(Self::new(digits, u32::try_from(scale.max(0)).ok()?))
    }

    /// Converts a float as PostgreSQL does: its first `significant` digits count.
    pub(crate) fn of_float(value: f64, significant: usize) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let text = format!("{:.*e}", significant - 1, value);
        let found = Self::parse(&text)?;
        Some(found.trimmed())
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.sign() == Sign::NoSign
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.digits.sign() == Sign::Minus
    }

    /// The number without trailing zeros in the fraction.
    pub(crate) fn trimmed(&self) -> Self {
        if self.is_zero() {
            return Self::new(0, 0);
        }
        let (mut digits, mut scale) = (self.digits.clone(), self.scale);
        while scale > 0 {
            let shorter: BigInt = &digits / 10;
            if &shorter * 10 != digits {
                break;
            }
            digits = shorter;
            scale -= 1;
        }
        Self::new(digits, scale)
    }

    /// The number at this scale, rounded half away from zero. A negative scale rounds before the
    /// decimal point; the result then has scale 0.
    pub(crate) fn rounded(&self, scale: i64) -> Self {
        self.at(scale, divided)
    }

    /// Like [`Numeric::rounded`], but digits beyond the scale are dropped.
    pub(crate) fn truncated(&self, scale: i64) -> Self {
        self.at(scale, |value, divisor| value / divisor)
    }

    fn at(&self, scale: i64, divide: impl Fn(&BigInt, &BigInt) -> BigInt) -> Self {
        let scale = scale.clamp(
            -NUMERIC_MAX_DISPLAY_SCALE * 2,
            NUMERIC_MAX_DISPLAY_SCALE * 2,
        );
        let kept = u32::try_from(scale.max(0)).unwrap_or(0);
        if scale >= i64::from(self.scale) {
            return Self::new(&self.digits * ten(kept - self.scale), kept);
        }
        let cut = u32::try_from(i64::from(self.scale) - scale).unwrap_or(0);
        let digits = divide(&self.digits, &ten(cut));
        let before = u32::try_from((-scale).max(0)).unwrap_or(0);
        Self::new(digits * ten(before), kept)
    }

    /// The weight and the first digit in base 10000 (`weight` and `digits[0]`).
    fn leading(&self) -> (i64, i64) {
        if self.is_zero() {
            return (0, 0);
        }
        let text = self.digits.magnitude().to_string();
        let count = i64::try_from(text.len()).unwrap_or(i64::MAX);
        let exponent = count - 1 - i64::from(self.scale);
        let weight = exponent.div_euclid(DEC_DIGITS);
        let wanted = usize::try_from(exponent - weight * DEC_DIGITS + 1).unwrap_or(1);
        let shown: String = text.chars().chain("000".chars()).take(wanted).collect();
        (weight, shown.parse().unwrap_or(0))
    }

    /// The scale of a quotient (`select_div_scale`).
    pub(crate) fn quotient_scale(&self, divisor: &Self) -> i64 {
        let ((weight1, first1), (weight2, first2)) = (self.leading(), divisor.leading());
        let qweight = weight1 - weight2 - i64::from(first1 <= first2);
        (NUMERIC_MIN_SIG_DIGITS - qweight * DEC_DIGITS)
            .max(i64::from(self.scale))
            .max(i64::from(divisor.scale))
            .clamp(0, NUMERIC_MAX_DISPLAY_SCALE)
    }

    /// `self / divisor` with this many decimal places.
    pub(crate) fn div_at(&self, divisor: &Self, scale: i64) -> Self {
        let scale = u32::try_from(scale.max(0)).unwrap_or(0);
        let numerator = &self.digits * ten(divisor.scale + scale);
        let denominator = &divisor.digits * ten(self.scale);
        Self::new(divided(&numerator, &denominator), scale)
    }

    /// The remainder of `self / divisor`, with the sign of `self`.
    pub(crate) fn rem(&self, divisor: &Self) -> Self {
        let scale = self.scale.max(divisor.scale);
        let left = &self.digits * ten(scale - self.scale);
        let right = &divisor.digits * ten(scale - divisor.scale);
        Self::new(left % right, scale)
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        let scale = self.scale.max(other.scale);
        let left = &self.digits * ten(scale - self.scale);
        let right = &other.digits * ten(scale - other.scale);
        Self::new(left + right, scale)
    }

    pub(crate) fn neg(&self) -> Self {
        Self::new(-&self.digits, self.scale)
    }

    pub(crate) fn sub(&self, other: &Self) -> Self {
        self.add(&other.neg())
    }

    pub(crate) fn mul(&self, other: &Self) -> Self {
        Self::new(&self.digits * &other.digits, self.scale + other.scale)
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        let left = &self.digits * ten(scale - self.scale);
        let right = &other.digits * ten(scale - other.scale);
        left.cmp(&right)
    }

    /// The nearest double.
    pub(crate) fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// `numeric_sqrt`; `None` for a negative number.
    pub(crate) fn sqrt(&self) -> Option<Self> {
        if self.is_negative() {
            return None;
        }
        let (weight, _) = self.leading();
        let sweight = (weight + 1) * DEC_DIGITS / 2 - 1;
        let scale = (NUMERIC_MIN_SIG_DIGITS - sweight)
            .max(i64::from(self.scale))
            .clamp(0, NUMERIC_MAX_DISPLAY_SCALE);
        self.sqrt_at(scale)
    }

    /// The square root with this many decimal places; `None` for a negative number.
    pub(crate) fn sqrt_at(&self, scale: i64) -> Option<Self> {
        if self.is_negative() {
            return None;
        }
        // One extra digit, so that the root's floor rounds correctly: an inexact square root is
        // never half way between two numbers of fewer digits.
        let guard = u32::try_from(scale + 1).unwrap_or(1);
        let shifted = if guard * 2 >= self.scale {
            &self.digits * ten(guard * 2 - self.scale)
        } else {
            &self.digits / ten(self.scale - guard * 2)
        };
        let root = BigInt::from(shifted.magnitude().sqrt());
        Some(Self::new(root, guard).rounded(scale))
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let scale = self.scale as usize;
        let digits = format!("{:0>width$}", self.digits.magnitude(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        if scale == 0 {
            return write!(f, "{sign}{whole}");
        }
        write!(f, "{sign}{whole}.{fraction}")
    }
}

/// `None` for more than 76 digits.
pub(crate) fn big_to_i256(value: &BigInt) -> Option<i256> {
    let bytes = value.to_signed_bytes_le();
    let fill = if value.sign() == Sign::Minus { 0xff } else { 0 };
    let mut wide = [fill; 32];
    wide.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(i256::from_le_bytes(wide)).filter(|value| fits(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(text: &str) -> Numeric {
        Numeric::parse(text).unwrap()
    }

    #[test]
    fn texts() {
        for (text, shown) in [
            ("1.50", "1.50"),
            (" -0.05 ", "-0.05"),
            ("1e5", "100000"),
            ("1.5e-3", "0.0015"),
            (".5", "0.5"),
            ("5.", "5"),
        ] {
            assert_eq!(n(text).to_string(), shown);
        }
        for wrong in ["", ".", "1e", "abc", "1 2", "0x1", "1_0", "--1"] {
            assert_eq!(Numeric::parse(wrong), None, "{wrong}");
        }
    }

    // The expected quotients and roots are PostgreSQL 15's.
    #[test]
    fn quotients() {
        for (a, b, quotient) in [
            ("10", "4.0", "2.5000000000000000"),
            ("1", "3", "0.33333333333333333333"),
            ("2", "3", "0.66666666666666666667"),
            ("-7", "2", "-3.5000000000000000"),
            ("1", "123456", "0.000008100051840331778123"),
            ("12345678901234567890", "7", "1763668414462081127"),
            ("0", "7", "0.00000000000000000000"),
            (
                "1.0000000000000000000000000",
                "3",
                "0.3333333333333333333333333",
            ),
        ] {
            let (a, b) = (n(a), n(b));
            let found = a.div_at(&b, a.quotient_scale(&b));
            assert_eq!(found.to_string(), quotient, "{a} / {b}");
        }
    }

    #[test]
    fn roots() {
        for (a, root) in [
            ("2", "1.414213562373095"),
            ("2.0", "1.414213562373095"),
            ("16", "4.000000000000000"),
            ("123456789", "11111.11106055556"),
            ("0.0001", "0.01000000000000000"),
        ] {
            assert_eq!(n(a).sqrt().unwrap().to_string(), root, "sqrt({a})");
        }
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        for (a, scale, rounded) in [
            ("2.5", 0, "3"),
            ("-2.5", 0, "-3"),
            ("1.005", 2, "1.01"),
            ("1250", -2, "1300"),
            ("0.4", 0, "0"),
        ] {
            assert_eq!(n(a).rounded(scale).to_string(), rounded);
        }
    }
}
