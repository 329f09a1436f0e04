//! Which constants do the queries of a workload have?
//!
//! TPC-H's substitution parameters; or, for distinct constants, values such that no two queries
//! have a constant in common, so that no query computes any part of another's result. Exceptions
//! are discounts, of which TPC-H has eleven, and quantities.
//! The order of the draws is part of the format (`lab/arena/README.md`).

use std::collections::BTreeSet;

use super::date::Date;
use crate::error::{BenchError, Result};
use crate::random::Random;

/// Draws the constants of one workload.
#[derive(Debug)]
pub(super) struct Constants {
    distinct: bool,
    /// The dates of the queries drawn so far, if constants are distinct.
    dates: BTreeSet<Date>,
}

/// The constants of FAST, TPC-H Q6.
#[derive(Debug)]
pub(super) struct Fast {
    /// The first day of shipment, and the day after the last.
    pub(super) first: Date,
    pub(super) end: Date,
    /// The least and the largest discount, in hundredths.
    pub(super) discounts: (u64, u64),
    /// All quantities are below this one.
    pub(super) quantity: u64,
}

impl Fast {
    /// Draws year, discount and quantity.
    pub(super) fn of_tpch(random: &mut Random) -> Self {
        let year = random.below(5);
        let discount = 2 + random.below(8);
        Self {
            first: Date::month_from_1993(12 * year),
            end: Date::month_from_1993(12 * year + 12),
            discounts: (discount - 1, discount + 1),
            quantity: 24 + random.below(2),
        }
    }
}

/// The last day of shipment in TPC-H Q1. Draws the parameter DELTA.
pub(super) fn last_of_tpch(random: &mut Random) -> Date {
    Date::new(1998, 12, 1).minus(60 + random.below(61))
}

impl Constants {
    pub(super) fn new(distinct: bool) -> Self {
        Self {
            distinct,
            dates: BTreeSet::new(),
        }
    }

    /// The constants of FAST. For distinct constants, draws two dates, two discounts and the
    /// quantity.
    pub(super) fn fast(&mut self, random: &mut Random) -> Result<Fast> {
        if self.distinct {
            let first = self.date(random, Date::new(1993, 1, 1), 1500)?;
            let end = self.date(random, first.plus(300), 200)?;
            let low = random.below(8);
            let high = low + 1 + random.below(3);
            return Ok(Fast {
                first,
                end,
                discounts: (low, high),
                quantity: 20 + random.below(10),
            });
        }
        Ok(Fast::of_tpch(random))
    }

    /// The constant of SLOW: the last day of shipment.
    pub(super) fn slow(&mut self, random: &mut Random) -> Result<Date> {
        if self.distinct {
            return self.date(random, Date::new(1996, 1, 1), 1000);
        }
        Ok(last_of_tpch(random))
    }

    /// One of the `days` days from `first` on that no query has yet.
    fn date(&mut self, random: &mut Random, first: Date, days: u64) -> Result<Date> {
        if (0..days).all(|day| self.dates.contains(&first.plus(day))) {
            return Err(BenchError::Dates {
                taken: self.dates.len(),
            });
        }
        loop {
            let date = first.plus(random.below(days));
            if self.dates.insert(date) {
                return Ok(date);
            }
        }
    }
}
