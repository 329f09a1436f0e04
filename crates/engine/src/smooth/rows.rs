//! Which rows of pages are in the answer?
//!
//! Whoever looks at a page looks at all its rows, with the whole predicate, in mode 0 at the rows that the index named; rows that were
//! given already are left out.
//! Bounds: a piece of at most [`PIECE_ROWS_MAX`] rows is decoded at once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use coscan_storage::Piece;
use coscan_storage::pool::{ColumnRequest, PageBytes};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Time;
use futures::future::BoxFuture;

use crate::error::external;
use crate::scan::{Columns, Pipeline, Selection};

/// Rows that are decoded at once: enough that setting up the decoder costs nothing, few enough for the cores' caches.
pub(crate) const PIECE_ROWS_MAX: u64 = 32 << 10;

/// Pages of one chunk that were read.
pub(crate) struct ReadPages {
    pub(crate) bytes: PageBytes,
    pub(crate) pipeline: Arc<Pipeline>,
    /// Each piece with the position of its first row and its pages.
    pub(crate) pieces: Vec<(Piece, u64, Range<u32>)>,
}

/// A piece of pages as the source of a pipeline's columns.
pub(crate) struct PieceColumns<'a> {
    pub(crate) bytes: &'a PageBytes,
    pub(crate) piece: usize,
    pub(crate) waited: &'a Time,
}

impl PieceColumns<'_> {
    async fn decode(
        &self,
        requests: Vec<ColumnRequest>,
        wanted: Option<Vec<Range<usize>>>,
    ) -> Result<Vec<ArrayRef>> {
        let begun = Instant::now();
        let arrays = self.bytes.decode(self.piece, &requests, wanted).await;
        self.waited.add_duration(begun.elapsed());
        arrays.map_err(external)
    }
}

impl Columns for PieceColumns<'_> {
    fn fetch(&self, requests: Vec<ColumnRequest>) -> BoxFuture<'_, Result<Vec<ArrayRef>>> {
        Box::pin(self.decode(requests, None))
    }

    fn fetch_rows(
        &self,
        requests: Vec<ColumnRequest>,
        wanted: Vec<Range<usize>>,
    ) -> Option<BoxFuture<'_, Result<Vec<ArrayRef>>>> {
        Some(Box::pin(self.decode(requests, Some(wanted))))
    }
}

/// Of `rows` rows from `first` on, those whose positions are in this ascending list; or all others.
pub(crate) fn select(first: u64, rows: usize, positions: &[u64], listed: bool) -> Selection {
    let begin = positions.partition_point(|position| *position < first);
    let end = positions.partition_point(|position| *position < first + rows as u64);
    if begin == end {
        return if listed {
            Selection::None
        } else {
            Selection::All
        };
    }
    let mut mask = BooleanBufferBuilder::new(rows);
    mask.append_n(rows, !listed);
    for position in &positions[begin..end] {
        // Within the rows, which are in memory.
        mask.set_bit(usize::try_from(position - first).unwrap_or(0), listed);
    }
    Selection::Some(BooleanArray::new(mask.finish(), None))
}

/// How many of the pages, of so many rows each, have a selected row.
pub(crate) fn pages_selected(selection: &Selection, page_rows: impl Iterator<Item = u64>) -> u32 {
    match selection {
        Selection::None => 0,
        Selection::All => u32::try_from(page_rows.count()).unwrap_or(u32::MAX),
        Selection::Some(mask) => {
            let mut at = 0;
            let mut selected = 0;
            for rows in page_rows {
                let rows = usize::try_from(rows)
                    .unwrap_or(usize::MAX)
                    .min(mask.len() - at);
                selected += u32::from(mask.slice(at, rows).has_true());
                at += rows;
            }
            selected
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(selection: &Selection) -> Option<Vec<bool>> {
        match selection {
            Selection::Some(mask) => Some(mask.values().iter().collect()),
            Selection::All | Selection::None => None,
        }
    }

    #[test]
    fn positions_become_masks() {
        let listed = select(10, 4, &[3, 10, 12, 14], true);
        assert_eq!(bits(&listed), Some(vec![true, false, true, false]));
        let others = select(10, 4, &[3, 10, 12, 14], false);
        assert_eq!(bits(&others), Some(vec![false, true, false, true]));
        assert!(matches!(select(20, 4, &[3], true), Selection::None));
        assert!(matches!(select(20, 4, &[3], false), Selection::All));
    }

    #[test]
    fn pages_with_a_selected_row_are_counted() {
        let selection = select(0, 6, &[0, 5], true);
        assert_eq!(pages_selected(&selection, [2, 2, 2].into_iter()), 2);
        assert_eq!(pages_selected(&Selection::All, [2, 2, 2].into_iter()), 3);
        assert_eq!(pages_selected(&Selection::None, [2, 2, 2].into_iter()), 0);
    }
}
