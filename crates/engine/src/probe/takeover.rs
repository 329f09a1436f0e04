//! What is left when a cooperative scan takes over?
//!
//! A smooth scan whose regions are nearly as large as chunks reads like a full scan, so it becomes
//! one. It registers its unfinished chunks with the buffer manager, shares their loads with other
//! scans that want them, and takes them as they come. Pages that it has read, and rows that it has
//! returned, are left out. If an index cannot be used, a scan takes over from the start.

use std::sync::Arc;

use arrow::array::{BooleanArray, BooleanBufferBuilder};
use coscan_core::smooth::HandOver;
use coscan_storage::PageMap;

use super::fetched_rows::others;
use crate::read::pipeline::Selection;
use crate::read::scan::{Run, Running};

/// The scan that takes over.
pub(crate) struct TakeOver {
    /// The chunks, shared by all streams of the execution.
    pub(crate) run: Arc<Run>,
    /// Pages of those chunks.
    pub(crate) pages: usize,
    left: HandOver,
}

impl TakeOver {
    /// A scan of the remaining rows, for `consumers` streams.
    pub(crate) fn new(running: &Running, map: &PageMap, left: HandOver, consumers: usize) -> Self {
        let mut wanted = vec![false; running.table.chunks().len()];
        for page in 0..map.len() {
            wanted[map.page(page).chunk] |= !left.done[page as usize];
        }
        let chunks: Vec<usize> = (0..wanted.len()).filter(|chunk| wanted[*chunk]).collect();
        let run = Arc::new(Run::new(&chunks, &running.pipelines, consumers, false));
        let pages = (0..map.len()).filter(|page| wanted[map.page(*page).chunk]);
        let pages = pages.count();
        Self { run, pages, left }
    }

    /// Selects the remaining rows, out of `rows` rows from position `first` on.
    pub(crate) fn selection(&self, map: &PageMap, first: u64, rows: usize) -> Selection {
        let end = first + rows as u64;
        let mut mask = BooleanBufferBuilder::new(rows);
        let (mut at, mut any, mut all) = (first, false, true);
        while at < end {
            let page = map.page_of(at);
            let (page_end, done) = match page {
                Some(number) => {
                    let page = map.page(number);
                    (page.position + page.rows(), self.left.done[number as usize])
                }
                // This cannot happen: pages partition the rows. A row without a page is not a row
                // of this scan.
                None => (end, false),
            };
            let until = page_end.min(end);
            // The number is at most `rows`, so it fits.
            mask.append_n(usize::try_from(until - at).unwrap_or(rows), !done);
            any |= !done;
            all &= !done;
            at = until;
        }
        if !any {
            return Selection::None;
        }
        match others(&self.left.fetched, first, rows) {
            Selection::Some(others) => {
                let pages = mask.finish();
                Selection::Some(BooleanArray::new(&pages & others.values(), None))
            }
            Selection::All | Selection::None if all => Selection::All,
            Selection::All | Selection::None => {
                Selection::Some(BooleanArray::new(mask.finish(), None))
            }
        }
    }
}
