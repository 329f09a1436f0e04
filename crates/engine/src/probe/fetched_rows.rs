//! Which rows of a piece were not fetched one by one?
//!
//! Not here: the set of fetched rows (`coscan_core::smooth::FetchedRows`).

use arrow::array::{BooleanArray, BooleanBufferBuilder};
use coscan_core::smooth::FetchedRows;

use crate::read::pipeline::Selection;

/// Selects the rows that are not in the set, out of `rows` rows from position `first` on.
pub(crate) fn others(fetched: &FetchedRows, first: u64, rows: usize) -> Selection {
    let mut mask: Option<BooleanBufferBuilder> = None;
    fetched.for_each_in(first..first + rows as u64, |position| {
        let mask = mask.get_or_insert_with(|| {
            let mut mask = BooleanBufferBuilder::new(rows);
            mask.append_n(rows, true);
            mask
        });
        // The offset is less than `rows`, so it fits.
        mask.set_bit(usize::try_from(position - first).unwrap_or(0), false);
    });
    match mask {
        Some(mut mask) => Selection::Some(BooleanArray::new(mask.finish(), None)),
        None => Selection::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_rows_are_left_out() {
        let mut fetched = FetchedRows::default();
        for position in [3, 10, 12, 70_000] {
            fetched.insert(position);
        }
        let Selection::Some(mask) = others(&fetched, 9, 5) else {
            panic!("some of them were given");
        };
        let kept: Vec<bool> = mask.values().iter().collect();
        assert_eq!(kept, [true, false, true, false, true]);
        assert!(matches!(others(&fetched, 13, 5), Selection::All));
        assert!(matches!(others(&fetched, 3, 0), Selection::All));
    }
}
