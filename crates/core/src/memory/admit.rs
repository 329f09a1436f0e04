//! Which query is admitted next, and which reader may work on a chunk?
//!
//! Idea: a query is admitted when its minimum fits beside all that is fixed; until then it waits,
//! first come, first served. A small query may pass a large one, but all queries that pass it are
//! together no larger than its own minimum. Small queries pass in the part of the memory that is
//! for them (`small.rs`), because large ones cannot have it. A query without a minimum always
//! passes, and no query waits for its end unless it is older and holds memory.
//! Bounds: `waiting_max` queries wait. The queue is searched only when there is more room than at
//! the last search, and only as far as queries may still be passed or small ones have their part.
//! MEM-I5, MEM-I6.

use super::{Action, Memory, PATIENCE_NS, Query, Room, ScratchId, Waiting};
use crate::tasks::QueryId;

impl Memory {
    pub(super) fn arrive(&mut self, query: QueryId, minimum: u64) {
        // A query that comes alone says nothing about those to come.
        let is_alone = self.waiting.is_empty() && !self.queries.values().any(Query::is_in_the_way);
        self.headroom.record(if is_alone { 0 } else { minimum });
        let one = Waiting {
            query,
            minimum,
            since: self.now,
            passed: 0,
        };
        if minimum == 0 {
            self.admit(one);
        } else {
            self.waiting.push_back(one);
            self.room_seen = Room::default();
        }
    }

    /// Opens scratches and admits queries for which there is room now, and rejects those beyond
    /// `waiting_max`.
    pub(super) fn let_in(&mut self) {
        self.open_scratch();
        self.admit_waiting();
        while self.waiting.len() > self.config.waiting_max {
            if let Some(Waiting { query, .. }) = self.waiting.pop_back() {
                self.room_seen = Room::default();
                self.actions.push_back(Action::Reject { query });
            }
        }
        self.short |= !self.waiting.is_empty();
    }

    fn open_scratch(&mut self) {
        while let Some(&(_, bytes)) = self.scratch_waiting.front() {
            let beside = bytes.saturating_add(self.left_for_small());
            if !self.scratch.is_empty() && !self.fits(beside) {
                return;
            }
            self.open_next();
        }
    }

    fn open_next(&mut self) {
        if let Some((scratch, bytes)) = self.scratch_waiting.pop_front() {
            self.scratch_moved = self.now;
            self.scratch.insert(scratch, bytes);
            self.sums.scratch += bytes;
            self.reclaim(self.lacking(0));
            self.actions.push_back(Action::Open { scratch });
        }
    }

    /// Opens the next scratch although it does not fit: readers of the open chunks may wait for
    /// it, since a join reads one side after the other.
    pub(super) fn open_after_patience(&mut self) {
        if self.now.0 - self.scratch_moved.0 >= PATIENCE_NS {
            self.open_next();
        }
    }

    pub(super) fn scratch_waits(&mut self, scratch: ScratchId, bytes: u64) {
        if self.scratch_waiting.is_empty() {
            self.scratch_moved = self.now;
        }
        self.scratch_waiting.push_back((scratch, bytes));
    }

    pub(super) fn close_scratch(&mut self, scratch: ScratchId) {
        if let Some(bytes) = self.scratch.remove(&scratch) {
            self.sums.scratch -= bytes;
            self.scratch_moved = self.now;
        }
        self.scratch_waiting.retain(|(id, _)| *id != scratch);
    }

    fn admit_waiting(&mut self) {
        let Some(first) = self.waiting.front() else {
            return;
        };
        if self.room_for_queries().exceeds(self.room_seen) || self.is_next(first.query) {
            self.look_at_waiting();
            self.room_seen = self.room_for_queries();
        }
    }

    pub(super) fn look_at_waiting(&mut self) {
        let mut at = 0;
        // How many bytes may still pass the queries ahead.
        let mut passes = u64::MAX;
        while let Some(&one) = self.waiting.get(at) {
            let room = self.room_for_queries();
            let begins = one.minimum <= room.of(one.minimum) || at == 0 && self.is_next(one.query);
            // The queries ahead cannot use that memory.
            let is_theirs = room.is_for(one.minimum);
            if begins && (is_theirs || one.minimum <= passes) {
                self.waiting.remove(at);
                if !is_theirs {
                    for ahead in self.waiting.range_mut(..at) {
                        ahead.passed += one.minimum;
                    }
                    passes = passes.saturating_sub(one.minimum);
                }
                self.admit(one);
            } else {
                passes = passes.min(one.minimum - one.passed);
                at += 1;
            }
            if passes == 0 && room.for_small == 0 {
                return;
            }
        }
    }

    /// Whether the first waiting query has nothing left to wait for: no query with a minimum runs,
    /// and no older one has memory. Queries without a minimum and small ones are admitted all the
    /// time, so younger ones do not count.
    pub(super) fn is_next(&self, first: QueryId) -> bool {
        let small_max = self.small_max();
        let may_be_awaited = |id: &QueryId, query: &Query| {
            if *id < first {
                query.is_in_the_way()
            } else {
                query.wanted > 0 && query.size() > small_max
            }
        };
        !(self.queries.iter()).any(|(id, query)| may_be_awaited(id, query))
    }

    fn admit(&mut self, one: Waiting) {
        // A query that runs alone gets what there is, even if that is less than its minimum.
        let minimum = one.minimum.min(self.room_for_queries().of(one.minimum));
        let query = Query {
            minimum,
            wanted: one.minimum,
            ..Query::default()
        };
        self.sums.put_in(&query, self.small_max());
        self.queries.insert(one.query, query);
        self.actions.push_back(Action::Admit { query: one.query });
    }
}
