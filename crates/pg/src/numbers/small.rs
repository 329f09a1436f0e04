//! Numerics of at most 38 digits, computed without big integers, with the same results as
//! `numeric.rs`.
//!
//! S1: `None` means that the digits do not fit; the caller then computes with [`Numeric`].
//!
//! [`Numeric`]: super::numeric::Numeric

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int32Type};

/// A numeric whose digits fit 128 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Small {
    digits: i128,
    scale: u32,
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
        let dividend = self.digits.unsigned_abs().checked_mul(ten(shift)?)?;
        let quotient = divided(dividend, divisor.digits.unsigned_abs())?;
        Some((
            signed(quotient, (self.digits < 0) != (divisor.digits < 0))?,
            scale,
        ))
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
    use super::super::numeric::Numeric;
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
