//! How are the bits of selected rows put at the positions of those rows?
//!
//! Bounds: one word of 64 rows at a time; a word that gets no set bit costs a few instructions.

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;

const WORD: usize = u64::BITS as usize;

/// The rows of `before` for which `after`, which has one value per selected row of `before`, is
/// true. Neither has nulls.
pub(super) fn scatter(before: &BooleanArray, after: &BooleanArray) -> BooleanArray {
    let chunks = after.values().bit_chunks();
    // One more word, so that a window of 64 bits always has a next word.
    let after: Vec<u64> = chunks.iter_padded().chain([0]).collect();
    let mut rank = 0;
    let before = before.values();
    let words = before.bit_chunks().iter_padded().map(|selected| {
        let (at, shift) = (rank / WORD, rank % WORD);
        rank += selected.count_ones() as usize;
        let low = after.get(at).copied().unwrap_or(0) >> shift;
        let high = after.get(at + 1).copied().unwrap_or(0);
        let next = if shift == 0 {
            0
        } else {
            high << (WORD - shift)
        };
        deposit(low | next, selected)
    });
    let words: Vec<u64> = words.collect();
    BooleanArray::from(BooleanBuffer::new(words.into(), 0, before.len()))
}

/// The lowest bits of `bits`, put at the set bits of `mask` (the instruction PDEP).
fn deposit(mut bits: u64, mask: u64) -> u64 {
    if mask == u64::MAX {
        return bits;
    }
    if mask.count_ones() < u64::BITS {
        bits &= (1 << mask.count_ones()) - 1;
    }
    let (mut left, mut out) = (mask, 0);
    while bits != 0 {
        let lowest = left & left.wrapping_neg();
        if bits & 1 == 1 {
            out |= lowest;
        }
        left ^= lowest;
        bits >>= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn scattering_undoes_filtering(
            rows in prop::collection::vec(any::<(bool, bool)>(), 0..400),
            all: bool,
        ) {
            let rows: Vec<_> = rows.into_iter().map(|(before, after)| (before || all, after)).collect();
            let before: BooleanArray = rows.iter().map(|(before, _)| Some(*before)).collect();
            let wanted = rows.iter().map(|(before, after)| Some(*before && *after));
            let wanted: BooleanArray = wanted.collect();
            let after = arrow::compute::filter(&wanted, &before).unwrap();
            let after = after.as_any().downcast_ref::<BooleanArray>().unwrap();
            prop_assert_eq!(scatter(&before, after), wanted.clone());
            // Slices whose first bit is not the first bit of a word.
            let at = rows.len() / 3;
            let rest = rows.len() - at;
            let (before, wanted) = (before.slice(at, rest), wanted.slice(at, rest));
            let after = arrow::compute::filter(&wanted, &before).unwrap();
            let after = after.as_any().downcast_ref::<BooleanArray>().unwrap();
            prop_assert_eq!(scatter(&before, after), wanted);
        }
    }
}
