//! Counts of a slot's chunks, one for each device of its table.
//!
//! Idea: nearly every table lies on one device, and then this is a single number stored in place.
//! Not here: the devices of a table (`Table::devices`).

use smallvec::SmallVec;

/// A count for each device of a table, by the device's place in [`super::Table::devices`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerDevice {
    counts: SmallVec<[usize; 1]>,
}

impl PerDevice {
    pub(crate) fn at(&self, place: usize) -> usize {
        self.counts.get(place).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    pub(crate) fn add(&mut self, place: usize, count: usize) {
        if count > 0 {
            if self.counts.len() <= place {
                self.counts.resize(place + 1, 0);
            }
            self.counts[place] += count;
        }
    }

    /// Subtracts a count that was added.
    pub(crate) fn take(&mut self, place: usize, count: usize) {
        if count > 0 {
            self.counts[place] -= count;
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (place, &count) in other.counts.iter().enumerate() {
            self.add(place, count);
        }
    }

    /// Subtracts counts that were added.
    pub(crate) fn take_all(&mut self, other: &Self) {
        for (place, &count) in other.counts.iter().enumerate() {
            self.take(place, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_per_device() {
        let mut counts = PerDevice::default();
        counts.add(2, 3);
        counts.add(0, 1);
        let mut more = PerDevice::default();
        more.add(2, 2);
        counts.add_all(&more);
        assert_eq!((counts.at(0), counts.at(1), counts.at(2)), (1, 0, 5));
        assert_eq!((counts.at(9), counts.total()), (0, 6));
        counts.take_all(&more);
        counts.take(2, 3);
        assert_eq!(counts.total(), 1);
    }
}
