//! How does PostgreSQL compute with `numeric`?
//!
//! [`Numeric`] is a whole number of any length and a count of digits behind the point, the display
//! scale. Its operations choose the scale of a result and round it as PostgreSQL's `numeric.c`
//! does; the names of its constants are kept. NaN and infinity are not held.
//!
//! Not here: columns (`division.rs`, `numeric_functions.rs`).

use std::cmp::Ordering;
use std::fmt;

use arrow::datatypes::i256;
use num_bigint::{BigInt, BigUint, Sign};

/// Digits of a value in one digit of PostgreSQL's base 10000.
const DEC_DIGITS: i64 = 4;
/// A quotient has at least so many significant digits.
const NUMERIC_MIN_SIG_DIGITS: i64 = 16;
/// No function gives more digits behind the point.
const NUMERIC_MAX_DISPLAY_SCALE: i64 = 1000;
/// Exponents in a text beyond this give no value that fits.
const EXPONENT_MAX: i64 = 2000;

/// A decimal number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numeric {
    /// The number without its point.
    pub(crate) digits: BigInt,
    /// How many of the digits are behind the point.
    pub(crate) scale: u32,
}

/// 10 to the power of `exponent`.
pub(crate) fn ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// `value / divisor`, rounded half away from zero.
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

    /// The number without its point at this scale; `None` if it needs more than 76 digits, or has
    /// digits that the scale would cut.
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

    /// Reads a decimal number as `numeric_in` does; `None` if the text is none.
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

    /// As PostgreSQL makes a numeric of a float: of its first `significant` digits.
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

    /// Without zeros at the end of the fraction.
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

    /// At exactly this scale, rounded half away from zero. A negative scale rounds before the
    /// point; the result has scale 0 then.
    pub(crate) fn rounded(&self, scale: i64) -> Self {
        self.at(scale, divided)
    }

    /// See [`Numeric::rounded`]; the digits beyond the scale are dropped.
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

    /// The scale's position and the first digit in base 10000 (`weight` and `digits[0]`).
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

    /// `select_div_scale`.
    pub(crate) fn quotient_scale(&self, divisor: &Self) -> i64 {
        let ((weight1, first1), (weight2, first2)) = (self.leading(), divisor.leading());
        let qweight = weight1 - weight2 - i64::from(first1 <= first2);
        (NUMERIC_MIN_SIG_DIGITS - qweight * DEC_DIGITS)
            .max(i64::from(self.scale))
            .max(i64::from(divisor.scale))
            .clamp(0, NUMERIC_MAX_DISPLAY_SCALE)
    }

    /// `self / divisor`, which is not zero.
    pub(crate) fn div(&self, divisor: &Self) -> Self {
        self.div_at(divisor, self.quotient_scale(divisor))
    }

    /// `self / divisor` with so many digits behind the point.
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

    /// `numeric_sqrt`; `None` of a negative number.
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

    /// The square root with so many digits behind the point; `None` of a negative number.
    pub(crate) fn sqrt_at(&self, scale: i64) -> Option<Self> {
        if self.is_negative() {
            return None;
        }
        // One digit more, so that the root's floor is rounded right: a square root that is not
        // exact is never half way between two numbers of fewer digits.
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

/// `None` beyond 76 digits.
pub(crate) fn big_to_i256(value: &BigInt) -> Option<i256> {
    let bytes = value.to_signed_bytes_le();
    let fill = if value.sign() == Sign::Minus { 0xff } else { 0 };
    let mut wide = [fill; 32];
    wide.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    let value = i256::from_le_bytes(wide);
    let limit = i256::from_i128(10).checked_pow(76)?;
    (value < limit && value > limit.checked_neg()?).then_some(value)
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

    // The quotients and roots are PostgreSQL 15's.
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
            assert_eq!(n(a).div(&n(b)).to_string(), quotient, "{a}/{b}");
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
