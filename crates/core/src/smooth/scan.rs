//! The smooth scan's state machine: which pages to read when the index names one.
//!
//! Modes: 0, *index*: one row at a time, until the trigger; 1, *entire page*: a page is read once
//! and all its rows are looked at; 2, *flattening*: the pages around it too, as many as the
//! morphing region says (`morphing.rs`). We differ: the region is the aligned block that the page
//! lies in, not the pages after it, so that what was read leaves no gaps behind that cost a jump
//! each. Several regions may be on their way at once: each counts when it was examined, in whatever
//! order. What is on its way bounds the next one (`morphing.rs`), so every region is examined in
//! the end.
//! I11: no page is in two regions. I12: the page that the index named is in the region it was
//! answered with, or in an earlier one.
//! Source: [SmoothScan18 §3.1, §3.3, §4.1].

use std::ops::Range;

use super::morphing::{Morphing, PageCosts, SmoothPolicy};
use super::page_set::PageSet;

/// How a smooth scan morphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothOptions {
    /// When the region grows and shrinks.
    pub policy: SmoothPolicy,
    /// Rows that are fetched one by one before it begins to morph (mode 0): 0 is the paper's eager
    /// trigger, the optimizer's estimate its optimizer-driven one,
    /// [`super::CostModel::rows_within`] its SLA-driven one.
    pub index_rows: u64,
    /// Pages of the largest region. At least 1.
    pub region_pages_max: u32,
}

/// What the scan does with the next row that the index names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Mode 0: fetch that row.
    Index,
    /// Mode 1: look at all rows of its page.
    EntirePage,
    /// Mode 2: and of the pages around it.
    Flattening,
}

/// What to do about a row that the index names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Fetch the row, and nothing else of its page. The rows fetched so are those the index names
    /// first, so (key, position) of the last of them is all that has to be remembered to give none
    /// twice.
    Row,
    /// Read these pages, as runs, ascending, and look at all their rows; then tell
    /// [`SmoothScan::examined`].
    Region(Vec<Range<u32>>),
    /// Its page is read already, or on its way.
    Seen,
}

/// A smooth scan over a table of pages numbered from 0.
///
/// ```
/// use coscan_core::smooth::*;
/// let options = SmoothOptions { policy: SmoothPolicy::Elastic, index_rows: 0, region_pages_max: 64 };
/// let mut scan = SmoothScan::new(1_000, options);
/// assert_eq!(scan.probe(40), Probe::Region(vec![40..41]));
/// scan.examined(1, 1);
/// assert_eq!(scan.probe(40), Probe::Seen);
/// // The page held results, so regions have two pages now, of which 40 is read already.
/// assert_eq!(scan.probe(39), Probe::Region(vec![38..40]));
/// assert_eq!(scan.probe(41), Probe::Region(vec![41..42]));
/// ```
#[derive(Clone, Debug)]
pub struct SmoothScan {
    pages: u32,
    seen: PageSet,
    morphing: Morphing,
    index_rows_left: u64,
}

impl SmoothScan {
    /// A scan that has read nothing of a table of `pages` pages.
    #[must_use]
    pub fn new(pages: u32, options: SmoothOptions) -> Self {
        Self {
            pages,
            seen: PageSet::new(pages),
            morphing: Morphing::new(options.policy, options.region_pages_max),
            index_rows_left: options.index_rows,
        }
    }

    /// What pages cost, once or again: from now on the elastic policy grows the region where that
    /// pays. Others do not mind.
    pub fn set_costs(&mut self, costs: PageCosts) {
        self.morphing.set_costs(costs);
    }

    /// The index names a row in `page`.
    ///
    /// # Panics
    /// The table has no such page.
    pub fn probe(&mut self, page: u32) -> Probe {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        if self.index_rows_left > 0 {
            self.index_rows_left -= 1;
            return Probe::Row;
        }
        if self.seen.contains(page) {
            return Probe::Seen;
        }
        let size = self.morphing.region_pages();
        let start = page - page % size;
        let runs = self.seen.take(start..start.saturating_add(size));
        self.morphing
            .given(runs.iter().map(|run| run.end - run.start).sum());
        Probe::Region(runs)
    }

    /// So many pages of a region will not be looked at, because something else rules them out: they
    /// say nothing. Before the region is
    /// [`SmoothScan::examined`].
    pub fn pruned(&mut self, pages: u32) {
        self.morphing.pruned(pages);
    }

    /// A region was read: of its `pages` pages, without those that were pruned, so many held
    /// results.
    pub fn examined(&mut self, pages: u32, with_results: u32) {
        self.morphing.examined(pages, with_results);
    }

    /// Pages of the table.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether the page was in a region.
    ///
    /// # Panics
    /// The table has no such page.
    #[must_use]
    pub fn has_seen(&self, page: u32) -> bool {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        self.seen.contains(page)
    }

    /// The pages of a range that were in no region, as runs; from now on they are. For pages that
    /// are read without being asked for by the index, one after the other.
    pub fn take(&mut self, pages: Range<u32>) -> Vec<Range<u32>> {
        self.seen.take(pages)
    }

    /// How the next row is looked for.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match (self.index_rows_left, self.region_pages()) {
            (0, 1) => Mode::EntirePage,
            (0, _) => Mode::Flattening,
            _ => Mode::Index,
        }
    }

    /// Pages of the next region if nothing were on its way: what the evidence supports so far, and
    /// when a scan may take over.
    #[must_use]
    pub fn region_pages_unbounded(&self) -> u32 {
        self.morphing.region_pages_unbounded()
    }

    /// Pages of the next region, if it were asked for now.
    #[must_use]
    pub fn region_pages(&self) -> u32 {
        self.morphing.region_pages()
    }

    /// Pages examined, and those of them that held results; the second over the first is the
    /// paper's morphing accuracy.
    #[must_use]
    pub fn examined_pages(&self) -> (u64, u64) {
        let (results, seen) = self.morphing.seen();
        (seen, results)
    }

    /// The pages that were in no region, as runs, ascending: what a full scan has to read that
    /// takes over.
    pub fn unseen(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.seen.absent(0..self.pages)
    }
}
