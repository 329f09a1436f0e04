//! Is the rest of the index worth reading, and which pages are read once the index has named all
//! of them?
//!
//! Used by `sort` from the start, and by `smooth` when a scan would take over.
//! Not here: which way of reading is cheaper in each chunk (`rest.rs`).

use super::rest::{Named, Rest, named_runs, saving};
use super::{Job, Phase, Probe, Sample};
use crate::smooth::{PageLayout, PageRun};

/// What to do with the pages that the index names.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterCollecting {
    /// Read all of them alone.
    Read,
    /// Choose the cheaper way in each chunk.
    Choose,
}

/// What to do after the known pages have been read.
#[derive(Clone, Debug)]
pub(super) enum AfterKnown {
    End,
    /// Let a scan take over; it skips these pages.
    HandOver(Vec<bool>),
}

impl<L: PageLayout> Probe<L> {
    /// Decides whether reading the whole rest of the index pays off.
    pub(super) fn sampled(&mut self, sample: Option<Sample<'_>>) {
        let ahead = match &mut self.phase {
            Phase::Weighing { ahead } => Some(std::mem::take(ahead)),
            _ => None,
        };
        let ahead = ahead.expect("SMOOTH-I4: a sample is taken when it is asked for");
        // A rest too short for a sample is read whole.
        let worth_while = sample.is_none_or(|sample| {
            let is_read = |page| self.smooth.has_seen(page);
            let saved = self.prices.costs().map_or(0.0, |costs| {
                saving(&self.layout, is_read, sample.positions, sample.scale, costs)
            });
            saved >= sample.took_ns * sample.scale
        });
        if !worth_while {
            self.phase = Phase::HandingOver(self.given());
            return;
        }
        let mut named = Named::new(&self.layout);
        named.add(&self.layout, &ahead);
        named.add(&self.layout, self.entries.take_all());
        self.phase = Phase::Collecting {
            named,
            then: AfterCollecting::Choose,
        };
    }

    /// All pages that the index names are known.
    pub(super) fn collected(&self, named: &[bool], then: AfterCollecting) -> Phase {
        match (then, self.prices.costs()) {
            (AfterCollecting::Choose, Some(costs)) => {
                let mut done = self.given();
                for (done, named) in done.iter_mut().zip(named) {
                    *done |= !named;
                }
                let Rest { runs, done } = Rest::new(&self.layout, done, costs);
                Phase::Known {
                    runs: runs.into(),
                    then: AfterKnown::HandOver(done),
                }
            }
            _ => Phase::Known {
                runs: named_runs(&self.layout, |page| {
                    named[page as usize] && !self.smooth.has_seen(page)
                })
                .into(),
                then: AfterKnown::End,
            },
        }
    }

    /// The next known pages, of one chunk.
    pub(super) fn next_pages(&mut self) -> Option<Job> {
        let Phase::Known { runs, then } = &mut self.phase else {
            return None;
        };
        let mut job: Vec<PageRun> = Vec::new();
        let mut pages_left = self.options.read_ahead.sorted_pages();
        while pages_left > 0
            && let Some(next) = runs.front_mut()
            && job.last().is_none_or(|last| last.chunk == next.chunk)
        {
            let part = next.take_first(pages_left);
            pages_left -= part.len();
            job.push(part);
            if next.is_empty() {
                runs.pop_front();
            }
        }
        if !job.is_empty() {
            return Some(Job::Pages(job));
        }
        self.phase = match then {
            AfterKnown::End => Phase::Over,
            AfterKnown::HandOver(done) => Phase::HandingOver(std::mem::take(done)),
        };
        None
    }
}
