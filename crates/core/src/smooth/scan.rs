//! Which pages does a smooth scan read when the index names one?
//!
//! Modes: 1, *entire page*: a page is read once and all its rows are looked at; 2, *flattening*:
//! the pages around it too, as many as the morphing region says (`morphing.rs`). We differ: the
//! region is the aligned block that the page lies in, not the pages after it, so that what was read
//! leaves no gaps behind that cost a jump each. Several regions may be on their way at once: each
//! counts when it was examined, in whatever order. What is on its way bounds the next one
//! (`morphing.rs`), so every region is examined in the end.
//! Not here: mode 0, in which rows are fetched one by one, and which rows the index names
//! (`probe/`).
//! SMOOTH-I1: no page is in two regions. SMOOTH-I2: the page that the index named is in the region
//! it was answered with, or in an earlier one.
//! Source: [SmoothScan18 §3.1, §3.3, §4.1].

use std::ops::Range;

use super::morphing::{Morphing, PageCosts, SmoothPolicy};
use super::page_set::PageSet;

/// How a smooth scan morphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothOptions {
    /// When the region grows and shrinks.
    pub policy: SmoothPolicy,
    /// Pages of the largest region. At least 1.
    pub region_pages_max: u32,
}

/// A smooth scan over a table of pages numbered from 0.
///
/// ```
/// use coscan_core::smooth::*;
/// let options = SmoothOptions { policy: SmoothPolicy::Elastic, region_pages_max: 64 };
/// let mut scan = SmoothScan::new(1_000, options);
/// assert_eq!(scan.probe(40), Some(vec![40..41]));
/// scan.examined(1, 1);
/// assert_eq!(scan.probe(40), None);
/// // The page held results, so regions have two pages now, of which 40 is read already.
/// assert_eq!(scan.probe(39), Some(vec![38..40]));
/// assert_eq!(scan.probe(41), Some(vec![41..42]));
/// ```
#[derive(Clone, Debug)]
pub struct SmoothScan {
    pages: u32,
    seen: PageSet,
    morphing: Morphing,
}

impl SmoothScan {
    /// A scan that has read nothing of a table of `pages` pages.
    #[must_use]
    pub fn new(pages: u32, options: SmoothOptions) -> Self {
        Self {
            pages,
            seen: PageSet::new(pages),
            morphing: Morphing::new(options.policy, options.region_pages_max),
        }
    }

    /// What pages cost, once or again: from now on the elastic policy grows the region where that
    /// pays. Others do not mind.
    pub fn set_costs(&mut self, costs: PageCosts) {
        self.morphing.set_costs(costs);
    }

    /// The index names a row in `page`: read the region that is given, as runs, ascending, look at
    /// all its rows and tell [`SmoothScan::examined`]; nothing if the page is read already, or on
    /// its way.
    ///
    /// # Panics
    /// The table has no such page.
    pub fn probe(&mut self, page: u32) -> Option<Vec<Range<u32>>> {
        if self.has_seen(page) {
            return None;
        }
        let size = self.morphing.region_pages();
        let start = page - page % size;
        let runs = self.seen.take(start..start.saturating_add(size));
        self.morphing
            .given(runs.iter().map(|run| run.end - run.start).sum());
        Some(runs)
    }

    /// So many pages of a region will not be looked at, because something else rules them out: they
    /// say nothing. Before the region is
    /// [`SmoothScan::examined`].
    pub fn pages_pruned(&mut self, pages: u32) {
        self.morphing.pages_pruned(pages);
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

    /// Pages of the next region if one of `pages` pages, so many of them with results, had been
    /// examined now: for an adversary that makes up the worst results.
    #[must_use]
    pub fn region_pages_after(&self, pages: u32, with_results: u32) -> u32 {
        let mut morphing = self.morphing.clone();
        morphing.examined(pages, with_results);
        morphing.region_pages()
    }

    /// The pages that were in no region, as runs, ascending: what a full scan has to read that
    /// takes over.
    pub fn unseen(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.seen.absent(0..self.pages)
    }
}
