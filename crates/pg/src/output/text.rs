//! Dates, times and intervals in PostgreSQL's text format (`DateStyle` ISO, `IntervalStyle`
//! postgres).

use std::fmt::{self, Write};

use bytes::BytesMut;

use crate::time::calendar::{
    DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MICROS_PER_DAY, MINUS_INFINITY, civil,
};
use crate::time::zone::{Zone, shown};

/// Writes a date, given as days since 1970-01-01.
pub(super) fn put_date(days: i32, out: &mut BytesMut) -> fmt::Result {
    match days {
        DATE_INFINITY => return out.write_str("infinity"),
        DATE_MINUS_INFINITY => return out.write_str("-infinity"),
        _ => {}
    }
    let days = i64::from(days);
    let (year, month, day) = civil(days);
    put_year(year, month, day, out)?;
    out.write_str(era(year))
}

/// Writes a timestamptz, given as microseconds since 1970-01-01 00:00 in UTC, in a zone.
pub(super) fn put_timestamptz(micros: i64, zone: Zone, out: &mut BytesMut) -> fmt::Result {
    if micros == INFINITY || micros == MINUS_INFINITY {
        return put_timestamp(micros, "", out);
    }
    put_timestamp(zone.local(micros), &shown(zone.offset_at(micros)), out)
}

/// Writes a timestamp, given as microseconds since 1970-01-01 00:00, followed by `zone`.
pub(super) fn put_timestamp(micros: i64, zone: &str, out: &mut BytesMut) -> fmt::Result {
    match micros {
        INFINITY => return out.write_str("infinity"),
        MINUS_INFINITY => return out.write_str("-infinity"),
        _ => {}
    }
    let (year, month, day) = civil(micros.div_euclid(MICROS_PER_DAY));
    put_year(year, month, day, out)?;
    out.write_char(' ')?;
    put_time(micros.rem_euclid(MICROS_PER_DAY), out)?;
    out.write_str(zone)?;
    out.write_str(era(year))
}

/// Writes a time of day, given as microseconds since midnight.
pub(super) fn put_time(micros: i64, out: &mut BytesMut) -> fmt::Result {
    let seconds = micros / 1_000_000;
    put_two(seconds / 3600, out);
    out.write_char(':')?;
    put_two(seconds / 60 % 60, out);
    out.write_char(':')?;
    put_two(seconds % 60, out);
    put_fraction(micros % 1_000_000, out)
}

/// Writes an interval in the style `postgres` (`style.rs` has the others).
pub(super) fn put_interval(months: i32, days: i32, micros: i64, out: &mut BytesMut) -> fmt::Result {
    let mut first = true;
    let mut before_negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count == 0 {
            continue;
        }
        let space = if first { "" } else { " " };
        let plus = if before_negative && count > 0 {
            "+"
        } else {
            ""
        };
        let plural = if count == 1 { "" } else { "s" };
        write!(out, "{space}{plus}{count} {unit}{plural}")?;
        first = false;
        before_negative = count < 0;
    }
    if micros != 0 || first {
        let space = if first { "" } else { " " };
        let sign = match micros {
            ..0 => "-",
            _ if before_negative => "+",
            _ => "",
        };
        let micros = micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        write!(
            out,
            "{space}{sign}{:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        )?;
        put_fraction((micros % 1_000_000).cast_signed(), out)?;
    }
    Ok(())
}

/// The text of an interval.
pub(crate) fn interval_text(months: i32, days: i32, micros: i64) -> String {
    let mut out = BytesMut::new();
    // Writing to memory cannot fail.
    let _ = put_interval(months, days, micros, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn put_fraction(mut micros: i64, out: &mut BytesMut) -> fmt::Result {
    if micros == 0 {
        return Ok(());
    }
    let mut width = 6;
    while micros % 10 == 0 {
        micros /= 10;
        width -= 1;
    }
    write!(out, ".{micros:0width$}")
}

fn put_year(year: i64, month: u32, day: u32, out: &mut BytesMut) -> fmt::Result {
    // There is no year 0: the year before 1 is 1 BC.
    let year = if year > 0 { year } else { 1 - year };
    if year < 10_000 {
        put_two(year / 100, out);
        put_two(year % 100, out);
    } else {
        write!(out, "{year}")?;
    }
    out.write_char('-')?;
    put_two(month.into(), out);
    out.write_char('-')?;
    put_two(day.into(), out);
    Ok(())
}

/// Writes two digits of a number below 100. (`write!` is several times slower.)
fn put_two(number: i64, out: &mut BytesMut) {
    let digit = |digit: i64| b'0' + u8::try_from(digit).unwrap_or(0);
    out.extend_from_slice(&[digit(number / 10), digit(number % 10)]);
}

fn era(year: i64) -> &'static str {
    if year > 0 { "" } else { " BC" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(put: impl Fn(&mut BytesMut) -> fmt::Result) -> String {
        let mut out = BytesMut::new();
        put(&mut out).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (10_957, "2000-01-01"),
            (11_016, "2000-02-29"),
            (-719_528, "0001-01-01 BC"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(written(|out| put_date(days, out)), text);
        }
    }

    #[test]
    fn timestamps() {
        assert_eq!(
            written(|out| put_timestamp(-1, "", out)),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(
            written(|out| put_timestamp(1_500_000, "+00", out)),
            "1970-01-01 00:00:01.5+00"
        );
        assert_eq!(shown(-12_600), "-03:30");
    }

    #[test]
    fn intervals() {
        for (months, days, micros, text) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_789_000, "1 year 2 mons 3 days 04:05:06.789"),
            (0, -1, 7_380_000_000, "-1 days +02:03:00"),
            (1, 0, -1_000_000, "1 mon -00:00:01"),
        ] {
            assert_eq!(written(|out| put_interval(months, days, micros, out)), text);
        }
    }
}
