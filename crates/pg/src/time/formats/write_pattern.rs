//! `to_char` of timestamps and intervals.

use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

use super::patterns::{Case, DAYS, FieldNode, Key, MONTHS, Node, ROMAN, nodes};
use crate::PgError;
use crate::time::calendar::{self, MICROS_PER_DAY, MICROS_PER_HOUR, Parts};
use crate::time::span::Span;
use crate::time::zone::Zone;

/// A parsed pattern, which can write many values.
pub(crate) struct Pattern {
    nodes: Vec<Node>,
}

/// The parts of a value to be written.
struct Value {
    parts: Parts,
    /// Days since 1970.
    day: i64,
    day_of_year: i64,
    is_interval: bool,
    zone: Option<(String, i32)>,
}

impl Pattern {
    /// Parses a pattern; the last one is cached for rows with the same pattern.
    pub(crate) fn of(pattern: &str) -> Rc<Self> {
        thread_local! {
            static LAST: RefCell<Option<(String, Rc<Pattern>)>> = const { RefCell::new(None) };
        }
        LAST.with_borrow_mut(|last| match last {
            Some((text, known)) if text == pattern => Rc::clone(known),
            _ => {
                let nodes = nodes(pattern);
                let read = Rc::new(Self { nodes });
                *last = Some((pattern.to_owned(), Rc::clone(&read)));
                read
            }
        })
    }

    /// Writes a local time. `zone` is the zone of a timestamptz, with the time in UTC.
    pub(crate) fn moment(&self, local: i64, zone: Option<(Zone, i64)>) -> Result<String, PgError> {
        let day = local.div_euclid(MICROS_PER_DAY);
        self.write(&Value {
            parts: Parts::of(local),
            day,
            day_of_year: calendar::day_of_year(day),
            is_interval: false,
            zone: zone.map(|(zone, utc)| (zone.abbreviation_at(utc), zone.offset_at(utc))),
        })
    }

    /// Writes an interval, whose hours may exceed a day.
    pub(crate) fn span(&self, span: Span) -> Result<String, PgError> {
        let in_hour = span.micros % MICROS_PER_HOUR;
        let months = i64::from(span.months);
        let days = i64::from(span.days);
        let parts = Parts {
            year: months / 12,
            month: months % 12,
            day: days,
            hour: span.micros / MICROS_PER_HOUR,
            minute: in_hour / calendar::MICROS_PER_MINUTE,
            second: in_hour / calendar::MICROS_PER_SECOND % 60,
            micros: in_hour % calendar::MICROS_PER_SECOND,
        };
        self.write(&Value {
            parts,
            day: calendar::days(parts.year, parts.month, parts.day),
            day_of_year: months * 30 + days,
            is_interval: true,
            zone: None,
        })
    }

    fn write(&self, value: &Value) -> Result<String, PgError> {
        let mut out = String::new();
        for node in &self.nodes {
            match node {
                Node::Char(letter) | Node::Space(letter) | Node::Separator(letter) => {
                    out.push(*letter);
                }
                Node::Field(field) => put_field(&mut out, field, value)?,
            }
        }
        Ok(out)
    }
}

fn put_field(out: &mut String, field: &FieldNode, value: &Value) -> Result<(), PgError> {
    let parts = &value.parts;
    if value.is_interval && is_of_calendar(field.key) {
        let message = "invalid format specification for an interval value";
        return Err(PgError::new("22007", message));
    }
    // Writes at least this many digits unless `FM` is set; a negative number has one more.
    let mut number = |value: i64, width: usize| {
        let width = match (field.fill, value < 0) {
            (true, _) => 0,
            (false, true) => width + 1,
            (false, false) => width,
        };
        let at = out.len();
        let _ = write!(out, "{value:0width$}");
        if let Some(case) = field.ordinal {
            let suffix = ordinal(&out[at..], case);
            out.push_str(suffix);
        }
    };
    match field.key {
        Key::Hour24 => number(parts.hour, 2),
        Key::Hour12 => {
            let hour = parts.hour % 12;
            let hour = if hour == 0 { 12 } else { hour };
            // The width depends on the sign of the whole hour.
            number(hour, if parts.hour < 0 && hour > 0 { 3 } else { 2 });
        }
        Key::Minute => number(parts.minute, 2),
        Key::Second => number(parts.second, 2),
        Key::SecondOfDay => number(parts.hour * 3600 + parts.minute * 60 + parts.second, 1),
        Key::Month => number(parts.month, 2),
        Key::DayOfMonth => number_unsigned(&mut number, parts.day, 2),
        Key::DayOfYear => number_unsigned(&mut number, value.day_of_year, 3),
        Key::IsoDayOfYear => {
            let year = calendar::iso_week(value.day).0;
            number(value.day - calendar::iso_week_start(year, 1) + 1, 3);
        }
        Key::DayOfWeek => number(calendar::weekday(value.day) + 1, 1),
        Key::IsoDayOfWeek => number((calendar::weekday(value.day) + 6) % 7 + 1, 1),
        Key::Week => number_unsigned(&mut number, (value.day_of_year - 1) / 7 + 1, 2),
        Key::IsoWeek => number(calendar::iso_week(value.day).1, 2),
        Key::WeekOfMonth => number_unsigned(&mut number, (parts.day - 1) / 7 + 1, 1),
        Key::Quarter if parts.month == 0 => {}
        Key::Quarter => number_unsigned(&mut number, (parts.month - 1) / 3 + 1, 1),
        Key::Julian => {
            number_unsigned(&mut number, value.day + calendar::EPOCH_JULIAN, 1);
        }
        Key::Century => {
            let year = parts.year;
            let century = match (value.is_interval, year > 0) {
                (true, _) => year / 100,
                (false, true) => (year - 1) / 100 + 1,
                (false, false) => year / 100 - 1,
            };
            number(century, if (-99..=99).contains(&century) { 2 } else { 1 });
        }
        Key::Year(digits) => {
            let year = shown_year(parts.year, value.is_interval);
            number_of_year(&mut number, year, digits, year < 0);
        }
        Key::IsoYear(digits) => {
            let year = calendar::iso_week(value.day).0;
            let year = shown_year(year, value.is_interval);
            // The width depends on the sign of the other calendar's year.
            let is_wide = shown_year(parts.year, value.is_interval) < 0;
            number_of_year(&mut number, year, digits, is_wide);
        }
        _ => put_words(out, field, value),
    }
    Ok(())
}

/// Writes a field whose width includes the minus.
fn number_unsigned(number: &mut impl FnMut(i64, usize), value: i64, width: usize) {
    number(value, if value < 0 { width - 1 } else { width });
}

fn number_of_year(number: &mut impl FnMut(i64, usize), year: i64, digits: u32, is_wide: bool) {
    let width = digits as usize + usize::from(is_wide && digits > 1);
    let shown = if digits == 4 {
        year
    } else {
        year % 10_i64.pow(digits)
    };
    number_unsigned(number, shown, width);
}

fn put_words(out: &mut String, field: &FieldNode, value: &Value) {
    let parts = &value.parts;
    let at = out.len();
    let micros = parts.micros;
    match field.key {
        Key::HalfOfDay(case, dots) => {
            let is_pm = parts.hour.rem_euclid(24) >= 12 && parts.hour % 24 >= 12;
            out.push_str(&cased(
                match (is_pm, dots) {
                    (true, true) => "P.M.",
                    (true, false) => "PM",
                    (false, true) => "A.M.",
                    (false, false) => "AM",
                },
                case,
            ));
            return;
        }
        Key::Era(case, dots) => {
            out.push_str(&cased(
                match (parts.year <= 0, dots) {
                    (true, true) => "B.C.",
                    (true, false) => "BC",
                    (false, true) => "A.D.",
                    (false, false) => "AD",
                },
                case,
            ));
            return;
        }
        Key::DayName(case) | Key::DayShort(case) => {
            let name = DAYS[usize::try_from(calendar::weekday(value.day)).unwrap_or(0)];
            put_name(out, name, case, field, matches!(field.key, Key::DayName(_)));
            return;
        }
        Key::MonthName(case) | Key::MonthShort(case) => {
            let Some(name) = MONTHS.get(usize::try_from(parts.month - 1).unwrap_or(99)) else {
                return;
            };
            let long = matches!(field.key, Key::MonthName(_));
            put_name(out, name, case, field, long);
            return;
        }
        Key::Roman(case) => {
            put_roman(out, field, parts, case);
            return;
        }
        Key::Fraction(digits) => {
            let shown = micros / 10_i64.pow(6 - digits);
            let width = digits as usize;
            let _ = write!(out, "{shown:0width$}");
        }
        Key::Millisecond => {
            let _ = write!(out, "{:03}", micros / 1000);
        }
        Key::Microsecond => {
            let _ = write!(out, "{micros:06}");
        }
        Key::YearWithComma => {
            let year = shown_year(parts.year, value.is_interval);
            let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
        }
        Key::Zone(_) | Key::ZoneHour | Key::ZoneMinute | Key::Offset => {
            put_zone(out, field, value);
            return;
        }
        _ => return,
    }
    if let Some(case) = field.ordinal {
        let suffix = ordinal(&out[at..], case);
        out.push_str(suffix);
    }
}

fn put_zone(out: &mut String, field: &FieldNode, value: &Value) {
    let offset = value.zone.as_ref().map_or(0, |(_, offset)| *offset);
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
    let _ = match field.key {
        Key::Zone(case) => match &value.zone {
            Some((name, _)) if case == Case::Lower => write!(out, "{}", name.to_lowercase()),
            Some((name, _)) => write!(out, "{name}"),
            None => Ok(()),
        },
        Key::ZoneHour => write!(out, "{sign}{hours:02}"),
        Key::ZoneMinute => write!(out, "{minutes:02}"),
        _ if field.fill => write!(out, "{sign}{hours}"),
        _ => write!(out, "{sign}{hours:02}"),
    };
    if field.key == Key::Offset && offset % 3600 != 0 {
        let _ = write!(out, ":{minutes:02}");
    }
}

fn put_roman(out: &mut String, field: &FieldNode, parts: &Parts, case: Case) {
    // Full years of an interval have no month and count as December.
    let at = match parts.month {
        0 if parts.year == 0 => return,
        0 if parts.year > 0 => 0,
        0 => 11,
        month @ ..0 => -(month + 1),
        month => 12 - month,
    };
    let name = cased(ROMAN[usize::try_from(at).unwrap_or(0)], case);
    let width = if field.fill { 0 } else { 4 };
    let _ = write!(out, "{name:<width$}");
}

fn put_name(out: &mut String, name: &str, case: Case, field: &FieldNode, long: bool) {
    let name = cased(if long { name } else { &name[..3] }, case);
    let is_padded = long && !field.fill && !field.translated;
    let width = if is_padded { 9 } else { 0 };
    let _ = write!(out, "{name:<width$}");
}

fn cased(text: &str, case: Case) -> String {
    match case {
        Case::Upper => text.to_uppercase(),
        Case::Lower => text.to_lowercase(),
        Case::Capital => text.to_owned(),
    }
}

/// Whether a field applies only to a calendar date, not to an interval.
fn is_of_calendar(key: Key) -> bool {
    matches!(
        key,
        Key::Era(..)
            | Key::DayName(_)
            | Key::DayShort(_)
            | Key::MonthName(_)
            | Key::MonthShort(_)
            | Key::DayOfWeek
            | Key::IsoDayOfWeek
            | Key::Zone(_)
            | Key::ZoneHour
            | Key::ZoneMinute
            | Key::Offset
    )
}

/// The year as shown: year 0 is 1 BC.
fn shown_year(year: i64, is_interval: bool) -> i64 {
    if is_interval || year > 0 {
        year
    } else {
        1 - year
    }
}

/// `st`, `nd`, `rd` or `th`.
pub(super) fn ordinal(number: &str, case: Case) -> &'static str {
    let bytes = number.as_bytes();
    let tens = bytes.len().checked_sub(2).and_then(|at| bytes.get(at));
    let last = if tens == Some(&b'1') {
        None
    } else {
        bytes.last()
    };
    let at = match last {
        Some(b'1') => 0,
        Some(b'2') => 1,
        Some(b'3') => 2,
        _ => 3,
    };
    match case {
        Case::Upper => ["ST", "ND", "RD", "TH"][at],
        _ => ["st", "nd", "rd", "th"][at],
    }
}
