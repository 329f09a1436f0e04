//! Powers, exponentials and logarithms, of floats and of numerics.
//!
//! The result for numerics has at least 16 significant digits. Its scale is chosen as in
//! `numeric.c`, and the value is computed with 12 more digits.

use num_bigint::BigInt;

use super::float_range::{float_overflow, float_underflow};
use super::numeric::{Numeric, ten};
use crate::casts::overflow;
use crate::error::PgError;

/// Extra digits of intermediate results.
const GUARD: i64 = 12;
/// log10(e).
const LOG10_E: f64 = std::f64::consts::LOG10_E;
/// A result with more digits than this cannot fit 76.
const RESULT_DIGITS_MAX: f64 = 80.0;

/// The functions of numerics whose results have a scale of their own.
pub(crate) const SCALED: [&str; 5] = ["exp", "ln", "log", "power", "sqrt"];

/// The scale of PostgreSQL's result of one of [`SCALED`]; `None` if there is no result.
pub(crate) fn result_scale(function: &str, args: &[Numeric]) -> Result<Option<u32>, PgError> {
    let result = match (function, args) {
        ("exp", [x]) => Some(exp(x)?),
        ("ln", [x]) => Some(ln(x)?),
        ("log", [x]) => Some(log(&Numeric::new(10, 0), x)?),
        ("log", [base, x]) => Some(log(base, x)?),
        ("power", [base, exponent]) => Some(numeric(base, exponent)?),
        ("sqrt", [x]) => x.sqrt(),
        _ => None,
    };
    Ok(result.map(|result| result.scale))
}

/// `a ^ b` of floats.
pub(super) fn float(a: f64, b: f64) -> Result<f64, PgError> {
    if a == 0.0 && b < 0.0 {
        return Err(PgError::new(
            "2201F",
            "zero raised to a negative power is undefined",
        ));
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 && a.is_finite() {
        return Err(complex());
    }
    let value = a.powf(b);
    if value.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(float_overflow());
    }
    if value == 0.0 && a != 0.0 && a.is_finite() && b.is_finite() {
        return Err(float_underflow());
    }
    Ok(value)
}

fn complex() -> PgError {
    let message = "a negative number raised to a non-integer power yields a complex result";
    PgError::new("2201F", message)
}

/// `a ^ b` of numerics.
pub(super) fn numeric(a: &Numeric, b: &Numeric) -> Result<Numeric, PgError> {
    let whole = b.truncated(0);
    let is_whole = whole.compare(b).is_eq();
    if a.is_zero() && b.is_negative() {
        return Err(PgError::new(
            "2201F",
            "zero raised to a negative power is undefined",
        ));
    }
    if a.is_negative() && !is_whole {
        return Err(complex());
    }
    if a.is_zero() {
        let value = Numeric::new(i32::from(b.is_zero()), 0);
        return Ok(value.rounded(16.max(i64::from(a.scale.max(b.scale)))));
    }
    let magnitude = log10(a);
    let weight = magnitude * b.to_f64();
    if weight > RESULT_DIGITS_MAX {
        return Err(overflow());
    }
    let least = if is_whole { 16 } else { significant(weight) };
    let scale = least.max(i64::from(a.scale)).max(i64::from(b.scale));
    let scale = scale.clamp(0, 1000);
    if weight < -(1000.0 + 16.0) {
        return Ok(Numeric::new(0, u32::try_from(scale).unwrap_or(0)));
    }
    let exponent = i64::try_from(&whole.digits).ok();
    match exponent {
        Some(exponent) if is_whole && exponent.abs() <= 10_000 => {
            let power = u32::try_from(exponent.unsigned_abs()).unwrap_or(0);
            let raised = Numeric::new(a.digits.pow(power), a.scale * power);
            Ok(if exponent < 0 {
                Numeric::new(1, 0).div_at(&raised, scale)
            } else {
                raised.rounded(scale)
            })
        }
        _ => {
            let places = scale + GUARD + whole_part(weight.abs().max(1.0).log10().ceil()) + 4;
            let positive = if a.is_negative() { a.neg() } else { a.clone() };
            let product = natural_log(&positive, places).mul(b).rounded(places);
            let value = exponential(&product, places).rounded(scale);
            let odd = &whole.digits % 2 != BigInt::from(0);
            Ok(if a.is_negative() && odd {
                value.neg()
            } else {
                value
            })
        }
    }
}

/// Truncates a small number like C's cast.
#[expect(clippy::cast_possible_truncation, reason = "what `numeric.c` does")]
fn whole_part(value: f64) -> i64 {
    value as i64
}

/// The decimal places for 16 significant digits of a result of about `10^weight`.
fn significant(weight: f64) -> i64 {
    16 - whole_part(weight)
}

fn log10(value: &Numeric) -> f64 {
    let digits = value.digits.magnitude().to_string();
    let lead: f64 = digits
        .get(..17.min(digits.len()))
        .unwrap_or("0")
        .parse()
        .unwrap_or(0.0);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let shift = digits.len() as f64 - digits.len().min(17) as f64 - f64::from(value.scale);
    lead.log10() + shift
}

/// `exp(x)`.
pub(super) fn exp(x: &Numeric) -> Result<Numeric, PgError> {
    let weight = x.to_f64() * LOG10_E;
    if weight > RESULT_DIGITS_MAX {
        return Err(overflow());
    }
    let scale = significant(weight.max(-1000.0))
        .max(i64::from(x.scale))
        .clamp(0, 1000);
    if weight < -1000.0 {
        return Ok(Numeric::new(0, u32::try_from(scale).unwrap_or(0)));
    }
    Ok(exponential(x, scale + GUARD).rounded(scale))
}

/// `ln(x)`.
pub(super) fn ln(x: &Numeric) -> Result<Numeric, PgError> {
    check_log(x)?;
    let scale = (16 - ln_weight(x)).max(i64::from(x.scale)).clamp(0, 1000);
    Ok(natural_log(x, scale + GUARD).rounded(scale))
}

/// `log(base, x)`.
pub(super) fn log(base: &Numeric, x: &Numeric) -> Result<Numeric, PgError> {
    check_log(base)?;
    check_log(x)?;
    let scale = (16 - (ln_weight(x) - ln_weight(base)))
        .max(i64::from(base.scale))
        .max(i64::from(x.scale))
        .clamp(0, 1000);
    let places = scale + GUARD + 10;
    let below = natural_log(base, places);
    if below.is_zero() {
        return Err(PgError::division_by_zero());
    }
    Ok(natural_log(x, places).div_at(&below, scale))
}

fn check_log(x: &Numeric) -> Result<(), PgError> {
    if x.is_zero() {
        return Err(PgError::new("2201E", "cannot take logarithm of zero"));
    }
    if x.is_negative() {
        return Err(PgError::new(
            "2201E",
            "cannot take logarithm of a negative number",
        ));
    }
    Ok(())
}

/// `estimate_ln_dweight`: the decimal weight of `ln(x)`.
fn ln_weight(x: &Numeric) -> i64 {
    let near = x.compare(&Numeric::new(9, 1)).is_ge() && x.compare(&Numeric::new(11, 1)).is_le();
    if near {
        let rest = x.sub(&Numeric::new(1, 0));
        if rest.is_zero() {
            return 0;
        }
        return whole_part(log10(&rest).floor());
    }
    let ln = log10(x) / LOG10_E;
    whole_part(ln.abs().log10())
}

/// `exp(x)` with this many decimal places: the series of `x / 2^n`, squared n times.
fn exponential(x: &Numeric, places: i64) -> Numeric {
    let size = x.to_f64();
    let whole = whole_part((size.abs() * LOG10_E).ceil());
    let places = places + if size > 0.0 { whole } else { 0 } + 8;
    let work = u32::try_from(places + 10).unwrap_or(0);
    let scaled = x.rounded(i64::from(work)).digits;
    // A large argument is halved more often.
    let extra = u32::try_from(whole_part(size.abs().max(1.0).log2().ceil())).unwrap_or(0);
    let halvings = 12 + extra;
    let more = ten(halvings);
    let one = ten(work) * &more;
    let reduced: BigInt = (scaled * &more) >> halvings;
    let (mut term, mut sum) = (one.clone(), one.clone());
    for n in 1..400_u32 {
        term = &term * &reduced / &one / n;
        if term == BigInt::from(0) {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    Numeric::new(sum, work + halvings).rounded(places)
}

/// `ln(x)` with this many decimal places: a guess `g` from doubles, and the series of `ln(x /
/// exp(g))`.
fn natural_log(x: &Numeric, places: i64) -> Numeric {
    let guess = log10(x) / LOG10_E;
    let guess = Numeric::of_float(guess, 15).unwrap_or_else(|| Numeric::new(0, 0));
    let places = places + 10;
    let large = whole_part(log10(x).abs().ceil());
    let work = places + large + 10;
    // x * exp(-g) is 1 within 1e-13.
    let near = x.mul(&exponential(&guess.neg(), work)).rounded(work);
    let one = Numeric::new(1, 0);
    let z = near.sub(&one).div_at(&near.add(&one), work);
    let square = z.mul(&z).rounded(work);
    let (mut power, mut sum) = (z.clone(), z);
    for n in 1..40_i32 {
        power = power.mul(&square).rounded(work);
        if power.is_zero() {
            break;
        }
        sum = sum.add(&power.div_at(&Numeric::new(2 * n + 1, 0), work));
    }
    guess.add(&sum.add(&sum)).rounded(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(text: &str) -> Numeric {
        Numeric::parse(text).unwrap()
    }

    // The expected values are PostgreSQL 15's.
    #[test]
    fn values() {
        for (value, shown) in [
            (exp(&n("1")).unwrap(), "2.7182818284590452"),
            (ln(&n("2")).unwrap(), "0.6931471805599453"),
            (log(&n("10"), &n("100")).unwrap(), "2.0000000000000000"),
            (log(&n("2"), &n("64")).unwrap(), "6.0000000000000000"),
            (numeric(&n("2"), &n("10")).unwrap(), "1024.0000000000000000"),
            (numeric(&n("2"), &n("0.5")).unwrap(), "1.4142135623730950"),
            (numeric(&n("1.5"), &n("-2")).unwrap(), "0.4444444444444444"),
        ] {
            assert_eq!(value.to_string(), shown);
        }
    }
}
