//! Which query begins next, and who may work on a chunk?
//!
//! Idea: a query begins when its minimum fits beside all that is fixed; until then it waits, first
//! come, first served. A small one may pass a large one, but those that pass it are together no
//! larger than the one that is passed, so that it is not passed for ever.
//! Bounds: `waiting_max` queries wait; a look goes through those that may still be passed.
//! MEM-I5, MEM-I6.

use super::{Action, Memory, Query, ScratchId, Waiting};
use crate::tasks::QueryId;

impl Memory {
    pub(super) fn arrive(&mut self, query: QueryId, minimum: u64) {
        self.headroom.came(minimum);
        self.waiting.push_back(Waiting {
            query,
            minimum,
            passed: 0,
        });
    }

    /// Lets those in for whom there is room now.
    pub(super) fn let_in(&mut self) {
        self.open_scratch();
        self.admit_waiting();
        while self.waiting.len() > self.config.waiting_max {
            if let Some(Waiting { query, .. }) = self.waiting.pop_back() {
                self.actions.push_back(Action::Reject { query });
            }
        }
        self.short |= !self.waiting.is_empty();
    }

    fn open_scratch(&mut self) {
        while let Some(&(scratch, bytes)) = self.scratch_waiting.front() {
            if !self.scratch.is_empty() && !self.fits(bytes) {
                return;
            }
            self.scratch_waiting.pop_front();
            self.scratch.insert(scratch, bytes);
            self.sums.scratch += bytes;
            self.reclaim(self.lacking(0));
            self.actions.push_back(Action::Open { scratch });
        }
    }

    pub(super) fn close_scratch(&mut self, scratch: ScratchId) {
        if let Some(bytes) = self.scratch.remove(&scratch) {
            self.sums.scratch -= bytes;
        }
        self.scratch_waiting.retain(|(id, _)| *id != scratch);
    }

    fn admit_waiting(&mut self) {
        let mut at = 0;
        // What those ahead may still be passed by.
        let mut passes = u64::MAX;
        while let Some(&one) = self.waiting.get(at) {
            let is_alone = self.queries.is_empty();
            if one.minimum <= passes && (is_alone || self.fits(one.minimum)) {
                self.waiting.remove(at);
                for ahead in self.waiting.range_mut(..at) {
                    ahead.passed += one.minimum;
                }
                passes = passes.saturating_sub(one.minimum);
                self.admit(one);
            } else {
                passes = passes.min(one.minimum - one.passed);
                at += 1;
            }
            if passes == 0 && self.no_small_one_waits(at) {
                return;
            }
        }
    }

    /// Whether nobody from here on may pass those who may be passed by nothing.
    fn no_small_one_waits(&self, from: usize) -> bool {
        self.waiting
            .range(from.min(self.waiting.len())..)
            .all(|one| one.minimum > 0)
    }

    fn admit(&mut self, one: Waiting) {
        // Alone it gets what there is, even if that is less.
        let minimum = one.minimum.min(self.ceiling().saturating_sub(self.fixed()));
        let query = Query {
            minimum,
            ..Query::default()
        };
        self.sums.put_in(&query);
        self.queries.insert(one.query, query);
        self.actions.push_back(Action::Admit { query: one.query });
    }
}
