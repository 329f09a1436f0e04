//! Which query has to end so that others can go on?
//!
//! When more than the limit is taken by what cannot be dropped, the youngest: it has done the
//! least. Operators that spill have a second to do so. When others want memory, the largest query
//! whose client does not fetch its rows; while memory suffices, such a query may keep its memory
//! as long as it likes.
//! MEM-I8.

use super::{Action, LOWERED_NS, Memory, SILENT_NS, Time};
use crate::tasks::QueryId;

impl Memory {
    /// Ends the youngest queries that hold something until no more than the limit is taken. When
    /// the limit was lowered just now, it ends at once as many as bytes that cannot be spilled
    /// require; otherwise it acts after the limit has been exceeded for a second.
    pub(super) fn end_youngest(&mut self, is_lowered: bool) {
        let taken = self.taken() - self.sums.unused;
        if taken <= self.config.limit {
            self.over_since = None;
            return;
        }
        let since = *self.over_since.get_or_insert(self.now);
        let patient = self.now.0 - since.0 < LOWERED_NS;
        if patient && !is_lowered {
            return;
        }
        let spills = if patient { self.sums.spillable } else { 0 };
        let stays = (taken - spills).saturating_sub(self.going(patient));
        let mut over = stays.saturating_sub(self.config.limit);
        let youngest: Vec<QueryId> = self.queries.keys().rev().copied().collect();
        for id in youngest {
            if over == 0 {
                return;
            }
            let query = &self.queries[&id];
            let frees = query.held - if patient { query.spillable } else { 0 };
            if !query.ends && frees > 0 {
                over = over.saturating_sub(frees);
                self.end(id);
            }
        }
    }

    /// The bytes of queries that have to end, without their spillable bytes while `patient`.
    fn going(&self, patient: bool) -> u64 {
        let ending = self.queries.values().filter(|query| query.ends);
        let held = ending.map(|query| query.held - if patient { query.spillable } else { 0 });
        held.sum()
    }

    /// When others want memory, ends the query that keeps the most among those whose clients have
    /// been silent for too long.
    pub(super) fn end_silent(&mut self) {
        if !std::mem::take(&mut self.short) {
            return;
        }
        let ceiling = self.ceiling().max(1);
        let silent = || {
            let queries = self.queries.iter();
            queries.filter_map(|(id, query)| Some((*id, query, query.silent_since?)))
        };
        if silent().any(|(_, query, _)| query.ends) {
            return;
        }
        let keep: u64 = silent().map(|(_, query, _)| query.keeps()).sum();
        let left = u128::from(ceiling.saturating_sub(keep));
        let patience = u128::from(SILENT_NS) * left / u128::from(ceiling);
        let waited = |since: Time| u128::from(self.now.0 - since.0) >= patience;
        let most = silent()
            .filter(|(_, query, since)| query.is_in_the_way() && waited(*since))
            .max_by_key(|(id, query, _)| (query.keeps(), *id));
        if let Some((id, ..)) = most {
            self.end(id);
        }
    }

    fn end(&mut self, id: QueryId) {
        if let Some(query) = self.queries.get_mut(&id) {
            query.ends = true;
            self.actions.push_back(Action::End { query: id });
        }
    }
}
