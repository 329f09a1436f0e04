//! Days, months and years of PostgreSQL's calendar (proleptic Gregorian; internally with a year
//! 0).
//!
//! Days count from 1970-01-01, microseconds from its midnight. Infinity is the greatest number of
//! the type, and minus infinity the least.

pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
pub(crate) const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
pub(crate) const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;
/// Julian day of 1970-01-01.
pub(crate) const EPOCH_JULIAN: i64 = 2_440_588;
/// 4713-11-24 BC, Julian day 0: PostgreSQL's first date.
pub(crate) const DAY_MIN: i64 = -EPOCH_JULIAN;
/// 5874897-12-31: PostgreSQL's last date.
pub(crate) const DAY_MAX: i64 = 2_145_042_905;
pub(crate) const MICROS_MIN: i64 = DAY_MIN * MICROS_PER_DAY;
/// Counted from 1970, 64 bits end in the year 294247; PostgreSQL counts from 2000, which ends in
/// 294276.
pub(crate) const MICROS_MAX: i64 = i64::MAX - 1;
pub(crate) const INFINITY: i64 = i64::MAX;
pub(crate) const MINUS_INFINITY: i64 = i64::MIN;
pub(crate) const DATE_INFINITY: i32 = i32::MAX;
pub(crate) const DATE_MINUS_INFINITY: i32 = i32::MIN;

/// The parts of a timestamp; `year` 0 is 1 BC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) micros: i64,
}

impl Parts {
    /// The parts of a finite timestamp.
    pub(crate) fn of(moment: i64) -> Self {
        let (year, month, day) = civil(moment.div_euclid(MICROS_PER_DAY));
        let time = moment.rem_euclid(MICROS_PER_DAY);
        Self {
            year,
            month: month.into(),
            day: day.into(),
            hour: time / MICROS_PER_HOUR,
            minute: time / MICROS_PER_MINUTE % 60,
            second: time / MICROS_PER_SECOND % 60,
            micros: time % MICROS_PER_SECOND,
        }
    }

    pub(crate) fn days(&self) -> i64 {
        days(self.year, self.month, self.day)
    }

    pub(crate) fn time(&self) -> i64 {
        (self.hour * 60 + self.minute) * MICROS_PER_MINUTE
            + self.second * MICROS_PER_SECOND
            + self.micros
    }

    /// The timestamp in microseconds; `None` if it is out of range.
    pub(crate) fn moment(&self) -> Option<i64> {
        moment(self.days(), self.time())
    }
}

/// The timestamp of a day and the microseconds within it; `None` if it is out of range.
pub(crate) fn moment(days: i64, time: i64) -> Option<i64> {
    days.checked_mul(MICROS_PER_DAY)?
        .checked_add(time)
        .filter(|moment| in_range(*moment))
}

pub(crate) fn in_range(moment: i64) -> bool {
    (MICROS_MIN..=MICROS_MAX).contains(&moment)
}

pub(crate) fn is_finite(moment: i64) -> bool {
    moment != INFINITY && moment != MINUS_INFINITY
}

/// The year, month and day of a number of days since 1970-01-01, by Howard Hinnant's algorithm:
/// years start in March, so the leap day is a year's last, and 400 years form an era.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = u32::try_from(day_of_year - (153 * shifted + 2) / 5 + 1).unwrap_or(1);
    let month = u32::try_from(if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    })
    .unwrap_or(1);
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Days since 1970-01-01. A month outside 1 to 12 continues into other years, a day into other
/// months.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

pub(crate) fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

pub(crate) fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 for Sunday to 6 for Saturday.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// 1 for the first of January.
pub(crate) fn day_of_year(days_since: i64) -> i64 {
    days_since - days(civil(days_since).0, 1, 1) + 1
}

/// The ISO 8601 year that a week belongs to, and the week's number.
pub(crate) fn iso_week(day: i64) -> (i64, i64) {
    let thursday = day - (weekday(day) + 6) % 7 + 3;
    let year = civil(thursday).0;
    (year, (thursday - days(year, 1, 1)) / 7 + 1)
}

/// The Monday of an ISO week.
pub(crate) fn iso_week_start(year: i64, week: i64) -> i64 {
    let fourth = days(year, 1, 4);
    fourth - (weekday(fourth) + 6) % 7 + (week - 1) * 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        for day in (DAY_MIN..3_000_000).step_by(97).chain([DAY_MAX]) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month.into(), of_month.into()), day);
        }
        assert_eq!(civil(DAY_MAX), (5_874_897, 12, 31));
        assert_eq!(civil(DAY_MIN), (-4713, 11, 24));
    }

    #[test]
    fn weeks() {
        assert_eq!(iso_week(days(2021, 1, 3)), (2020, 53));
        assert_eq!(iso_week(days(2024, 12, 30)), (2025, 1));
        assert_eq!(iso_week_start(2025, 1), days(2024, 12, 30));
    }
}
