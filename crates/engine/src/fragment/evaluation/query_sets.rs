//! Which members does each row qualify for?
//!
//! The predicates of a class are the bits of a word. A row's word tells which predicates admit the
//! row; rows with equal words have the same *query set*. Sets are numbered, and the number is one
//! more grouping column: a group is counted once for a set, however many members the set has. Set
//! 0 is the empty one, of rows that no member wants.
//! Not here: evaluation of predicates (`program.rs`).
//! Bounds: at most `PREDICATES_MAX` predicates and `SETS_MAX` sets in a class.
//! Source: the query sets of `SharedDB` (Giannikis et al., PVLDB 5(6), 2012); ours live as long as
//! one chunk job.

use std::collections::HashMap;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use rustc_hash::FxBuildHasher;

/// The bits of a word.
pub(crate) const PREDICATES_MAX: usize = 64;

/// With more sets than this a chunk does not have few groups.
const SETS_MAX: usize = 1024;

/// Words of at most this many bits are looked up in a table.
const TABLE_BITS: usize = 10;

/// The number of the empty set.
pub(crate) const EMPTY_SET: u32 = 0;

/// The query sets of one class in one chunk job.
pub(crate) struct QuerySets {
    /// The word of each set, by the set's number.
    words: Vec<u64>,
    numbers: HashMap<u64, u32, FxBuildHasher>,
    /// The words of a batch's rows; kept to reuse its memory.
    scratch: Vec<u64>,
    /// The same where they have few bits.
    short_scratch: Vec<u16>,
}

/// The rows of a batch that a predicate admits.
#[derive(Clone, Debug)]
pub(crate) enum Admitted {
    All,
    Some(BooleanBuffer),
    None,
}

/// There are too many sets for sharing to pay.
#[derive(Debug)]
pub(crate) struct TooManySets;

impl Admitted {
    /// The rows that a mask without nulls selects.
    pub(crate) fn of(mask: BooleanBuffer) -> Self {
        match mask.count_set_bits() {
            0 => Self::None,
            all if all == mask.len() => Self::All,
            _ => Self::Some(mask),
        }
    }

    /// The rows that both admit.
    pub(crate) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::None, _) | (_, Self::None) => Self::None,
            (Self::All, other) => other.clone(),
            (this, Self::All) => this.clone(),
            (Self::Some(this), Self::Some(other)) => Self::of(this & other),
        }
    }

    /// The rows that at least one of the two admits.
    pub(crate) fn or(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, other) => other.clone(),
            (this, Self::None) => this.clone(),
            (Self::Some(this), Self::Some(other)) => Self::of(this | other),
        }
    }

    /// The number of admitted rows among `rows` rows.
    pub(crate) fn count(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::Some(mask) => mask.count_set_bits(),
            Self::None => 0,
        }
    }

    /// The admitted rows as a mask; `None` if it admits all rows.
    pub(crate) fn mask(&self, rows: usize) -> Option<BooleanArray> {
        match self {
            Self::All => None,
            Self::Some(mask) => Some(BooleanArray::from(mask.clone())),
            Self::None => Some(BooleanArray::from(BooleanBuffer::new_unset(rows))),
        }
    }
}

impl QuerySets {
    pub(crate) fn new() -> Self {
        Self {
            words: vec![0],
            numbers: HashMap::from_iter([(0, EMPTY_SET)]),
            scratch: Vec::new(),
            short_scratch: Vec::new(),
        }
    }

    /// The number of sets, with the empty one.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the predicate with this number admits the rows of a set.
    pub(crate) fn admits(&self, set: u32, predicate: usize) -> bool {
        self.words[set as usize] >> predicate & 1 == 1
    }

    /// Writes the number of each row's set to `sets`. `predicates` tells, by bit, which of the
    /// `rows` rows each predicate admits.
    ///
    /// # Errors
    /// If there are more than `SETS_MAX` sets.
    pub(crate) fn assign(
        &mut self,
        predicates: &[Admitted],
        rows: usize,
        sets: &mut Vec<u32>,
    ) -> Result<(), TooManySets> {
        sets.clear();
        let mut common = 0u64;
        let mut differ = false;
        for (bit, admitted) in predicates.iter().enumerate() {
            match admitted {
                Admitted::All => common |= 1 << bit,
                Admitted::None => {}
                Admitted::Some(_) => differ = true,
            }
        }
        if !differ {
            let number = self.number(common)?;
            sets.resize(rows, number);
            return Ok(());
        }
        if predicates.len() <= TABLE_BITS {
            let mut words = std::mem::take(&mut self.short_scratch);
            write_words(&mut words, predicates, rows);
            let numbered = self.number_short(&words, predicates.len(), sets);
            self.short_scratch = words;
            return numbered;
        }
        let mut words = std::mem::take(&mut self.scratch);
        write_words(&mut words, predicates, rows);
        sets.reserve(rows);
        let mut last = (common, self.number(common)?);
        for word in &words {
            if *word != last.0 {
                last = (*word, self.number(*word)?);
            }
            sets.push(last.1);
        }
        self.scratch = words;
        Ok(())
    }

    /// Writes the set of each row, whose words have this many bits.
    fn number_short(
        &mut self,
        words: &[u16],
        bits: usize,
        sets: &mut Vec<u32>,
    ) -> Result<(), TooManySets> {
        let mut met = [false; 1 << TABLE_BITS];
        for word in words {
            met[usize::from(*word) % (1 << TABLE_BITS)] = true;
        }
        let mut numbers = [EMPTY_SET; 1 << TABLE_BITS];
        for word in (0..1 << bits).filter(|word| met[*word]) {
            numbers[word] = self.number(word as u64)?;
        }
        sets.extend(
            words
                .iter()
                .map(|word| numbers[usize::from(*word) % (1 << TABLE_BITS)]),
        );
        Ok(())
    }

    fn number(&mut self, word: u64) -> Result<u32, TooManySets> {
        if let Some(known) = self.numbers.get(&word) {
            return Ok(*known);
        }
        if self.words.len() >= SETS_MAX {
            return Err(TooManySets);
        }
        #[allow(clippy::cast_possible_truncation)] // At most SETS_MAX.
        let number = self.words.len() as u32;
        self.words.push(word);
        self.numbers.insert(word, number);
        Ok(number)
    }
}

/// Writes each row's word.
fn write_words<W: Word>(words: &mut Vec<W>, predicates: &[Admitted], rows: usize) {
    words.clear();
    words.resize(rows, W::bit(0, 0));
    for (bit, admitted) in predicates.iter().enumerate() {
        match admitted {
            Admitted::All => words.iter_mut().for_each(|word| *word |= W::bit(1, bit)),
            Admitted::Some(mask) => add_bit(words, mask, bit),
            Admitted::None => {}
        }
    }
}

/// The bits of a row, one per predicate.
trait Word: Copy + std::ops::BitOrAssign {
    /// A word with `value`, 0 or 1, at `bit`.
    fn bit(value: u64, bit: usize) -> Self;
}

impl Word for u64 {
    fn bit(value: u64, bit: usize) -> Self {
        value << bit
    }
}

impl Word for u16 {
    fn bit(value: u64, bit: usize) -> Self {
        #[allow(clippy::cast_possible_truncation)] // At most TABLE_BITS bits.
        let word = (value << bit) as Self;
        word
    }
}

/// Sets a bit of the words of the rows in `mask`.
fn add_bit<W: Word>(words: &mut [W], mask: &BooleanBuffer, bit: usize) {
    let chunks = mask.bit_chunks();
    let whole = chunks
        .iter()
        .chain(std::iter::once(chunks.remainder_bits()));
    for (words, bits) in words.chunks_mut(64).zip(whole) {
        match bits {
            0 => {}
            u64::MAX => words.iter_mut().for_each(|word| *word |= W::bit(1, bit)),
            bits => {
                for (row, word) in words.iter_mut().enumerate() {
                    *word |= W::bit(bits >> row & 1, bit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_row_is_in_the_sets_of_the_predicates_that_admit_it(
            rows in 1usize..300,
            seeds in proptest::collection::vec(any::<u64>(), 1..14),
        ) {
            let admits = |seed: u64, row: usize| match seed % 4 {
                0 => true,
                1 => false,
                _ => (seed.rotate_left(u32::try_from(row % 64).unwrap()) ^ row as u64) & 5 == 1,
            };
            let predicates: Vec<Admitted> = seeds
                .iter()
                .map(|seed| {
                    let mask = BooleanBuffer::collect_bool(rows, |row| admits(*seed, row));
                    Admitted::of(mask)
                })
                .collect();
            let (mut known, mut sets) = (QuerySets::new(), Vec::new());
            known.assign(&predicates, rows, &mut sets).unwrap();
            prop_assert_eq!(sets.len(), rows);
            for (row, set) in sets.iter().enumerate() {
                for (bit, seed) in seeds.iter().enumerate() {
                    prop_assert_eq!(known.admits(*set, bit), admits(*seed, row));
                }
                let no_member = seeds.iter().all(|seed| !admits(*seed, row));
                prop_assert_eq!(*set == EMPTY_SET, no_member);
            }
        }
    }

    #[test]
    fn sets_are_bounded() {
        let rows = 1 << 11;
        let predicates: Vec<Admitted> = (0..11)
            .map(|bit| Admitted::of(BooleanBuffer::collect_bool(rows, |row| row >> bit & 1 == 1)))
            .collect();
        let refused = QuerySets::new().assign(&predicates, rows, &mut Vec::new());
        assert!(refused.is_err());
    }
}
