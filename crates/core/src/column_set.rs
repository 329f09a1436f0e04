//! Sets of columns: bit sets (`bits.rs`) with the interface of a set of [`ColumnId`]s.

use crate::ColumnId;
use crate::bits::Bits;

/// A set of [`ColumnId`]s.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ColumnSet {
    bits: Bits,
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

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// The number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bits.len() as usize
    }

    /// Whether the set holds the column.
    #[must_use]
    pub fn contains(&self, column: ColumnId) -> bool {
        self.bits.contains(column.0.into())
    }

    /// Adds a column.
    pub fn insert(&mut self, column: ColumnId) {
        self.bits.insert(column.0.into());
    }

    /// Removes a column.
    pub fn remove(&mut self, column: ColumnId) {
        self.bits.remove(column.0.into());
    }

    /// Whether every column is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.bits.is_subset(&other.bits)
    }

    /// Whether the sets share a column.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.bits.intersects(&other.bits)
    }

    /// Adds the columns of `other`.
    pub fn union_with(&mut self, other: &Self) {
        self.bits.union_with(&other.bits);
    }

    /// The columns in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.union_with(other);
        both
    }

    /// The columns in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            bits: self.bits.intersection(&other.bits),
        }
    }

    /// The columns that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            bits: self.bits.difference(&other.bits),
        }
    }

    /// The columns, ascending.
    pub fn iter(&self) -> impl Iterator<Item = ColumnId> + '_ {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only ColumnIds were put in"
        )]
        self.bits.iter().map(|bit| ColumnId(bit as u16))
    }
}

impl FromIterator<ColumnId> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = ColumnId>>(columns: I) -> Self {
        Self {
            bits: columns.into_iter().map(|c| usize::from(c.0)).collect(),
        }
    }
}

impl std::fmt::Debug for ColumnSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bits.fmt(f)
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
