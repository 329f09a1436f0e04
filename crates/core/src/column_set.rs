//! Sets of columns: a bit per column.

use smallvec::SmallVec;

use crate::ColumnId;

/// A set of [`ColumnId`]s.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ColumnSet {
    /// No trailing zero words, so that equal sets compare equal.
    words: SmallVec<[u64; 2]>,
}

impl ColumnSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Columns `0..n`.
    #[must_use]
    pub fn all(n: u16) -> Self {
        (0..n).map(ColumnId).collect()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many columns it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether it holds the column.
    #[must_use]
    pub fn contains(&self, column: ColumnId) -> bool {
        self.words
            .get(usize::from(column.0 / 64))
            .is_some_and(|w| w >> (column.0 % 64) & 1 == 1)
    }

    /// Adds a column.
    pub fn insert(&mut self, column: ColumnId) {
        let word = usize::from(column.0 / 64);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (column.0 % 64);
    }

    /// Takes a column out.
    pub fn remove(&mut self, column: ColumnId) {
        if let Some(word) = self.words.get_mut(usize::from(column.0 / 64)) {
            *word &= !(1 << (column.0 % 64));
            self.trim();
        }
    }

    /// Whether every column is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.len() <= other.words.len()
            && self
                .words
                .iter()
                .zip(&other.words)
                .all(|(a, b)| a & !b == 0)
    }

    /// Whether the sets share a column.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// The columns in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() {
            (self, other)
        } else {
            (other, self)
        };
        let mut words = long.words.clone();
        for (a, b) in words.iter_mut().zip(&short.words) {
            *a |= b;
        }
        Self { words }
    }

    /// The columns in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self
            .words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| a & b)
            .collect();
        let mut set = Self { words };
        set.trim();
        set
    }

    /// The columns that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (a, b) in words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
        let mut set = Self { words };
        set.trim();
        set
    }

    /// The columns, ascending.
    pub fn iter(&self) -> impl Iterator<Item = ColumnId> + '_ {
        self.words.iter().zip(0u16..).flat_map(|(&word, at)| {
            std::iter::successors((word != 0).then_some(word), |w| {
                let rest = w & (w - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |w| {
                #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
                ColumnId(at * 64 + w.trailing_zeros() as u16)
            })
        })
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<ColumnId> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = ColumnId>>(columns: I) -> Self {
        let mut set = Self::new();
        for column in columns {
            set.insert(column);
        }
        set
    }
}

impl std::fmt::Debug for ColumnSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|c| c.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(columns: &BTreeSet<u16>) -> ColumnSet {
        columns.iter().map(|&c| ColumnId(c)).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(
            a in prop::collection::btree_set(0u16..200, 0..20),
            b in prop::collection::btree_set(0u16..200, 0..20),
            column in 0u16..200,
        ) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.union(&y), set(&(&a | &b)));
            prop_assert_eq!(x.intersection(&y), set(&(&a & &b)));
            prop_assert_eq!(x.difference(&y), set(&(&a - &b)));
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            prop_assert!(x.iter().map(|c| c.0).eq(a.iter().copied()));
            let (mut x, mut a) = (x, a);
            x.remove(ColumnId(column));
            a.remove(&column);
            prop_assert_eq!(&x, &set(&a));
            prop_assert_eq!(x.contains(ColumnId(column)), false);
        }
    }
}
