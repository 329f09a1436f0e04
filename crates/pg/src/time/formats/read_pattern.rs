//! `to_date` and `to_timestamp`: parse a text by a pattern.
//!
//! Without `FX`, spaces and punctuation in a pattern match any spaces and punctuation, or none.

use super::patterns::{DAYS, FieldNode, Key, MONTHS, Node, ROMAN, is_separator, nodes};
use crate::PgError;
use crate::time::calendar::{self, MICROS_PER_DAY, Parts};
use crate::time::zone::Zone;

/// `to_date(text, pattern)`, in days since 1970.
pub(crate) fn date(text: &str, pattern: &str) -> Result<i32, PgError> {
    let (parts, _, _) = moment(text, pattern)?;
    let day = parts.days();
    (calendar::DAY_MIN..=calendar::DAY_MAX)
        .contains(&day)
        .then(|| i32::try_from(day).ok())
        .flatten()
        .ok_or_else(|| PgError::new("22008", format!("date out of range: \"{text}\"")))
}

/// `to_timestamp(text, pattern)`, in UTC.
pub(crate) fn timestamptz(text: &str, pattern: &str, session: Zone) -> Result<i64, PgError> {
    let (parts, zone, digits) = moment(text, pattern)?;
    let local = parts
        .days()
        .checked_mul(MICROS_PER_DAY)
        .and_then(|days| days.checked_add(parts.time()));
    let utc = local
        .map(|local| zone.unwrap_or(session).utc(local))
        .filter(|utc| calendar::in_range(*utc))
        .ok_or_else(crate::time::arithmetic::timestamp_out_of_range)?;
    match digits {
        Some(digits) => crate::time::arithmetic::rounded_moment(utc, digits),
        None => Ok(utc),
    }
}

fn invalid(message: impl Into<String>) -> PgError {
    PgError::new("22007", message)
}

/// The values of the fields in a text; 0 for a missing field.
#[derive(Default)]
struct Found {
    is_iso: Option<bool>,
    hour: i64,
    is_pm: bool,
    is_half_day: bool,
    minute: i64,
    second: i64,
    second_of_day: i64,
    /// 1 for Sunday.
    weekday: i64,
    day: i64,
    day_of_year: i64,
    month: i64,
    millis: i64,
    micros: i64,
    fraction_digits: Option<u32>,
    year: i64,
    year_digits: u32,
    is_bc: bool,
    week: i64,
    week_of_month: i64,
    century: i64,
    julian: i64,
    zone_sign: i64,
    zone_hour: i64,
    zone_minute: i64,
}

/// The position in the text.
struct Cursor<'a> {
    all: &'a str,
    at: usize,
    exact: bool,
    /// The number of spaces skipped beyond those of the pattern.
    skipped: i64,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.all[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
            self.skipped += 1;
        }
    }
}

fn is_space(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\x0b'
}

fn moment(text: &str, pattern: &str) -> Result<(Parts, Option<Zone>, Option<u32>), PgError> {
    let nodes = nodes(pattern);
    let mut found = Found::default();
    let mut cursor = Cursor {
        all: text,
        at: 0,
        exact: false,
        skipped: 0,
    };
    for (at, node) in nodes.iter().enumerate() {
        if cursor.rest().is_empty() {
            break;
        }
        let field = match node {
            Node::Field(field) => Some(field),
            _ => None,
        };
        let is_exact_mark = field.is_some_and(|field| field.key == Key::Exact);
        if !cursor.exact && !is_exact_mark && (field.is_some() || at == 0) {
            cursor.skip_spaces();
        }
        match node {
            Node::Space(_) | Node::Separator(_) => {
                if cursor.exact {
                    cursor.advance();
                } else {
                    cursor.skipped -= 1;
                    if cursor
                        .peek()
                        .is_some_and(|letter| is_space(letter) || is_separator(letter))
                    {
                        cursor.advance();
                        cursor.skipped += 1;
                    }
                }
            }
            Node::Char(_) => {
                if !cursor.exact && cursor.skipped > 0 {
                    cursor.skipped -= 1;
                } else {
                    cursor.advance();
                }
            }
            Node::Field(field) => {
                found.read(&mut cursor, field, nodes.get(at + 1))?;
                if !cursor.exact {
                    cursor.skipped = 0;
                    cursor.skip_spaces();
                }
            }
        }
    }
    let digits = found.fraction_digits;
    let (parts, zone) = found.settle(text)?;
    Ok((parts, zone, digits))
}

/// Sets a field, which must not already have another value.
fn set(slot: &mut i64, value: i64, field: &FieldNode) -> Result<(), PgError> {
    if *slot != 0 && *slot != value {
        let message = format!(
            "conflicting values for \"{}\" field in formatting string",
            field.name
        );
        return Err(invalid(message));
    }
    *slot = value;
    Ok(())
}

/// Parses a number of at most `width` digits. Returns it and the number of characters consumed.
fn integer(
    cursor: &mut Cursor,
    width: usize,
    field: &FieldNode,
    next: Option<&Node>,
) -> Result<(i64, usize), PgError> {
    let start = cursor.at;
    while cursor.peek().is_some_and(is_space) {
        cursor.at += 1;
    }
    let rest = cursor.rest();
    let copied: String = rest.chars().take(width).collect();
    let open = field.fill || is_next_separator(field, next);
    let (value, used) = if open {
        number_prefix(&cursor.all[start..])
    } else {
        if copied.len() < width {
            let message = format!(
                "source string too short for \"{}\" formatting field",
                field.name
            );
            return Err(invalid(message));
        }
        let (value, used) = number_prefix(&copied);
        if used > 0 && used < width {
            let message = format!("invalid value \"{copied}\" for \"{}\"", field.name);
            return Err(invalid(message));
        }
        (value, used)
    };
    cursor.at = if open { start + used } else { cursor.at + used };
    if used == 0 {
        let message = format!("invalid value \"{copied}\" for \"{}\"", field.name);
        return Err(invalid(message));
    }
    let value = value
        .and_then(|value| i32::try_from(value).ok())
        .ok_or_else(|| {
            let message = format!(
                "value for \"{}\" in source string is out of range",
                field.name
            );
            PgError::new("22008", message)
        })?;
    Ok((value.into(), cursor.at - start))
}

/// The number at the start of a text, after spaces; `None` if it is too large.
fn number_prefix(text: &str) -> (Option<i64>, usize) {
    let spaces = text
        .bytes()
        .take_while(|byte| is_space(char::from(*byte)))
        .count();
    let rest = &text[spaces..];
    let sign = usize::from(rest.starts_with(['+', '-']));
    let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return (Some(0), 0);
    }
    let used = sign + digits;
    (rest[..used].parse().ok(), spaces + used)
}

/// Whether no digit can follow a field, so that it may have any length.
fn is_next_separator(field: &FieldNode, next: Option<&Node>) -> bool {
    if field.ordinal.is_some() {
        return true;
    }
    match next {
        None => true,
        Some(Node::Field(next)) => !next.key.is_digits(),
        Some(Node::Char(letter) | Node::Separator(letter) | Node::Space(letter)) => {
            !letter.is_ascii_digit()
        }
    }
}

/// The index of the first name that the text begins with.
fn name<'n>(
    cursor: &mut Cursor,
    names: impl Iterator<Item = &'n str>,
    field: &FieldNode,
) -> Result<i64, PgError> {
    let rest = cursor.rest();
    for (at, name) in names.enumerate() {
        let head = rest.get(..name.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(name)) {
            cursor.at += name.len();
            return Ok(i64::try_from(at).unwrap_or(0));
        }
    }
    let word = rest.split(is_space).next().unwrap_or("");
    let message = format!("invalid value \"{word}\" for \"{}\"", field.name);
    Err(invalid(message))
}

impl Found {
    fn read(
        &mut self,
        cursor: &mut Cursor,
        field: &FieldNode,
        next: Option<&Node>,
    ) -> Result<(), PgError> {
        self.check_calendar(field.key)?;
        match field.key {
            Key::Exact => cursor.exact = true,
            Key::Zone(_) | Key::Offset => {
                let message = format!(
                    "formatting field \"{}\" is only supported in to_char",
                    field.name
                );
                return Err(PgError::unsupported(message));
            }
            Key::HalfOfDay(_, dots) => {
                let names = if dots { ["a.m.", "p.m."] } else { ["am", "pm"] };
                self.is_pm = name(cursor, names.into_iter(), field)? == 1;
                self.is_half_day = true;
            }
            Key::Era(_, dots) => {
                let names = if dots { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                self.is_bc = name(cursor, names.into_iter(), field)? == 1;
            }
            Key::MonthName(_) => {
                let month = name(cursor, MONTHS.into_iter(), field)?;
                set(&mut self.month, month + 1, field)?;
            }
            Key::MonthShort(_) => {
                let names = MONTHS.into_iter().map(|name| &name[..3]);
                let month = name(cursor, names, field)?;
                set(&mut self.month, month + 1, field)?;
            }
            Key::DayName(_) => {
                let day = name(cursor, DAYS.into_iter(), field)?;
                set(&mut self.weekday, day + 1, field)?;
            }
            Key::DayShort(_) => {
                let day = name(cursor, DAYS.into_iter().map(|name| &name[..3]), field)?;
                set(&mut self.weekday, day + 1, field)?;
            }
            Key::Roman(_) => {
                let at = name(cursor, ROMAN.into_iter(), field)?;
                set(&mut self.month, 12 - at, field)?;
            }
            Key::ZoneHour | Key::ZoneMinute => self.read_zone(cursor, field, next)?,
            Key::YearWithComma => self.read_year_with_comma(cursor, field)?,
            Key::Millisecond | Key::Microsecond | Key::Fraction(_) => {
                self.read_fraction(cursor, field, next)?;
            }
            Key::Year(digits) | Key::IsoYear(digits) => {
                let (year, length) = integer(cursor, digits as usize, field, next)?;
                let year = if length < 4 && digits < 4 {
                    whole_year(year)
                } else {
                    year
                };
                set(&mut self.year, year, field)?;
                self.year_digits = digits;
            }
            Key::Quarter => {
                integer(cursor, 1, field, next)?;
            }
            _ => self.read_number(cursor, field, next)?,
        }
        let numeric = field.key.is_digits() && !matches!(field.key, Key::YearWithComma);
        if field.ordinal.is_some() && (numeric || field.key == Key::YearWithComma) {
            cursor.advance();
            cursor.advance();
        }
        Ok(())
    }

    fn read_number(
        &mut self,
        cursor: &mut Cursor,
        field: &FieldNode,
        next: Option<&Node>,
    ) -> Result<(), PgError> {
        let width = match field.key {
            Key::IsoDayOfYear => 3,
            Key::IsoDayOfWeek => 1,
            Key::Hour24 | Key::Hour12 => 2,
            _ => field.name.len(),
        };
        let (mut value, _) = integer(cursor, width, field, next)?;
        let slot = match field.key {
            Key::Hour12 => {
                self.is_half_day = true;
                &mut self.hour
            }
            Key::Hour24 => &mut self.hour,
            Key::Minute => &mut self.minute,
            Key::Second => &mut self.second,
            Key::SecondOfDay => &mut self.second_of_day,
            Key::Month => &mut self.month,
            Key::DayOfYear | Key::IsoDayOfYear => &mut self.day_of_year,
            Key::DayOfMonth => &mut self.day,
            Key::DayOfWeek => &mut self.weekday,
            Key::IsoDayOfWeek => {
                value += 1;
                if value > 7 {
                    value = 1;
                }
                &mut self.weekday
            }
            Key::Week | Key::IsoWeek => &mut self.week,
            Key::WeekOfMonth => &mut self.week_of_month,
            Key::Century => &mut self.century,
            _ => &mut self.julian,
        };
        set(slot, value, field)
    }

    fn read_fraction(
        &mut self,
        cursor: &mut Cursor,
        field: &FieldNode,
        next: Option<&Node>,
    ) -> Result<(), PgError> {
        let width = match field.key {
            Key::Millisecond => 3,
            Key::Fraction(digits) => {
                self.fraction_digits = Some(digits);
                digits
            }
            _ => 6,
        };
        let (value, length) = integer(cursor, width as usize, field, next)?;
        let digits = u32::try_from(length).unwrap_or(6);
        if field.key == Key::Millisecond {
            set(&mut self.millis, value, field)?;
            self.millis *= 10_i64.pow(3_u32.saturating_sub(digits));
        } else {
            set(&mut self.micros, value, field)?;
            self.micros *= 10_i64.pow(6_u32.saturating_sub(digits));
        }
        Ok(())
    }

    fn read_zone(
        &mut self,
        cursor: &mut Cursor,
        field: &FieldNode,
        next: Option<&Node>,
    ) -> Result<(), PgError> {
        if field.key == Key::ZoneMinute {
            if self.zone_sign == 0 {
                self.zone_sign = 1;
            }
            let (minute, _) = integer(cursor, 2, field, next)?;
            return set(&mut self.zone_minute, minute, field);
        }
        // A minus may have been consumed as a separator.
        match cursor.peek() {
            Some(sign @ ('+' | '-' | ' ')) => {
                self.zone_sign = if sign == '-' { -1 } else { 1 };
                cursor.advance();
            }
            _ if cursor.skipped > 0 && cursor.all[..cursor.at].ends_with('-') => {
                self.zone_sign = -1;
            }
            _ => self.zone_sign = 1,
        }
        let (hour, _) = integer(cursor, 2, field, next)?;
        set(&mut self.zone_hour, hour, field)
    }

    fn read_year_with_comma(
        &mut self,
        cursor: &mut Cursor,
        field: &FieldNode,
    ) -> Result<(), PgError> {
        let wrong = || invalid("invalid input string for \"Y,YYY\"");
        let (thousands, used) = number_prefix(cursor.rest());
        let thousands = thousands.filter(|_| used > 0).ok_or_else(wrong)?;
        cursor.at += used;
        let rest = cursor.rest().strip_prefix(',').ok_or_else(wrong)?;
        let rest: String = rest.chars().take(3).collect();
        let (years, used) = number_prefix(&rest);
        let years = years.filter(|_| used > 0).ok_or_else(wrong)?;
        cursor.at += 1 + used;
        set(&mut self.year, thousands * 1000 + years, field)?;
        self.year_digits = 4;
        Ok(())
    }

    /// Refuses to mix fields of the ISO week calendar with those of the Gregorian calendar.
    fn check_calendar(&mut self, key: Key) -> Result<(), PgError> {
        let is_iso = match key {
            Key::IsoDayOfYear | Key::IsoDayOfWeek | Key::IsoWeek | Key::IsoYear(_) => true,
            Key::DayOfYear
            | Key::DayOfMonth
            | Key::DayOfWeek
            | Key::Month
            | Key::MonthName(_)
            | Key::MonthShort(_)
            | Key::Roman(_)
            | Key::Week
            | Key::WeekOfMonth
            | Key::YearWithComma
            | Key::Year(_) => false,
            _ => return Ok(()),
        };
        if *self.is_iso.get_or_insert(is_iso) != is_iso {
            return Err(invalid("invalid combination of date conventions"));
        }
        Ok(())
    }

    fn settle(mut self, text: &str) -> Result<(Parts, Option<Zone>), PgError> {
        let mut parts = Parts {
            year: 0,
            month: 1,
            day: 1,
            hour: self.hour,
            minute: self.minute,
            second: self.second,
            micros: self.millis * 1000 + self.micros,
        };
        let out_of_range = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            PgError::new("22008", message)
        };
        self.settle_time(&mut parts)?;
        let has_year = self.settle_year(&mut parts);
        let mut has_date = has_year;
        if self.julian != 0 {
            put_day(&mut parts, self.julian - calendar::EPOCH_JULIAN);
            has_date = true;
        }
        let is_iso = self.is_iso == Some(true);
        if self.week != 0 {
            if is_iso {
                let monday = calendar::iso_week_start(parts.year, self.week);
                let from_monday = match self.weekday {
                    0 => 0,
                    1 => 6,
                    day => day - 2,
                };
                put_day(&mut parts, monday + from_monday);
                has_date = true;
            } else {
                self.day_of_year = (self.week - 1) * 7 + 1;
            }
        }
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1) * 7 + 1;
        }
        if self.day != 0 {
            parts.day = self.day;
            has_date = true;
        }
        if self.month != 0 {
            parts.month = self.month;
            has_date = true;
        }
        if self.day_of_year != 0 && (parts.month <= 1 || parts.day <= 1) {
            self.settle_day_of_year(&mut parts, is_iso)?;
            has_date = true;
        }
        if has_date && !is_date(&parts) {
            return Err(out_of_range());
        }
        let fits = (0..24).contains(&parts.hour)
            && (0..60).contains(&parts.minute)
            && (0..60).contains(&parts.second)
            && (0..1_000_000).contains(&parts.micros);
        if !fits {
            return Err(out_of_range());
        }
        Ok((parts, self.zone(text)?))
    }

    fn zone(&self, text: &str) -> Result<Option<Zone>, PgError> {
        if self.zone_sign == 0 {
            return Ok(None);
        }
        if !(0..=15).contains(&self.zone_hour) || !(0..60).contains(&self.zone_minute) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(PgError::new("22009", message));
        }
        let offset = self.zone_sign * (self.zone_hour * 3600 + self.zone_minute * 60);
        Ok(Some(Zone::Fixed(i32::try_from(offset).unwrap_or(0))))
    }

    fn settle_time(&self, parts: &mut Parts) -> Result<(), PgError> {
        if self.second_of_day != 0 {
            let seconds = self.second_of_day;
            parts.hour = seconds / 3600;
            parts.minute = seconds / 60 % 60;
            parts.second = seconds % 60;
            if self.second != 0 {
                parts.second = self.second;
            }
            if self.minute != 0 {
                parts.minute = self.minute;
            }
            if self.hour != 0 {
                parts.hour = self.hour;
            }
        }
        if !self.is_half_day {
            return Ok(());
        }
        if !(1..=12).contains(&parts.hour) {
            let message = format!("hour \"{}\" is invalid for the 12-hour clock", parts.hour);
            return Err(invalid(message));
        }
        if self.is_pm && parts.hour < 12 {
            parts.hour += 12;
        } else if !self.is_pm && parts.hour == 12 {
            parts.hour = 0;
        }
        Ok(())
    }

    fn settle_year(&mut self, parts: &mut Parts) -> bool {
        if self.is_bc {
            self.century = -self.century;
        }
        let century = self.century;
        if self.year == 0 && century == 0 {
            return false;
        }
        parts.year = if self.year == 0 {
            if century >= 0 {
                (century - 1) * 100 + 1
            } else {
                century * 100 + 1
            }
        } else if century != 0 && self.year_digits <= 2 {
            match (self.year % 100, century >= 0) {
                (0, true) => century * 100,
                (0, false) => century * 100 + 1,
                (year, true) => year + (century - 1) * 100,
                (year, false) => (century + 1) * 100 - year + 1,
            }
        } else {
            let year = if self.is_bc { -self.year } else { self.year };
            if year < 0 { year + 1 } else { year }
        };
        true
    }

    fn settle_day_of_year(&self, parts: &mut Parts, is_iso: bool) -> Result<(), PgError> {
        if parts.year == 0 && !self.is_bc {
            let message = "cannot calculate day of year without year information";
            return Err(invalid(message));
        }
        if is_iso {
            let first = calendar::iso_week_start(parts.year, 1);
            put_day(parts, first + self.day_of_year - 1);
            return Ok(());
        }
        let (mut month, mut before) = (1, 0);
        while month < 12 && self.day_of_year > before + calendar::month_length(parts.year, month) {
            before += calendar::month_length(parts.year, month);
            month += 1;
        }
        if parts.month <= 1 {
            parts.month = month;
        }
        if parts.day <= 1 {
            parts.day = self.day_of_year - before;
        }
        Ok(())
    }
}

fn put_day(parts: &mut Parts, day: i64) {
    let (year, month, day) = calendar::civil(day);
    parts.year = year;
    parts.month = month.into();
    parts.day = day.into();
}

fn is_date(parts: &Parts) -> bool {
    (1..=12).contains(&parts.month)
        && parts.day >= 1
        && parts.day <= calendar::month_length(parts.year, parts.month)
}

/// Completes a year of fewer than four digits to the one nearest to 2020.
fn whole_year(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        let (parts, ..) = moment("05 mAr 2024", "DD Mon YYYY").unwrap();
        assert_eq!((parts.year, parts.month, parts.day), (2024, 3, 5));
    }
}
