//! The entries of the index that are at hand: which row is next?
//!
//! Invariant: `done <= before <= positions.len()`, unless the bound is before what was done.

/// Entries that were read, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    positions: Vec<u64>,
    /// How many of them were taken.
    done: usize,
    /// How many are before the bound.
    before: usize,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The row at this position.
    Row(u64),
    /// More entries have to be read.
    Wanted,
    /// No row before the bound.
    Bound,
}

impl Entries {
    /// These come next.
    pub(super) fn read(&mut self, positions: &[u64], before: usize) {
        assert!(
            self.done == self.positions.len(),
            "SMOOTH-I4: entries are read when none is left"
        );
        self.positions.clear();
        self.positions.extend_from_slice(positions);
        self.done = 0;
        self.move_bound(before);
    }

    /// So many of those that were read last are before the bound.
    pub(super) fn move_bound(&mut self, before: usize) {
        self.before = before.min(self.positions.len());
    }

    /// Takes the next one.
    pub(super) fn next(&mut self) -> Next {
        if self.done < self.before {
            self.done += 1;
            Next::Row(self.positions[self.done - 1])
        } else if self.before < self.positions.len() {
            Next::Bound
        } else {
            Next::Wanted
        }
    }

    /// Takes all that are before the bound.
    pub(super) fn take_before(&mut self) -> &[u64] {
        let from = self.done.min(self.before);
        self.done = self.done.max(self.before);
        &self.positions[from..self.before]
    }

    /// Takes all that are left, whatever the bound.
    pub(super) fn take_all(&mut self) -> &[u64] {
        let from = std::mem::replace(&mut self.done, self.positions.len());
        self.before = self.positions.len();
        &self.positions[from..]
    }

    pub(super) fn check(&self) {
        assert!(self.before <= self.positions.len() && self.done <= self.positions.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_wait_behind_the_bound() {
        let mut entries = Entries::default();
        assert_eq!(entries.next(), Next::Wanted);
        entries.read(&[7, 3, 9, 1], 2);
        assert_eq!(entries.next(), Next::Row(7));
        assert_eq!(entries.take_before(), [3]);
        assert_eq!(entries.next(), Next::Bound);
        entries.move_bound(3);
        assert_eq!(entries.next(), Next::Row(9));
        assert_eq!(entries.next(), Next::Bound);
        assert_eq!(entries.take_all(), [1]);
        assert_eq!(entries.next(), Next::Wanted);
        entries.read(&[4], 0);
        assert_eq!(entries.next(), Next::Bound);
    }
}
