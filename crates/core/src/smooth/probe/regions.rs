//! Which regions are read next, and what do the examined regions show?
//!
//! A job has regions of one chunk, as far as entries have been read. Entries are handled in the
//! table's order, so that neighbouring pages are read together.
//! Not here: the size of a region (`scan.rs`, `morphing.rs`).

use super::entries::{Entries, Next};
use super::{Examined, Job, JobId, Phase, Probe};
use crate::Time;
use crate::smooth::{PageLayout, PageRun};

impl<L: PageLayout> Probe<L> {
    /// A job with the regions around the next rows, in one chunk.
    pub(super) fn next_regions(&mut self) -> Option<Job> {
        let Phase::Morphing { ahead, regions_max } = &mut self.phase else {
            return None;
        };
        if self.smooth.region_pages_unbounded() >= self.options.take_over_pages {
            let ahead = std::mem::take(ahead);
            self.end_morphing(ahead);
            return None;
        }
        let pages_max = self.options.read_ahead.pages_apart() as u64;
        let mut regions: Vec<Vec<PageRun>> = Vec::new();
        let mut pages = 0;
        while regions.len() < *regions_max && pages < pages_max {
            if ahead.is_empty() {
                let (layout, smooth, seen_rows) = (&self.layout, &self.smooth, &self.seen_rows);
                let is_new = |position: &u64| {
                    let page = || layout.page_of(*position);
                    !seen_rows.contains(*position)
                        && page().is_some_and(|page| !smooth.has_seen(page))
                };
                self.entries_seen += sort_ahead(layout, &mut self.entries, ahead, is_new);
            }
            let chunk = regions.last().and_then(|runs| runs.first());
            let chunk = chunk.map(|run| run.chunk);
            let position = match (ahead.last(), chunk) {
                (Some(next), Some(chunk)) => {
                    let page = self.layout.page_of(*next);
                    if page.is_some_and(|page| self.layout.chunk_of(page) != chunk) {
                        break;
                    }
                    *next
                }
                (Some(next), None) => *next,
                (None, Some(_)) => break,
                (None, None) => match self.entries.next() {
                    Next::Row(position) => position,
                    Next::Wanted => return Some(Job::ReadEntries),
                    Next::Bound => return Some(Job::Bound),
                },
            };
            ahead.pop();
            let Some(page) = self.layout.page_of(position) else {
                continue;
            };
            let Some(runs) = self.smooth.probe(page) else {
                self.entries_seen += 1;
                continue;
            };
            for page in runs.iter().cloned().flatten() {
                self.seen_rows.take(&self.layout.positions_of(page));
            }
            let runs = runs.into_iter().flat_map(|run| self.layout.runs(run));
            let runs: Vec<PageRun> = runs.collect();
            pages += size_of(&runs);
            regions.push(runs);
        }
        Some(self.hand_out(regions, pages))
    }

    /// Has the rest weighed against a full scan, or hands it over.
    fn end_morphing(&mut self, ahead: Vec<u64>) {
        self.phase = match self.prices.costs() {
            Some(_) => Phase::Weighing { ahead },
            None => Phase::HandingOver(self.given()),
        };
    }

    /// The job of these regions, which have so many pages.
    fn hand_out(&mut self, regions: Vec<Vec<PageRun>>, pages: u64) -> Job {
        let id = JobId(self.jobs);
        self.jobs += 1;
        self.pages_given += pages;
        let sizes = regions
            .iter()
            .map(|runs| runs.iter().map(PageRun::len).sum());
        self.coming.insert(id, sizes.collect());
        Job::Regions { id, regions }
    }

    pub(super) fn examined(&mut self, now: Time, job: JobId, regions: &[Examined]) {
        let given = self.coming.remove(&job);
        let told = regions.iter().map(|region| region.pages + region.pruned);
        assert!(
            given.is_some_and(|given| told.eq(given)),
            "SMOOTH-I6: a job is examined once, with the pages that were given out"
        );
        let took = now.0.saturating_sub(self.examined_at.0);
        self.examined_at = now;
        if let Phase::Morphing { regions_max, .. } = &mut self.phase {
            *regions_max = (*regions_max * 2).min(self.options.read_ahead.pages_apart());
        }
        let read = regions.iter().filter(|region| region.pages > 0).count();
        let each = took / read.max(1) as u64;
        for region in regions {
            self.smooth.pages_pruned(region.pruned);
            if region.pages > 0 {
                self.prices.measured(region.pages, each);
                if let Some(costs) = self.prices.costs() {
                    self.smooth.set_costs(costs);
                }
            }
            self.smooth.examined(region.pages, region.with_results);
        }
    }
}

/// Takes the entries before the bound and sorts them into the table's order, so that neighbouring
/// pages are read together. Drops entries of pages that were read and returns their number; an
/// entry whose page is read later is recognised when it is probed.
fn sort_ahead(
    layout: &impl PageLayout,
    entries: &mut Entries,
    ahead: &mut Vec<u64>,
    is_new: impl Fn(&u64) -> bool,
) -> u64 {
    let positions = entries.take_before();
    if positions.is_empty() {
        return 0;
    }
    layout.check_entries(|| ahead.extend(positions.iter().copied().filter(is_new)));
    let seen = positions.len() - ahead.len();
    ahead.sort_unstable_by(|a, b| b.cmp(a));
    seen as u64
}

fn size_of(runs: &[PageRun]) -> u64 {
    runs.iter().map(|run| u64::from(run.len())).sum()
}
