//! Fields of dates, times and intervals: `extract` and `date_part`.

use super::calendar::{self, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE};
use super::span::Span;
use super::words::Unit;

/// The value of a field: a decimal with this scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) digits: i128,
    pub(crate) scale: u8,
}

impl Field {
    fn whole(value: i64) -> Self {
        Self {
            digits: value.into(),
            scale: 0,
        }
    }

    fn new(digits: i128, scale: u8) -> Self {
        Self { digits, scale }
    }

    /// The digits at this scale or the field's own, whichever is larger.
    pub(crate) fn at_scale(self, scale: u8) -> i128 {
        self.digits * 10_i128.pow(u32::from(scale.saturating_sub(self.scale)))
    }

    #[expect(clippy::cast_precision_loss, reason = "date_part returns a float")]
    pub(crate) fn as_float(self) -> f64 {
        self.digits as f64 / 10_f64.powi(i32::from(self.scale))
    }
}

/// The scale of a field, for dates or for values with a time.
pub(crate) fn scale(unit: Unit, of_date: bool) -> u8 {
    match unit {
        Unit::Second => 6,
        Unit::Epoch if !of_date => 6,
        Unit::Millisecond => 3,
        Unit::Julian if !of_date => JULIAN_SCALE,
        _ => 0,
    }
}

/// Enough for every Julian day that PostgreSQL shows.
pub(crate) const JULIAN_SCALE: u8 = 28;

/// Whether the field of an infinite value is infinite; other fields are NULL.
pub(crate) fn grows(unit: Unit) -> bool {
    matches!(
        unit,
        Unit::Year
            | Unit::Decade
            | Unit::Century
            | Unit::Millennium
            | Unit::Julian
            | Unit::IsoYear
            | Unit::Epoch
    )
}

/// A field of a finite date.
pub(crate) fn of_date(day: i64, unit: Unit) -> Option<Field> {
    let (year, month, of_month) = calendar::civil(day);
    let month = i64::from(month);
    Some(Field::whole(match unit {
        Unit::Day => of_month.into(),
        Unit::Month => month,
        Unit::Quarter => (month - 1) / 3 + 1,
        Unit::Year => without_zero(year),
        Unit::Decade => year.div_euclid(10),
        Unit::Century => century(year, 100),
        Unit::Millennium => century(year, 1000),
        Unit::Week => calendar::iso_week(day).1,
        Unit::IsoYear => without_zero(calendar::iso_week(day).0),
        Unit::Dow => calendar::weekday(day),
        Unit::IsoDow => (calendar::weekday(day) + 6) % 7 + 1,
        Unit::Doy => calendar::day_of_year(day),
        Unit::Julian => day + calendar::EPOCH_JULIAN,
        Unit::Epoch => day * 86_400,
        _ => return None,
    }))
}

/// A field of a finite local time; `utc` is the timestamp that `epoch` counts.
pub(crate) fn of_moment(local: i64, utc: i64, unit: Unit) -> Option<Field> {
    let time = local.rem_euclid(MICROS_PER_DAY);
    let day = local.div_euclid(MICROS_PER_DAY);
    Some(match unit {
        Unit::Epoch => Field::new(utc.into(), 6),
        Unit::Julian => julian(day + calendar::EPOCH_JULIAN, time),
        _ => match of_time(time, unit) {
            Some(field) => field,
            None => of_date(day, unit)?,
        },
    })
}

/// A field of an offset from UTC in seconds.
pub(crate) fn of_offset(offset: i32, unit: Unit) -> Option<Field> {
    Some(Field::whole(match unit {
        Unit::Zone => offset.into(),
        Unit::ZoneHour => i64::from(offset) / 3600,
        Unit::ZoneMinute => i64::from(offset) / 60 % 60,
        _ => return None,
    }))
}

/// A field of a time of day.
pub(crate) fn of_time(time: i64, unit: Unit) -> Option<Field> {
    let in_minute = i128::from(time % MICROS_PER_MINUTE);
    Some(match unit {
        Unit::Microsecond => Field::new(in_minute, 0),
        Unit::Millisecond => Field::new(in_minute, 3),
        Unit::Second => Field::new(in_minute, 6),
        Unit::Minute => Field::whole(time / MICROS_PER_MINUTE % 60),
        Unit::Hour => Field::whole(time / MICROS_PER_HOUR),
        Unit::Epoch => Field::new(time.into(), 6),
        _ => return None,
    })
}

/// A field of an interval.
pub(crate) fn of_span(span: Span, unit: Unit) -> Option<Field> {
    let (years, months) = (i64::from(span.months / 12), i64::from(span.months % 12));
    Some(match unit {
        Unit::Day => Field::whole(span.days.into()),
        Unit::Month => Field::whole(months),
        Unit::Quarter => Field::whole(months / 3 + 1),
        Unit::Year => Field::whole(years),
        Unit::Decade => Field::whole(years / 10),
        Unit::Century => Field::whole(years / 100),
        Unit::Millennium => Field::whole(years / 1000),
        Unit::Epoch => {
            // Here a year has 365.25 days.
            let quarter_days =
                i128::from(years) * 1461 + (i128::from(months) * 30 + i128::from(span.days)) * 4;
            let micros = quarter_days * i128::from(MICROS_PER_DAY / 4);
            Field::new(micros + i128::from(span.micros), 6)
        }
        _ => return of_time(span.micros, unit),
    })
}

/// The Julian day with the elapsed part of the day, divided like PostgreSQL's numerics.
fn julian(day: i64, time: i64) -> Field {
    let scale = division_scale(time);
    let day_length = i128::from(MICROS_PER_DAY);
    let product = i128::from(time) * 10_i128.pow(u32::from(scale));
    let part = (product + day_length / 2) / day_length;
    Field::new(
        i128::from(day) * 10_i128.pow(u32::from(scale)) + part,
        scale,
    )
}

/// The Julian day of a local time as a float.
#[expect(clippy::cast_precision_loss, reason = "date_part returns a float")]
pub(crate) fn julian_float(local: i64) -> f64 {
    let day = local.div_euclid(MICROS_PER_DAY) + calendar::EPOCH_JULIAN;
    let time = local.rem_euclid(MICROS_PER_DAY);
    let seconds = (time / 1_000_000) as f64 + (time % 1_000_000) as f64 / 1e6;
    day as f64 + seconds / 86_400.0
}

/// The scale of the elapsed part of a day: at least 16 significant digits, in groups of four.
fn division_scale(time: i64) -> u8 {
    // The weight of the first group of four digits, and the group.
    let (mut weight, mut group) = (0_i64, time);
    while group >= 10_000 {
        group /= 10_000;
        weight += 1;
    }
    let mut quotient = weight - 2;
    if group <= 864 {
        quotient -= 1;
    }
    u8::try_from((4 - quotient) * 4)
        .unwrap_or(JULIAN_SCALE)
        .min(JULIAN_SCALE)
}

fn without_zero(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn century(year: i64, length: i64) -> i64 {
    if year > 0 {
        (year + length - 1) / length
    } else {
        -((length - year) / length)
    }
}
