//! Intervals: separate numbers of months, days and microseconds.
//!
//! For comparisons a month has 30 days and a day 24 hours. Arrow stores an interval's time in
//! nanoseconds, so an interval of more than 292 years in hours is out of range.

use std::cmp::Ordering;

use datafusion::arrow::datatypes::IntervalMonthDayNano;

use super::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::PgError;

pub(crate) const DAYS_PER_MONTH: i64 = 30;

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) micros: i64,
}

/// Error 22008.
pub(crate) fn out_of_range() -> PgError {
    PgError::new("22008", "interval out of range")
}

impl Span {
    pub(crate) fn new(months: i32, days: i32, micros: i64) -> Self {
        Self {
            months,
            days,
            micros,
        }
    }

    pub(crate) fn of_arrow(value: IntervalMonthDayNano) -> Self {
        Self::new(value.months, value.days, value.nanoseconds / 1000)
    }

    pub(crate) fn to_arrow(self) -> Result<IntervalMonthDayNano, PgError> {
        let nanos = self.micros.checked_mul(1000).ok_or_else(out_of_range)?;
        Ok(IntervalMonthDayNano::new(self.months, self.days, nanos))
    }

    /// An interval of numbers of any size, if it is in range.
    pub(crate) fn checked(months: i128, days: i128, micros: i128) -> Result<Self, PgError> {
        let span = (|| {
            Some(Self {
                months: i32::try_from(months).ok()?,
                days: i32::try_from(days).ok()?,
                micros: i64::try_from(micros).ok()?,
            })
        })();
        span.ok_or_else(out_of_range)
    }

    /// The length in microseconds, by which intervals are compared.
    pub(crate) fn length(self) -> i128 {
        (i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days))
            * i128::from(MICROS_PER_DAY)
            + i128::from(self.micros)
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        self.length().cmp(&other.length())
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, PgError> {
        Self::checked(
            i128::from(self.months) + i128::from(other.months),
            i128::from(self.days) + i128::from(other.days),
            i128::from(self.micros) + i128::from(other.micros),
        )
    }

    pub(crate) fn negated(self) -> Result<Self, PgError> {
        Self::checked(
            -i128::from(self.months),
            -i128::from(self.days),
            -i128::from(self.micros),
        )
    }

    /// Multiplies by a number; fractions of a month become days, fractions of a day become time.
    pub(crate) fn times(self, factor: f64) -> Result<Self, PgError> {
        self.scaled(|part| part * factor)
    }

    /// Divides by a number.
    pub(crate) fn over(self, divisor: f64) -> Result<Self, PgError> {
        if divisor == 0.0 {
            return Err(PgError::division_by_zero());
        }
        self.scaled(|part| part / divisor)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "PostgreSQL computes with floats here, and checks the range"
    )]
    fn scaled(self, scale: impl Fn(f64) -> f64) -> Result<Self, PgError> {
        let whole = |value: f64| -> Result<i32, PgError> {
            if value.is_nan() || value > f64::from(i32::MAX) || value < f64::from(i32::MIN) {
                return Err(out_of_range());
            }
            Ok(value as i32)
        };
        let months_scaled = scale(f64::from(self.months));
        let days_scaled = scale(f64::from(self.days));
        let months = whole(months_scaled)?;
        let mut days = whole(days_scaled)?;
        // The remaining fractions of months and days, rounded to microseconds.
        let per_month = DAYS_PER_MONTH as f64;
        let month_rest = rounded((months_scaled - f64::from(months)) * per_month);
        let mut seconds = rounded(
            (days_scaled - f64::from(days) + month_rest - f64::from(month_rest as i32)) * 86_400.0,
        );
        // A remainder of a day or more becomes days.
        if seconds.abs() >= 86_400.0 {
            let more = (seconds / 86_400.0) as i32;
            days = days.checked_add(more).ok_or_else(out_of_range)?;
            seconds -= f64::from(more) * 86_400.0;
        }
        days = days
            .checked_add(month_rest as i32)
            .ok_or_else(out_of_range)?;
        let micros =
            (scale(self.micros as f64) + seconds * MICROS_PER_SECOND as f64).round_ties_even();
        if micros.is_nan() || micros >= 9_223_372_036_854_775_807.0 || micros < i64::MIN as f64 {
            return Err(out_of_range());
        }
        Ok(Self::new(months, days, micros as i64))
    }

    /// Turns 24 hours into a day, with the same sign for both.
    pub(crate) fn justify_hours(self) -> Result<Self, PgError> {
        let mut micros = self.micros % MICROS_PER_DAY;
        let mut days = i128::from(self.days) + i128::from(self.micros / MICROS_PER_DAY);
        if days > 0 && micros < 0 {
            micros += MICROS_PER_DAY;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= MICROS_PER_DAY;
            days += 1;
        }
        Self::checked(self.months.into(), days, micros.into())
    }

    /// Turns 30 days into a month, with the same sign for both.
    pub(crate) fn justify_days(self) -> Result<Self, PgError> {
        let per_month = i128::from(DAYS_PER_MONTH);
        let mut days = i128::from(self.days) % per_month;
        let mut months = i128::from(self.months) + i128::from(self.days) / per_month;
        if months > 0 && days < 0 {
            days += per_month;
            months -= 1;
        } else if months < 0 && days > 0 {
            days -= per_month;
            months += 1;
        }
        Self::checked(months, days, self.micros.into())
    }

    /// Does both, with the same sign for all three parts.
    pub(crate) fn justify(self) -> Result<Self, PgError> {
        let (per_month, per_day) = (i128::from(DAYS_PER_MONTH), i128::from(MICROS_PER_DAY));
        let mut months = i128::from(self.months);
        let mut days = i128::from(self.days);
        let mut micros = i128::from(self.micros);
        days += micros / per_day;
        micros %= per_day;
        months += days / per_month;
        days %= per_month;
        if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
            days += per_month;
            months -= 1;
        } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
            days -= per_month;
            months += 1;
        }
        if days > 0 && micros < 0 {
            micros += per_day;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= per_day;
            days += 1;
        }
        Self::checked(months, days, micros)
    }
}

/// Rounds to microseconds, half to even, as PostgreSQL rounds fractions of days.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_thirty_days() {
        let month = Span::new(1, 0, 0);
        assert_eq!(month.compare(Span::new(0, 30, 0)), Ordering::Equal);
        assert_eq!(month.compare(Span::new(0, 29, 0)), Ordering::Greater);
        let third = month.over(4.0).unwrap();
        assert_eq!(third, Span::new(0, 7, MICROS_PER_DAY / 2));
    }
}
