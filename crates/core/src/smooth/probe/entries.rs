//! Which row of the index entries that were read last comes next?
//!
//! Invariant: `done <= before <= positions.len()`, unless the bound lies before entries that
//! [`Entries::take_all`] has taken.

/// The index entries that were read last, in the order of their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    positions: Vec<u64>,
    /// The number of entries taken.
    done: usize,
    /// The number of entries before the bound.
    before: usize,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The row at this position.
    Row(u64),
    /// More entries have to be read.
    Wanted,
    /// No entry is left before the bound.
    Bound,
}

impl Entries {
    /// Replaces the entries, all of which were taken, by the next ones.
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

    /// `before` of the entries read last are before the bound.
    pub(super) fn move_bound(&mut self, before: usize) {
        self.before = before.min(self.positions.len());
    }

    /// Takes the next entry.
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

    /// Takes all entries before the bound.
    pub(super) fn take_before(&mut self) -> &[u64] {
        let from = self.done.min(self.before);
        self.done = self.done.max(self.before);
        &self.positions[from..self.before]
    }

    /// Takes all remaining entries, whatever the bound.
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
