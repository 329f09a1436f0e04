//! What happens in a world, and how its queries, operators and holders take it.

use coscan_core::memory::{Class, Event, HolderId, OnRefusal, OperatorId, ScratchId};
use coscan_core::tasks::QueryId;

use super::{Operator, PARTS, Query, World};

const SECOND: u64 = 1_000_000_000;
/// How often a query that failed comes back.
const RUNS_MAX: u64 = 3;

impl World {
    pub(super) fn step(&mut self) {
        match self.draw.below(20) {
            0..3 => self.query_arrives(),
            3..11 => self.query_goes_on(),
            11..13 => self.scratch_comes_or_goes(),
            13..16 => self.holder_grows(),
            16 => self.some_holder_answers(),
            17 => self.client_pauses_or_returns(),
            18 => self.tick(),
            _ => self.nobody_asked_for_it(),
        }
    }

    pub(super) fn tick(&mut self) {
        self.now += self.draw.below(400) * SECOND / 1000;
        let open = self.scratch.iter().find(|(_, (_, is_open))| *is_open);
        if let Some(scratch) = open.map(|(id, _)| *id).filter(|_| self.calm) {
            // No chunk is open for so long that another is opened beside it.
            self.scratch.remove(&scratch);
            self.tell(Event::ScratchClosed { scratch });
        }
        self.expire();
        self.tell(Event::Ticked);
    }

    fn expire(&mut self) {
        for query in self.queries.values_mut() {
            if query.credit > 0 && self.now - query.turned_at >= SECOND / 4 {
                (query.credit, query.fresh) = (query.fresh, 0);
                query.turned_at = self.now;
            }
        }
        for holder in self.holders.values_mut() {
            holder.spent = false;
        }
    }

    // ---------------------------------------------------------------- queries

    fn query_arrives(&mut self) {
        let minimum = match self.draw.below(6) {
            0 => 0,
            1 if !self.calm => self.draw.below(2 * self.config.limit),
            _ => self.draw.below(self.config.limit / 3),
        };
        let steps = 4 + self.draw.below(20);
        self.arrives(minimum, steps, 1);
    }

    fn arrives(&mut self, minimum: u64, steps: u64, runs: u64) {
        let query = QueryId(self.id());
        let made = Query {
            minimum,
            promised: None,
            passed: 0,
            credit: 0,
            fresh: 0,
            turned_at: 0,
            silent_since: None,
            ends: false,
            steps,
            runs,
        };
        let is_alone = self.waiting().next().is_none()
            && !(self.admitted_queries())
                .any(|(id, one)| one.minimum > 0 || self.has_or_may_have(id));
        self.queries.insert(query, made);
        self.minima.push_back(if is_alone { 0 } else { minimum });
        if self.minima.len() > 32 {
            self.minima.pop_front();
        }
        self.tell(Event::QueryArrived { query, minimum });
        let waits = self
            .queries
            .get(&query)
            .is_some_and(|one| one.promised.is_none());
        self.seen.waited += u64::from(waits);
    }

    fn operators_of(&self, query: QueryId) -> Vec<OperatorId> {
        let own = self.operators.iter().filter(|(_, one)| one.query == query);
        own.map(|(id, _)| *id).collect()
    }

    fn queries_that(&self, are: impl Fn(&Query) -> bool) -> Vec<QueryId> {
        let all = self.queries.iter().filter(|(_, one)| are(one));
        all.map(|(id, _)| *id).collect()
    }

    fn some_query(&mut self) -> Option<QueryId> {
        let all: Vec<QueryId> = self.admitted_queries().map(|(id, _)| id).collect();
        all.get(self.draw.index(all.len() as u64)).copied()
    }

    fn query_goes_on(&mut self) {
        let Some(id) = self.some_query() else {
            return;
        };
        self.one_step_of(id);
    }

    fn one_step_of(&mut self, id: QueryId) {
        let query = self.queries.get_mut(&id).expect("it runs");
        query.steps = query.steps.saturating_sub(1);
        if query.steps == 0 || query.ends {
            self.end_query(id);
            return;
        }
        let own = self.operators_of(id);
        let at = self.draw.index(own.len() as u64 + 1);
        let Some(&operator) = own.get(at) else {
            self.operator_begins(id);
            return;
        };
        let has = self.operators[&operator].bytes;
        if self.operators[&operator].asks.is_some() {
            // Another of its threads gives something back.
            if self.draw.one_in(4) {
                self.give_some(operator);
            }
            return;
        }
        match self.draw.below(8) {
            0 => self.end_operator(operator),
            1 if self.draw.one_in(4) => self.needs_less(id),
            1 => self.give_some(operator),
            2 if !self.calm => {
                let bytes = self.draw.below(self.config.limit / 50);
                self.grew(operator, 0, bytes, has);
                self.tell(Event::Took { operator, bytes });
            }
            _ => self.asks(operator),
        }
    }

    fn needs_less(&mut self, id: QueryId) {
        let minimum = self.draw.below(self.queries[&id].minimum + 1);
        let query = self.queries.get_mut(&id).expect("it runs");
        query.minimum = minimum;
        query.promised = query.promised.map(|promised| promised.min(minimum));
        self.tell(Event::QueryNeedsLess { query: id, minimum });
    }

    fn operator_begins(&mut self, query: QueryId) {
        let operator = OperatorId(self.id());
        let on_refusal = match self.draw.below(2) {
            0 => OnRefusal::Fails,
            _ => OnRefusal::Spills(self.draw.below(4) * 60),
        };
        let made = Operator {
            query,
            on_refusal,
            bytes: 0,
            base: 0,
            room: 0,
            parts: [0; PARTS],
            part: 0,
            has: 0,
            asks: None,
            asked_failing: false,
            in_room: 0,
        };
        self.operators.insert(operator, made);
        self.tell(Event::OperatorBegan {
            operator,
            query,
            on_refusal,
        });
    }

    /// Most operators have most of their bytes in one part. Parts matter where they have batches.
    fn some_part(&mut self) -> usize {
        usize::from(self.config.batch > 0 && self.draw.one_in(4))
    }

    fn asks(&mut self, operator: OperatorId) {
        let part = self.some_part();
        let mut bytes = self.draw.below(self.config.limit / 10);
        let one = self.operators.get_mut(&operator).expect("it runs");
        (one.part, one.has) = (part, one.parts[part]);
        let has = one.has;
        let one = &self.operators[&operator];
        if self.calm && one.would_fail(bytes, self.config.batch) {
            // The minimum is true.
            let fixed: u64 = self
                .of(one.query)
                .map(|one| one.bytes - one.spillable())
                .sum();
            let asked: u64 = self.of(one.query).filter_map(|one| one.asks).sum();
            let minimum = self.queries[&one.query].minimum;
            let beside = self.rooms_beside(operator);
            let left = minimum.saturating_sub(fixed + asked + beside);
            bytes = bytes.min(left.max(one.keeps_room()));
        }
        self.tell(Event::Asked {
            operator,
            bytes,
            has,
        });
    }

    /// The books of an operator of which a part has more. `has`: what is said to have grown.
    pub(super) fn grew(&mut self, id: OperatorId, part: usize, bytes: u64, has: u64) {
        let batch = self.config.batch;
        let one = self.operators.get_mut(&id).expect("known");
        let has = has.min(one.bytes);
        let within = |bytes: u64| bytes.min(batch);
        let first = if one.bytes == 0 {
            bytes
        } else {
            one.base + within(has + bytes) - within(has)
        };
        one.parts[part] += bytes;
        one.bytes += bytes;
        let least = within(one.bytes).max(one.bytes.min(one.room));
        one.base = first.max(least).min(one.bytes);
        let query = self.queries.get_mut(&one.query).expect("it runs");
        query.credit = query.credit.saturating_sub(bytes);
        query.fresh = query.fresh.min(query.credit);
    }

    fn give_some(&mut self, operator: OperatorId) {
        let part = self.some_part();
        let has = self.operators[&operator].parts[part];
        let bytes = self.draw.below(has + 1);
        self.give(operator, part, bytes);
    }

    pub(super) fn give(&mut self, operator: OperatorId, part: usize, bytes: u64) {
        let batch = self.config.batch;
        let one = self.operators.get_mut(&operator).expect("known");
        let has = one.parts[part];
        let left = has - bytes;
        one.parts[part] = left;
        one.bytes -= bytes;
        // The batch may have changed meanwhile.
        let base = one.base.saturating_sub(has.min(batch) - left.min(batch));
        one.base = base.max(one.bytes.min(batch.max(one.room))).min(one.bytes);
        let query = one.query;
        self.freed(query, bytes);
        self.tell(Event::Gave {
            operator,
            bytes,
            left,
        });
    }

    /// The books of a query that has less.
    fn freed(&mut self, id: QueryId, bytes: u64) {
        let query = self.queries.get_mut(&id).expect("it runs");
        if query.credit == 0 {
            query.turned_at = self.now;
        } else {
            query.fresh += bytes;
        }
        query.credit += bytes;
    }

    fn end_operator(&mut self, operator: OperatorId) {
        let one = self.operators.remove(&operator).expect("known");
        self.freed(one.query, one.bytes);
        self.tell(Event::OperatorEnded { operator });
    }

    /// A query fails, and comes back with what it needs.
    pub(super) fn fail(&mut self, id: QueryId, needed: u64) {
        let query = self.queries.get_mut(&id).expect("it runs");
        let comes_back = !query.ends && query.runs < RUNS_MAX && needed <= self.config.limit;
        let (steps, runs) = (query.steps, query.runs);
        query.ends = true;
        self.end_query(id);
        if comes_back {
            self.seen.came_back += 1;
            self.arrives(needed, steps + 4, runs + 1);
        }
    }

    fn end_query(&mut self, query: QueryId) {
        for operator in self.operators_of(query) {
            // A refusal of another may have ended the query meanwhile.
            if self.operators.contains_key(&operator) {
                self.end_operator(operator);
            }
        }
        if self.queries.remove(&query).is_some() {
            self.tell(Event::QueryEnded { query });
        }
    }

    fn client_pauses_or_returns(&mut self) {
        let Some(query) = self.some_query() else {
            return;
        };
        let one = self.queries.get_mut(&query).expect("it runs");
        if one.silent_since.take().is_some() {
            self.tell(Event::QueryHeard { query });
        } else {
            one.silent_since = Some(self.now);
            self.tell(Event::QuerySilent { query });
            // Long enough for somebody to lose patience.
            if self.draw.one_in(4) {
                self.now += 9 * SECOND;
            }
        }
    }

    // ---------------------------------------------------------------- chunks, holders, the process

    fn scratch_comes_or_goes(&mut self) {
        let open = self.scratch.keys().next().copied();
        match open {
            Some(scratch) if self.draw.one_in(2) => {
                self.scratch.remove(&scratch);
                self.tell(Event::ScratchClosed { scratch });
            }
            _ => {
                let scratch = ScratchId(self.id());
                let left = self.config.for_small.saturating_sub(self.of_small(None));
                let room = self.ceiling().saturating_sub(self.fixed() + left);
                let bytes = self.draw.below(self.config.limit / 8);
                // Without any open one it is opened whatever there is.
                let bytes = if self.calm { bytes.min(room) } else { bytes };
                self.scratch.insert(scratch, (bytes, false));
                self.tell(Event::ScratchArrived { scratch, bytes });
                self.seen.scratch_waited += u64::from(!self.scratch[&scratch].1);
            }
        }
    }

    fn holder_grows(&mut self) {
        let holder = HolderId(u32::try_from(self.draw.below(5)).expect("small"));
        let room = self.core.room(holder);
        let draw = self.draw.below(room + 1);
        // A scan begins, and has to load.
        let begins = !self.calm && self.draw.one_in(20);
        let floor = begins.then(|| self.draw.below(self.config.limit / 10));
        let Some(one) = self.holders.get_mut(&holder) else {
            return;
        };
        if one.asked.is_some() {
            return;
        }
        one.bytes = draw;
        one.floor = match floor {
            Some(floor) => floor,
            None => one.floor.min(one.bytes),
        };
        let (bytes, floor) = (one.bytes, one.floor);
        self.tell(Event::Held {
            holder,
            bytes,
            floor,
        });
    }

    fn some_holder_answers(&mut self) {
        let asked = self.holders.iter().find(|(_, one)| one.asked.is_some());
        if let Some(holder) = asked.map(|(id, _)| *id) {
            self.answer_reclaim(holder);
        }
    }

    pub(super) fn answer_reclaim(&mut self, holder: HolderId) {
        let refuses = !self.calm && self.draw.one_in(10);
        let gives_nothing = !self.calm && self.draw.one_in(20);
        let one = self.holders.get_mut(&holder).expect("known");
        let Some(asked) = one.asked else {
            return;
        };
        if gives_nothing {
            one.spent = one.asked.is_some();
        } else if refuses {
            // Frames are pinned.
            one.floor = one.bytes;
        } else {
            one.bytes -= asked.min(one.droppable());
        }
        let (bytes, floor) = (one.bytes, one.floor);
        self.tell(Event::Held {
            holder,
            bytes,
            floor,
        });
        self.holders.get_mut(&holder).expect("known").asked = None;
        self.tell(Event::Reclaimed { holder });
    }

    /// What changes without a request.
    fn nobody_asked_for_it(&mut self) {
        if self.calm {
            return;
        }
        match self.draw.below(5) {
            0 => {
                let (holder, bytes) = (HolderId(10), self.draw.below(self.config.limit / 6));
                self.keep(holder, bytes);
            }
            1 => {
                let (holder, bytes) = (HolderId(11), self.draw.below(2 * self.config.reserve + 1));
                self.keep(holder, bytes);
            }
            2 => {
                let bytes = self.draw.below(self.config.limit + self.config.limit / 4);
                self.measured(bytes);
            }
            3 => {
                let holder = HolderId(0);
                let price = self.draw.below(5) * 50;
                self.holders.get_mut(&holder).expect("the first").class = Class::Drops(price);
                self.tell(Event::Priced { holder, price });
            }
            _ => {
                let limit = 500 + self.draw.below(4_500);
                let limit = if self.draw.one_in(20) { 0 } else { limit };
                // A reserve may exceed the limit.
                let reserve = match self.draw.below(10) {
                    0 => 2 * limit,
                    _ => self.config.reserve.min(limit / 8),
                };
                (self.config.limit, self.config.reserve) = (limit, reserve);
                for query in self.queries.values_mut() {
                    (query.credit, query.fresh) = (0, 0);
                }
                let for_small = self.draw.below(limit / 4 + 1);
                let batch = self.draw.below(limit / 10 + 1);
                (self.config.for_small, self.config.batch) = (for_small, batch);
                self.tell(Event::LimitChanged {
                    limit,
                    reserve,
                    for_small,
                    batch,
                });
            }
        }
    }

    fn keep(&mut self, holder: HolderId, bytes: u64) {
        self.holders.get_mut(&holder).expect("known").bytes = bytes;
        let floor = bytes;
        self.tell(Event::Held {
            holder,
            bytes,
            floor,
        });
    }

    fn measured(&mut self, bytes: u64) {
        let mut counted: u64 = self.operators.values().map(|one| one.bytes).sum();
        counted += self
            .scratch
            .values()
            .filter(|(_, open)| *open)
            .map(|(bytes, _)| bytes)
            .sum::<u64>();
        counted += self.holders.values().map(|one| one.bytes).sum::<u64>();
        let seen = bytes.saturating_sub(counted);
        let beyond = seen.min(self.beyond_before);
        self.beyond_before = seen;
        let fall = self.unaccounted.saturating_sub(beyond) / 4;
        self.unaccounted = (self.unaccounted - fall).max(beyond);
        self.tell(Event::Measured { bytes });
    }

    // ---------------------------------------------------------------- the end

    /// Nobody comes any more; everybody does what is asked.
    pub(super) fn end_everything(&mut self) {
        for query in self.queries_that(|one| one.silent_since.is_some()) {
            self.queries.get_mut(&query).expect("it runs").silent_since = None;
            self.tell(Event::QueryHeard { query });
        }
        while let Some(&scratch) = self.scratch.keys().next() {
            self.scratch.remove(&scratch);
            self.tell(Event::ScratchClosed { scratch });
        }
        self.within_the_limit_after_a_second();
        let mut left = 100_000;
        while let Some(query) = self.some_query() {
            while self.holders.values().any(|one| one.asked.is_some()) {
                self.some_holder_answers();
            }
            if self
                .queries
                .get(&query)
                .is_some_and(|one| one.promised.is_some())
            {
                self.one_step_of(query);
            }
            left -= 1;
            assert!(left > 0, "seed {}: it does not end", self.seed);
        }
        assert!(self.queries.is_empty(), "MEM-I6: seed {}", self.seed);
    }

    /// MEM-I6: clients that are silent stay so, and small queries come and take what they can.
    pub(super) fn all_of_them_begin(&mut self, waiting: &[QueryId]) {
        for _ in 0..3_000 {
            let still = |id: &QueryId| {
                self.queries
                    .get(id)
                    .is_some_and(|one| one.promised.is_none())
            };
            if !waiting.iter().any(still) {
                return;
            }
            self.arrives(0, 6, RUNS_MAX);
            let small = self.draw.below(self.config.for_small / 4 + 1);
            self.arrives(small, 6, RUNS_MAX);
            for query in self.queries_that(|one| one.promised.is_some()) {
                let one = self.queries.get(&query);
                if one.is_some_and(|one| one.silent_since.is_none() || one.ends) {
                    self.one_step_of(query);
                }
            }
            self.some_holder_answers();
            self.scratch_comes_or_goes();
            self.tick();
        }
        panic!("MEM-I6: seed {}: a query starves", self.seed);
    }

    /// MEM-I8.
    fn within_the_limit_after_a_second(&mut self) {
        // Holders may turn out to have nothing to give until late.
        for _ in 0..12 {
            self.now += SECOND / 2;
            self.expire();
            self.tell(Event::Ticked);
            while self.holders.values().any(|one| one.asked.is_some()) {
                self.some_holder_answers();
            }
            for query in self.queries_that(|one| one.ends) {
                self.end_query(query);
            }
        }
        let holds = self.operators.values().any(|one| one.bytes > 0);
        let unused = |one: &super::Holder| one.floor.saturating_sub(one.bytes);
        let drops = self.holders.values().filter(|one| one.price().is_some());
        let unused: u64 = drops.map(unused).sum();
        let is_within = self.taken() - unused <= self.config.limit;
        assert!(is_within || !holds, "MEM-I8: seed {}", self.seed);
    }
}
