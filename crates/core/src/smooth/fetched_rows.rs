//! Which rows has an index scan fetched one by one?
//!
//! A later read of a whole page or chunk skips these rows: a region after mode 0, and the scan
//! that takes over when the index fails or `switch` changes over. Positions arrive in the order of
//! the keys, which is not the order of the table.
//! Not here: pages that were read whole (`seen_rows.rs`).
//! Bounds: two bytes per row, and at most 8 KiB per 65,536 rows of the table.
//! SMOOTH-I9: a row is in the set iff an issued job fetches it.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

/// Rows, by position.
#[derive(Clone, Debug, Default)]
pub struct FetchedRows {
    blocks: BTreeMap<u64, Block>,
}

/// The fetched rows of one block of the table.
#[derive(Clone, Debug)]
enum Block {
    /// Ascending row numbers.
    Few(Vec<u16>),
    /// One bit per row.
    Many(Box<[u64; WORDS]>),
}

/// The rows of a block are numbered by 16 bits.
const BLOCK_BITS: u32 = 16;
const WORDS: usize = 1 << (BLOCK_BITS - 6);
/// With this many rows one bit per row takes less memory than one number per row.
const FEW_MAX: usize = 4096;

impl FetchedRows {
    /// Adds the row at this position.
    pub fn insert(&mut self, position: u64) {
        let (number, row) = split(position);
        let block = self.blocks.entry(number);
        block.or_insert_with(|| Block::Few(Vec::new())).insert(row);
    }

    /// Whether the row at this position is in the set.
    #[must_use]
    pub fn contains(&self, position: u64) -> bool {
        let mut found = false;
        self.for_each_in(position..position.saturating_add(1), |_| found = true);
        found
    }

    /// Calls `see` for each row of the set whose position is in the range, ascending.
    pub fn for_each_in(&self, positions: Range<u64>, mut see: impl FnMut(u64)) {
        if positions.is_empty() {
            return;
        }
        let (from, to) = (split(positions.start), split(positions.end - 1));
        for (number, block) in self.blocks.range(from.0..=to.0) {
            let begin = if *number == from.0 { from.1 } else { 0 };
            let end = if *number == to.0 { to.1 } else { u16::MAX };
            let first = number << BLOCK_BITS;
            block.for_each(begin..=end, |row| see(first + u64::from(row)));
        }
    }
}

impl Block {
    fn insert(&mut self, row: u16) {
        match self {
            Self::Few(rows) => {
                let Err(place) = rows.binary_search(&row) else {
                    return;
                };
                rows.insert(place, row);
                if rows.len() > FEW_MAX {
                    let mut bits = Box::new([0; WORDS]);
                    for row in rows {
                        set(&mut bits, *row);
                    }
                    *self = Self::Many(bits);
                }
            }
            Self::Many(bits) => set(bits, row),
        }
    }

    fn for_each(&self, range: RangeInclusive<u16>, mut see: impl FnMut(u16)) {
        match self {
            Self::Few(rows) => {
                let first = rows.partition_point(|row| row < range.start());
                let rows = rows[first..].iter();
                rows.take_while(|row| *row <= range.end())
                    .for_each(|row| see(*row));
            }
            Self::Many(bits) => {
                for row in range {
                    let (word, bit) = place_of(row);
                    if bits[word] & bit != 0 {
                        see(row);
                    }
                }
            }
        }
    }
}

/// The block of a position, and its row in the block.
fn split(position: u64) -> (u64, u16) {
    let row = position & ((1 << BLOCK_BITS) - 1);
    (position >> BLOCK_BITS, u16::try_from(row).unwrap_or(0))
}

fn place_of(row: u16) -> (usize, u64) {
    (usize::from(row) / 64, 1 << (row % 64))
}

fn set(bits: &mut [u64; WORDS], row: u16) {
    let (word, bit) = place_of(row);
    bits[word] |= bit;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn few_and_many_rows_are_distinguished_from_the_others() {
        let mut set = FetchedRows::default();
        let mut model: BTreeSet<u64> = BTreeSet::new();
        // Steps that are prime to the span visit it out of order; the first block gets many rows,
        // the others few.
        let dense = (0..20_000).map(|n| n * 7_919 % 65_521);
        let sparse = (0..3_000).map(|n| 65_000 + n * 104_729 % 200_000);
        for position in dense.chain(sparse) {
            set.insert(position);
            set.insert(position);
            model.insert(position);
        }
        assert!(matches!(set.blocks[&0], Block::Many(_)));
        assert!(matches!(set.blocks[&2], Block::Few(_)));
        for range in [
            0..65_536,
            65_530..65_542,
            64_000..134_000,
            1..2,
            131_072..131_072,
            900_000..900_010,
        ] {
            let expected: Vec<u64> = model.range(range.clone()).copied().collect();
            let mut found = Vec::new();
            set.for_each_in(range.clone(), |row| found.push(row));
            assert_eq!(found, expected, "{range:?}");
        }
        assert!((0..300_000).all(|row| set.contains(row) == model.contains(&row)));
    }
}
