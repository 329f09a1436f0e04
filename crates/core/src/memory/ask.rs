//! Does an operator get the memory that it asks for?
//!
//! Idea: what is kept for its query it gets. More than that it gets if the ceiling leaves it beside
//! all that is fixed. One that spills leaves room for a query like those that came lately, and has
//! no more than its query's share where queries wait or memory ends: who cannot spill is not to be
//! refused because others could have. Where memory has to be reclaimed, an operator that spills is
//! refused if its own bytes are cheaper to get back than those of the holders.
//! Not here: who waits for admission (`admit.rs`).
//! MEM-I3, MEM-I4.

use super::{Action, Memory, OnRefusal, Operator, OperatorId, Query};

/// What is to become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Grant,
    /// Holders are to give this much back first.
    Reclaim(u64),
    Refuse,
}

impl Memory {
    pub(super) fn ask(&mut self, id: OperatorId, bytes: u64) {
        match self.answer(id, bytes) {
            Answer::Grant => self.grant(id, bytes),
            Answer::Refuse => self.refuse(id, bytes),
            Answer::Reclaim(lacking) => {
                self.reclaim(lacking);
                self.asking.push_back((id, bytes));
                self.sums.asking += bytes;
            }
        }
    }

    /// Answers the operators that waited for holders. None is made to wait for them twice.
    pub(super) fn ask_again(&mut self) {
        while let Some((id, bytes)) = self.asking.pop_front() {
            self.sums.asking -= bytes;
            if self.answer(id, bytes) == Answer::Grant {
                self.grant(id, bytes);
            } else {
                self.refuse(id, bytes);
            }
        }
    }

    fn answer(&self, id: OperatorId, bytes: u64) -> Answer {
        let operator = &self.operators[&id];
        let query = &self.queries[&operator.query];
        let kept = if operator.would_fail() {
            query.aside()
        } else {
            query.credit
        };
        let more = bytes.saturating_sub(kept);
        let is_there = if more == 0 {
            self.taken().saturating_add(bytes) <= self.ceiling()
        } else {
            self.fits(more)
        };
        let is_allowed = is_there && (operator.would_fail() || self.is_fair(query, bytes, more));
        if !is_allowed || query.ends {
            return Answer::Refuse;
        }
        match self.lacking(bytes) {
            0 => Answer::Grant,
            lacking if self.is_worth_reclaiming(operator, bytes, more, lacking) => {
                Answer::Reclaim(lacking)
            }
            _ => Answer::Refuse,
        }
    }

    /// Whether an operator that spills leaves others what they need.
    fn is_fair(&self, query: &Query, bytes: u64, more: u64) -> bool {
        let others = self.fixed() - self.sums.spillable;
        let all = self.ceiling().saturating_sub(others);
        let count = self.sums.spilling;
        // A query to come gets no more than those that are there.
        let headroom = self.headroom.bytes().min(all / (count + 1));
        let leaves_room = self.waiting.is_empty() && self.fits(more.saturating_add(headroom));
        let share = (all - headroom) / count.max(1);
        leaves_room || query.spillable.saturating_add(bytes) <= share
    }

    fn is_worth_reclaiming(
        &self,
        operator: &Operator,
        bytes: u64,
        more: u64,
        lacking: u64,
    ) -> bool {
        match operator.on_refusal {
            // What it would write is less than what it asks for: spilling would not help.
            OnRefusal::Spills(price) if more > 0 && operator.spillable() >= bytes => {
                self.cheaper(price) >= lacking
            }
            OnRefusal::Spills(_) | OnRefusal::Fails => self.sums.droppable >= lacking,
        }
    }

    fn grant(&mut self, id: OperatorId, bytes: u64) {
        self.grow(id, bytes);
        self.actions.push_back(Action::Grant { operator: id });
    }

    fn refuse(&mut self, id: OperatorId, bytes: u64) {
        let operator = &self.operators[&id];
        let held = self.queries[&operator.query].held;
        self.short |= operator.would_fail();
        self.actions.push_back(Action::Refuse {
            operator: id,
            needed: held.saturating_add(bytes),
        });
    }

    /// The operator has `bytes` more.
    pub(super) fn grow(&mut self, id: OperatorId, bytes: u64) {
        self.change(id, |operator, query| {
            if operator.bytes == 0 {
                operator.base = bytes;
            }
            operator.bytes += bytes;
            query.credit = query.credit.saturating_sub(bytes);
        });
    }

    /// The operator has `bytes` less; its query may have them again.
    pub(super) fn shrink(&mut self, id: OperatorId, bytes: u64) {
        let now = self.now;
        self.change(id, |operator, query| {
            operator.bytes -= bytes;
            operator.base = operator.base.min(operator.bytes);
            query.credit += bytes;
            query.gave_at = now;
        });
    }

    /// Changes an operator and its query, and the sums with them.
    fn change(&mut self, id: OperatorId, change: impl FnOnce(&mut Operator, &mut Query)) {
        let (Some(operator), sums) = (self.operators.get_mut(&id), &mut self.sums) else {
            return;
        };
        let Some(query) = self.queries.get_mut(&operator.query) else {
            return;
        };
        sums.take_out(query);
        query.held -= operator.bytes;
        query.spillable -= operator.spillable();
        change(operator, query);
        query.held += operator.bytes;
        query.spillable += operator.spillable();
        sums.put_in(query);
    }
}
