//! Operators of dates, times and intervals, as functions; `interval_key`, by which intervals are
//! compared; `overlaps`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::rowwise::{Cell, Kind, Out, Overload, function, function_with_nulls};
use crate::PgError;
use crate::time::arithmetic::{self, date_out_of_range, midnight};
use crate::time::calendar::{
    self, DATE_INFINITY, DATE_MINUS_INFINITY, DAY_MAX, DAY_MIN, MICROS_PER_DAY,
};
use crate::time::read::Surroundings;
use crate::time::span::Span;

pub(crate) const PLUS: &str = "time_plus";
pub(crate) const MINUS: &str = "time_minus";
pub(crate) const TIMES: &str = "interval_times";
pub(crate) const OVER: &str = "interval_over";
pub(crate) const KEY: &str = "interval_key";

/// The operator that a function implements.
pub(crate) fn symbol(name: &str) -> Option<&'static str> {
    Some(match name {
        PLUS => "+",
        MINUS => "-",
        TIMES => "*",
        OVER => "/",
        _ => return None,
    })
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    let immutable = Volatility::Immutable;
    vec![
        plus(),
        minus(),
        times(),
        over(),
        key(),
        function_with_nulls("overlaps", immutable, OVERLAPS),
    ]
}

pub(crate) fn plus() -> ScalarUDF {
    function(PLUS, Volatility::Immutable, PLUS_OVERLOADS)
}

pub(crate) fn minus() -> ScalarUDF {
    function(MINUS, Volatility::Immutable, MINUS_OVERLOADS)
}

pub(crate) fn times() -> ScalarUDF {
    function(TIMES, Volatility::Immutable, TIMES_OVERLOADS)
}

pub(crate) fn over() -> ScalarUDF {
    function(OVER, Volatility::Immutable, OVER_OVERLOADS)
}

pub(crate) fn key() -> ScalarUDF {
    ScalarUDF::new_from_impl(IntervalKey {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

macro_rules! overload {
    ([$($arg:ident),*] => $result:ident, $run:expr) => {
        Overload {
            args: &[$(Kind::$arg),*],
            result: Kind::$result,
            run: $run,
        }
    };
}

/// PostgreSQL's additions.
pub(crate) const PLUS_OVERLOADS: &[Overload] = &[
    overload!([Date, Int4] => Date, |_, cells| moved(cells[0].date(), cells[1].int())),
    overload!([Int4, Date] => Date, |_, cells| moved(cells[1].date(), cells[0].int())),
    overload!([Date, Interval] => Timestamp, |_, cells| {
        local_plus(midnight(cells[0].date())?, cells[1].span())
    }),
    overload!([Interval, Date] => Timestamp, |_, cells| {
        local_plus(midnight(cells[1].date())?, cells[0].span())
    }),
    overload!([Date, Time] => Timestamp, |_, cells| at(cells[0].date(), cells[1].micros())),
    overload!([Time, Date] => Timestamp, |_, cells| at(cells[1].date(), cells[0].micros())),
    overload!([Timestamp, Interval] => Timestamp, |_, cells| {
        local_plus(cells[0].micros(), cells[1].span())
    }),
    overload!([Interval, Timestamp] => Timestamp, |_, cells| {
        local_plus(cells[1].micros(), cells[0].span())
    }),
    overload!([Timestamptz, Interval] => Timestamptz, |around, cells| {
        utc_plus(around, cells[0].micros(), cells[1].span())
    }),
    overload!([Interval, Timestamptz] => Timestamptz, |around, cells| {
        utc_plus(around, cells[1].micros(), cells[0].span())
    }),
    overload!([Time, Interval] => Time, |_, cells| turned(cells[0].micros(), cells[1].span(), 1)),
    overload!([Interval, Time] => Time, |_, cells| turned(cells[1].micros(), cells[0].span(), 1)),
    overload!([Interval, Interval] => Interval, |_, cells| {
        Ok(Out::Span(cells[0].span().add(cells[1].span())?))
    }),
];

/// PostgreSQL's subtractions.
pub(crate) const MINUS_OVERLOADS: &[Overload] = &[
    overload!([Date, Date] => Int4, |_, cells| {
        let (left, right) = (cells[0].date(), cells[1].date());
        let infinite = [DATE_INFINITY, DATE_MINUS_INFINITY];
        if infinite.contains(&left) || infinite.contains(&right) {
            return Err(PgError::new("22008", "cannot subtract infinite dates"));
        }
        Ok(Out::Int(i64::from(left) - i64::from(right)))
    }),
    overload!([Date, Int4] => Date, |_, cells| moved(cells[0].date(), -cells[1].int())),
    overload!([Date, Interval] => Timestamp, |_, cells| {
        local_plus(midnight(cells[0].date())?, cells[1].span().negated()?)
    }),
    overload!([Timestamp, Timestamp] => Interval, |_, cells| between(cells)),
    overload!([Timestamptz, Timestamptz] => Interval, |_, cells| between(cells)),
    overload!([Timestamp, Interval] => Timestamp, |_, cells| {
        local_plus(cells[0].micros(), cells[1].span().negated()?)
    }),
    overload!([Timestamptz, Interval] => Timestamptz, |around, cells| {
        utc_plus(around, cells[0].micros(), cells[1].span().negated()?)
    }),
    overload!([Time, Time] => Interval, |_, cells| {
        Ok(Out::Span(Span::new(0, 0, cells[0].micros() - cells[1].micros())))
    }),
    overload!([Time, Interval] => Time, |_, cells| turned(cells[0].micros(), cells[1].span(), -1)),
    overload!([Interval, Interval] => Interval, |_, cells| {
        Ok(Out::Span(cells[0].span().add(cells[1].span().negated()?)?))
    }),
];

pub(crate) const TIMES_OVERLOADS: &[Overload] = &[
    overload!([Interval, Float8] => Interval, |_, cells| {
        Ok(Out::Span(cells[0].span().times(cells[1].float())?))
    }),
    overload!([Float8, Interval] => Interval, |_, cells| {
        Ok(Out::Span(cells[1].span().times(cells[0].float())?))
    }),
];

pub(crate) const OVER_OVERLOADS: &[Overload] =
    &[overload!([Interval, Float8] => Interval, |_, cells| {
        Ok(Out::Span(cells[0].span().over(cells[1].float())?))
    })];

fn moved(date: i32, days: i64) -> Result<Out, PgError> {
    if date == DATE_INFINITY || date == DATE_MINUS_INFINITY {
        return Ok(Out::Date(date));
    }
    let day = i64::from(date) + days;
    if !(DAY_MIN..=DAY_MAX).contains(&day) {
        return Err(date_out_of_range());
    }
    i32::try_from(day)
        .map(Out::Date)
        .map_err(|_| date_out_of_range())
}

fn local_plus(at: i64, span: Span) -> Result<Out, PgError> {
    Ok(Out::Micros(arithmetic::plus(at, span)?))
}

fn utc_plus(around: &Surroundings, at: i64, span: Span) -> Result<Out, PgError> {
    Ok(Out::Micros(arithmetic::plus_in(at, span, around.zone)?))
}

fn at(date: i32, time: i64) -> Result<Out, PgError> {
    let midnight = midnight(date)?;
    if !calendar::is_finite(midnight) {
        return Ok(Out::Micros(midnight));
    }
    let at = midnight
        .checked_add(time)
        .filter(|at| calendar::in_range(*at))
        .ok_or_else(arithmetic::timestamp_out_of_range)?;
    Ok(Out::Micros(at))
}

/// Moves a time of day, wrapping at midnight.
fn turned(time: i64, span: Span, sign: i64) -> Result<Out, PgError> {
    let moved = time + sign * (span.micros % MICROS_PER_DAY);
    Ok(Out::Micros(moved.rem_euclid(MICROS_PER_DAY)))
}

fn between(cells: &[Cell]) -> Result<Out, PgError> {
    let span = arithmetic::minus(cells[0].micros(), cells[1].micros())?;
    Ok(Out::Span(span))
}

macro_rules! overlaps {
    ($kind:ident) => {
        overload!([$kind, $kind, $kind, $kind] => Bool, |_, cells| {
            let ends: Vec<Option<i64>> = cells.iter().map(|cell| micros(*cell)).collect();
            Ok(overlap([ends[0], ends[1]], [ends[2], ends[3]]))
        })
    };
}

macro_rules! overlaps_with {
    ($first:ident, $second:ident, $kind:ident) => {
        overload!([$kind, $first, $kind, $second] => Bool, |around, cells| {
            let first = end(around, cells[0], cells[1], Kind::$kind)?;
            let second = end(around, cells[2], cells[3], Kind::$kind)?;
            Ok(overlap([micros(cells[0]), first], [micros(cells[2]), second]))
        })
    };
}

const OVERLAPS: &[Overload] = &[
    overlaps!(Timestamp),
    overlaps!(Timestamptz),
    overlaps!(Time),
    overlaps_with!(Interval, Timestamp, Timestamp),
    overlaps_with!(Timestamp, Interval, Timestamp),
    overlaps_with!(Interval, Interval, Timestamp),
    overlaps_with!(Interval, Timestamptz, Timestamptz),
    overlaps_with!(Timestamptz, Interval, Timestamptz),
    overlaps_with!(Interval, Interval, Timestamptz),
    overlaps_with!(Interval, Time, Time),
    overlaps_with!(Time, Interval, Time),
    overlaps_with!(Interval, Interval, Time),
];

fn micros(cell: Cell) -> Option<i64> {
    match cell {
        Cell::Micros(at) => Some(at),
        _ => None,
    }
}

/// The end of a period, given directly or as an interval from its start.
fn end(around: &Surroundings, start: Cell, end: Cell, kind: Kind) -> Result<Option<i64>, PgError> {
    let Cell::Span(span) = end else {
        return Ok(micros(end));
    };
    let Some(at) = micros(start) else {
        return Ok(None);
    };
    Ok(Some(match kind {
        Kind::Time => (at + span.micros % MICROS_PER_DAY).rem_euclid(MICROS_PER_DAY),
        Kind::Timestamp => arithmetic::plus(at, span)?,
        _ => arithmetic::plus_in(at, span, around.zone)?,
    }))
}

/// Whether two periods overlap; unknown if that depends on a NULL end.
fn overlap(first: [Option<i64>; 2], second: [Option<i64>; 2]) -> Out {
    let ordered = |[start, end]: [Option<i64>; 2]| match (start, end) {
        (None, None) => None,
        (None, Some(end)) => Some((end, None)),
        (Some(start), None) => Some((start, None)),
        (Some(start), Some(end)) => Some((start.min(end), Some(start.max(end)))),
    };
    let (Some(first), Some(second)) = (ordered(first), ordered(second)) else {
        return Out::Null;
    };
    // The later of the two starts, and the ends of both periods.
    let (later, of_later, of_earlier) = match first.0.cmp(&second.0) {
        std::cmp::Ordering::Greater => (first.0, first.1, second.1),
        std::cmp::Ordering::Less => (second.0, second.1, first.1),
        std::cmp::Ordering::Equal => {
            return match (first.1, second.1) {
                (Some(_), Some(_)) => Out::Bool(true),
                _ => Out::Null,
            };
        }
    };
    match (of_earlier, of_later) {
        (None, _) => Out::Null,
        (Some(end), _) if later < end => Out::Bool(true),
        (Some(_), None) => Out::Null,
        (Some(_), Some(_)) => Out::Bool(false),
    }
}

/// `interval_key(x)`: the interval's length in microseconds, by which intervals are compared.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalKey {
    signature: Signature,
}

/// Wide enough for the longest interval.
const KEY_TYPE: DataType = DataType::Decimal128(38, 0);

impl ScalarUDFImpl for IntervalKey {
    fn name(&self) -> &str {
        KEY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given
            .iter()
            .map(|_| DataType::Interval(IntervalUnit::MonthDayNano))
            .collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(KEY_TYPE)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [array] = arrays.as_slice() else {
            return internal_err!("{KEY} takes an interval");
        };
        let keys = interval_keys(array)?;
        if let ColumnarValue::Scalar(_) = &args.args[0] {
            let key = datafusion::scalar::ScalarValue::try_from_array(&keys, 0)?;
            return Ok(ColumnarValue::Scalar(key));
        }
        Ok(ColumnarValue::Array(keys))
    }
}

/// The lengths of intervals.
pub(crate) fn interval_keys(array: &ArrayRef) -> Result<ArrayRef> {
    let spans = array.as_primitive::<IntervalMonthDayNanoType>();
    let keys: Decimal128Array = spans
        .iter()
        .map(|span| span.map(|span| Span::of_arrow(span).length()))
        .collect();
    Ok(Arc::new(keys.with_precision_and_scale(38, 0)?))
}
