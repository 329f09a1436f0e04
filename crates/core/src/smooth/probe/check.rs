//! Does every invariant of a probe hold?
//!
//! Idea: the sets of read pages and rows are recomputed from the phase and the regions and
//! compared.
//! Bounds: O(table); for tests and simulation.

use super::known::AfterKnown;
use super::{Phase, Probe};
use crate::smooth::{PageLayout, PageRun};

impl<L: PageLayout> Probe<L> {
    /// Checks every invariant, in O(table). For tests and simulation.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        self.entries.check();
        self.seen_rows
            .check(&self.layout, |page| self.smooth.has_seen(page));
        let seen = (0..self.layout.page_count()).filter(|page| self.smooth.has_seen(*page));
        assert_eq!(
            seen.count() as u64,
            self.pages_given,
            "SMOOTH-I1: a page is in one region"
        );
        let coming: u64 = self.coming.values().flatten().copied().map(u64::from).sum();
        assert!(
            coming <= self.pages_given,
            "SMOOTH-I6: examined pages were issued"
        );
        match &self.phase {
            Phase::Rows { gathered, .. } | Phase::LastRows(gathered) => {
                let rows = gathered.pages.values().flatten();
                assert_eq!(rows.clone().count(), gathered.rows);
                for row in rows {
                    assert!(
                        !self.fetched.contains(*row),
                        "SMOOTH-I3: a row is fetched once"
                    );
                }
            }
            Phase::Morphing { ahead, .. } | Phase::Weighing { ahead } => {
                assert!(
                    ahead.is_sorted_by(|a, b| a >= b),
                    "entries ahead are in the table's order"
                );
            }
            Phase::Known { runs, then } => self.check_known(runs.iter(), then),
            Phase::HandingOver(done) => self.check_done(done),
            Phase::Collecting { .. } | Phase::Over => {}
        }
    }

    fn check_known<'a>(&self, runs: impl Iterator<Item = &'a PageRun>, then: &AfterKnown) {
        let mut end = 0;
        for run in runs {
            assert!(
                end <= run.pages.start && !run.is_empty(),
                "known pages ascend"
            );
            end = run.pages.end;
            for page in run.pages.clone() {
                assert_eq!(self.layout.chunk_of(page), run.chunk);
                let left = match then {
                    AfterKnown::HandOver(done) => !done[page as usize],
                    AfterKnown::End => false,
                };
                assert!(
                    !self.smooth.has_seen(page) && !left,
                    "SMOOTH-I3: a known page is in no region, and not left to a scan"
                );
            }
        }
        if let AfterKnown::HandOver(done) = then {
            self.check_done(done);
        }
    }

    fn check_done(&self, done: &[bool]) {
        for (page, done) in (0..).zip(done) {
            assert!(
                *done || !self.smooth.has_seen(page),
                "SMOOTH-I3: a page of a region is not left to a scan"
            );
        }
    }
}
