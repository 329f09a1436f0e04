//! Parses dates, times and timestamps in the formats that PostgreSQL accepts.
//!
//! The fields of a text are processed from left to right; each fills parts of the result, and no
//! part is filled twice. The part that an ambiguous number fills depends on the parts filled so
//! far, on its number of digits, and on the order of `DateStyle`.
//! More than 800 lines: one state machine, whose steps share the parts filled so far.

use super::calendar::{self, INFINITY, MICROS_PER_DAY, MINUS_INFINITY, Parts};
use super::split::{Field, Kind, fields};
use super::words::{self, Unit, Word};
use super::zone::Zone;
use crate::PgError;

/// The order in which `DateStyle` reads ambiguous dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// The settings on which the text of a date or time depends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
    pub(crate) order: Order,
    pub(crate) zone: Zone,
    /// The time of `now`, in UTC.
    pub(crate) now: i64,
}

/// The reason why a text is not a date or time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bad {
    Format,
    /// A number that is out of range for its field.
    Field,
    /// A number out of range, which might fit with another order of day and month.
    DayOrMonth,
    Displacement,
    Zone(String),
}

impl Bad {
    pub(super) fn error(self, pg_type: &str, text: &str) -> PgError {
        match self {
            Self::Format => {
                let message = format!("invalid input syntax for type {pg_type}: \"{text}\"");
                PgError::new("22007", message)
            }
            Self::Field | Self::DayOrMonth => {
                let message = format!("date/time field value out of range: \"{text}\"");
                PgError::new("22008", message)
            }
            Self::Displacement => {
                let message = format!("time zone displacement out of range: \"{text}\"");
                PgError::new("22009", message)
            }
            Self::Zone(name) => unknown_zone(&name),
        }
    }
}

/// Error 22023.
pub(crate) fn unknown_zone(name: &str) -> PgError {
    PgError::new("22023", format!("time zone \"{name}\" not recognized"))
}

/// Parses a `timestamp`; a zone in the text is accepted and ignored.
pub(crate) fn timestamp(text: &str, around: &Surroundings) -> Result<i64, PgError> {
    let read = read(text, around).map_err(|bad| bad.error("timestamp", text))?;
    read.local().ok_or_else(|| out_of_range("timestamp", text))
}

/// Parses a `timestamp with time zone`, in UTC.
pub(crate) fn timestamptz(text: &str, around: &Surroundings) -> Result<i64, PgError> {
    let pg_type = "timestamp with time zone";
    let read = read(text, around).map_err(|bad| bad.error(pg_type, text))?;
    read.utc(around.zone)
        .ok_or_else(|| out_of_range("timestamp", text))
}

/// Parses a `date`, in days.
pub(crate) fn date(text: &str, around: &Surroundings) -> Result<i32, PgError> {
    let read = read(text, around).map_err(|bad| bad.error("date", text))?;
    let days = match read {
        Moment::Infinity => return Ok(calendar::DATE_INFINITY),
        Moment::MinusInfinity => return Ok(calendar::DATE_MINUS_INFINITY),
        Moment::Epoch => 0,
        Moment::At { parts, .. } => parts.days(),
    };
    let days = (calendar::DAY_MIN..=calendar::DAY_MAX)
        .contains(&days)
        .then_some(days);
    days.and_then(|days| i32::try_from(days).ok())
        .ok_or_else(|| out_of_range("date", text))
}

/// Parses a `time`, in microseconds of the day.
pub(crate) fn time(text: &str, around: &Surroundings) -> Result<i64, PgError> {
    let bad = |bad: Bad| bad.error("time", text);
    let fields = fields(text).ok_or_else(|| bad(Bad::Format))?;
    let mut reader = Reader::new(around, true);
    reader.all(&fields).map_err(bad)?;
    reader.finish_time().map_err(bad)?;
    Ok(reader.parts.time())
}

fn out_of_range(pg_type: &str, text: &str) -> PgError {
    PgError::new("22008", format!("{pg_type} out of range: \"{text}\""))
}

/// The meaning of a text.
enum Moment {
    Epoch,
    Infinity,
    MinusInfinity,
    At { parts: Parts, place: Place },
}

/// The zone of a local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Session,
    In(Zone),
    /// A zone's abbreviation, shifted by `dst`.
    Shifted(Zone, i32),
}

impl Moment {
    fn local(&self) -> Option<i64> {
        match self {
            Self::Epoch => Some(0),
            Self::Infinity => Some(INFINITY),
            Self::MinusInfinity => Some(MINUS_INFINITY),
            Self::At { parts, .. } => parts.moment(),
        }
    }

    fn utc(&self, session: Zone) -> Option<i64> {
        let Self::At { parts, place } = self else {
            return self.local();
        };
        let local = parts
            .days()
            .checked_mul(MICROS_PER_DAY)?
            .checked_add(parts.time())?;
        let (zone, shift) = match place {
            Place::Session => (session, 0),
            Place::In(zone) => (*zone, 0),
            Place::Shifted(zone, shift) => (*zone, *shift),
        };
        let offset = i64::from(zone.offset_of_local(local) + shift);
        let utc = local.checked_sub(offset * calendar::MICROS_PER_SECOND)?;
        calendar::in_range(utc).then_some(utc)
    }
}

fn read(text: &str, around: &Surroundings) -> Result<Moment, Bad> {
    let fields = fields(text).ok_or(Bad::Format)?;
    let mut reader = Reader::new(around, false);
    reader.all(&fields)?;
    reader.finish()
}

/// The parts of a date and time, as a set of bits.
type Filled = u32;
const YEAR: Filled = 1;
const MONTH: Filled = 2;
const DAY: Filled = 4;
const DATE: Filled = YEAR | MONTH | DAY;
const HOUR: Filled = 8;
const MINUTE: Filled = 16;
const SECOND: Filled = 32;
const FRACTION: Filled = 64;
const TIME: Filled = HOUR | MINUTE | SECOND;
const DAY_OF_YEAR: Filled = 128;
const ZONE: Filled = 256;
const DAYLIGHT: Filled = 512;
const HALF_OF_DAY: Filled = 1024;
const ERA: Filled = 2048;
const WEEKDAY: Filled = 4096;

struct Reader<'a> {
    around: &'a Surroundings,
    /// Whether only a time of day is expected.
    time_only: bool,
    parts: Parts,
    filled: Filled,
    day_of_year: i64,
    /// The meaning of the number that follows.
    label: Option<Label>,
    has_text_month: bool,
    is_julian: bool,
    is_short_year: bool,
    is_bc: bool,
    is_pm: Option<bool>,
    place: Place,
    special: Option<Word>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Unit(Unit),
    /// `t`: a time follows.
    Time,
}

impl<'a> Reader<'a> {
    fn new(around: &'a Surroundings, time_only: bool) -> Self {
        Self {
            around,
            time_only,
            parts: Parts {
                year: 0,
                month: 0,
                day: 0,
                hour: 0,
                minute: 0,
                second: 0,
                micros: 0,
            },
            filled: 0,
            day_of_year: 0,
            label: None,
            has_text_month: false,
            is_julian: false,
            is_short_year: false,
            is_bc: false,
            is_pm: None,
            place: Place::Session,
            special: None,
        }
    }

    /// The parts that numbers cannot fill: if only a time is expected, the date counts as filled.
    fn taken(&self) -> Filled {
        if self.time_only {
            self.filled | DATE
        } else {
            self.filled
        }
    }

    fn all(&mut self, fields: &[Field]) -> Result<(), Bad> {
        if fields.is_empty() {
            return Err(Bad::Format);
        }
        for at in 0..fields.len() {
            let field = &fields[at];
            let now = match field.kind {
                Kind::Date => self.date_field(fields, at)?,
                Kind::Time => {
                    if self.label.take().is_some_and(|label| label != Label::Time) {
                        return Err(Bad::Format);
                    }
                    self.clock(&field.text)?
                }
                Kind::Offset => {
                    self.offset(&field.text)?;
                    ZONE
                }
                Kind::Number => self.number_field(fields, at)?,
                Kind::Text | Kind::Special => match self.text_field(fields, at)? {
                    Some(now) => now,
                    None => continue,
                },
            };
            if now & self.filled != 0 {
                return Err(Bad::Format);
            }
            self.filled |= now;
        }
        if self.label.is_some() && self.time_only {
            return Err(Bad::Format);
        }
        Ok(())
    }

    fn date_field(&mut self, fields: &[Field], at: usize) -> Result<Filled, Bad> {
        let text = &fields[at].text;
        let starts_with_digit = text.as_bytes()[0].is_ascii_digit();
        if self.label == Some(Label::Unit(Unit::Julian)) {
            self.label = None;
            let (day, rest) = integer(text)?;
            self.julian(day)?;
            self.offset(rest)?;
            return Ok(DATE | TIME | ZONE);
        }
        if self.time_only {
            let last = fields.len() - 1;
            let dated = at == 0
                && fields.len() >= 2
                && (fields[last].kind == Kind::Date || fields[1].kind == Kind::Time);
            if dated && self.label.is_none() {
                return self.date(text);
            }
        } else if self.label.is_none() && self.filled & (MONTH | DAY) != MONTH | DAY {
            return self.date(text);
        }
        if !starts_with_digit && self.label.is_none() {
            let zone = Zone::full(text).ok_or_else(|| Bad::Zone(text.clone()))?;
            self.place = Place::In(zone);
            return Ok(ZONE);
        }
        // A time without colons, with an offset: hhmmss-zz.
        if self.label.take().is_some_and(|label| label != Label::Time) {
            return Err(Bad::Format);
        }
        if self.filled & TIME == TIME {
            return Err(Bad::Format);
        }
        let dash = text.find('-').ok_or(Bad::Format)?;
        self.offset(&text[dash..])?;
        Ok(self.joined(&text[..dash], self.taken())? | ZONE)
    }

    fn number_field(&mut self, fields: &[Field], at: usize) -> Result<Filled, Bad> {
        let text = &fields[at].text;
        if let Some(label) = self.label.take() {
            return self.labelled(label, text);
        }
        let point = text.find('.');
        let length = text.len();
        if self.time_only {
            if let Some(point) = point {
                let last = fields.len() - 1;
                if at == 0 && fields.len() >= 2 && fields[last].kind == Kind::Date {
                    return self.date(text);
                }
                if point > 2 {
                    return self.joined(text, self.taken());
                }
                return Err(Bad::Format);
            }
            if length > 4 {
                return self.joined(text, self.taken());
            }
            return self.number(text, self.taken());
        }
        match point {
            Some(_) if self.filled & DATE == 0 => self.date(text),
            Some(point) if point > 2 => self.joined(text, self.filled),
            _ if length >= 6 && (self.filled & DATE == 0 || self.filled & TIME == 0) => {
                self.joined(text, self.filled)
            }
            _ => self.number(text, self.filled),
        }
    }

    /// A number after a unit (`y2024 m1 d2`) or after `t`.
    fn labelled(&mut self, label: Label, text: &str) -> Result<Filled, Bad> {
        let Label::Unit(unit) = label else {
            let now = self.joined(text, self.filled | DATE)?;
            return if now == TIME {
                Ok(now)
            } else {
                Err(Bad::Format)
            };
        };
        let (value, rest) = integer(text)?;
        let has_fraction = match rest.as_bytes().first() {
            None => false,
            Some(b'.') => true,
            Some(_) => return Err(Bad::Format),
        };
        if has_fraction && !matches!(unit, Unit::Julian | Unit::Second) {
            return Err(Bad::Format);
        }
        Ok(match unit {
            Unit::Year => {
                self.parts.year = value;
                YEAR
            }
            Unit::Month if self.filled & MONTH != 0 && self.filled & HOUR != 0 => {
                self.parts.minute = value;
                MINUTE
            }
            Unit::Month => {
                self.parts.month = value;
                MONTH
            }
            Unit::Day => {
                self.parts.day = value;
                DAY
            }
            Unit::Hour => {
                self.parts.hour = value;
                HOUR
            }
            Unit::Minute => {
                self.parts.minute = value;
                MINUTE
            }
            Unit::Second => {
                self.parts.second = value;
                if has_fraction {
                    self.parts.micros = fraction(rest)?;
                    SECOND | FRACTION
                } else {
                    SECOND
                }
            }
            Unit::Julian => {
                self.julian(value)?;
                if !has_fraction {
                    return Ok(DATE);
                }
                let part: f64 = format!("0{rest}").parse().map_err(|_| Bad::Format)?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
                let time = (part * MICROS_PER_DAY as f64) as i64;
                let clock = Parts::of(time);
                self.set_time(clock.hour, clock.minute, clock.second, clock.micros);
                DATE | TIME
            }
            _ => return Err(Bad::Format),
        })
    }

    fn julian(&mut self, day: i64) -> Result<(), Bad> {
        if day < 0 {
            return Err(Bad::Field);
        }
        let (year, month, day) = calendar::civil(day - calendar::EPOCH_JULIAN);
        self.parts.year = year;
        self.parts.month = month.into();
        self.parts.day = day.into();
        self.is_julian = true;
        Ok(())
    }

    fn text_field(&mut self, fields: &[Field], at: usize) -> Result<Option<Filled>, Bad> {
        let text = fields[at].text.as_str();
        if fields[at].kind == Kind::Text
            && let Some(zone) = abbreviation(text)
        {
            self.place = Place::In(zone);
            return Ok(Some(ZONE));
        }
        let Some(word) = words::word(text) else {
            // The name of a zone without punctuation, such as Egypt.
            let zone = Zone::full(text).ok_or(Bad::Format)?;
            self.place = Place::In(zone);
            return Ok(Some(ZONE));
        };
        if self.time_only && matches!(word, Word::Today | Word::Tomorrow | Word::Yesterday) {
            return Err(Bad::Format);
        }
        Ok(Some(match word {
            Word::Ignored => return Ok(None),
            Word::Now => {
                self.parts = Parts::of(self.around.zone.local(self.around.now));
                self.place = Place::In(self.around.zone);
                if self.time_only {
                    TIME
                } else {
                    DATE | TIME | ZONE
                }
            }
            Word::Today => self.day_from_today(0),
            Word::Tomorrow => self.day_from_today(1),
            Word::Yesterday => self.day_from_today(-1),
            Word::Midnight => {
                self.set_time(0, 0, 0, 0);
                self.place = Place::In(Zone::Fixed(0));
                TIME | ZONE
            }
            Word::Epoch | Word::Infinity | Word::MinusInfinity if self.time_only => {
                return Err(Bad::Format);
            }
            Word::Epoch | Word::Infinity | Word::MinusInfinity => {
                self.special = Some(word);
                DATE | TIME | ZONE
            }
            Word::Month(month) => {
                let mut now = MONTH;
                // The number that was taken for the month is the day.
                if self.filled & MONTH != 0
                    && !self.has_text_month
                    && self.filled & DAY == 0
                    && (1..=31).contains(&self.parts.month)
                {
                    self.parts.day = self.parts.month;
                    now = DAY;
                }
                self.has_text_month = true;
                self.parts.month = month;
                now
            }
            Word::DaylightSaving => {
                self.place = match self.place {
                    Place::In(zone) => Place::Shifted(zone, 3600),
                    _ => return Err(Bad::Format),
                };
                DAYLIGHT
            }
            Word::Am | Word::Pm => {
                self.is_pm = Some(word == Word::Pm);
                HALF_OF_DAY
            }
            Word::Ad | Word::Bc => {
                self.is_bc = word == Word::Bc;
                ERA
            }
            Word::Weekday => WEEKDAY,
            Word::Unit(unit) => {
                self.label = Some(Label::Unit(unit));
                return Ok(None);
            }
            Word::Time => {
                let dated = self.time_only || self.filled & DATE == DATE;
                let next = fields.get(at + 1).map(|field| field.kind);
                if !dated || !matches!(next, Some(Kind::Number | Kind::Time | Kind::Date)) {
                    return Err(Bad::Format);
                }
                self.label = Some(Label::Time);
                return Ok(None);
            }
        }))
    }

    fn day_from_today(&mut self, days: i64) -> Filled {
        let now = self.around.zone.local(self.around.now);
        let today = Parts::of(now - now.rem_euclid(MICROS_PER_DAY) + days * MICROS_PER_DAY);
        self.parts.year = today.year;
        self.parts.month = today.month;
        self.parts.day = today.day;
        DATE
    }

    /// A date whose parts are separated.
    fn date(&mut self, text: &str) -> Result<Filled, Bad> {
        let mut parts = vec![];
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if !bytes[at].is_ascii_alphanumeric() {
                at += 1;
                continue;
            }
            let start = at;
            let digit = bytes[at].is_ascii_digit();
            while at < bytes.len()
                && bytes[at].is_ascii_alphanumeric()
                && bytes[at].is_ascii_digit() == digit
            {
                at += 1;
            }
            parts.push((digit, &text[start..at]));
            // The separator is skipped, whatever it is.
            at += 1;
        }
        if !bytes.last().is_some_and(u8::is_ascii_alphanumeric) {
            return Err(Bad::Format);
        }
        let before = self.filled;
        let mut now = 0;
        let mut put = |reader: &mut Self, part: Filled| {
            if reader.filled & part != 0 {
                return Err(Bad::Format);
            }
            reader.filled |= part;
            now |= part;
            Ok(())
        };
        for (_, part) in parts.iter().filter(|(digit, _)| !digit) {
            match words::word(part) {
                Some(Word::Ignored) => {}
                Some(Word::Month(month)) => {
                    self.parts.month = month;
                    self.has_text_month = true;
                    put(self, MONTH)?;
                }
                _ => return Err(Bad::Format),
            }
        }
        for (_, part) in parts.iter().filter(|(digit, _)| *digit) {
            let part = self.number(part, self.filled)?;
            put(self, part)?;
        }
        let whole = self.filled & !(DAY_OF_YEAR | ZONE) == DATE;
        self.filled = before;
        if whole { Ok(now) } else { Err(Bad::Format) }
    }

    /// A single number, whose part depends on the parts filled so far.
    fn number(&mut self, text: &str, filled: Filled) -> Result<Filled, Bad> {
        let (value, rest) = integer(text)?;
        let digits = text.len();
        if rest.starts_with('.') {
            if digits - rest.len() > 2 {
                return self.joined(text, filled | DATE);
            }
            self.parts.micros = fraction(rest)?;
        } else if !rest.is_empty() {
            return Err(Bad::Format);
        }
        let order = self.around.order;
        if digits == 3 && filled & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let long = digits >= 3 || order == Order::Ymd;
        let part = match filled & DATE {
            0 if long => YEAR,
            0 if order == Order::Dmy => DAY,
            0 | YEAR | DAY => MONTH,
            MONTH if self.has_text_month && long => YEAR,
            MONTH => DAY,
            both if both == YEAR | MONTH => {
                if self.has_text_month && digits >= 3 && self.is_short_year {
                    // The first number was the day.
                    self.parts.day = self.parts.year;
                    self.parts.year = value;
                    self.is_short_year = false;
                    return Ok(DAY);
                }
                DAY
            }
            both if both == MONTH | DAY => YEAR,
            DATE => return self.joined(text, filled),
            _ => return Err(Bad::Format),
        };
        match part {
            YEAR => {
                self.parts.year = value;
                self.is_short_year = digits <= 2;
            }
            MONTH => self.parts.month = value,
            _ => self.parts.day = value,
        }
        Ok(part)
    }

    /// Digits without separators: yyyymmdd, yymmdd, hhmmss or hhmm.
    fn joined(&mut self, text: &str, filled: Filled) -> Result<Filled, Bad> {
        let (digits, micros) = match text.find('.') {
            Some(point) => (&text[..point], Some(fraction(&text[point..])?)),
            None => (text, None),
        };
        let length = digits.len();
        let part = |from: usize, to: usize| -> Result<i64, Bad> {
            digits
                .get(from..to)
                .and_then(|part| part.parse().ok())
                .ok_or(Bad::Format)
        };
        match micros {
            Some(micros) => self.parts.micros = micros,
            None if filled & DATE != DATE && length >= 6 => {
                self.parts.day = part(length - 2, length)?;
                self.parts.month = part(length - 4, length - 2)?;
                self.parts.year = part(0, length - 4)?;
                self.is_short_year = length == 6;
                return Ok(DATE);
            }
            None => {}
        }
        if filled & TIME != TIME && (length == 6 || length == 4) {
            self.parts.hour = part(0, 2)?;
            self.parts.minute = part(2, 4)?;
            self.parts.second = if length == 6 { part(4, 6)? } else { 0 };
            return Ok(TIME);
        }
        Err(Bad::Format)
    }

    fn clock(&mut self, text: &str) -> Result<Filled, Bad> {
        let clock = clock(text)?;
        let whole_day = clock.0 == 24 && (clock.1, clock.2, clock.3) == (0, 0, 0);
        if clock.0 >= 24 && !whole_day {
            return Err(Bad::Field);
        }
        self.set_time(clock.0, clock.1, clock.2, clock.3);
        Ok(TIME)
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64, micros: i64) {
        self.parts.hour = hour;
        self.parts.minute = minute;
        self.parts.second = second;
        self.parts.micros = micros;
    }

    fn offset(&mut self, text: &str) -> Result<(), Bad> {
        self.place = Place::In(Zone::Fixed(offset(text)?));
        Ok(())
    }

    fn finish(mut self) -> Result<Moment, Bad> {
        match self.special {
            Some(Word::Epoch) => return Ok(Moment::Epoch),
            Some(Word::Infinity) => return Ok(Moment::Infinity),
            Some(_) => return Ok(Moment::MinusInfinity),
            None => {}
        }
        self.settle_date()?;
        self.settle_half_of_day()?;
        if self.filled & DATE != DATE {
            return Err(Bad::Format);
        }
        let parts = self.parts;
        let clock = parts.time();
        if !(0..=24).contains(&parts.hour) || clock > MICROS_PER_DAY {
            return Err(Bad::Field);
        }
        if matches!(self.place, Place::Shifted(Zone::Named(_), _)) {
            return Err(Bad::Format);
        }
        let place = self.place;
        Ok(Moment::At { parts, place })
    }

    fn finish_time(&mut self) -> Result<(), Bad> {
        self.settle_date()?;
        self.settle_half_of_day()?;
        let parts = &self.parts;
        let fits = (0..60).contains(&parts.minute) && (0..=60).contains(&parts.second);
        if !(0..=24).contains(&parts.hour) || !fits || parts.time() > MICROS_PER_DAY {
            return Err(Bad::Field);
        }
        if self.filled & TIME != TIME {
            return Err(Bad::Format);
        }
        // The offset of a named zone depends on the date.
        let needs_date = matches!(self.place, Place::In(Zone::Named(_)));
        if needs_date && self.filled & DATE != DATE && self.filled & ZONE != 0 {
            return Err(Bad::Format);
        }
        Ok(())
    }

    fn settle_half_of_day(&mut self) -> Result<(), Bad> {
        let Some(is_pm) = self.is_pm else {
            return Ok(());
        };
        match (is_pm, self.parts.hour) {
            (_, 13..) => return Err(Bad::Field),
            (false, 12) => self.parts.hour = 0,
            (true, ..=11) => self.parts.hour += 12,
            _ => {}
        }
        Ok(())
    }

    fn settle_date(&mut self) -> Result<(), Bad> {
        let parts = &mut self.parts;
        if self.filled & YEAR != 0 && !self.is_julian {
            match (self.is_bc, self.is_short_year) {
                (true, _) if parts.year <= 0 => return Err(Bad::Field),
                (true, _) => parts.year = 1 - parts.year,
                (false, true) if parts.year < 0 => return Err(Bad::Field),
                (false, true) if parts.year < 70 => parts.year += 2000,
                (false, true) if parts.year < 100 => parts.year += 1900,
                (false, false) if parts.year <= 0 => return Err(Bad::Field),
                _ => {}
            }
        }
        if self.filled & DAY_OF_YEAR != 0 {
            let day = calendar::days(parts.year, 1, 1) + self.day_of_year - 1;
            let (year, month, day) = calendar::civil(day);
            parts.year = year;
            parts.month = month.into();
            parts.day = day.into();
        }
        if self.filled & MONTH != 0 && !(1..=12).contains(&parts.month) {
            return Err(Bad::DayOrMonth);
        }
        if self.filled & DAY != 0 && !(1..=31).contains(&parts.day) {
            return Err(Bad::DayOrMonth);
        }
        let length = calendar::month_length(parts.year, parts.month);
        if self.filled & DATE == DATE && parts.day > length {
            return Err(Bad::Field);
        }
        Ok(())
    }
}

/// The abbreviation of a zone inside a date.
fn abbreviation(lower: &str) -> Option<Zone> {
    Zone::abbreviation(lower.get(..10).unwrap_or(lower))
}

/// A 32-bit number at the start of a text, and the rest.
fn integer(text: &str) -> Result<(i64, &str), Bad> {
    let signed = usize::from(text.starts_with(['-', '+']));
    let digits = text[signed..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    if digits == 0 && !text.starts_with('.') {
        return Err(Bad::Format);
    }
    let (number, rest) = text.split_at(signed + digits);
    if digits == 0 {
        return Ok((0, rest));
    }
    let number: i32 = number.parse().map_err(|_| Bad::Field)?;
    Ok((number.into(), rest))
}

/// Parses `.5` as microseconds, rounded half to even.
pub(super) fn fraction(text: &str) -> Result<i64, Bad> {
    let digits = &text[1..];
    if !text.starts_with('.') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Bad::Format);
    }
    if digits.is_empty() {
        return Ok(0);
    }
    let part: f64 = format!("0{text}").parse().map_err(|_| Bad::Format)?;
    #[expect(clippy::cast_possible_truncation, reason = "below a million")]
    Ok((part * 1e6).round_ties_even() as i64)
}

/// The hours, minutes, seconds and microseconds of `hh:mm`, `hh:mm:ss`, `hh:mm:ss.f` or `mm:ss.f`.
pub(super) fn clock(text: &str) -> Result<(i64, i64, i64, i64), Bad> {
    let (hour, rest) = integer(text)?;
    let rest = rest.strip_prefix(':').ok_or(Bad::Format)?;
    let (minute, rest) = number_or_zero(rest)?;
    let found = match rest.as_bytes().first() {
        None => (hour, minute, 0, 0),
        Some(b'.') => (0, hour, minute, fraction(rest)?),
        Some(b':') => {
            let (second, rest) = number_or_zero(&rest[1..])?;
            let micros = if rest.is_empty() { 0 } else { fraction(rest)? };
            (hour, minute, second, micros)
        }
        Some(_) => return Err(Bad::Format),
    };
    let fits = found.0 >= 0
        && (0..60).contains(&found.1)
        && (0..=60).contains(&found.2)
        && (0..=1_000_000).contains(&found.3);
    if fits { Ok(found) } else { Err(Bad::Field) }
}

fn number_or_zero(text: &str) -> Result<(i64, &str), Bad> {
    if text.is_empty() || text.starts_with([':', '.']) {
        return Ok((0, text));
    }
    integer(text)
}

/// `+02`, `-03:30`, `+0530` or `+05:30:15` as seconds east of UTC.
fn offset(text: &str) -> Result<i32, Bad> {
    let negative = match text.as_bytes().first() {
        Some(b'+') => false,
        Some(b'-') => true,
        _ => return Err(Bad::Format),
    };
    let (mut hours, mut rest) = integer(&text[1..])?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(more) = rest.strip_prefix(':') {
        (minutes, rest) = integer(more)?;
        if let Some(more) = rest.strip_prefix(':') {
            (seconds, rest) = integer(more)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        minutes = hours % 100;
        hours /= 100;
    }
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Bad::Displacement);
    }
    if !rest.is_empty() {
        return Err(Bad::Format);
    }
    let total = i32::try_from((hours * 60 + minutes) * 60 + seconds).unwrap_or(0);
    Ok(if negative { -total } else { total })
}
