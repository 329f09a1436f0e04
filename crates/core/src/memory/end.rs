//! Which query has to end for others?
//!
//! Where the limit is lowered below what cannot be dropped, the youngest: it has done the least.
//! Operators that spill have a second to do so. Where others want memory, one whose client does not
//! come back for its rows: it may hold its memory for as long as it likes otherwise.
//! MEM-I8.

use super::{Action, LOWERED_NS, Memory, SILENT_NS, Time};
use crate::tasks::QueryId;

impl Memory {
    /// Ends the youngest queries that hold something, while more than the limit is taken.
    pub(super) fn end_youngest(&mut self) {
        let over = |memory: &Self, patient: bool| {
            let spills = if patient { memory.sums.spillable } else { 0 };
            let goes = memory.going(patient);
            (memory.taken() - spills).saturating_sub(goes) > memory.config.limit
        };
        if self.taken() <= self.config.limit {
            self.over_since = None;
            return;
        }
        let since = *self.over_since.get_or_insert(self.now);
        let patient = self.now.0 - since.0 < LOWERED_NS;
        let youngest: Vec<QueryId> = self.queries.keys().rev().copied().collect();
        for id in youngest {
            if !over(self, patient) {
                return;
            }
            let query = &self.queries[&id];
            let fixed = query.held - query.spillable;
            if !query.ends && (fixed > 0 || !patient && query.held > 0) {
                self.end(id);
            }
        }
    }

    /// What queries hold that were told to end; without what spills, if that is waited for.
    fn going(&self, patient: bool) -> u64 {
        let ending = self.queries.values().filter(|query| query.ends);
        let held = ending.map(|query| query.held - if patient { query.spillable } else { 0 });
        held.sum()
    }

    /// Ends the query that holds the most among those whose clients have been silent for too long,
    /// if others want memory.
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
        let held: u64 = silent().map(|(_, query, _)| query.held).sum();
        let left = u128::from(ceiling.saturating_sub(held));
        let patience = u128::from(SILENT_NS) * left / u128::from(ceiling);
        let waited = |since: Time| u128::from(self.now.0 - since.0) >= patience;
        let most = silent()
            .filter(|(_, query, since)| query.held > 0 && waited(*since))
            .max_by_key(|(id, query, _)| (query.held, *id));
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
