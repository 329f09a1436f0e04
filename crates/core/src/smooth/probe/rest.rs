//! How is the rest of a table read, once regions are so large that a scan may take over?
//!
//! A cooperative scan reads whole chunks. Where the index names few pages of a chunk, these pages
//! are read alone instead, in the table's order. So a table that is dense at one end and sparse
//! elsewhere is not scanned to its end, however large the regions became. The measured prices of
//! pages decide (`DeviceCosts`).
//! Not here: reading the index (`mod.rs`), the scan (the driver).

use crate::smooth::{PageCosts, PageLayout, PageRun, SeenRows};

/// Pages that entries of the index name, collected while the entries are read.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pages: Vec<bool>,
    /// The rows of these pages, so that for most entries the page need not be looked up.
    rows: SeenRows,
}

impl Named {
    /// No page.
    pub(super) fn new(layout: &impl PageLayout) -> Self {
        Self {
            pages: vec![false; layout.page_count() as usize],
            rows: SeenRows::of(layout),
        }
    }

    /// Adds the pages of the rows at these positions.
    pub(super) fn add(&mut self, layout: &impl PageLayout, positions: &[u64]) {
        for position in positions {
            if self.rows.contains(*position) {
                continue;
            }
            if let Some(page) = layout.page_of(*position)
                && !std::mem::replace(&mut self.pages[page as usize], true)
            {
                self.rows.take(&layout.positions_of(page));
            }
        }
    }

    /// Per page, whether an entry names it.
    pub(super) fn into_pages(self) -> Vec<bool> {
        self.pages
    }
}

/// What remains to be read, and how.
pub(super) struct Rest {
    /// Pages that are read alone, ascending, in runs.
    pub(super) runs: Vec<PageRun>,
    /// Per page, whether a scan that takes over skips it.
    pub(super) done: Vec<bool>,
}

/// An estimate of what knowing all named pages would save, compared with scanning every chunk that
/// is not fully read, in the unit of the costs. `sampled` are positions that the index names; each
/// stands for `scale` positions.
pub(super) fn saving(
    layout: &impl PageLayout,
    is_read: impl Fn(u32) -> bool,
    sampled: &[u64],
    scale: f64,
    costs: PageCosts,
) -> f64 {
    let mut named = vec![false; layout.page_count() as usize];
    let pages = sampled.iter();
    for page in pages.filter_map(|position| layout.page_of(*position)) {
        named[page as usize] = true;
    }
    let saved = layout.runs(0..layout.page_count()).map(|chunk| {
        let unread = chunk.pages.clone().filter(|page| !is_read(*page)).count() as f64;
        let of_sample = chunk.pages.clone().filter(|page| named[*page as usize]);
        let pages = (of_sample.count() as f64 * scale).min(unread);
        match unread {
            0.0 => 0.0,
            _ => scan_price(&chunk, costs) - costs.of(pages, pages),
        }
    });
    saved.map(|saved| saved.max(0.0)).sum()
}

impl Rest {
    /// `done`: pages that have been read, or of which the index names no row.
    pub(super) fn new(layout: &impl PageLayout, mut done: Vec<bool>, costs: PageCosts) -> Self {
        let mut all: Vec<PageRun> = Vec::new();
        for chunk in layout.runs(0..layout.page_count()) {
            let mut runs = runs_of(&chunk, |page| !done[page as usize]);
            let pages: u32 = runs.iter().map(PageRun::len).sum();
            if costs.of(pages.into(), runs.len() as f64) < scan_price(&chunk, costs) {
                for page in runs.iter().flat_map(|run| run.pages.clone()) {
                    done[page as usize] = true;
                }
                all.append(&mut runs);
            }
        }
        Self { runs: all, done }
    }
}

/// The pages of a table for which `named` is true, ascending, in runs within one chunk each.
pub(super) fn named_runs(layout: &impl PageLayout, named: impl Fn(u32) -> bool) -> Vec<PageRun> {
    let chunks = layout.runs(0..layout.page_count());
    chunks.flat_map(|chunk| runs_of(&chunk, &named)).collect()
}

fn runs_of(chunk: &PageRun, named: impl Fn(u32) -> bool) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for page in chunk.pages.clone().filter(|page| named(*page)) {
        match runs.last_mut() {
            Some(run) if run.pages.end == page => run.pages.end += 1,
            _ => runs.push(PageRun {
                chunk: chunk.chunk,
                pages: page..page + 1,
            }),
        }
    }
    runs
}

/// The price of reading a chunk from its first page to its last.
fn scan_price(chunk: &PageRun, costs: PageCosts) -> f64 {
    costs.of(chunk.len().into(), 1.0)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Pages of 10 rows, chunks of 100 pages.
    struct Table;

    impl PageLayout for Table {
        fn page_count(&self) -> u32 {
            300
        }

        fn page_of(&self, position: u64) -> Option<u32> {
            let page = u32::try_from(position / 10).ok()?;
            (page < self.page_count()).then_some(page)
        }

        fn positions_of(&self, page: u32) -> Range<u64> {
            u64::from(page) * 10..u64::from(page + 1) * 10
        }

        fn chunk_of(&self, page: u32) -> usize {
            page as usize / 100
        }
    }

    const DISK: PageCosts = PageCosts {
        random: 10,
        sequential: 1,
    };

    #[test]
    fn chunks_with_few_named_pages_are_read_page_by_page() {
        // All of chunk 0, ten separate pages of chunk 1 (100 against 109), eleven of chunk 2.
        let named = |page: u32| match page {
            0..100 => true,
            100..200 => page.is_multiple_of(10),
            _ => page.is_multiple_of(10) || page == 295,
        };
        let done = (0..300).map(|page| !named(page)).collect();
        let Rest { runs, done } = Rest::new(&Table, done, DISK);
        let firsts: Vec<u32> = runs.iter().map(|run| run.pages.start).collect();
        assert_eq!(firsts, (100..200).step_by(10).collect::<Vec<_>>());
        let left: Vec<u32> = (0..300).filter(|page| !done[*page as usize]).collect();
        let scanned = (0..300).filter(|page| named(*page) && !(100..200).contains(page));
        assert_eq!(left, scanned.collect::<Vec<_>>());
    }

    #[test]
    fn positions_name_their_pages_once() {
        let mut all = Named::new(&Table);
        all.add(&Table, &[5, 5, 7, 2_999, 3_000, 1_230]);
        let named = all.into_pages();
        let of = named_runs(&Table, |page| named[page as usize]);
        let pages: Vec<_> = of
            .iter()
            .map(|run| (run.chunk, run.pages.clone()))
            .collect();
        assert_eq!(pages, [(0, 0..1), (1, 123..124), (2, 299..300)]);
    }

    #[test]
    fn a_sample_estimates_the_cost_of_unnamed_pages() {
        let of = |sampled: &[u64], scale| saving(&Table, |page| page < 100, sampled, scale, DISK);
        // Chunk 0 is read; of chunk 1 one page is named, of chunk 2 none.
        assert!((of(&[1_000, 1_001], 1.0) - (99.0 + 109.0)).abs() < 1e-9);
        // Five pages stand for 50 times as many, so scanning that chunk does not cost more.
        assert!((of(&[1_000], 5.0) - (59.0 + 109.0)).abs() < 1e-9);
        assert!((of(&[1_000], 50.0) - 109.0).abs() < 1e-9);
    }
}
