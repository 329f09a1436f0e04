//! Casts to dates, times and intervals.
//!
//! Texts and zones are interpreted by the session's settings ([`Context`]). A timestamptz is a
//! point in time in UTC, whatever the zone of its Arrow type.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, PrimitiveArray, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Field, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
};
use datafusion::common::internal_err;
use datafusion::error::Result;

use super::{Context, Target, arrow_cast};
use crate::PgError;
use crate::moments::now;
use crate::time::arithmetic::{self, date_of, midnight, rounded_moment};
use crate::time::calendar::{self, MICROS_PER_DAY, is_finite};
use crate::time::read::{self, Order, Surroundings};
use crate::time::read_interval::{self, Qualifier};
use crate::time::span::Span;
use crate::time::words::{self, Unit};
use crate::time::zone::Zone;

impl Context {
    /// The settings on which the text of a date depends.
    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            order: Order::Mdy,
            zone: Zone::of_session(Some(&self.zone)),
            now: self.moments.transaction().unwrap_or_else(now),
        }
    }
}

/// Casts to date, time, timestamp, timestamptz or interval, with values of the Arrow type `held`.
pub(super) fn cast(
    array: &ArrayRef,
    from: &Field,
    to: &Target,
    held: &DataType,
    context: &Context,
) -> Result<ArrayRef> {
    let around = context.surroundings();
    let cast = Cast {
        array,
        around: &around,
    };
    match to {
        Target::Date => cast.date(from.data_type()),
        Target::Time(digits) => cast.time(from.data_type(), *digits),
        Target::Timestamp(digits) => {
            cast.moment(from.data_type(), held, *digits, read::timestamp, false)
        }
        Target::Timestamptz(digits) => {
            cast.moment(from.data_type(), held, *digits, read::timestamptz, true)
        }
        Target::Interval(fields, digits) => {
            let qualifier = fields.as_deref().and_then(qualifier);
            cast.interval(from.data_type(), qualifier, digits.map(u32::from))
        }
        other => internal_err!("{other} is not a date or time type"),
    }
}

/// The units to which a qualified interval is restricted.
fn qualifier(fields: &str) -> Option<Qualifier> {
    let (first, last) = fields.split_once(" to ").unwrap_or((fields, fields));
    let unit = |word: &str| -> Option<Unit> { words::unit(word.split('(').next()?.trim()) };
    Some(Qualifier {
        first: unit(first)?,
        last: unit(last)?,
    })
}

struct Cast<'a> {
    array: &'a ArrayRef,
    around: &'a Surroundings,
}

/// A column in one of the Arrow types of dates and times.
enum Source {
    Text(StringArray),
    Date(PrimitiveArray<Date32Type>),
    Timestamp(TimestampMicrosecondArray),
    Timestamptz(TimestampMicrosecondArray),
    Time(PrimitiveArray<Time64MicrosecondType>),
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
}

impl Cast<'_> {
    fn source(&self, from: &DataType) -> Result<Source> {
        let to = |data_type: &DataType| arrow_cast(self.array, data_type);
        let micros =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        Ok(match from {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Source::Text(to(&DataType::Utf8)?.as_string().clone())
            }
            DataType::Date32 | DataType::Date64 => {
                Source::Date(to(&DataType::Date32)?.as_primitive().clone())
            }
            DataType::Timestamp(_, None) => {
                Source::Timestamp(to(&micros(None))?.as_primitive().clone())
            }
            DataType::Timestamp(_, Some(zone)) => {
                Source::Timestamptz(to(&micros(Some(zone)))?.as_primitive().clone())
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                let time = to(&DataType::Time64(TimeUnit::Microsecond))?;
                Source::Time(time.as_primitive().clone())
            }
            DataType::Interval(_) | DataType::Duration(_) => {
                let span = to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
                Source::Interval(span.as_primitive().clone())
            }
            other => return internal_err!("{other} is not a date or time type"),
        })
    }

    fn date(&self, from: &DataType) -> Result<ArrayRef> {
        let zone = self.around.zone;
        let array: PrimitiveArray<Date32Type> = match self.source(from)? {
            Source::Text(texts) => read_all(&texts, |text| read::date(text, self.around))?,
            Source::Date(dates) => dates,
            Source::Timestamp(moments) => moments.unary(date_of),
            Source::Timestamptz(moments) => moments.unary(|at| date_of(local(at, zone))),
            Source::Time(_) | Source::Interval(_) => return internal_err!("no cast to date"),
        };
        Ok(Arc::new(array))
    }

    fn time(&self, from: &DataType, digits: Option<u8>) -> Result<ArrayRef> {
        let zone = self.around.zone;
        let of_day = |at: i64| is_finite(at).then(|| at.rem_euclid(MICROS_PER_DAY));
        let array: PrimitiveArray<Time64MicrosecondType> = match self.source(from)? {
            Source::Text(texts) => read_all(&texts, |text| read::time(text, self.around))?,
            Source::Time(times) => times,
            Source::Timestamp(moments) => moments.unary_opt(of_day),
            Source::Timestamptz(moments) => moments.unary_opt(|at| of_day(local(at, zone))),
            Source::Interval(spans) => {
                spans.unary(|span| Span::of_arrow(span).micros.rem_euclid(MICROS_PER_DAY))
            }
            Source::Date(_) => return internal_err!("no cast to time"),
        };
        let Some(digits) = digits.filter(|digits| *digits < 6) else {
            return Ok(Arc::new(array));
        };
        let rounded = |time| arithmetic::rounded(time, digits.into()).unwrap_or(time);
        let array: PrimitiveArray<Time64MicrosecondType> = array.unary(rounded);
        Ok(Arc::new(array))
    }

    fn moment(
        &self,
        from: &DataType,
        held: &DataType,
        digits: Option<u8>,
        read: fn(&str, &Surroundings) -> Result<i64, PgError>,
        is_utc: bool,
    ) -> Result<ArrayRef> {
        let zone = self.around.zone;
        type Moments = TimestampMicrosecondArray;
        let array: Moments = match (self.source(from)?, is_utc) {
            (Source::Text(texts), _) => read_all(&texts, |text| read(text, self.around))?,
            (Source::Date(dates), false) => dates.try_unary(midnight)?,
            (Source::Date(dates), true) => dates.try_unary(|day| utc(midnight(day)?, zone))?,
            (Source::Timestamp(moments), false) | (Source::Timestamptz(moments), true) => moments,
            (Source::Timestamp(moments), true) => moments.try_unary(|at| utc(at, zone))?,
            (Source::Timestamptz(moments), false) => moments.unary(|at| local(at, zone)),
            (Source::Time(_) | Source::Interval(_), _) => {
                return internal_err!("no cast to timestamp");
            }
        };
        let array: Moments = match digits.filter(|digits| *digits < 6) {
            Some(digits) => array.try_unary(|at| rounded_moment(at, digits.into()))?,
            None => array,
        };
        Ok(Arc::new(array.with_data_type(held.clone())))
    }

    fn interval(
        &self,
        from: &DataType,
        qualifier: Option<Qualifier>,
        digits: Option<u32>,
    ) -> Result<ArrayRef> {
        type Spans = PrimitiveArray<IntervalMonthDayNanoType>;
        let array: Spans = match self.source(from)? {
            Source::Text(texts) => read_all(&texts, |text| {
                read_interval::interval(text, qualifier, digits)?.to_arrow()
            })?,
            Source::Time(times) => times.try_unary(|time| Span::new(0, 0, time).to_arrow())?,
            Source::Interval(spans) if qualifier.is_none() && digits.is_none() => spans,
            Source::Interval(spans) => {
                spans.try_unary(|span| -> Result<IntervalMonthDayNano, PgError> {
                    read_interval::adjusted(Span::of_arrow(span), qualifier, digits)?.to_arrow()
                })?
            }
            _ => return internal_err!("no cast to interval"),
        };
        Ok(Arc::new(array))
    }
}

fn local(at: i64, zone: Zone) -> i64 {
    if is_finite(at) { zone.local(at) } else { at }
}

fn utc(at: i64, zone: Zone) -> Result<i64, PgError> {
    if !is_finite(at) {
        return Ok(at);
    }
    Some(zone.utc(at))
        .filter(|at| calendar::in_range(*at))
        .ok_or_else(arithmetic::timestamp_out_of_range)
}

/// Parses each text.
fn read_all<T: ArrowPrimitiveType>(
    texts: &StringArray,
    read: impl Fn(&str) -> Result<T::Native, PgError>,
) -> Result<PrimitiveArray<T>> {
    let mut values = PrimitiveArray::<T>::builder(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) {
            values.append_null();
        } else {
            values.append_value(read(texts.value(row))?);
        }
    }
    Ok(values.finish())
}
