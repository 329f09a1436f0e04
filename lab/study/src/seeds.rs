//! Which arrangements does an experiment run over?

use std::ops::Range;

/// Seeds that follow each other, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    first: u64,
    count: u64,
}

impl Seeds {
    /// The first seeds.
    pub(crate) fn first(count: u64) -> Self {
        Self::from(0, count)
    }

    /// At least one seed from `first` on.
    pub(crate) fn from(first: u64, count: u64) -> Self {
        Self {
            first,
            count: count.max(1),
        }
    }

    pub(crate) fn count(self) -> u64 {
        self.count
    }

    pub(crate) fn iter(self) -> Range<u64> {
        self.first..self.first + self.count
    }
}
