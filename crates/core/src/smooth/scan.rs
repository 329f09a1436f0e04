//! Which pages does a smooth scan read when the index names one?
//!
//! Modes: 1, *entire page*: a page is read once and all its rows are examined; 2, *flattening*:
//! pages around it are read too, as many as the morphing region has (`morphing.rs`). We differ:
//! the region is the aligned block that contains the page, not the pages after it, so that reading
//! leaves no gaps that cost a jump each. Several regions may be outstanding at once; each counts
//! when it is examined, in any order. The outstanding pages bound the size of the next region
//! (`morphing.rs`), so the driver has to report every region as examined.
//! Not here: mode 0, in which rows are fetched one by one, and the rows that the index names
//! (`probe/`).
//! SMOOTH-I1: no page is in two regions. SMOOTH-I2: the page that the index named is in the region
//! returned for it, or in an earlier one.
//! Source: [SmoothScan18 §3.1, §3.3, §4.1].

use std::ops::Range;

use super::morphing::{Morphing, PageCosts, SmoothPolicy};
use super::page_set::PageSet;

/// How a smooth scan morphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoothOptions {
    /// The rule by which the region grows and shrinks.
    pub policy: SmoothPolicy,
    /// The size of the largest region, in pages. At least 1.
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

    /// Sets or updates the prices of pages: from now on the elastic policy grows the region where
    /// that pays off. Other policies ignore prices.
    pub fn set_costs(&mut self, costs: PageCosts) {
        self.morphing.set_costs(costs);
    }

    /// The index names a row in `page`. Returns the region to read, as ascending runs; the caller
    /// examines all its rows and calls [`SmoothScan::examined`]. `None` if the page is in an
    /// earlier region.
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

    /// `pages` pages of a region will not be examined, because statistics exclude them: they give
    /// no evidence. Call this before [`SmoothScan::examined`] for the region.
    pub fn pages_pruned(&mut self, pages: u32) {
        self.morphing.pages_pruned(pages);
    }

    /// A region was examined: `with_results` of its `pages` pages, pruned pages not counted, held
    /// results.
    pub fn examined(&mut self, pages: u32, with_results: u32) {
        self.morphing.examined(pages, with_results);
    }

    /// The number of pages of the table.
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

    /// The size of the next region if none were outstanding. It reflects the evidence so far and
    /// decides when a scan takes over.
    #[must_use]
    pub fn region_pages_unbounded(&self) -> u32 {
        self.morphing.region_pages_unbounded()
    }

    /// The size of the next region, if it were requested now.
    #[must_use]
    pub fn region_pages(&self) -> u32 {
        self.morphing.region_pages()
    }

    /// The size of the next region if one of `pages` pages with `with_results` result pages had
    /// been examined now: for an adversary that constructs the worst results.
    #[must_use]
    pub fn region_pages_after(&self, pages: u32, with_results: u32) -> u32 {
        let mut morphing = self.morphing.clone();
        morphing.examined(pages, with_results);
        morphing.region_pages()
    }

    /// The pages that were in no region, as ascending runs, which a full scan that takes over has
    /// to read.
    pub fn unseen(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.seen.absent(0..self.pages)
    }
}
