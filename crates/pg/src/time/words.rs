//! The words that PostgreSQL accepts in dates, times and intervals.

/// The meaning of a word in a date or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Month(i64),
    Weekday,
    /// `on` and `at`.
    Ignored,
    Am,
    Pm,
    Ad,
    Bc,
    /// The unit of the number that follows.
    Unit(Unit),
    /// `t` before an ISO time.
    Time,
    /// `dst` after a zone.
    DaylightSaving,
    Now,
    Today,
    Tomorrow,
    Yesterday,
    /// `allballs`: midnight in UTC.
    Midnight,
    Epoch,
    Infinity,
    MinusInfinity,
}

/// A unit of time, or a field of `extract`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    Dow,
    IsoDow,
    Doy,
    IsoYear,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
}

/// The meaning of a word in lower case, of which the first ten letters are significant.
pub(super) fn word(lower: &str) -> Option<Word> {
    use Word::{Month, Weekday};
    Some(match significant(lower) {
        "-infinity" => Word::MinusInfinity,
        "ad" => Word::Ad,
        "allballs" => Word::Midnight,
        "am" => Word::Am,
        "apr" | "april" => Month(4),
        "at" | "on" => Word::Ignored,
        "aug" | "august" => Month(8),
        "bc" => Word::Bc,
        "d" => Word::Unit(Unit::Day),
        "dec" | "december" => Month(12),
        "dst" => Word::DaylightSaving,
        "epoch" => Word::Epoch,
        "feb" | "february" => Month(2),
        "fri" | "friday" | "mon" | "monday" | "sat" | "saturday" | "sun" | "sunday" | "thu"
        | "thur" | "thurs" | "thursday" | "tue" | "tues" | "tuesday" | "wed" | "wednesday"
        | "weds" => Weekday,
        "h" => Word::Unit(Unit::Hour),
        "infinity" => Word::Infinity,
        "j" | "jd" | "julian" => Word::Unit(Unit::Julian),
        "jan" | "january" => Month(1),
        "jul" | "july" => Month(7),
        "jun" | "june" => Month(6),
        "m" => Word::Unit(Unit::Month),
        "mar" | "march" => Month(3),
        "may" => Month(5),
        "mm" => Word::Unit(Unit::Minute),
        "nov" | "november" => Month(11),
        "now" => Word::Now,
        "oct" | "october" => Month(10),
        "pm" => Word::Pm,
        "s" => Word::Unit(Unit::Second),
        "sep" | "sept" | "september" => Month(9),
        "t" => Word::Time,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "y" => Word::Unit(Unit::Year),
        "yesterday" => Word::Yesterday,
        _ => return None,
    })
}

/// The unit of an interval, or of `extract` and `date_trunc`.
pub(crate) fn unit(lower: &str) -> Option<Unit> {
    Some(match significant(lower) {
        "c" | "cent" | "centuries" | "century" => Unit::Century,
        "d" | "day" | "days" => Unit::Day,
        "dec" | "decade" | "decades" | "decs" => Unit::Decade,
        "h" | "hour" | "hours" | "hr" | "hrs" => Unit::Hour,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "microsecon" | "us" | "usec" | "useconds" | "usecs" => Unit::Microsecond,
        "mil" | "millennia" | "millennium" | "mils" => Unit::Millennium,
        "millisecon" | "ms" | "msec" | "mseconds" | "msecs" => Unit::Millisecond,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "qtr" | "quarter" => Unit::Quarter,
        "s" | "sec" | "second" | "seconds" | "secs" => Unit::Second,
        "w" | "week" | "weeks" => Unit::Week,
        "y" | "year" | "years" | "yr" | "yrs" => Unit::Year,
        "timezone" => Unit::Zone,
        "timezone_h" => Unit::ZoneHour,
        "timezone_m" => Unit::ZoneMinute,
        _ => return None,
    })
}

/// A field of `extract`.
pub(crate) fn field(lower: &str) -> Option<Unit> {
    unit(lower).or_else(|| {
        Some(match significant(lower) {
            "dow" => Unit::Dow,
            "doy" => Unit::Doy,
            "isodow" => Unit::IsoDow,
            "isoyear" => Unit::IsoYear,
            "epoch" => Unit::Epoch,
            "j" | "jd" | "julian" => Unit::Julian,
            _ => return None,
        })
    })
}

fn significant(word: &str) -> &str {
    word.get(..10).unwrap_or(word)
}
