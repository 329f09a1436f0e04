//! Which rows are fetched one by one next?
//!
//! Used by `index` and `switch`, and by `smooth` until its trigger (mode 0). Rows come in the order
//! of the index; the rows of one job are sorted by page.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entries::Next;
use super::{Job, Phase, Probe, ReadAhead};
use crate::smooth::PageLayout;

/// Rows to be fetched that are in no job, by page.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    pub(super) pages: BTreeMap<u32, Vec<u64>>,
    /// The number of rows.
    pub(super) rows: usize,
}

/// What to do after the rows have been fetched one by one.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterRows {
    HandOver,
    Morph,
}

impl<L: PageLayout> Probe<L> {
    /// Gathers rows until a job has enough of them or no entry is left.
    pub(super) fn next_rows(&mut self) -> Option<Job> {
        let Phase::Rows {
            gathered,
            left,
            then,
        } = &mut self.phase
        else {
            return None;
        };
        while *left > 0 && !gathered.is_full(&self.options.read_ahead) {
            match self.entries.next() {
                Next::Row(position) => {
                    if let Some(page) = self.layout.page_of(position) {
                        gathered.add(page, position);
                        *left -= 1;
                    }
                }
                Next::Wanted => return Some(Job::ReadEntries),
                Next::Bound => break,
            }
        }
        if gathered.rows > 0 {
            let gathered = std::mem::take(gathered);
            return Some(self.fetch(gathered));
        }
        if *left > 0 {
            return Some(Job::Bound);
        }
        self.phase = match then {
            AfterRows::HandOver => Phase::HandingOver(self.given()),
            AfterRows::Morph => Phase::Morphing {
                ahead: Vec::new(),
                regions_max: 1,
            },
        };
        None
    }

    /// Makes a job of the gathered rows.
    pub(super) fn fetch(&mut self, gathered: Gathered) -> Job {
        let fetched = Arc::make_mut(&mut self.fetched);
        for position in gathered.pages.values().flatten() {
            fetched.insert(*position);
        }
        Job::Rows(gathered.pages.into_iter().collect())
    }
}

impl Gathered {
    /// Whether a job has enough of these rows.
    fn is_full(&self, read_ahead: &ReadAhead) -> bool {
        self.rows >= read_ahead.rows() || self.pages.len() >= read_ahead.pages_apart()
    }

    fn add(&mut self, page: u32, position: u64) {
        self.pages.entry(page).or_default().push(position);
        self.rows += 1;
    }
}
