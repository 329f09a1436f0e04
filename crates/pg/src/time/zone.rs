//! Which offset from UTC does a time zone have at a point in time?
//!
//! A zone is a name in the IANA database in any case, an abbreviation (`EST`), an offset
//! (`+02:00`, positive to the east as in ISO 8601), or a POSIX specification (`UTC+3`, positive to
//! the west). After the database's last transitions, the rules of its last years repeat with the
//! calendar.

use std::collections::HashMap;
use std::sync::OnceLock;

use chrono::{DateTime, Offset, TimeZone as _};
use chrono_tz::{OffsetName as _, TZ_VARIANTS, Tz};

use super::abbreviations::{DYNAMIC, FIXED};
use super::calendar::{MICROS_PER_DAY, MICROS_PER_SECOND, civil, days, is_leap, moment, weekday};

/// The name under which a session stores the time zone of `SET TIME ZONE`: a number of hours is an
/// offset to the east, anything else a zone. `None` if there is no such zone.
#[must_use]
pub fn zone_name(text: &str) -> Option<String> {
    if let Ok(hours) = text.parse::<f64>() {
        if !(-168.0..=168.0).contains(&hours) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "a week of seconds")]
        return Some(shown((hours * 3600.0) as i32));
    }
    Some(match Zone::full(text)? {
        Zone::Named(tz) | Zone::Abbreviated(tz, _) => tz.name().to_owned(),
        Zone::Fixed(offset) => shown(offset),
    })
}

/// The text that SHOW gives for a session's time zone, which [`zone_name`] reads back. `+03:30`
/// alone would be read as a POSIX specification, whose sign is the opposite.
#[must_use]
pub fn zone_text(name: &str) -> String {
    match offset(name) {
        Some(seconds) if name.contains(':') => format!("<{name}>{}", shown(-seconds)),
        _ => name.to_owned(),
    }
}

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A zone of the IANA database.
    Named(Tz),
    /// An abbreviation: the offset that it has, or last had, in that zone.
    Abbreviated(Tz, &'static str),
}

/// The zone of a session without a setting.
pub(crate) const UTC: Zone = Zone::Named(Tz::UTC);

impl Zone {
    /// The zone for a session's setting; UTC if there is none.
    pub(crate) fn of_session(setting: Option<&str>) -> Self {
        match setting {
            None | Some("UTC") => UTC,
            Some(name) => Self::of_setting(name).unwrap_or(UTC),
        }
    }

    pub(crate) fn of_setting(name: &str) -> Option<Self> {
        offset(name).map(Self::Fixed).or_else(|| Self::full(name))
    }

    /// A zone for `AT TIME ZONE`: an abbreviation or a full name.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        Self::abbreviation(&lower).or_else(|| Self::full(&lower))
    }

    /// A full name or a POSIX specification.
    pub(crate) fn full(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let named = names().get(lower.as_str()).map(|tz| Self::Named(*tz));
        named.or_else(|| posix(&lower).map(Self::Fixed))
    }

    /// The zone of an abbreviation in lower case.
    pub(crate) fn abbreviation(lower: &str) -> Option<Self> {
        if let Ok(at) = FIXED.binary_search_by(|(name, _)| (*name).cmp(lower)) {
            return Some(Self::Fixed(FIXED[at].1));
        }
        let at = DYNAMIC
            .binary_search_by(|(name, _)| (*name).cmp(lower))
            .ok()?;
        match Self::full(DYNAMIC[at].1)? {
            Self::Named(tz) => Some(Self::Abbreviated(tz, DYNAMIC[at].0)),
            other => Some(other),
        }
    }

    /// The zone itself instead of an abbreviation in it.
    pub(crate) fn whole(self) -> Self {
        match self {
            Self::Abbreviated(tz, _) => Self::Named(tz),
            other => other,
        }
    }

    /// Seconds east of UTC at a time in UTC.
    pub(crate) fn offset_at(self, utc: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => seconds,
            Self::Named(Tz::UTC) => 0,
            Self::Named(tz) => {
                let seconds = folded(utc.div_euclid(MICROS_PER_SECOND));
                DateTime::from_timestamp(seconds, 0).map_or(0, |time| {
                    let offset = tz.offset_from_utc_datetime(&time.naive_utc());
                    offset.fix().local_minus_utc()
                })
            }
            Self::Abbreviated(tz, name) => abbreviated_offset(tz, name, utc),
        }
    }

    /// Seconds east of UTC at a local time. In a gap, the offset before it applies; in an hour
    /// that occurs twice, the offset of the second one.
    pub(crate) fn offset_of_local(self, local: i64) -> i32 {
        match self {
            Self::Fixed(seconds) => return seconds,
            Self::Named(_) => {}
            Self::Abbreviated(tz, _) => return self.offset_at(Self::Named(tz).utc(local)),
        }
        let second = |offset: i32| i64::from(offset) * MICROS_PER_SECOND;
        let day = 24 * 3600 * MICROS_PER_SECOND;
        let before = self.offset_at(local.saturating_sub(day));
        let after = self.offset_at(local.saturating_add(day));
        if before == after {
            return before;
        }
        let holds = |offset| self.offset_at(local.saturating_sub(second(offset))) == offset;
        match (holds(before), holds(after)) {
            (_, true) => after,
            (true | false, false) => before,
        }
    }

    /// Converts a time in UTC to this zone's local time.
    pub(crate) fn local(self, utc: i64) -> i64 {
        utc.saturating_add(i64::from(self.offset_at(utc)) * MICROS_PER_SECOND)
    }

    /// Converts a local time to UTC.
    pub(crate) fn utc(self, local: i64) -> i64 {
        local.saturating_sub(i64::from(self.offset_of_local(local)) * MICROS_PER_SECOND)
    }

    /// The abbreviation for `TZ` in `to_char`.
    pub(crate) fn abbreviation_at(self, utc: i64) -> String {
        match self {
            Self::Named(tz) => named_offset(tz, utc).map_or_else(String::new, |(offset, name)| {
                name.unwrap_or_else(|| shown(offset))
            }),
            Self::Abbreviated(_, name) => name.to_uppercase(),
            Self::Fixed(offset) => shown(offset),
        }
    }
}

/// The offset and the abbreviation of a zone at a time.
fn named_offset(tz: Tz, utc: i64) -> Option<(i32, Option<String>)> {
    let seconds = folded(utc.div_euclid(MICROS_PER_SECOND));
    let time = DateTime::from_timestamp(seconds, 0)?;
    let offset = tz.offset_from_utc_datetime(&time.naive_utc());
    let abbreviation = offset.abbreviation().map(str::to_owned);
    Some((offset.fix().local_minus_utc(), abbreviation))
}

/// The offset of an abbreviation: the one at `utc` or at the last time before at which the zone
/// used it, or else at the first time after; the zone's own offset if it never did.
fn abbreviated_offset(tz: Tz, name: &str, utc: i64) -> i32 {
    let offset = |at: i64| {
        let (offset, used) = named_offset(tz, at)?;
        used?.eq_ignore_ascii_case(name).then_some(offset)
    };
    // The database starts when railways introduced standard time.
    let first = moment(days(1850, 1, 1), 0).unwrap_or(0);
    let last = moment(days(YEAR_MAX, 1, 1), 0).unwrap_or(0);
    let start = utc.clamp(first, last);
    let step = SEARCH_STEP_DAYS * MICROS_PER_DAY;
    let steps = |from: i64, to: i64| (to - from) / step;
    let before = (0..=steps(first, start)).find_map(|count| offset(start - count * step));
    let found = offset(utc).or(before);
    let found =
        found.or_else(|| (0..=steps(start, last)).find_map(|count| offset(start + count * step)));
    found.unwrap_or_else(|| Zone::Named(tz).offset_at(utc))
}

/// Shorter than any period in which an abbreviation was used.
const SEARCH_STEP_DAYS: i64 = 28;

/// The last year for which the database's transitions are used.
const YEAR_MAX: i64 = 2065;

/// The same time in an equivalent year covered by the database: one with the same length that
/// begins on the same weekday.
fn folded(seconds: i64) -> i64 {
    let day = seconds.div_euclid(86_400);
    let (year, ..) = civil(day);
    if year <= YEAR_MAX {
        return seconds;
    }
    let first = days(year, 1, 1);
    let equal = (YEAR_MAX - 27..=YEAR_MAX).find(|candidate| {
        is_leap(*candidate) == is_leap(year) && weekday(days(*candidate, 1, 1)) == weekday(first)
    });
    let first_equal = days(equal.unwrap_or(YEAR_MAX), 1, 1);
    seconds - (first - first_equal) * 86_400
}

fn names() -> &'static HashMap<String, Tz> {
    static NAMES: OnceLock<HashMap<String, Tz>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let all = TZ_VARIANTS.iter();
        all.map(|tz| (tz.name().to_ascii_lowercase(), *tz))
            .collect()
    })
}

/// Parses an offset such as `+02`, `-03:30` or `5`, in seconds.
fn offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        b'0'..=b'9' => (1, text),
        _ => return None,
    };
    clock(digits).map(|seconds| sign * seconds)
}

/// Parses `hh`, `hh:mm`, `hh:mm:ss` or `hhmm`, in seconds.
fn clock(digits: &str) -> Option<i32> {
    let mut parts = digits.split(':');
    let first = parts.next()?;
    let number = |text: &str| -> Option<i32> {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse().ok())?
    };
    let mut hours = number(first)?;
    let mut minutes = 0;
    if first.len() > 2 {
        minutes = hours % 100;
        hours /= 100;
    }
    if let Some(more) = parts.next() {
        minutes = number(more)?;
    }
    let seconds = parts.next().map_or(Some(0), number)?;
    let fits = hours <= 167 && minutes < 60 && seconds < 60 && parts.next().is_none();
    fits.then_some(hours * 3600 + minutes * 60 + seconds)
}

/// A POSIX specification without rules for daylight saving: optional letters (or `<…>`) and an
/// offset that is positive to the west.
fn posix(lower: &str) -> Option<i32> {
    let rest = if let Some(quoted) = lower.strip_prefix('<') {
        quoted.split_once('>')?.1
    } else {
        lower.trim_start_matches(|letter: char| letter.is_ascii_alphabetic())
    };
    let hours = rest.trim_start_matches(['+', '-']);
    // Hours and minutes without a colon are not allowed here.
    let is_plain = hours
        .split(':')
        .next()
        .is_some_and(|hours| hours.len() <= 2);
    offset(rest).filter(|_| is_plain).map(|seconds| -seconds)
}

/// An offset as in a `timestamptz`: hours, with minutes and seconds if they are not zero.
pub(crate) fn shown(offset: i32) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let total = offset.abs();
    let (hours, minutes, seconds) = (total / 3600, total / 60 % 60, total % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::calendar::MICROS_PER_HOUR;

    fn hours(name: &str, year: i64, month: i64, day: i64, hour: i64) -> i64 {
        let local = moment(days(year, month, day), hour * MICROS_PER_HOUR).unwrap();
        i64::from(Zone::full(name).unwrap().offset_of_local(local)) / 3600
    }

    #[test]
    fn offsets_follow_the_zone() {
        assert_eq!(hours("europe/berlin", 2024, 1, 1, 0), 1);
        assert_eq!(hours("Europe/Berlin", 3000, 7, 1, 0), 2);
        // An hour that occurs twice is the second one; one that is skipped has the offset before
        // the gap.
        assert_eq!(hours("America/New_York", 2024, 11, 3, 1), -5);
        assert_eq!(hours("America/New_York", 2024, 3, 10, 2), -5);
        assert_eq!(Zone::full("UTC+3"), Some(Zone::Fixed(-10_800)));
        assert_eq!(Zone::read("est"), Some(Zone::Fixed(-18_000)));
        assert_eq!(Zone::full("nowhere"), None);
    }

    #[test]
    fn the_text_of_a_zone_is_read_back() {
        for (set, text) in [
            ("-03:30", "<+03:30>-03:30"),
            ("5.5", "<+05:30>-05:30"),
            ("-5.5", "<-05:30>+05:30"),
            ("2", "+02"),
            ("asia/tokyo", "Asia/Tokyo"),
        ] {
            let name = zone_name(set).unwrap();
            assert_eq!(zone_text(&name), text);
            assert_eq!(zone_name(text), Some(name));
        }
    }

    #[test]
    fn abbreviations_are_sorted() {
        assert!(FIXED.is_sorted_by_key(|(name, _)| name));
        assert!(DYNAMIC.is_sorted_by_key(|(name, _)| name));
    }
}
