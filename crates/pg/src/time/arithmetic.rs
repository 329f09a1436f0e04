//! Sums and differences of timestamps and intervals, `age`, `date_trunc` and `date_bin`.
//!
//! Functions with a zone take and return timestamps in UTC, and count months and days by the
//! zone's calendar.

use super::calendar::{
    self, INFINITY, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND,
    MINUS_INFINITY, Parts, is_finite, moment, month_length,
};
use super::span::{self, Span};
use super::words::Unit;
use super::zone::Zone;
use crate::PgError;

/// Error 22008.
pub(crate) fn timestamp_out_of_range() -> PgError {
    PgError::new("22008", "timestamp out of range")
}

/// Error 22008.
pub(crate) fn date_out_of_range() -> PgError {
    PgError::new("22008", "date out of range")
}

/// Rounds an interval's time to this many fractional digits of its seconds.
pub(crate) fn rounded(micros: i64, digits: u32) -> Option<i64> {
    let unit = 10_i64.pow(6_u32.saturating_sub(digits));
    if micros >= 0 {
        Some(micros.checked_add(unit / 2)? / unit * unit)
    } else {
        Some(-(micros.checked_neg()?.checked_add(unit / 2)? / unit * unit))
    }
}

/// Rounds a timestamp to this many fractional digits: halves away from the year 2000, as in
/// PostgreSQL.
pub(crate) fn rounded_moment(micros: i64, digits: u32) -> Result<i64, PgError> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let from_2000 = micros
        .checked_sub(EPOCH_2000)
        .and_then(|micros| rounded(micros, digits));
    from_2000
        .and_then(|micros| micros.checked_add(EPOCH_2000))
        .filter(|micros| calendar::in_range(*micros))
        .ok_or_else(timestamp_out_of_range)
}

const EPOCH_2000: i64 = 10_957 * MICROS_PER_DAY;

/// A local time plus an interval.
pub(crate) fn plus(at: i64, span: Span) -> Result<i64, PgError> {
    plus_in(at, span, Zone::Fixed(0))
}

/// A timestamp in UTC plus an interval.
pub(crate) fn plus_in(mut at: i64, span: Span, zone: Zone) -> Result<i64, PgError> {
    if !is_finite(at) {
        return Ok(at);
    }
    let checked = |moment: Option<i64>| {
        moment
            .filter(|moment| calendar::in_range(*moment))
            .ok_or_else(timestamp_out_of_range)
    };
    if span.months != 0 {
        let mut parts = Parts::of(zone.local(at));
        let months = parts.year * 12 + parts.month - 1 + i64::from(span.months);
        parts.year = months.div_euclid(12);
        parts.month = months.rem_euclid(12) + 1;
        parts.day = parts.day.min(month_length(parts.year, parts.month));
        at = checked(checked(parts.moment()).map(|local| zone.utc(local)).ok())?;
    }
    if span.days != 0 {
        let local = zone.local(at);
        let days = i64::from(span.days).checked_mul(MICROS_PER_DAY);
        let moved = checked(days.and_then(|days| local.checked_add(days)))?;
        at = checked(Some(zone.utc(moved)))?;
    }
    checked(at.checked_add(span.micros))
}

/// The days and the time between two timestamps.
pub(crate) fn minus(left: i64, right: i64) -> Result<Span, PgError> {
    if !is_finite(left) || !is_finite(right) {
        return Err(PgError::new("22008", "cannot subtract infinite timestamps"));
    }
    let micros = i128::from(left) - i128::from(right);
    let per_day = i128::from(MICROS_PER_DAY);
    Span::checked(0, micros / per_day, micros % per_day)
}

/// Years, months, days and time between two local times. `is_less` compares the times themselves.
pub(crate) fn age(left: i64, right: i64, is_less: bool) -> Result<Span, PgError> {
    let (first, second) = (Parts::of(left), Parts::of(right));
    let sign = if is_less { -1 } else { 1 };
    let mut months = sign * ((first.year - second.year) * 12 + first.month - second.month);
    let mut days = sign * (first.day - second.day);
    let mut micros = sign * (first.time() - second.time());
    while micros < 0 {
        micros += MICROS_PER_DAY;
        days -= 1;
    }
    while days < 0 {
        let of = if is_less { first } else { second };
        days += month_length(of.year, of.month);
        months -= 1;
    }
    let sign = i128::from(sign);
    Span::checked(
        sign * i128::from(months),
        sign * i128::from(days),
        sign * i128::from(micros),
    )
}

/// The start of the unit that contains a local time. `None` for a unit without a start.
pub(crate) fn truncated(at: i64, unit: Unit) -> Option<Result<i64, PgError>> {
    if !is_finite(at) {
        return Some(Ok(at));
    }
    let down = |unit: i64| Some(Ok(at - at.rem_euclid(unit)));
    let parts = Parts::of(at);
    let (year, month) = (parts.year, parts.month);
    let day = match unit {
        Unit::Microsecond => return Some(Ok(at)),
        Unit::Millisecond => return down(1000),
        Unit::Second => return down(MICROS_PER_SECOND),
        Unit::Minute => return down(MICROS_PER_MINUTE),
        Unit::Hour => return down(MICROS_PER_HOUR),
        Unit::Day => return down(MICROS_PER_DAY),
        Unit::Week => {
            let day = parts.days();
            day - (calendar::weekday(day) + 6) % 7
        }
        Unit::Month => calendar::days(year, month, 1),
        Unit::Quarter => calendar::days(year, (month - 1) / 3 * 3 + 1, 1),
        Unit::Year => calendar::days(year, 1, 1),
        Unit::Decade => calendar::days(year.div_euclid(10) * 10, 1, 1),
        Unit::Century => calendar::days((year - 1).div_euclid(100) * 100 + 1, 1, 1),
        Unit::Millennium => calendar::days((year - 1).div_euclid(1000) * 1000 + 1, 1, 1),
        _ => return None,
    };
    Some(moment(day, 0).ok_or_else(timestamp_out_of_range))
}

/// The start, in UTC, of the unit that contains a timestamp by the zone's calendar.
pub(crate) fn truncated_in(at: i64, unit: Unit, zone: Zone) -> Option<Result<i64, PgError>> {
    if !is_finite(at) {
        return truncated(at, unit);
    }
    let offset = i64::from(zone.offset_at(at)) * MICROS_PER_SECOND;
    let start = truncated(at + offset, unit)?;
    let keeps_offset = matches!(
        unit,
        Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour
    );
    Some(start.and_then(|start| {
        let utc = if keeps_offset {
            start - offset
        } else {
            zone.utc(start)
        };
        Some(utc)
            .filter(|utc| calendar::in_range(*utc))
            .ok_or_else(timestamp_out_of_range)
    }))
}

/// Truncates an interval to a unit.
pub(crate) fn truncated_span(span: Span, unit: Unit) -> Option<Span> {
    let months = |unit: i32| Some(Span::new(span.months / unit * unit, 0, 0));
    let micros = |unit: i64| Some(Span::new(span.months, span.days, span.micros / unit * unit));
    match unit {
        Unit::Millennium => months(12_000),
        Unit::Century => months(1200),
        Unit::Decade => months(120),
        Unit::Year => months(12),
        Unit::Quarter => months(3),
        Unit::Month => months(1),
        Unit::Day => Some(Span::new(span.months, span.days, 0)),
        Unit::Hour => micros(MICROS_PER_HOUR),
        Unit::Minute => micros(MICROS_PER_MINUTE),
        Unit::Second => micros(MICROS_PER_SECOND),
        Unit::Millisecond => micros(1000),
        Unit::Microsecond => Some(span),
        _ => None,
    }
}

/// The start of the bin of length `stride`, counted from `origin`, that contains a timestamp.
pub(crate) fn binned(stride: Span, at: i64, origin: i64) -> Result<i64, PgError> {
    if !is_finite(at) {
        return Ok(at);
    }
    if !is_finite(origin) {
        return Err(PgError::new("22008", "origin out of range"));
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(PgError::unsupported(message));
    }
    let length = i64::from(stride.days)
        .checked_mul(MICROS_PER_DAY)
        .and_then(|days| days.checked_add(stride.micros))
        .ok_or_else(span::out_of_range)?;
    if length <= 0 {
        return Err(PgError::new("22008", "stride must be greater than zero"));
    }
    let distance = at.checked_sub(origin).ok_or_else(span::out_of_range)?;
    let start = origin.checked_add(distance - distance.rem_euclid(length));
    start
        .filter(|start| calendar::in_range(*start))
        .ok_or_else(timestamp_out_of_range)
}

/// The timestamp of a date's midnight.
pub(crate) fn midnight(date: i32) -> Result<i64, PgError> {
    match date {
        calendar::DATE_INFINITY => Ok(INFINITY),
        calendar::DATE_MINUS_INFINITY => Ok(MINUS_INFINITY),
        day => moment(day.into(), 0)
            .ok_or_else(|| PgError::new("22008", "date out of range for timestamp")),
    }
}

/// The date of a local time.
pub(crate) fn date_of(at: i64) -> i32 {
    match at {
        INFINITY => calendar::DATE_INFINITY,
        MINUS_INFINITY => calendar::DATE_MINUS_INFINITY,
        at => i32::try_from(at.div_euclid(MICROS_PER_DAY)).unwrap_or(calendar::DATE_INFINITY),
    }
}
