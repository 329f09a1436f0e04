//! Which rows of pages are in the result?
//!
//! All rows of a page are tested with the whole predicate; in mode 0 only the rows that the index
//! lists are tested. Rows that were already returned are left out.
//! Bounds: a piece of at most [`PIECE_ROWS_MAX`] rows is decoded at once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use coscan_storage::PagePiece;
use coscan_storage::pool::{ColumnRequest, PageBytes};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Time;
use futures::future::BoxFuture;

use crate::error::external;
use crate::read::pipeline::{Columns, Pipeline, Selection};

/// The rows that are decoded at once: enough that the decoder's setup does not matter, few enough
/// for the cores' caches.
pub(crate) const PIECE_ROWS_MAX: u64 = 32 << 10;

/// Pages of one chunk that were read.
pub(crate) struct ReadPages {
    pub(crate) bytes: PageBytes,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) pieces: Vec<PagePiece>,
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

/// Selects the rows whose positions are in this ascending list, out of `rows` rows from position
/// `first` on.
pub(crate) fn select(first: u64, rows: usize, positions: &[u64]) -> Selection {
    let begin = positions.partition_point(|position| *position < first);
    let end = positions.partition_point(|position| *position < first + rows as u64);
    if begin == end {
        return Selection::None;
    }
    let mut mask = BooleanBufferBuilder::new(rows);
    mask.append_n(rows, false);
    for position in &positions[begin..end] {
        // The offset is less than `rows`, so it fits.
        mask.set_bit(usize::try_from(position - first).unwrap_or(0), true);
    }
    Selection::Some(BooleanArray::new(mask.finish(), None))
}

/// For each page, whether it has a selected row; `page_rows` are the pages' numbers of rows.
pub(crate) fn pages_selected<'a>(
    selection: &'a Selection,
    page_rows: impl Iterator<Item = u64> + 'a,
) -> impl Iterator<Item = bool> + 'a {
    let mut at = 0;
    page_rows.map(move |rows| match selection {
        Selection::None => false,
        Selection::All => true,
        Selection::Some(mask) => {
            let rows = usize::try_from(rows)
                .unwrap_or(usize::MAX)
                .min(mask.len() - at);
            at += rows;
            mask.slice(at - rows, rows).has_true()
        }
    })
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
        let listed = select(10, 4, &[3, 10, 12, 14]);
        assert_eq!(bits(&listed), Some(vec![true, false, true, false]));
        assert!(matches!(select(20, 4, &[3]), Selection::None));
    }

    #[test]
    fn pages_with_a_selected_row_are_counted() {
        let of = |selection: &Selection| -> Vec<bool> {
            pages_selected(selection, [2, 2, 2].into_iter()).collect()
        };
        assert_eq!(of(&select(0, 6, &[0, 5])), [true, false, true]);
        assert_eq!(of(&Selection::All), [true; 3]);
        assert_eq!(of(&Selection::None), [false; 3]);
    }
}
