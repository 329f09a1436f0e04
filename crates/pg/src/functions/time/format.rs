//! `to_char`, `to_date` and `to_timestamp`.

use datafusion::logical_expr::{ScalarUDF, Volatility};

use super::rowwise::{Kind, Out, Overload, function};
use crate::PgError;
use crate::time::arithmetic::timestamp_out_of_range;
use crate::time::calendar::{self, INFINITY, MINUS_INFINITY, is_finite};
use crate::time::formats::{Pattern, read_pattern};

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        function("to_date", Volatility::Stable, TO_DATE),
        function("to_timestamp", Volatility::Stable, TO_TIMESTAMP),
    ]
}

/// `to_char` for timestamps and intervals; for numbers see `to_char.rs`.
pub(super) const TO_CHAR: &[Overload] = &[
    Overload {
        args: &[Kind::Timestamp, Kind::Text],
        result: Kind::Text,
        run: |_, cells| {
            let (at, pattern) = (cells[0].micros(), cells[1].text());
            if !is_finite(at) || pattern.is_empty() {
                return Ok(Out::Null);
            }
            Ok(Out::Text(Pattern::of(pattern).moment(at, None)?))
        },
    },
    Overload {
        args: &[Kind::Timestamptz, Kind::Text],
        result: Kind::Text,
        run: |around, cells| {
            let (at, pattern) = (cells[0].micros(), cells[1].text());
            if !is_finite(at) || pattern.is_empty() {
                return Ok(Out::Null);
            }
            let local = around.zone.local(at);
            let text = Pattern::of(pattern).moment(local, Some((around.zone, at)))?;
            Ok(Out::Text(text))
        },
    },
    Overload {
        args: &[Kind::Interval, Kind::Text],
        result: Kind::Text,
        run: |_, cells| {
            let pattern = cells[1].text();
            if pattern.is_empty() {
                return Ok(Out::Null);
            }
            Ok(Out::Text(Pattern::of(pattern).span(cells[0].span())?))
        },
    },
];

const TO_DATE: &[Overload] = &[Overload {
    args: &[Kind::Text, Kind::Text],
    result: Kind::Date,
    run: |_, cells| {
        Ok(Out::Date(read_pattern::date(
            cells[0].text(),
            cells[1].text(),
        )?))
    },
}];

const TO_TIMESTAMP: &[Overload] = &[
    Overload {
        args: &[Kind::Text, Kind::Text],
        result: Kind::Timestamptz,
        run: |around, cells| {
            let (text, pattern) = (cells[0].text(), cells[1].text());
            let at = read_pattern::timestamptz(text, pattern, around.zone)?;
            Ok(Out::Micros(at))
        },
    },
    Overload {
        args: &[Kind::Float8],
        result: Kind::Timestamptz,
        run: |_, cells| of_seconds(cells[0].float()).map(Out::Micros),
    },
];

/// A timestamp from seconds since 1970.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the range is checked"
)]
fn of_seconds(seconds: f64) -> Result<i64, PgError> {
    if seconds.is_nan() {
        return Err(PgError::new("22008", "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 {
            INFINITY
        } else {
            MINUS_INFINITY
        });
    }
    // PostgreSQL counts from 2000, which affects the rounding of floats.
    let since_2000 = seconds - SECONDS_TO_2000;
    let micros = (since_2000 * 1e6).round_ties_even();
    if !(-9.3e17..=9.3e18).contains(&micros) || micros >= i64::MAX as f64 {
        return Err(timestamp_out_of_range());
    }
    (micros as i64)
        .checked_add(SECONDS_TO_2000 as i64 * 1_000_000)
        .filter(|at| calendar::in_range(*at))
        .ok_or_else(timestamp_out_of_range)
}

const SECONDS_TO_2000: f64 = 946_684_800.0;
