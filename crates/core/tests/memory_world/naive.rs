//! The rules once more, naively: every count is made anew from the world's own books. The oracle
//! for requests.

use coscan_core::memory::{Action, Event, OnRefusal, OperatorId};
use coscan_core::tasks::QueryId;

use super::{Holder, Operator, Query, World};

/// The right answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Grant,
    Refuse,
    /// Holders are asked first.
    Reclaim,
}

impl Expected {
    /// `spent`: some holder has nothing to give, contrary to what it says.
    pub(super) fn compare(self, event: &Event, actions: &[Action], spent: bool, seed: u64) {
        let Event::Asked { operator: id, .. } = event else {
            return;
        };
        let answers = actions.iter().filter_map(|action| match action {
            Action::Grant { operator } if operator == id => Some(Self::Grant),
            Action::Refuse { operator, .. } if operator == id => Some(Self::Refuse),
            _ => None,
        });
        let answers: Vec<Self> = answers.collect();
        let answer = answers.first().copied().unwrap_or(Self::Reclaim);
        let in_vain = spent && self == Self::Reclaim && answer == Self::Refuse;
        assert!(in_vain || answer == self, "seed {seed}: {event:?}");
        assert!(answers.len() < 2, "seed {seed}: two answers");
    }
}

impl World {
    pub(super) fn ceiling(&self) -> u64 {
        self.config.limit.saturating_sub(self.config.reserve)
    }

    pub(super) fn of(&self, query: QueryId) -> impl Iterator<Item = &Operator> {
        self.operators
            .values()
            .filter(move |one| one.query == query)
    }

    pub(super) fn held(&self, query: QueryId) -> u64 {
        self.of(query).map(|one| one.bytes).sum()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = QueryId> {
        let waiting = self
            .queries
            .iter()
            .filter(|(_, one)| one.promised.is_none());
        waiting.map(|(id, _)| *id)
    }

    pub(super) fn admitted_queries(&self) -> impl Iterator<Item = (QueryId, &Query)> {
        let all = self.queries.iter().map(|(id, one)| (*id, one));
        all.filter(|(_, one)| one.promised.is_some())
    }

    fn aside(&self, id: QueryId) -> u64 {
        let credit = self.queries[&id].credit;
        self.promised(id)
            .max(credit.saturating_sub(self.asks_of(id)))
    }

    /// What is promised to a query beyond what it has and asks for, or its operators have room for.
    fn promised(&self, id: QueryId) -> u64 {
        let fixed = |one: &Operator| match one.asks {
            Some(bytes) if one.asked_failing => bytes,
            Some(_) => one.in_room,
            None => 0,
        };
        let asked: u64 = self.of(id).map(fixed).sum();
        let promised = self.queries[&id].promised.unwrap_or(0);
        let rooms: u64 = self.of(id).map(Operator::keeps_room).sum();
        let left = rooms.saturating_sub(self.asks_in_room(id));
        promised
            .saturating_sub(self.unspillable(id) + asked)
            .max(left)
    }

    fn asks_in_room(&self, id: QueryId) -> u64 {
        let asking = self.of(id).filter(|one| one.asks.is_some());
        asking.map(|one| one.in_room).sum()
    }

    /// What is kept for other operators of the query than this one, for each alone.
    pub(super) fn rooms_beside(&self, id: OperatorId) -> u64 {
        let query = self.operators[&id].query;
        let others = self.operators.iter();
        let others = others.filter(|(other, one)| **other != id && one.query == query);
        let rooms: u64 = others.map(|(_, one)| one.keeps_room()).sum();
        rooms.saturating_sub(self.asks_in_room(query))
    }

    /// What an operator that asks for this much may have of what is kept for its query.
    fn kept_for(&self, id: OperatorId, bytes: u64) -> u64 {
        let operator = &self.operators[&id];
        let (room, aside) = (operator.keeps_room(), self.aside(operator.query));
        if operator.would_fail(bytes, self.config.batch) {
            aside.saturating_sub(self.rooms_beside(id)).max(room)
        } else {
            aside - self.promised(operator.query) + room
        }
    }

    pub(super) fn unspillable(&self, id: QueryId) -> u64 {
        self.of(id).map(|one| one.bytes - one.spillable()).sum()
    }

    fn asks_of(&self, id: QueryId) -> u64 {
        self.of(id).filter_map(|one| one.asks).sum()
    }

    pub(super) fn has_or_may_have(&self, id: QueryId) -> bool {
        self.keeps(id) > 0
    }

    fn keeps(&self, id: QueryId) -> u64 {
        self.held(id) + self.asks_of(id) + self.aside(id)
    }

    /// What other queries have, wait for and are promised or may take back.
    pub(super) fn of_others(&self, query: QueryId) -> u64 {
        let others = self.admitted_queries().filter(|(id, _)| *id != query);
        others.map(|(id, _)| self.keeps(id)).sum()
    }

    /// Whether a refused operator that fails would have got its bytes, had its query been the only
    /// one.
    pub(super) fn fits_alone(&self, id: OperatorId, bytes: u64) -> bool {
        let operator = &self.operators[&id];
        let query = operator.query;
        let beyond = bytes.saturating_sub(self.kept_for(id, bytes));
        let others = self.of_others(query);
        let own = self.fixed() - others + beyond;
        let fits = own + self.config.for_small <= self.ceiling();
        others > 0 && operator.would_fail(bytes, self.config.batch) && fits
    }

    pub(super) fn taken(&self) -> u64 {
        let mut all = self.unaccounted.min(self.config.limit / 2);
        all += self
            .operators
            .values()
            .filter_map(|one| one.asks)
            .sum::<u64>();
        all += self.operators.values().map(|one| one.bytes).sum::<u64>();
        all += self
            .scratch
            .values()
            .filter(|(_, open)| *open)
            .map(|(bytes, _)| bytes)
            .sum::<u64>();
        for holder in self.holders.values() {
            all += match holder.class {
                coscan_core::memory::Class::Connections => {
                    holder.bytes.saturating_sub(self.config.reserve)
                }
                coscan_core::memory::Class::Keeps => holder.bytes,
                coscan_core::memory::Class::Drops(_) => holder.floor,
            };
        }
        all
    }

    pub(super) fn fixed(&self) -> u64 {
        let asides = self.admitted_queries().map(|(id, _)| self.aside(id));
        self.taken() + asides.sum::<u64>()
    }

    pub(super) fn is_small(&self, size: u64) -> bool {
        size <= self.config.for_small / 4
    }

    fn size(&self, id: QueryId) -> u64 {
        self.keeps(id).max(self.queries[&id].minimum)
    }

    pub(super) fn is_small_query(&self, id: QueryId) -> bool {
        self.is_small(self.size(id))
    }

    /// What small queries have, without `own`.
    pub(super) fn of_small(&self, own: Option<QueryId>) -> u64 {
        let others = self.admitted_queries().map(|(id, _)| id);
        let small = others.filter(|id| Some(*id) != own && self.is_small_query(*id));
        small.map(|id| self.keeps(id)).sum()
    }

    /// What is for small queries beyond what others than this one have.
    fn left_beside(&self, id: QueryId) -> u64 {
        let theirs = self.of_small(Some(id));
        self.config.for_small.saturating_sub(theirs)
    }

    /// The answer to a request, if the event is one.
    pub(super) fn expected(&self, event: &Event) -> Option<Expected> {
        match *event {
            Event::Asked {
                operator, bytes, ..
            } => Some(self.expected_answer(operator, bytes)),
            _ => None,
        }
    }

    fn expected_answer(&self, id: OperatorId, bytes: u64) -> Expected {
        let operator = &self.operators[&id];
        let query = &self.queries[&operator.query];
        let would_fail = operator.would_fail(bytes, self.config.batch);
        let (taken, fixed, ceiling) = (self.taken(), self.fixed(), self.ceiling());
        let beyond = bytes.saturating_sub(self.kept_for(id, bytes));
        if bytes == 0 {
            return Expected::Grant;
        }
        if query.ends {
            return Expected::Refuse;
        }
        let droppable: u64 = self.holders.values().map(Holder::droppable).sum();
        let lacking = (taken + droppable + bytes).saturating_sub(ceiling);
        let id = operator.query;
        let size = query.minimum.max(self.keeps(id) + beyond);
        if self.is_small(size) && self.of_small(None) + beyond <= self.config.for_small {
            let give = |one: &&Holder| one.droppable() > 0 && !one.spent || one.asked.is_some();
            return match self.holders.values().find(give) {
                Some(_) if lacking > 0 && droppable > 0 => Expected::Reclaim,
                _ => Expected::Grant,
            };
        }
        let left = self.left_beside(id);
        if beyond == 0 && taken + bytes > ceiling || beyond > 0 && fixed + beyond + left > ceiling {
            return Expected::Refuse;
        }
        if !would_fail && !self.leaves_enough(operator, bytes, beyond) {
            return Expected::Refuse;
        }
        if lacking == 0 {
            return Expected::Grant;
        }
        let spills_at = match operator.on_refusal {
            OnRefusal::Spills(price)
                if beyond > 0
                    && !would_fail
                    && operator.spillable() >= bytes
                    && operator.spillable() >= self.shares(operator).0 / 2 =>
            {
                price
            }
            _ => u64::MAX,
        };
        let cheaper = self
            .holders
            .values()
            .filter(|one| one.price() < Some(spills_at));
        if cheaper.map(Holder::droppable).sum::<u64>() < lacking {
            return Expected::Refuse;
        }
        Expected::Reclaim
    }

    /// Whether an operator that spills leaves enough for others.
    fn leaves_enough(&self, operator: &Operator, bytes: u64, beyond: u64) -> bool {
        let (share, free) = self.shares(operator);
        let waits = self.waiting().next().is_some();
        let free = free + self.left_beside(operator.query);
        !waits && self.fixed() + beyond + free <= self.ceiling()
            || operator.spillable() + bytes <= share
    }

    /// The share of an operator, and what it leaves free beyond its share.
    fn shares(&self, operator: &Operator) -> (u64, u64) {
        let spillable = |id: QueryId| self.of(id).map(Operator::spillable).sum::<u64>();
        let queries = || self.admitted_queries().map(|(id, _)| id);
        let all_spillable: u64 = queries().map(spillable).sum();
        let spills = |one: &Operator| matches!(one.on_refusal, OnRefusal::Spills(_));
        let count = queries().filter(|id| self.of(*id).any(spills)).count() as u64;
        let of_spilling = queries().filter(|id| self.of(*id).any(spills));
        let credit: u64 = of_spilling
            .map(|id| self.aside(id) - self.promised(id))
            .sum();
        let others = self.fixed() - all_spillable - credit;
        let among = self.ceiling().saturating_sub(others);
        let largest = self.minima.iter().copied().max().unwrap_or(0);
        let merges = (among / 16).saturating_sub(self.aside(operator.query));
        let one_more = largest.min(among / (count + 1)).max(merges);
        let siblings = self.of(operator.query).filter(|one| spills(one)).count() as u64;
        let free = if siblings > 1 {
            one_more.max(among / 4)
        } else {
            one_more
        };
        let share = (among - one_more) / count.max(1) / siblings.max(1);
        (share, free)
    }
}
