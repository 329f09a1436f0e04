//! Does an operator get the memory that it asks for?
//!
//! Idea: an operator of a small query gets what there is for small ones. Any other gets what is
//! kept for its query, and more if that fits below the ceiling beside all that is fixed and what is
//! for small queries. An operator that spills, and has more than a batch, must also leave room for
//! a query like the recent ones, and for the other spilling operators of its query. While queries
//! wait, or memory runs out, it gets no more than an equal share, so that operators that cannot
//! spill are not refused because others spill late. When memory has to be reclaimed, an operator
//! that spills is refused if its own bytes are cheaper to get back than those of the holders; not
//! up to a batch, of which it would give nothing back. An operator may have several *parts*, a
//! merge of what it spilled and a table of groups, and spills none of them for the sake of another.
//! So each part has its batch. An operator that is refused spills all that it has, which may take
//! longer than its query's credit lasts, and then needs as much again as it began with: its query
//! keeps that room for it alone.
//! Not here: which query is admitted (`admit.rs`).
//! MEM-I3, MEM-I4, MEM-I9.

use super::{Action, Asking, Memory, OnRefusal, Operator, OperatorId, Query};

/// When a query has several operators that spill, none takes this part (a divisor) of the
/// spillable memory beyond its share.
const SIBLINGS: u64 = 4;

/// The part of the spillable memory, as a divisor, that spilling operators leave to those that
/// cannot spill: a merge of sorts would have nothing once the sorts have taken all.
const MERGES: u64 = 16;

/// Up to this part of its share (a divisor), an operator that spills outranks every holder.
const LONG_RUN: u64 = 2;

/// How much an operator may spill in all, and what it must leave free if it takes more.
struct Shares {
    own: u64,
    free: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Grant,
    /// Holders must give this much back first.
    Reclaim(u64),
    Refuse,
}

impl Memory {
    pub(super) fn ask(&mut self, operator: OperatorId, bytes: u64, has: u64) {
        let mut asking = Asking {
            operator,
            bytes,
            has,
            fails: false,
            in_room: bytes.min(self.operators[&operator].keeps_room()),
        };
        asking.fails = self.would_fail(&asking);
        match self.answer(&asking, self.lacking(bytes), false) {
            Answer::Grant => self.grant(&asking),
            Answer::Refuse => self.refuse(&asking),
            Answer::Reclaim(lacking) => {
                self.reclaim(lacking);
                self.asking.push_back(asking);
                self.asks(&asking, |sum, bytes| *sum += bytes);
            }
        }
    }

    /// Answers the operators that waited for holders: in order, each once there is enough for it
    /// and those ahead of it, or all asked holders have answered. No operator waits twice for one
    /// request.
    pub(super) fn ask_again(&mut self) {
        while let Some(&asking) = self.asking.front() {
            // Requests behind this one do not count here: they wait for the rest.
            let without = self.lacking(asking.bytes).saturating_sub(self.sums.asking);
            if without > 0 && !self.asked.is_empty() {
                return;
            }
            self.asking.pop_front();
            self.asks(&asking, |sum, bytes| *sum -= bytes);
            if self.answer(&asking, without, true) == Answer::Grant {
                self.grant(&asking);
            } else {
                self.refuse(&asking);
            }
        }
    }

    /// The operator has ended: its request is dropped.
    pub(super) fn ask_no_more(&mut self, id: OperatorId) {
        if let Some(at) = self.asking.iter().position(|one| one.operator == id)
            && let Some(asking) = self.asking.remove(at)
        {
            self.asks(&asking, |sum, bytes| *sum -= bytes);
        }
    }

    /// Changes the sums of what operators wait for.
    fn asks(&mut self, asking: &Asking, change: impl Fn(&mut u64, u64)) {
        change(&mut self.sums.asking, asking.bytes);
        self.change(asking.operator, |_, query| {
            change(&mut query.asks, asking.bytes);
            change(&mut query.asks_in_room, asking.in_room);
            change(&mut query.asks_fixed, asking.fixed());
        });
    }

    /// `lacking`: what holders would have to give back for this request. `waited`: they were asked.
    fn answer(&self, asking: &Asking, lacking: u64, waited: bool) -> Answer {
        let bytes = asking.bytes;
        if bytes == 0 {
            return Answer::Grant;
        }
        let operator = &self.operators[&asking.operator];
        let query = &self.queries[&operator.query];
        if query.ends {
            return Answer::Refuse;
        }
        let would_fail = self.would_fail(asking);
        let more = bytes.saturating_sub(self.kept_for(asking));
        if self.has_part(query, more) {
            return match lacking.min(self.sums.droppable) {
                1.. if !waited => Answer::Reclaim(lacking),
                _ => Answer::Grant,
            };
        }
        let is_there = if more == 0 {
            self.taken().saturating_add(bytes) <= self.ceiling()
        } else {
            // What a request that waited asks for counts as taken since it came.
            self.fits(more) && (waited || self.fits_beside_small(query, more))
        };
        if !is_there || !(would_fail || self.is_fair(operator, bytes, more)) {
            return Answer::Refuse;
        }
        match lacking {
            0 => Answer::Grant,
            lacking if self.is_worth_reclaiming(asking, more, lacking) => Answer::Reclaim(lacking),
            _ => Answer::Refuse,
        }
    }

    /// What a request may have of what is kept for its query. What an operator takes back and may
    /// spill once more is not what others of its query are promised.
    fn kept_for(&self, asking: &Asking) -> u64 {
        let operator = &self.operators[&asking.operator];
        let query = &self.queries[&operator.query];
        let own = operator.keeps_room();
        if self.would_fail(asking) {
            let beside = query.rooms_beside(own);
            query.aside().saturating_sub(beside).max(own)
        } else {
            query.spillable_credit() + own
        }
    }

    fn would_fail(&self, asking: &Asking) -> bool {
        self.operators[&asking.operator].would_fail(asking, self.config.batch)
    }

    /// Whether an operator that spills leaves others what they need.
    fn is_fair(&self, operator: &Operator, bytes: u64, more: u64) -> bool {
        let Shares { own, free } = self.shares(operator);
        let query = &self.queries[&operator.query];
        let leaves_room =
            self.waiting.is_empty() && self.fits_beside_small(query, more.saturating_add(free));
        leaves_room || operator.spillable().saturating_add(bytes) <= own
    }

    /// Divides the memory that operators may spill.
    fn shares(&self, operator: &Operator) -> Shares {
        let query = &self.queries[&operator.query];
        let spillers = u64::from(query.spillers);
        // The credit of a query is part of its share.
        let others = self.fixed() - self.sums.spillable - self.sums.credit;
        let all = self.ceiling().saturating_sub(others);
        let count = self.sums.spilling;
        // A query yet to come gets no more than those that run.
        let one_more = self.headroom.bytes().min(all / (count + 1));
        let merges = (all / MERGES).saturating_sub(query.aside());
        let headroom = one_more.max(merges);
        // An operator that has finished growing keeps what it has, so the next one of the query
        // needs room too.
        let siblings = if spillers > 1 { all / SIBLINGS } else { 0 };
        Shares {
            own: (all - headroom) / count.max(1) / spillers.max(1),
            free: headroom.max(siblings),
        }
    }

    fn is_worth_reclaiming(&self, asking: &Asking, more: u64, lacking: u64) -> bool {
        let operator = &self.operators[&asking.operator];
        let own = || self.shares(operator).own / LONG_RUN;
        match operator.on_refusal {
            // Spilling would not help if the operator wrote less than it asks for, or a small part
            // of its share: many short runs cost more than their bytes.
            OnRefusal::Spills(price)
                if more > 0
                    && !self.would_fail(asking)
                    && operator.spillable() >= asking.bytes.max(own()) =>
            {
                self.cheaper(price) >= lacking
            }
            OnRefusal::Spills(_) | OnRefusal::Fails => self.sums.droppable >= lacking,
        }
    }

    fn grant(&mut self, asking: &Asking) {
        let operator = asking.operator;
        self.grow(operator, asking.bytes, asking.has);
        self.actions.push_back(Action::Grant { operator });
    }

    fn refuse(&mut self, asking: &Asking) {
        let bytes = asking.bytes;
        let operator = &self.operators[&asking.operator];
        let query = &self.queries[&operator.query];
        let rooms = query.rooms_beside(operator.keeps_room());
        let fixed = (query.held - query.spillable).saturating_add(rooms);
        let would_fail = self.would_fail(asking);
        self.short |= would_fail;
        let all = self.sums.operators + self.sums.asking + self.sums.aside;
        let others = all - query.keeps();
        let more = bytes.saturating_sub(self.kept_for(asking));
        let alone = (self.fixed() - others).saturating_add(self.config.for_small);
        let fits = alone.saturating_add(more) <= self.ceiling();
        self.actions.push_back(Action::Refuse {
            operator: asking.operator,
            needed: fixed.saturating_add(bytes),
            others,
            fits_alone: others > 0 && would_fail && fits,
        });
        self.change(asking.operator, |operator, _| {
            operator.keep_room(asking.has);
        });
    }

    /// A part of the operator that had `has` bytes has `bytes` more.
    pub(super) fn grow(&mut self, id: OperatorId, bytes: u64, has: u64) {
        let batch = self.config.batch;
        self.change(id, |operator, query| {
            operator.grow(bytes, has, batch);
            query.credit = query.credit.saturating_sub(bytes);
            query.fresh = query.fresh.min(query.credit);
        });
    }

    /// A part of the operator has `bytes` less, and `left` left; its query may have them again.
    pub(super) fn shrink(&mut self, id: OperatorId, bytes: u64, left: u64) {
        let (now, batch) = (self.now, self.config.batch);
        self.change(id, |operator, query| {
            operator.shrink(bytes, left, batch);
            if query.credit == 0 {
                query.turned_at = now;
            } else {
                query.fresh += bytes;
            }
            query.credit += bytes;
        });
    }

    /// The operator ends, and needs no room.
    pub(super) fn give_up_room(&mut self, id: OperatorId) {
        self.change(id, |operator, _| operator.room = 0);
    }

    /// Changes an operator and its query, and keeps the sums right.
    fn change(&mut self, id: OperatorId, change: impl FnOnce(&mut Operator, &mut Query)) {
        let small_max = self.small_max();
        let (Some(operator), sums) = (self.operators.get_mut(&id), &mut self.sums) else {
            return;
        };
        let Some(query) = self.queries.get_mut(&operator.query) else {
            return;
        };
        sums.take_out(query, small_max);
        query.held -= operator.bytes;
        query.spillable -= operator.spillable();
        query.rooms -= operator.keeps_room();
        change(operator, query);
        query.held += operator.bytes;
        query.spillable += operator.spillable();
        query.rooms += operator.keeps_room();
        sums.put_in(query, small_max);
    }
}
