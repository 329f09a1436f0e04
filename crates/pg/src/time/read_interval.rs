//! Parses intervals in PostgreSQL's format, the SQL standard's (`1-2`, `1 02:03:04`) and ISO
//! 8601's.
//!
//! Fields are processed from right to left, so that the unit of a number is known before the
//! number.

use super::calendar::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use super::read::{Bad, clock, fraction};
use super::span::{self, Span};
use super::split::{Kind, fields};
use super::words::{self, Unit, Word};
use crate::PgError;

/// `INTERVAL '…' YEAR TO MONTH`: the units of a qualified interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Qualifier {
    pub(crate) first: Unit,
    pub(crate) last: Unit,
}

/// Parses an interval, truncated to its qualifier, with its seconds rounded to `precision` digits.
pub(crate) fn interval(
    text: &str,
    qualifier: Option<Qualifier>,
    precision: Option<u32>,
) -> Result<Span, PgError> {
    let read = verbose(text, qualifier).or_else(|bad| match bad {
        Bad::Format => iso(text),
        other => Err(other),
    });
    let span = read.map_err(|bad| error(&bad, text))?.span(text)?;
    adjusted(span, qualifier, precision)
}

fn error(bad: &Bad, text: &str) -> PgError {
    match bad {
        Bad::Field | Bad::DayOrMonth => {
            let message = format!("interval field value out of range: \"{text}\"");
            PgError::new("22015", message)
        }
        other => other.clone().error("interval", text),
    }
}

/// Truncates an interval to the last unit of its qualifier.
pub(crate) fn adjusted(
    mut span: Span,
    qualifier: Option<Qualifier>,
    precision: Option<u32>,
) -> Result<Span, PgError> {
    if let Some(Qualifier { last, .. }) = qualifier {
        match last {
            Unit::Year => span = Span::new(span.months / 12 * 12, 0, 0),
            Unit::Month => span = Span::new(span.months, 0, 0),
            Unit::Day => span.micros = 0,
            Unit::Hour => span.micros = span.micros / MICROS_PER_HOUR * MICROS_PER_HOUR,
            Unit::Minute => span.micros = span.micros / MICROS_PER_MINUTE * MICROS_PER_MINUTE,
            _ => {}
        }
    }
    if let Some(precision) = precision.filter(|precision| *precision < 6) {
        span.micros =
            super::arithmetic::rounded(span.micros, precision).ok_or_else(span::out_of_range)?;
    }
    Ok(span)
}

/// The sums of all fields.
#[derive(Debug, Default)]
struct Sums {
    months: i64,
    days: i64,
    micros: i64,
    years: i64,
}

impl Sums {
    fn add_micros(&mut self, value: i64, scale: i64) -> Result<(), Bad> {
        let value = value.checked_mul(scale).ok_or(Bad::Field)?;
        self.micros = self.micros.checked_add(value).ok_or(Bad::Field)?;
        Ok(())
    }

    /// Adds a fraction of a unit that has `scale` microseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "the part is below one, a unit below a week"
    )]
    fn add_part(&mut self, part: f64, scale: i64) -> Result<(), Bad> {
        let micros = part * scale as f64;
        let mut whole = micros as i64;
        let rest = micros - whole as f64;
        if rest > 0.5 {
            whole += 1;
        } else if rest < -0.5 {
            whole -= 1;
        }
        self.add_micros(whole, 1)
    }

    /// Adds a fraction of a unit that has `scale` days.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "at most 30 days"
    )]
    fn add_part_of_days(&mut self, part: f64, scale: i64) -> Result<(), Bad> {
        let days = part * scale as f64;
        let whole = days as i64;
        self.days = small(self.days + whole)?;
        self.add_part(days - whole as f64, MICROS_PER_DAY)
    }

    #[expect(clippy::cast_possible_truncation, reason = "at most 12,000 months")]
    fn add_years(&mut self, value: i64, part: f64, scale: i64) -> Result<(), Bad> {
        let years = value.checked_mul(scale).ok_or(Bad::Field)?;
        self.years = small(self.years.checked_add(years).ok_or(Bad::Field)?)?;
        #[expect(clippy::cast_precision_loss, reason = "a scale of at most 1000")]
        let months = (part * scale as f64 * 12.0).round_ties_even() as i64;
        self.months = small(self.months + months)?;
        Ok(())
    }

    fn add(&mut self, unit: Unit, value: i64, part: f64) -> Result<(), Bad> {
        let add_days = |sums: &mut Self, scale: i64| -> Result<(), Bad> {
            let days = value.checked_mul(scale).ok_or(Bad::Field)?;
            sums.days = small(sums.days.checked_add(days).ok_or(Bad::Field)?)?;
            Ok(())
        };
        match unit {
            Unit::Microsecond => {
                self.add_micros(value, 1)?;
                self.add_part(part, 1)
            }
            Unit::Millisecond => {
                self.add_micros(value, 1000)?;
                self.add_part(part, 1000)
            }
            Unit::Second => {
                self.add_micros(value, MICROS_PER_SECOND)?;
                self.add_part(part, MICROS_PER_SECOND)
            }
            Unit::Minute => {
                self.add_micros(value, MICROS_PER_MINUTE)?;
                self.add_part(part, MICROS_PER_MINUTE)
            }
            Unit::Hour => {
                self.add_micros(value, MICROS_PER_HOUR)?;
                self.add_part(part, MICROS_PER_HOUR)
            }
            Unit::Day => {
                add_days(self, 1)?;
                self.add_part(part, MICROS_PER_DAY)
            }
            Unit::Week => {
                add_days(self, 7)?;
                self.add_part_of_days(part, 7)
            }
            Unit::Month => {
                self.months = small(self.months.checked_add(value).ok_or(Bad::Field)?)?;
                self.add_part_of_days(part, span::DAYS_PER_MONTH)
            }
            Unit::Year => self.add_years(value, part, 1),
            Unit::Decade => self.add_years(value, part, 10),
            Unit::Century => self.add_years(value, part, 100),
            Unit::Millennium => self.add_years(value, part, 1000),
            _ => Err(Bad::Format),
        }
    }

    fn negate(&mut self) -> Result<(), Bad> {
        self.micros = self.micros.checked_neg().ok_or(Bad::Field)?;
        self.days = small(-self.days)?;
        self.months = small(-self.months)?;
        self.years = small(-self.years)?;
        Ok(())
    }

    fn span(&self, _: &str) -> Result<Span, PgError> {
        let months = i128::from(self.years) * 12 + i128::from(self.months);
        Span::checked(months, self.days.into(), self.micros.into())
    }
}

fn small(value: i64) -> Result<i64, Bad> {
    i32::try_from(value).map(i64::from).map_err(|_| Bad::Field)
}

/// The bits for a unit that is present; a time has all of its units at once.
fn bits(unit: Unit) -> u32 {
    match unit {
        Unit::Microsecond => 1,
        Unit::Millisecond => 2,
        Unit::Second => 4,
        Unit::Minute => 8,
        Unit::Hour => 16,
        Unit::Day => 32,
        Unit::Week => 64,
        Unit::Month => 128,
        Unit::Year => 256,
        Unit::Decade => 512,
        Unit::Century => 1024,
        _ => 2048,
    }
}

const ALL_SECONDS: u32 = 1 | 2 | 4;
const TIME: u32 = ALL_SECONDS | 8 | 16;

/// Parses PostgreSQL's and the SQL standard's format.
fn verbose(text: &str, qualifier: Option<Qualifier>) -> Result<Sums, Bad> {
    let fields = fields(text).ok_or(Bad::Format)?;
    let mut sums = Sums::default();
    let mut unit: Option<Unit> = None;
    let mut filled = 0;
    let mut is_ago = false;
    for (at, field) in fields.iter().enumerate().rev() {
        let now = match field.kind {
            Kind::Time => {
                time(&mut sums, &field.text, false, qualifier)?;
                unit = Some(Unit::Day);
                TIME
            }
            Kind::Offset
                if field.text[1..].contains(':')
                    && time(
                        &mut sums,
                        &field.text[1..],
                        field.text.starts_with('-'),
                        qualifier,
                    )
                    .is_ok() =>
            {
                unit = Some(Unit::Day);
                TIME
            }
            Kind::Offset | Kind::Date | Kind::Number => {
                let (now, next) = number(&mut sums, &field.text, unit, qualifier)?;
                unit = next;
                now
            }
            Kind::Text | Kind::Special => {
                if let Some(found) = words::unit(&field.text) {
                    unit = Some(found);
                } else if field.text == "ago" {
                    is_ago = true;
                } else if words::word(&field.text) == Some(Word::Ignored) {
                } else {
                    return Err(Bad::Format);
                }
                0
            }
        };
        let _ = at;
        if now & filled != 0 {
            return Err(Bad::Format);
        }
        filled |= now;
    }
    if filled == 0 {
        return Err(Bad::Format);
    }
    if is_ago {
        sums.negate()?;
    }
    Ok(sums)
}

fn time(
    sums: &mut Sums,
    text: &str,
    negative: bool,
    qualifier: Option<Qualifier>,
) -> Result<(), Bad> {
    let (mut hour, mut minute, mut second, micros) = long_clock(text)?;
    let of_minutes = Qualifier {
        first: Unit::Minute,
        last: Unit::Second,
    };
    if qualifier == Some(of_minutes) && text.matches(':').count() == 1 && !text.contains('.') {
        (hour, minute, second) = (0, hour, minute);
        if minute > 59 {
            return Err(Bad::Field);
        }
    }
    let total = hour
        .checked_mul(MICROS_PER_HOUR)
        .and_then(|total| total.checked_add(minute * MICROS_PER_MINUTE))
        .and_then(|total| total.checked_add(second * MICROS_PER_SECOND + micros))
        .ok_or(Bad::Field)?;
    sums.add_micros(if negative { -total } else { total }, 1)
}

/// Parses a time whose hours may have 64 bits.
fn long_clock(text: &str) -> Result<(i64, i64, i64, i64), Bad> {
    let (hour, rest) = text.split_once(':').ok_or(Bad::Format)?;
    if hour.len() <= 9 {
        return clock(text);
    }
    let hour: i64 = hour.parse().map_err(|_| Bad::Field)?;
    let (_, minute, second, micros) = clock(&format!("0:{rest}"))?;
    Ok((hour, minute, second, micros))
}

/// Adds a number whose unit follows it. Returns the units it fills, and the unit of the number
/// before it.
fn number(
    sums: &mut Sums,
    text: &str,
    unit: Option<Unit>,
    qualifier: Option<Qualifier>,
) -> Result<(u32, Option<Unit>), Bad> {
    let mut unit = unit.unwrap_or_else(|| default_unit(qualifier));
    let negative = text.starts_with('-');
    let (mut value, rest) = integer(text)?;
    let mut part = 0.0;
    if let Some(more) = rest.strip_prefix('-') {
        // Years-months of the SQL standard.
        let (months, rest) = integer(more)?;
        if !(0..12).contains(&months) || more.starts_with(['-', '+']) {
            return Err(Bad::Field);
        }
        if !rest.is_empty() {
            return Err(Bad::Format);
        }
        unit = Unit::Month;
        let months = if negative { -months } else { months };
        value = value
            .checked_mul(12)
            .and_then(|value| value.checked_add(months))
            .ok_or(Bad::Field)?;
    } else if rest.starts_with('.') {
        fraction(rest)?;
        part = format!("0{rest}").parse().map_err(|_| Bad::Format)?;
        if negative {
            part = -part;
        }
    } else if !rest.is_empty() {
        return Err(Bad::Format);
    }
    sums.add(unit, value, part)?;
    let next = if unit == Unit::Hour { Unit::Day } else { unit };
    let filled = if unit == Unit::Second && part != 0.0 {
        ALL_SECONDS
    } else {
        bits(unit)
    };
    Ok((filled, Some(next)))
}

/// The unit of the last number if it has none.
fn default_unit(qualifier: Option<Qualifier>) -> Unit {
    qualifier.map_or(Unit::Second, |qualifier| qualifier.last)
}

fn integer(text: &str) -> Result<(i64, &str), Bad> {
    let signed = usize::from(text.starts_with(['-', '+']));
    let digits = text[signed..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    let (number, rest) = text.split_at(signed + digits);
    if digits == 0 {
        return if rest.starts_with('.') {
            Ok((0, rest))
        } else {
            Err(Bad::Format)
        };
    }
    let number: i64 = number.parse().map_err(|_| Bad::Field)?;
    Ok((number, rest))
}

/// ISO 8601: `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06` and `P00010203T040506`.
fn iso(text: &str) -> Result<Sums, Bad> {
    let mut sums = Sums::default();
    let Some(mut rest) = text.strip_prefix('P') else {
        return Err(Bad::Format);
    };
    if text.len() < 2 {
        return Err(Bad::Format);
    }
    let (mut in_date, mut has_field) = (true, false);
    while !rest.is_empty() {
        if let Some(more) = rest.strip_prefix('T') {
            (in_date, has_field, rest) = (false, false, more);
            continue;
        }
        let start = rest;
        let (value, part, more) = iso_number(rest)?;
        let width = start.len() - more.len();
        let unit = more.as_bytes().first().copied();
        rest = more.get(1..).unwrap_or("");
        let named = match (in_date, unit) {
            (true, Some(b'Y')) => Some(Unit::Year),
            (true, Some(b'M')) => Some(Unit::Month),
            (true, Some(b'W')) => Some(Unit::Week),
            (true, Some(b'D')) => Some(Unit::Day),
            (false, Some(b'H')) => Some(Unit::Hour),
            (false, Some(b'M')) => Some(Unit::Minute),
            (false, Some(b'S')) => Some(Unit::Second),
            _ => None,
        };
        if let Some(unit) = named {
            sums.add(unit, value, part)?;
            has_field = true;
            continue;
        }
        let ends = matches!(unit, None | Some(b'T'));
        if has_field || !(ends || unit == Some(b'-') || unit == Some(b':')) {
            return Err(Bad::Format);
        }
        if in_date && ends && integer_width(start) == 8 && width >= 8 {
            sums.add(Unit::Year, value / 10_000, 0.0)?;
            sums.add(Unit::Month, value / 100 % 100, 0.0)?;
            sums.add(Unit::Day, value % 100, part)?;
            in_date = false;
            continue;
        }
        if in_date {
            let (kept, unit_behind) = iso_date(&mut sums, value, part, unit, rest)?;
            rest = kept;
            if unit_behind.is_none() {
                return Ok(sums);
            }
            in_date = false;
            continue;
        }
        if unit.is_none() && integer_width(start) == 6 {
            sums.add(Unit::Hour, value / 10_000, 0.0)?;
            sums.add(Unit::Minute, value / 100 % 100, 0.0)?;
            sums.add(Unit::Second, value % 100, part)?;
            return Ok(sums);
        }
        iso_time(&mut sums, value, part, unit, rest)?;
        return Ok(sums);
    }
    Ok(sums)
}

/// Year, month and day with dashes. Returns the rest after `T`, or that the text has ended.
fn iso_date<'a>(
    sums: &mut Sums,
    value: i64,
    part: f64,
    unit: Option<u8>,
    mut rest: &'a str,
) -> Result<(&'a str, Option<u8>), Bad> {
    sums.add(Unit::Year, value, part)?;
    let mut behind = unit;
    for unit in [Unit::Month, Unit::Day] {
        match behind {
            None | Some(b'T') => return Ok((rest, behind)),
            Some(b'-') => {}
            Some(_) => return Err(Bad::Format),
        }
        let (value, part, more) = iso_number(rest)?;
        sums.add(unit, value, part)?;
        behind = more.as_bytes().first().copied();
        rest = more.get(1..).unwrap_or("");
    }
    match behind {
        None | Some(b'T') => Ok((rest, behind)),
        Some(_) => Err(Bad::Format),
    }
}

fn iso_time(
    sums: &mut Sums,
    value: i64,
    part: f64,
    unit: Option<u8>,
    mut rest: &str,
) -> Result<(), Bad> {
    sums.add(Unit::Hour, value, part)?;
    let mut behind = unit;
    for unit in [Unit::Minute, Unit::Second] {
        match behind {
            None => return Ok(()),
            Some(b':') => {}
            Some(_) => return Err(Bad::Format),
        }
        let (value, part, more) = iso_number(rest)?;
        sums.add(unit, value, part)?;
        behind = more.as_bytes().first().copied();
        rest = more.get(1..).unwrap_or("");
    }
    if behind.is_none() {
        Ok(())
    } else {
        Err(Bad::Format)
    }
}

/// The number of digits before the decimal point.
fn integer_width(text: &str) -> usize {
    let text = text.strip_prefix('-').unwrap_or(text);
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// A number's integer part, its fraction, and the text after it.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn iso_number(text: &str) -> Result<(i64, f64, &str), Bad> {
    let sign = usize::from(text.starts_with('-'));
    let mut end = sign;
    let bytes = text.as_bytes();
    let mut exponent = false;
    while let Some(byte) = bytes.get(end) {
        let is_exponent = matches!(byte, b'e' | b'E') && end > sign && !exponent;
        let is_sign =
            exponent && matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E');
        if !byte.is_ascii_digit() && *byte != b'.' && !is_exponent && !is_sign {
            break;
        }
        exponent |= is_exponent;
        end += 1;
    }
    let (number, rest) = text.split_at(end);
    if !number.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err(Bad::Format);
    }
    let number: f64 = number.parse().map_err(|_| Bad::Format)?;
    if !(-1.0e15..=1.0e15).contains(&number) {
        return Err(Bad::Field);
    }
    let whole = number.trunc();
    Ok((whole as i64, number - whole, rest))
}
