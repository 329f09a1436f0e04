//! Numerics of at most 38 digits, computed without big integers, with the same results as
//! `numeric.rs`.
//!
//! S1: `None` means that the digits do not fit; the caller then computes with [`Numeric`].
//!
//! [`Numeric`]: super::numeric::Numeric

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type, i256};

use super::numeric::{PLAIN_SCALE_MAX, power_of_ten};

/// A numeric whose digits fit 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Small {
    pub(super) digits: i128,
    pub(super) scale: u32,
}

/// See `Numeric::leading`.
struct Leading {
    weight: i64,
    first: u128,
}

impl Small {
    pub(super) fn new(digits: i128, scale: u32) -> Self {
        Self { digits, scale }
    }

    /// A value with PostgreSQL's display scale; see `numeric::shown_scale`.
    pub(super) fn shown(value: i256, scale: u32) -> Option<Self> {
        if scale <= PLAIN_SCALE_MAX {
            return Some(Self::new(value.to_i128()?, scale));
        }
        if value == i256::ZERO {
            return Some(Self::new(0, 0));
        }
        // A multiple of 10^n is one of 2^n, which is seen at once.
        let mut zeros = value.trailing_zeros().min(scale);
        while zeros > 0 {
            let power = power_of_ten(zeros)?;
            let kept = value.wrapping_div(power);
            if kept.wrapping_mul(power) == value {
                return Some(Self::new(kept.to_i128()?, scale - zeros));
            }
            zeros -= 1;
        }
        Some(Self::new(value.to_i128()?, scale))
    }

    /// The digits at a larger scale.
    pub(super) fn raised(&self, scale: u32) -> Option<i256> {
        let power = power_of_ten(scale.checked_sub(self.scale)?)?;
        i256::from_i128(self.digits).checked_mul(power)
    }

    fn leading(&self) -> Option<Leading> {
        let digits = self.digits.unsigned_abs();
        // Most numbers fit 64 bits, which are far faster.
        let last = match u64::try_from(digits) {
            Ok(digits) => digits.checked_ilog10(),
            Err(_) => digits.checked_ilog10(),
        };
        let Some(last) = last else {
            return Some(Leading {
                weight: 0,
                first: 0,
            });
        };
        let exponent = i64::from(last) - i64::from(self.scale);
        let weight = exponent.div_euclid(4);
        let wanted = u32::try_from(exponent - weight * 4 + 1).ok()?;
        let count = last + 1;
        let first = if count >= wanted {
            whole_quotient(digits, ten(count - wanted)?)
        } else {
            digits * ten(wanted - count)?
        };
        Some(Leading { weight, first })
    }

    /// The quotient and its scale, which PostgreSQL's `select_div_scale` chooses, but at most
    /// `scale_max`. The divisor is not 0.
    pub(super) fn quotient(&self, divisor: &Self, scale_max: u32) -> Option<(i128, u32)> {
        let (left, right) = (self.leading()?, divisor.leading()?);
        let weight = left.weight - right.weight - i64::from(left.first <= right.first);
        let scale = u32::try_from((16 - weight * 4).max(0)).ok()?;
        let scale = scale.max(self.scale).max(divisor.scale).min(scale_max);
        let shift = (divisor.scale + scale).checked_sub(self.scale)?;
        let (dividend, by) = (self.digits.unsigned_abs(), divisor.digits.unsigned_abs());
        let power = ten(shift)?;
        let quotient = match dividend.checked_mul(power) {
            Some(dividend) => divided(dividend, by)?,
            None => divided_wide(wide(dividend).checked_mul(wide(power))?, by)?,
        };
        Some((
            signed(quotient, (self.digits < 0) != (divisor.digits < 0))?,
            scale,
        ))
    }

    /// See `Numeric::sqrt_at`.
    pub(super) fn sqrt_at(&self, scale: u32) -> Option<Self> {
        let guard = scale + 1;
        let power = power_of_ten((guard * 2).checked_sub(self.scale)?)?;
        let shifted = wide(u128::try_from(self.digits).ok()?).checked_mul(power)?;
        let root = Self::new(i128::try_from(whole_root(shifted)?).ok()?, guard);
        Some(Self::new(root.at(scale.into(), true)?, scale))
    }

    /// The digits at this scale, which may be negative, rounded half away from zero or truncated.
    pub(super) fn at(&self, scale: i64, rounds: bool) -> Option<i128> {
        let cut = i64::from(self.scale) - scale;
        if cut <= 0 {
            return self
                .digits
                .checked_mul(signed(ten(u32::try_from(-cut).ok()?)?, false)?);
        }
        let power = u32::try_from(cut).ok().and_then(ten)?;
        let digits = self.digits.unsigned_abs();
        let kept = if rounds {
            divided(digits, power)?
        } else {
            digits / power
        };
        signed(kept, self.digits < 0)
    }
}

/// A column rounded or truncated at `places`, or to integers; `None` if a row needs more digits
/// (S1).
pub(super) fn rounded(
    values: &ArrayRef,
    places: Option<&ArrayRef>,
    rounds: bool,
    result: &DataType,
) -> Option<ArrayRef> {
    let DataType::Decimal128(precision, held) = result else {
        return None;
    };
    let values = values.as_primitive_opt::<Decimal128Type>()?;
    let scale = u32::try_from(values.scale()).ok()?;
    let places = places.map(AsArray::as_primitive::<Int32Type>);
    let held_scale = i64::from(*held);
    let nulls = NullBuffer::union(values.nulls(), places.and_then(|places| places.nulls()));
    let cells = (0..values.len()).map(|row| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Some(0);
        }
        let at = places.map_or(0, |places| i64::from(places.value(row)).min(held_scale));
        let value = Small::new(values.value(row), scale).at(at, rounds)?;
        let power = ten(u32::try_from(held_scale - at).ok()?)?;
        value.checked_mul(signed(power, false)?)
    });
    let cells: Vec<i128> = cells.collect::<Option<_>>()?;
    let cells = Decimal128Array::new(cells.into(), nulls);
    let cells = cells.with_precision_and_scale(*precision, *held).ok()?;
    Some(Arc::new(cells))
}

/// Divides and rounds half up.
fn divided(dividend: u128, divisor: u128) -> Option<u128> {
    let quotient = whole_quotient(dividend, divisor);
    let rest = dividend - quotient * divisor;
    Some(quotient + u128::from(rest >= divisor - rest))
}

/// Like [`divided`]; `None` if the quotient needs more than 128 bits.
fn divided_wide(dividend: i256, divisor: u128) -> Option<u128> {
    let by = wide(divisor);
    let quotient = dividend.wrapping_div(by);
    let rest = dividend.wrapping_sub(quotient.wrapping_mul(by));
    let rest = rest.to_parts().0;
    match quotient.to_parts() {
        (quotient, 0) => quotient.checked_add(u128::from(rest >= divisor - rest)),
        _ => None,
    }
}

/// The largest integer whose square is at most `value`, by Newton's method. `None` for a negative
/// value.
fn whole_root(value: i256) -> Option<u128> {
    let (low, high) = value.to_parts();
    if high == 0 {
        return Some(low.isqrt());
    }
    #[allow(clippy::cast_precision_loss, reason = "a first estimate")]
    let estimate = (high as f64 * 2_f64.powi(128) + low as f64).sqrt();
    let mut root = i256::from_f64(estimate).filter(|root| root.is_positive())?;
    // Each step doubles the number of right digits: 53 bits, 106, 128.
    for _ in 0..2 {
        root = root.wrapping_add(value.wrapping_div(root)) >> 1;
    }
    while root.checked_mul(root).is_none_or(|square| square > value) {
        root = root.wrapping_sub(i256::ONE);
    }
    loop {
        let next = root.wrapping_add(i256::ONE);
        if next.checked_mul(next).is_none_or(|square| square > value) {
            break;
        }
        root = next;
    }
    Some(root.to_parts().0)
}

fn wide(digits: u128) -> i256 {
    i256::from_parts(digits, 0)
}

/// Divides and truncates. Most numbers fit 64 bits, whose division is far faster.
fn whole_quotient(dividend: u128, divisor: u128) -> u128 {
    match (u64::try_from(dividend), u64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => u128::from(dividend / divisor),
        _ => dividend / divisor,
    }
}

fn signed(digits: u128, is_negative: bool) -> Option<i128> {
    let digits = i128::try_from(digits).ok()?;
    Some(if is_negative { -digits } else { digits })
}

/// 10 to the power of `exponent`.
fn ten(exponent: u32) -> Option<u128> {
    const POWERS: [u128; 39] = {
        let mut powers = [1; 39];
        let mut at = 1;
        while at < powers.len() {
            powers[at] = powers[at - 1] * 10;
            at += 1;
        }
        powers
    };
    POWERS.get(exponent as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::super::numeric::{Numeric, shown_scale};
    use super::*;

    fn values() -> impl Iterator<Item = (i128, u32)> {
        let digits = [
            0,
            1,
            2,
            5,
            7,
            15,
            49,
            50,
            99,
            100,
            12_345,
            99_999,
            100_000,
            1_000_000_007,
        ];
        let wide = [u64::MAX.into(), 10_i128.pow(25), i128::MAX / 3];
        let all = digits.into_iter().chain(wide).flat_map(|one| [one, -one]);
        all.flat_map(|digits| [0, 1, 2, 4, 5, 9, 18].map(|scale| (digits, scale)))
    }

    #[test]
    fn quotients_equal_those_of_numeric() {
        let mut small = 0;
        for (a, s1) in values() {
            for (b, s2) in values().filter(|(b, _)| *b != 0) {
                let Some(found) = Small::new(a, s1).quotient(&Small::new(b, s2), 38) else {
                    continue;
                };
                small += 1;
                let (a, b) = (Numeric::new(a, s1), Numeric::new(b, s2));
                let expected = a.div_at(&b, a.quotient_scale(&b).min(38));
                assert_eq!(Numeric::new(found.0, found.1), expected, "{a} / {b}");
            }
        }
        assert!(small > 10_000, "{small}");
    }

    #[test]
    fn roots_equal_those_of_numeric() {
        let mut small = 0;
        for (digits, scale) in values() {
            for at in [scale, 16, 20, 37] {
                let Some(found) = Small::new(digits, scale).sqrt_at(at) else {
                    continue;
                };
                small += 1;
                let found = Numeric::new(found.digits, found.scale);
                let expected = Numeric::new(digits, scale).sqrt_at(at.into());
                assert_eq!(Some(found), expected, "{digits} at {scale}, to {at}");
            }
        }
        assert!(small > 300, "{small}");
    }

    #[test]
    fn whole_roots_are_exact() {
        let root = 10_i128.pow(37) + 12_345;
        let square = i256::from_i128(root).wrapping_mul(i256::from_i128(root));
        for (value, expected) in [
            (square, root),
            (square.wrapping_sub(i256::ONE), root - 1),
            (square.wrapping_add(i256::from_i128(2 * root)), root),
            (square.wrapping_add(i256::from_i128(2 * root + 1)), root + 1),
        ] {
            assert_eq!(whole_root(value), Some(expected.unsigned_abs()));
        }
        assert_eq!(whole_root(i256::from_i128(-1)), None);
        let largest = whole_root(i256::MAX).map(wide).unwrap();
        assert!(largest.checked_mul(largest).is_some());
        let next = largest.wrapping_add(i256::ONE);
        assert!(next.checked_mul(next).is_none());
    }

    #[test]
    fn display_scales_are_those_of_numeric() {
        let mut small = 0;
        for (digits, scale) in values() {
            for held in [scale, 19, 38] {
                let power = power_of_ten(held.saturating_sub(scale)).unwrap();
                let Some(value) = i256::from_i128(digits).checked_mul(power) else {
                    continue;
                };
                let Some(found) = Small::shown(value, held) else {
                    continue;
                };
                small += 1;
                let found = Numeric::new(found.digits, found.scale);
                assert_eq!(found, shown_scale(value, held), "{value} at {held}");
            }
        }
        assert!(small > 500, "{small}");
    }

    #[test]
    fn rounding_and_truncation_equal_those_of_numeric() {
        for (digits, scale) in values() {
            for at in -3..=20 {
                let value = Numeric::new(digits, scale);
                let small = Small::new(digits, scale);
                for (rounds, expected) in [(true, value.rounded(at)), (false, value.truncated(at))]
                {
                    let Some(found) = small.at(at, rounds) else {
                        continue;
                    };
                    let back = if at < 0 {
                        Numeric::new(
                            found * 10_i128.pow(at.unsigned_abs().try_into().unwrap()),
                            0,
                        )
                    } else {
                        Numeric::new(found, at.try_into().unwrap())
                    };
                    assert_eq!(back, expected, "{value} at {at}");
                }
            }
        }
    }
}
