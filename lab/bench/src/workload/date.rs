//! Dates of queries.

use std::fmt;

/// A day of the Gregorian calendar, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Date(i64);

/// Days of 400 years, after which the calendar repeats itself.
const CYCLE: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01. Years begin in March here, so that the leap day is the last
/// day of its year.
const EPOCH: i64 = 719_468;

impl Date {
    /// A day by its year, month (1 to 12) and day (1 to 31).
    pub(super) const fn new(year: i64, month: i64, day: i64) -> Self {
        let from_march = (month + 9) % 12;
        let year = if month < 3 { year - 1 } else { year };
        let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        Self(cycle * CYCLE + year * 365 + year / 4 - year / 100 + of_year - EPOCH)
    }

    /// The first day of the month `months` after January 1993, where TPC-H's dates begin.
    pub(super) fn month_from_1993(months: u64) -> Self {
        let months = i64::try_from(months).unwrap_or(i64::MAX);
        Self::new(1993 + months / 12, months % 12 + 1, 1)
    }

    /// The day `days` later.
    pub(super) fn plus(self, days: u64) -> Self {
        Self(self.0.saturating_add_unsigned(days))
    }

    /// The day `days` earlier.
    pub(super) fn minus(self, days: u64) -> Self {
        Self(self.0.saturating_sub_unsigned(days))
    }
}

impl fmt::Display for Date {
    /// `1998-12-01`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cycle, day) = (
            (self.0 + EPOCH).div_euclid(CYCLE),
            (self.0 + EPOCH).rem_euclid(CYCLE),
        );
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let of_year = day - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = (from_march + 2) % 12 + 1;
        let year = year + 400 * cycle + i64::from(month < 3);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_each_other() {
        assert_eq!(Date::new(1970, 1, 1).0, 0);
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut day = Date::new(1896, 1, 1);
        for year in 1896..2101 {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for (month, length) in (1..).zip(lengths) {
                for of_month in 1..=length + i64::from(leap && month == 2) {
                    assert_eq!(day, Date::new(year, month, of_month));
                    assert_eq!(day.to_string(), format!("{year}-{month:02}-{of_month:02}"));
                    day = day.plus(1);
                }
            }
        }
        assert_eq!(Date::new(1998, 12, 1).minus(60).to_string(), "1998-10-02");
    }

    #[test]
    fn months_pass_the_end_of_a_year() {
        assert_eq!(Date::month_from_1993(0).to_string(), "1993-01-01");
        assert_eq!(Date::month_from_1993(57 + 3).to_string(), "1998-01-01");
    }
}
