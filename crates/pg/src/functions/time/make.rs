//! `make_date`, `justify_days` and related functions; `age`, `isfinite`, `timezone`.

use datafusion::logical_expr::{ScalarUDF, Volatility};

use super::rowwise::{Cell, Kind, Out, Overload, function};
use crate::PgError;
use crate::time::arithmetic::{self, timestamp_out_of_range};
use crate::time::calendar::{
    self, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, is_finite,
};
use crate::time::read::{self, Surroundings};
use crate::time::span::{self, Span};
use crate::time::zone::Zone;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let immutable = Volatility::Immutable;
    vec![
        function("make_date", immutable, MAKE_DATE),
        function("make_time", immutable, MAKE_TIME),
        function("make_timestamp", immutable, MAKE_TIMESTAMP),
        function("make_timestamptz", Volatility::Stable, MAKE_TIMESTAMPTZ),
        function("make_interval", immutable, MAKE_INTERVAL),
        function("justify_days", immutable, JUSTIFY_DAYS),
        function("justify_hours", immutable, JUSTIFY_HOURS),
        function("justify_interval", immutable, JUSTIFY_INTERVAL),
        function("isfinite", immutable, IS_FINITE),
        function("timezone", immutable, TIMEZONE),
        function("age", Volatility::Stable, AGE),
    ]
}

const MAKE_DATE: &[Overload] = &[Overload {
    args: &[Kind::Int4, Kind::Int4, Kind::Int4],
    result: Kind::Date,
    run: |_, cells| {
        let [year, month, day] = [cells[0].int(), cells[1].int(), cells[2].int()];
        let day = date(year, month, day)?;
        let day = i32::try_from(day).map_err(|_| arithmetic::date_out_of_range())?;
        Ok(Out::Date(day))
    },
}];

/// A date from its parts; a negative year is BC.
fn date(year: i64, month: i64, day: i64) -> Result<i64, PgError> {
    let inside = if year < 0 { year + 1 } else { year };
    let fits = year != 0
        && (1..=12).contains(&month)
        && (1..=calendar::month_length(inside, month)).contains(&day);
    if !fits {
        let message = format!("date field value out of range: {year}-{month:02}-{day:02}");
        return Err(PgError::new("22008", message));
    }
    let days = calendar::days(inside, month, day);
    if !(calendar::DAY_MIN..=calendar::DAY_MAX).contains(&days) {
        let message = format!("date out of range: {year}-{month:02}-{day:02}");
        return Err(PgError::new("22008", message));
    }
    Ok(days)
}

const MAKE_TIME: &[Overload] = &[Overload {
    args: &[Kind::Int4, Kind::Int4, Kind::Float8],
    result: Kind::Time,
    run: |_, cells| Ok(Out::Micros(time(cells)?)),
}];

/// A time from hours, minutes, and seconds with a fraction.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn time(cells: &[Cell]) -> Result<i64, PgError> {
    let (hour, minute) = (cells[0].int(), cells[1].int());
    let seconds = cells[2].float();
    let wrong = || {
        let message = format!("time field value out of range: {hour}:{minute:02}:{seconds:02}");
        PgError::new("22008", message)
    };
    let fits =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&seconds);
    if !fits {
        return Err(wrong());
    }
    let micros = (seconds * 1e6).round_ties_even() as i64;
    let total = hour * MICROS_PER_HOUR + minute * MICROS_PER_MINUTE + micros;
    if total > MICROS_PER_DAY {
        return Err(wrong());
    }
    Ok(total)
}

const MAKE_TIMESTAMP: &[Overload] = &[Overload {
    args: &[
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Float8,
    ],
    result: Kind::Timestamp,
    run: |_, cells| Ok(Out::Micros(local(cells)?)),
}];

fn local(cells: &[Cell]) -> Result<i64, PgError> {
    let day = date(cells[0].int(), cells[1].int(), cells[2].int())?;
    calendar::moment(day, time(&cells[3..6])?).ok_or_else(timestamp_out_of_range)
}

const MAKE_TIMESTAMPTZ: &[Overload] = &[
    Overload {
        args: &[
            Kind::Int4,
            Kind::Int4,
            Kind::Int4,
            Kind::Int4,
            Kind::Int4,
            Kind::Float8,
        ],
        result: Kind::Timestamptz,
        run: |around, cells| in_utc(local(cells)?, around.zone),
    },
    Overload {
        args: &[
            Kind::Int4,
            Kind::Int4,
            Kind::Int4,
            Kind::Int4,
            Kind::Int4,
            Kind::Float8,
            Kind::Text,
        ],
        result: Kind::Timestamptz,
        run: |_, cells| in_utc(local(cells)?, zone_of_text(cells[6].text())?),
    },
];

fn in_utc(local: i64, zone: Zone) -> Result<Out, PgError> {
    if !is_finite(local) {
        return Ok(Out::Micros(local));
    }
    let utc = zone.utc(local);
    if calendar::in_range(utc) {
        Ok(Out::Micros(utc))
    } else {
        Err(timestamp_out_of_range())
    }
}

fn zone_of_text(name: &str) -> Result<Zone, PgError> {
    let signed =
        name.starts_with(['+', '-']) || name.starts_with(|byte: char| byte.is_ascii_digit());
    let zone = if signed {
        Zone::of_setting(name)
    } else {
        Zone::read(name)
    };
    zone.ok_or_else(|| read::unknown_zone(name))
}

const MAKE_INTERVAL: &[Overload] = &[Overload {
    args: &[
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Int4,
        Kind::Float8,
    ],
    result: Kind::Interval,
    run: |_, cells| {
        let int = |at: usize| i128::from(cells[at].int());
        let seconds = cells[6].float();
        if !seconds.is_finite() || seconds.abs() > 9e12 {
            return Err(span::out_of_range());
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 9e18")]
        let micros = (seconds * 1e6).round_ties_even() as i64;
        let time = int(4) * i128::from(MICROS_PER_HOUR)
            + int(5) * i128::from(MICROS_PER_MINUTE)
            + i128::from(micros);
        let span = Span::checked(int(0) * 12 + int(1), int(2) * 7 + int(3), time)?;
        Ok(Out::Span(span))
    },
}];

const JUSTIFY_DAYS: &[Overload] = &[Overload {
    args: &[Kind::Interval],
    result: Kind::Interval,
    run: |_, cells| Ok(Out::Span(cells[0].span().justify_days()?)),
}];

const JUSTIFY_HOURS: &[Overload] = &[Overload {
    args: &[Kind::Interval],
    result: Kind::Interval,
    run: |_, cells| Ok(Out::Span(cells[0].span().justify_hours()?)),
}];

const JUSTIFY_INTERVAL: &[Overload] = &[Overload {
    args: &[Kind::Interval],
    result: Kind::Interval,
    run: |_, cells| Ok(Out::Span(cells[0].span().justify()?)),
}];

const IS_FINITE: &[Overload] = &[
    Overload {
        args: &[Kind::Date],
        result: Kind::Bool,
        run: |_, cells| {
            let infinite = [calendar::DATE_INFINITY, calendar::DATE_MINUS_INFINITY];
            Ok(Out::Bool(!infinite.contains(&cells[0].date())))
        },
    },
    Overload {
        args: &[Kind::Timestamp],
        result: Kind::Bool,
        run: |_, cells| Ok(Out::Bool(is_finite(cells[0].micros()))),
    },
    Overload {
        args: &[Kind::Timestamptz],
        result: Kind::Bool,
        run: |_, cells| Ok(Out::Bool(is_finite(cells[0].micros()))),
    },
    Overload {
        args: &[Kind::Interval],
        result: Kind::Bool,
        run: |_, _| Ok(Out::Bool(true)),
    },
];

const TIMEZONE: &[Overload] = &[
    Overload {
        args: &[Kind::Text, Kind::Timestamp],
        result: Kind::Timestamptz,
        run: |_, cells| in_utc(cells[1].micros(), named(cells[0].text())?),
    },
    Overload {
        args: &[Kind::Text, Kind::Timestamptz],
        result: Kind::Timestamp,
        run: |_, cells| in_local(cells[1].micros(), named(cells[0].text())?),
    },
    Overload {
        args: &[Kind::Interval, Kind::Timestamp],
        result: Kind::Timestamptz,
        run: |_, cells| in_utc(cells[1].micros(), offset(cells[0].span())?),
    },
    Overload {
        args: &[Kind::Interval, Kind::Timestamptz],
        result: Kind::Timestamp,
        run: |_, cells| in_local(cells[1].micros(), offset(cells[0].span())?),
    },
];

fn in_local(utc: i64, zone: Zone) -> Result<Out, PgError> {
    if !is_finite(utc) {
        return Ok(Out::Micros(utc));
    }
    let local = zone.local(utc);
    if calendar::in_range(local) {
        Ok(Out::Micros(local))
    } else {
        Err(timestamp_out_of_range())
    }
}

fn named(name: &str) -> Result<Zone, PgError> {
    Zone::read(name).ok_or_else(|| read::unknown_zone(name))
}

/// A time zone given as an interval.
fn offset(span: Span) -> Result<Zone, PgError> {
    if span.months != 0 || span.days != 0 {
        let text = crate::output::interval_text(span.months, span.days, span.micros);
        let message = format!("interval time zone \"{text}\" must not include months or days");
        return Err(PgError::new("22023", message));
    }
    let seconds = i32::try_from(span.micros / MICROS_PER_SECOND);
    seconds.map(Zone::Fixed).map_err(|_| span::out_of_range())
}

const AGE: &[Overload] = &[
    Overload {
        args: &[Kind::Timestamp, Kind::Timestamp],
        result: Kind::Interval,
        run: |_, cells| age(cells[0].micros(), cells[1].micros(), None),
    },
    Overload {
        args: &[Kind::Timestamptz, Kind::Timestamptz],
        result: Kind::Interval,
        run: |around, cells| age(cells[0].micros(), cells[1].micros(), Some(around.zone)),
    },
    Overload {
        args: &[Kind::Timestamp],
        result: Kind::Interval,
        run: |around, cells| age(today(around), cells[0].micros(), None),
    },
    Overload {
        args: &[Kind::Timestamptz],
        result: Kind::Interval,
        run: |around, cells| {
            let today = around.zone.utc(today(around));
            age(today, cells[0].micros(), Some(around.zone))
        },
    },
];

/// Midnight of the current day in the session's zone.
fn today(around: &Surroundings) -> i64 {
    let now = around.zone.local(around.now);
    now - now.rem_euclid(MICROS_PER_DAY)
}

fn age(left: i64, right: i64, zone: Option<Zone>) -> Result<Out, PgError> {
    if !is_finite(left) || !is_finite(right) {
        return Err(timestamp_out_of_range());
    }
    let local = |at: i64| zone.map_or(at, |zone| zone.local(at));
    let span = arithmetic::age(local(left), local(right), left < right)?;
    Ok(Out::Span(span))
}
