//! How is the rest of a table read, once regions are so large that a scan might as well?
//!
//! A cooperative scan reads whole chunks. Where the index names few pages of a chunk those are read
//! by themselves instead, in the table's order; so a table dense at one end and sparse elsewhere is
//! not scanned to its end, however large regions had become. What decides is what pages cost here
//! (`DeviceCosts`).
//! Not here: which pages the index names (`probing.rs`), the scan (`takeover.rs`).

use coscan_core::smooth::{PageCosts, SeenRows};
use coscan_storage::{PageMap, PageRun, TablePage};

/// Pages that entries of the index name, as they are gone through.
pub(super) struct Named {
    pages: Vec<bool>,
    /// Their rows: of most entries the page need not be found.
    rows: SeenRows,
}

impl Named {
    /// None yet.
    pub(super) fn new(map: &PageMap) -> Self {
        Self {
            pages: vec![false; map.len() as usize],
            rows: SeenRows::new(map.pages().iter().map(TablePage::positions)),
        }
    }

    /// Entries name rows at these positions.
    pub(super) fn add(&mut self, map: &PageMap, positions: &[u64]) {
        for position in positions {
            if self.rows.contains(*position) {
                continue;
            }
            if let Some(page) = map.page_of(*position)
                && !std::mem::replace(&mut self.pages[page as usize], true)
            {
                self.rows.take(&map.page(page).positions());
            }
        }
    }

    /// Per page, whether it was named.
    pub(super) fn into_pages(self) -> Vec<bool> {
        self.pages
    }
}

/// What is to be read, and how.
pub(super) struct Rest {
    /// Pages that are read by themselves, ascending, in runs.
    pub(super) runs: Vec<PageRun>,
    /// Per page: a scan that takes over has nothing to do with it.
    pub(super) done: Vec<bool>,
}

/// About what knowing all named pages would save over scanning every chunk that is not read, in the
/// unit of the costs. `sampled` are positions that the index names; for each of them there are
/// `scale`.
pub(super) fn saving(
    map: &PageMap,
    is_read: impl Fn(u32) -> bool,
    sampled: impl Iterator<Item = u64>,
    scale: f64,
    costs: PageCosts,
) -> f64 {
    let mut named = vec![false; map.len() as usize];
    for page in sampled.filter_map(|position| map.page_of(position)) {
        named[page as usize] = true;
    }
    let saved = map.runs(0..map.len()).map(|chunk| {
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
    /// `done`: pages that are read, or of which the index names no row.
    pub(super) fn new(map: &PageMap, mut done: Vec<bool>, costs: PageCosts) -> Self {
        let mut all: Vec<PageRun> = Vec::new();
        for chunk in map.runs(0..map.len()) {
            let mut runs = runs_of(&chunk, |page| !done[page as usize]);
            let pages: u32 = runs.iter().map(|run| run.pages.end - run.pages.start).sum();
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

/// The pages of a table for which this is true, ascending, in runs of one chunk each.
pub(super) fn named_runs(map: &PageMap, named: impl Fn(u32) -> bool) -> Vec<PageRun> {
    let chunks = map.runs(0..map.len());
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

/// A chunk is read from its first page to its last.
fn scan_price(chunk: &PageRun, costs: PageCosts) -> f64 {
    costs.of(f64::from(chunk.pages.end - chunk.pages.start), 1.0)
}
