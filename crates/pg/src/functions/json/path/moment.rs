//! Times in paths: `.datetime()` of a text, and comparisons of times.
//!
//! Without a template, a text may be an ISO 8601 date, time or both. Templates are refused: SQL's
//! strict patterns differ from those that `time/formats/read_pattern.rs` reads.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::outcome::{Outcome, Stop, soft};
use crate::PgError;
use crate::time::calendar::{
    MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND, civil, days,
    month_length,
};

/// A date, a time, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Days since 1970.
    day: Option<i64>,
    /// Microseconds since midnight.
    time: Option<i64>,
    /// Seconds east of UTC.
    offset: Option<i64>,
}

/// Blanks are allowed before each number.
static DATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\s*(\d{1,6})-\s*(\d{1,2})-\s*(\d{1,2})").ok());

static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let clock = r"^\s*(\d{1,2}):\s*(\d{1,2}):\s*(\d{1,2})(?:\.(\d{1,6}))?";
    let zone = r"(?:\s*([+-])(\d{1,2})(?::(\d{1,2}))?)?\s*$";
    Regex::new(&format!("{clock}{zone}")).ok()
});

/// Offsets are shorter than this.
const ZONE_HOURS_MAX: i64 = 15;

impl Moment {
    /// `.datetime()` of a value; `text` is `None` if the value is not a string.
    pub(super) fn of_text(text: Option<&str>, template: Option<&str>) -> Outcome<Self> {
        let Some(text) = text else {
            let message = "jsonpath item method .datetime() can only be applied to a string";
            return soft("22031", message);
        };
        if template.is_some() {
            let message = "a template of .datetime() is not supported";
            return Err(Stop::Hard(PgError::unsupported(message)));
        }
        let found = Self::read(text);
        // PostgreSQL also reads years BC.
        if text.trim_start().starts_with('-') || found.is_some_and(Self::is_before_our_era) {
            let message = "years before our era are not supported in .datetime()";
            return Err(Stop::Hard(PgError::unsupported(message)));
        }
        match found {
            Some(found) => Ok(found),
            None => {
                let message = format!("datetime format is not recognized: \"{text}\"");
                soft("22031", message)
            }
        }
    }

    fn read(text: &str) -> Option<Self> {
        let Some(date) = DATE.as_ref()?.captures(text) else {
            return Self::read_time(text);
        };
        let [year, month, day] = [1, 2, 3].map(|at| number(&date, at));
        let (year, month, day) = (year?, month?, day?);
        if !(1..=12).contains(&month) || !(1..=month_length(year, month)).contains(&day) {
            return None;
        }
        let rest = &text[date.get(0)?.end()..];
        let found = if rest.trim().is_empty() {
            Self {
                day: None,
                time: None,
                offset: None,
            }
        } else {
            Self::read_time(rest.strip_prefix([' ', 'T'])?)?
        };
        Some(Self {
            day: Some(days(year, month, day)),
            ..found
        })
    }

    fn read_time(text: &str) -> Option<Self> {
        let found = TIME.as_ref()?.captures(text)?;
        let [hour, minute, second] = [1, 2, 3].map(|at| number(&found, at));
        let (hour, minute, second) = (hour?, minute?, second?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let fraction = found.get(4).map_or("", |digits| digits.as_str());
        let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
        let offset = match found.get(5) {
            Some(sign) => {
                let (hours, minutes) = (number(&found, 6)?, number(&found, 7).unwrap_or(0));
                if hours > ZONE_HOURS_MAX || minutes > 59 {
                    return None;
                }
                let east = hours * 3600 + minutes * 60;
                Some(if sign.as_str() == "-" { -east } else { east })
            }
            None => None,
        };
        let time = hour * MICROS_PER_HOUR
            + minute * MICROS_PER_MINUTE
            + second * MICROS_PER_SECOND
            + micros;
        Some(Self {
            day: None,
            time: Some(time),
            offset,
        })
    }

    fn is_before_our_era(self) -> bool {
        self.day.is_some_and(|day| civil(day).0 < 1)
    }

    /// `.type()`.
    pub(super) fn kind(self) -> &'static str {
        match (self.day, self.time, self.offset) {
            (Some(_), None, _) => "date",
            (Some(_), Some(_), None) => "timestamp without time zone",
            (Some(_), Some(_), Some(_)) => "timestamp with time zone",
            (None, _, None) => "time without time zone",
            (None, _, Some(_)) => "time with time zone",
        }
    }

    fn short_kind(self) -> &'static str {
        match (self.day, self.time, self.offset) {
            (Some(_), None, _) => "date",
            (Some(_), Some(_), None) => "timestamp",
            (Some(_), Some(_), Some(_)) => "timestamptz",
            (None, _, None) => "time",
            (None, _, Some(_)) => "timetz",
        }
    }

    /// Microseconds since 1970, or since midnight, in UTC.
    fn micros(self) -> i64 {
        let offset = self.offset.unwrap_or(0) * MICROS_PER_SECOND;
        self.day.unwrap_or(0) * MICROS_PER_DAY + self.time.unwrap_or(0) - offset
    }
}

fn number(found: &Captures<'_>, at: usize) -> Option<i64> {
    found.get(at)?.as_str().parse().ok()
}

/// The order of two times; `None` if they cannot be compared.
pub(super) fn order(left: &Moment, right: &Moment, with_zone: bool) -> Outcome<Option<Ordering>> {
    if left.day.is_some() != right.day.is_some() {
        return Ok(None);
    }
    if left.offset.is_some() != right.offset.is_some() {
        if with_zone {
            let message = "times with and without a zone are not compared";
            return Err(Stop::Hard(PgError::unsupported(message)));
        }
        let (plain, zoned) = match left.offset {
            None => (left, right),
            Some(_) => (right, left),
        };
        let message = format!(
            "cannot convert value from {} to {} without time zone usage",
            plain.short_kind(),
            zoned.short_kind()
        );
        return Err(Stop::Hard(PgError::unsupported(message)));
    }
    let order = left.micros().cmp(&right.micros());
    // If times of day are equal, the one further east is less.
    let is_time = left.day.is_none();
    Ok(Some(if is_time {
        order.then(right.offset.cmp(&left.offset))
    } else {
        order
    }))
}

/// In ISO 8601 format.
impl fmt::Display for Moment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(day) = self.day {
            let (year, month, day) = civil(day);
            write!(out, "{year:04}-{month:02}-{day:02}")?;
        }
        let Some(time) = self.time else {
            return Ok(());
        };
        if self.day.is_some() {
            out.write_str("T")?;
        }
        let (seconds, micros) = (time / MICROS_PER_SECOND, time % MICROS_PER_SECOND);
        let (minutes, second) = (seconds / 60, seconds % 60);
        write!(out, "{:02}:{:02}:{second:02}", minutes / 60, minutes % 60)?;
        if micros > 0 {
            write!(out, ".{}", format!("{micros:06}").trim_end_matches('0'))?;
        }
        if let Some(offset) = self.offset {
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
            write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)?;
        }
        Ok(())
    }
}
