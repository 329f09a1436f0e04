//! How are the rows of a table divided into pages, and the pages into chunks?
//!
//! The driver implements this (the engine with Parquet's page indexes, the simulator by
//! arithmetic) for the probe. Rows are identified by position; pages are numbered from 0 in the
//! order of their rows.
//! Not here: which pages are read (`probe/`).

use std::ops::Range;

/// Neighbouring pages of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The chunk, by its position in the table.
    pub chunk: usize,
    /// The pages, by number.
    pub pages: Range<u32>,
}

impl PageRun {
    /// The number of pages.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.pages.end - self.pages.start
    }

    /// Whether the run has no page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Removes and returns the first `at_most` pages, or all if there are fewer. The run may
    /// then be empty.
    #[must_use]
    pub fn take_first(&mut self, at_most: u32) -> Self {
        let begin = self.pages.start;
        let end = self.pages.end.min(begin.saturating_add(at_most));
        self.pages.start = end;
        Self {
            chunk: self.chunk,
            pages: begin..end,
        }
    }
}

/// The pages of a table. Page numbers ascend with the rows; no page is empty, and none spans two
/// chunks.
pub trait PageLayout {
    /// The number of pages.
    fn page_count(&self) -> u32;

    /// The page that holds the row at this position; `None` if no page does.
    fn page_of(&self, position: u64) -> Option<u32>;

    /// The positions of a page's rows.
    fn positions_of(&self, page: u32) -> Range<u64>;

    /// The chunk that a page lies in.
    fn chunk_of(&self, page: u32) -> usize;

    /// Runs `check`, which looks up the pages of many entries. A driver overrides this to measure
    /// the time that `check` takes.
    fn check_entries<R>(&self, check: impl FnOnce() -> R) -> R {
        check()
    }

    /// The pages of a range, as runs within one chunk each.
    fn runs(&self, pages: Range<u32>) -> impl Iterator<Item = PageRun> + '_ {
        let mut at = pages.start;
        std::iter::from_fn(move || {
            if at >= pages.end {
                return None;
            }
            let chunk = self.chunk_of(at);
            let end = (at..pages.end).find(|page| self.chunk_of(*page) != chunk);
            let run = at..end.unwrap_or(pages.end);
            at = run.end;
            Some(PageRun { chunk, pages: run })
        })
    }
}
