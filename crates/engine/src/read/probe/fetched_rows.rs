//! Which rows has a scan by an index given one by one?
//!
//! Whoever reads a whole page or chunk later leaves those rows out: a region after mode 0, and the
//! scan that takes over when the index fails or `switch` changes over. Positions come in the order
//! of the keys, so in none that helps.
//! Not here: pages that were read whole (`coscan_core::smooth::SeenRows`).
//! Bounds: two bytes a row, and at most 8 KiB for 65,536 rows of the table, however many of them
//! were given.
//! F1: a row is in the set iff it was part of a job that was given out.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use arrow::array::{BooleanArray, BooleanBufferBuilder};

use crate::read::pipeline::Selection;

/// Rows, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct FetchedRows {
    blocks: BTreeMap<u64, Block>,
}

/// The rows of one block of the table.
#[derive(Clone, Debug)]
enum Block {
    /// Ascending.
    Few(Vec<u16>),
    /// A bit per row.
    Many(Box<[u64; WORDS]>),
}

/// A block's rows are numbered by 16 bits.
const BLOCK_BITS: u32 = 16;
const WORDS: usize = 1 << (BLOCK_BITS - 6);
/// From so many rows on a bit per row takes less memory than a number per row.
const FEW_MAX: usize = 4096;

impl FetchedRows {
    /// The row at this position is given by itself.
    pub(crate) fn insert(&mut self, position: u64) {
        let (number, row) = split(position);
        let block = self.blocks.entry(number);
        block.or_insert_with(|| Block::Few(Vec::new())).insert(row);
    }

    /// Of `rows` rows from `first` on, those that are not in the set.
    pub(crate) fn others(&self, first: u64, rows: usize) -> Selection {
        if rows == 0 {
            return Selection::All;
        }
        let (from, to) = (split(first), split(first + rows as u64 - 1));
        let mut mask: Option<BooleanBufferBuilder> = None;
        for (number, block) in self.blocks.range(from.0..=to.0) {
            let begin = if *number == from.0 { from.1 } else { 0 };
            let end = if *number == to.0 { to.1 } else { u16::MAX };
            block.for_each(begin..=end, |row| {
                let position = (number << BLOCK_BITS) + u64::from(row);
                let mask = mask.get_or_insert_with(|| {
                    let mut mask = BooleanBufferBuilder::new(rows);
                    mask.append_n(rows, true);
                    mask
                });
                // Within the rows, which are in memory.
                mask.set_bit(usize::try_from(position - first).unwrap_or(0), false);
            });
        }
        match mask {
            Some(mut mask) => Selection::Some(BooleanArray::new(mask.finish(), None)),
            None => Selection::All,
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

/// The block of a position, and its row there.
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

    /// Positions from `first` to `end` that are others.
    fn others(set: &FetchedRows, first: u64, rows: usize) -> Vec<u64> {
        let selection = set.others(first, rows);
        let is_other = |at: usize| match &selection {
            Selection::All => true,
            Selection::None => false,
            Selection::Some(mask) => mask.value(at),
        };
        let rows = (0..rows).filter(|at| is_other(*at));
        rows.map(|at| first + at as u64).collect()
    }

    #[test]
    fn few_and_many_rows_are_told_from_the_others() {
        let mut set = FetchedRows::default();
        let mut model: BTreeSet<u64> = BTreeSet::new();
        // Steps that are prime to the span visit it in no order; the first block gets many rows,
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
        for (first, rows) in [
            (0, 65_536),
            (65_530, 12),
            (64_000, 70_000),
            (1, 1),
            (131_072, 0),
            (900_000, 10),
        ] {
            let all = first..first + rows as u64;
            let expected: Vec<u64> = all.filter(|row| !model.contains(row)).collect();
            assert_eq!(others(&set, first, rows), expected, "{first} {rows}");
        }
        assert!(matches!(set.others(900_000, 10), Selection::All));
    }
}
