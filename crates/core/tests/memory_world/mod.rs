//! Queries, holders and clients around the core, for the test of memory. Everything is drawn from a
//! seed. In *calm* worlds minima are true, and nothing comes that nobody asked for: then no query
//! may fail, and nothing may exceed the ceiling.

mod life;
mod naive;
pub(crate) mod small;

use std::collections::{BTreeMap, VecDeque};

use coscan_core::Time;
use coscan_core::memory::{
    Action, Class, Event, HolderId, Memory, MemoryConfig, OnRefusal, OperatorId, ScratchId,
    Standing,
};
use coscan_core::tasks::QueryId;

use crate::draw::Draw;

impl Draw {
    /// An index below `end`.
    fn index(&mut self, end: u64) -> usize {
        usize::try_from(self.below(end)).expect("small")
    }
}

/// Counts of what happened in worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) granted: u64,
    pub(crate) reclaimed: u64,
    pub(crate) spilled: u64,
    pub(crate) failed: u64,
    pub(crate) came_back: u64,
    pub(crate) waited: u64,
    pub(crate) passed: u64,
    pub(crate) passed_as_small: u64,
    pub(crate) rejected: u64,
    pub(crate) ended_by_limit: u64,
    pub(crate) ended_silent: u64,
    pub(crate) scratch_waited: u64,
    pub(crate) rooms: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.reclaimed += other.reclaimed;
        self.spilled += other.spilled;
        self.failed += other.failed;
        self.came_back += other.came_back;
        self.waited += other.waited;
        self.passed += other.passed;
        self.passed_as_small += other.passed_as_small;
        self.rejected += other.rejected;
        self.ended_by_limit += other.ended_by_limit;
        self.ended_silent += other.ended_silent;
        self.scratch_waited += other.scratch_waited;
        self.rooms += other.rooms;
    }
}

struct Holder {
    class: Class,
    bytes: u64,
    floor: u64,
    /// What it was asked for and has not answered.
    asked: Option<u64>,
    /// It gave nothing when it was asked, and no tick came since.
    spent: bool,
}

impl Holder {
    fn price(&self) -> Option<u64> {
        match self.class {
            Class::Drops(price) => Some(price),
            _ => None,
        }
    }

    fn droppable(&self) -> u64 {
        self.price()
            .map_or(0, |_| self.bytes.saturating_sub(self.floor))
    }
}

struct Operator {
    query: QueryId,
    on_refusal: OnRefusal,
    bytes: u64,
    base: u64,
    /// The most of its base that a part had which was refused.
    room: u64,
    /// The bytes of its parts.
    parts: [u64; PARTS],
    /// Which of them asks, or did so last.
    part: usize,
    /// What this part had then.
    has: u64,
    /// What it asks for at the moment.
    asks: Option<u64>,
    /// Whether it would have failed when it asked.
    asked_failing: bool,
    /// For how much of what it asks for it had room then.
    in_room: u64,
}

impl Operator {
    fn spillable(&self) -> u64 {
        match self.on_refusal {
            OnRefusal::Spills(_) => self.bytes - self.base,
            OnRefusal::Fails => 0,
        }
    }

    fn keeps_room(&self) -> u64 {
        self.room.saturating_sub(self.bytes)
    }

    /// Whether its query fails if the part that asks is refused these bytes.
    fn would_fail(&self, bytes: u64, batch: u64) -> bool {
        let has = self.has.min(self.bytes);
        let fails = self.bytes == 0 || self.on_refusal == OnRefusal::Fails;
        fails || has + bytes <= batch || bytes <= self.keeps_room()
    }
}

/// An operator holds a merge and a table, for example.
const PARTS: usize = 2;

struct Query {
    minimum: u64,
    /// What it was promised when it was admitted; before, nothing.
    promised: Option<u64>,
    passed: u64,
    credit: u64,
    /// The part of `credit` that stays at the next turn.
    fresh: u64,
    turned_at: u64,
    silent_since: Option<u64>,
    /// It was told to end, or failed.
    ends: bool,
    /// What is left to do.
    steps: u64,
    runs: u64,
}

/// See the file's header.
pub(crate) struct World {
    core: Memory,
    draw: Draw,
    seed: u64,
    now: u64,
    calm: bool,
    /// Holders answer at once.
    prompt: bool,
    config: MemoryConfig,
    holders: BTreeMap<HolderId, Holder>,
    queries: BTreeMap<QueryId, Query>,
    operators: BTreeMap<OperatorId, Operator>,
    /// Estimates, and whether the work has begun.
    scratch: BTreeMap<ScratchId, (u64, bool)>,
    minima: VecDeque<u64>,
    unaccounted: u64,
    beyond_before: u64,
    next: u64,
    seen: Seen,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let limit = 1_000 + draw.below(4_000);
        let config = MemoryConfig {
            limit,
            reserve: draw.below(limit / 8),
            for_small: draw.below(2) * draw.below(limit / 4),
            batch: draw.below(2) * draw.below(limit / 10),
            waiting_max: 1 + draw.index(12),
        };
        let mut world = Self {
            core: Memory::new(config),
            calm: draw.one_in(2),
            prompt: draw.one_in(2),
            draw,
            seed,
            now: 0,
            config,
            holders: BTreeMap::new(),
            queries: BTreeMap::new(),
            operators: BTreeMap::new(),
            scratch: BTreeMap::new(),
            minima: VecDeque::new(),
            unaccounted: 0,
            beyond_before: 0,
            next: 1,
            seen: Seen::default(),
        };
        for number in 0..=world.draw.below(4) {
            let price = world.draw.below(5) * 50;
            world.add_holder(number, Class::Drops(price));
        }
        if !world.calm {
            world.add_holder(10, Class::Keeps);
            world.add_holder(11, Class::Connections);
        }
        world
    }

    fn add_holder(&mut self, number: u64, class: Class) {
        let holder = HolderId(u32::try_from(number).expect("small"));
        let made = Holder {
            class,
            bytes: 0,
            floor: 0,
            asked: None,
            spent: false,
        };
        self.holders.insert(holder, made);
        self.tell(Event::HolderAdded { holder, class });
    }

    pub(crate) fn run(mut self) -> Seen {
        for _ in 0..120 {
            self.step();
        }
        self.end_everything();
        self.seen
    }

    /// Runs until all that wait have begun, beside queries without a minimum. Returns how many
    /// waited.
    pub(crate) fn run_on(mut self) -> usize {
        for _ in 0..120 {
            self.step();
        }
        let waiting: Vec<QueryId> = self.waiting().collect();
        self.all_of_them_begin(&waiting);
        waiting.len()
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    // ---------------------------------------------------------------- events and actions

    /// Tells the core, and does what it says.
    fn tell(&mut self, event: Event) {
        let expected = self.expected(&event);
        let result = self.core.handle(Time(self.now), event);
        result.unwrap_or_else(|why| panic!("seed {}: {event:?}: {why}", self.seed));
        self.core.check();
        let actions: Vec<Action> = std::iter::from_fn(|| self.core.poll_action()).collect();
        if let Some(expected) = expected {
            let spent = self.holders.values().any(|holder| holder.spent);
            expected.compare(&event, &actions, spent, self.seed);
        }
        self.reclaims_are_the_cheapest(&actions);
        if let Event::Asked {
            operator, bytes, ..
        } = event
        {
            let one = self.operators.get_mut(&operator).expect("known");
            one.asked_failing = one.would_fail(bytes, self.config.batch);
            one.in_room = bytes.min(one.keeps_room());
            one.asks = Some(bytes);
        }
        for action in &actions {
            self.note(*action);
        }
        self.standings_add_up();
        for action in actions {
            self.follow(action);
        }
        if self.calm {
            self.nothing_is_exceeded();
        }
    }

    /// What the core says of each query adds up to what it says of all.
    fn standings_add_up(&self) {
        let usage = self.core.usage();
        let mut left = (usage.operators, usage.aside, usage.queries, usage.waiting);
        for (id, query) in &self.queries {
            let standing = self.core.standing(*id).expect("it has not ended");
            match (standing, query.promised) {
                (Standing::Runs { held, aside, .. }, Some(_)) => {
                    left.0 -= held;
                    left.1 -= aside;
                    left.2 -= 1;
                }
                (Standing::Waits { minimum, since }, None) => {
                    assert_eq!(minimum, query.minimum, "seed {}", self.seed);
                    assert!(since.0 <= self.now, "seed {}", self.seed);
                    left.3 -= 1;
                }
                _ => panic!("seed {}: {standing:?}", self.seed),
            }
        }
        assert_eq!(left, (0, 0, 0, 0), "seed {}", self.seed);
    }

    /// The books.
    fn note(&mut self, action: Action) {
        match action {
            Action::Admit { query } => self.admitted(query),
            Action::Reject { query } => {
                self.queries.remove(&query);
                self.seen.rejected += 1;
            }
            Action::Grant { operator } => {
                let bytes = self.answered(operator);
                let one = &self.operators[&operator];
                let (part, has) = (one.part, one.has);
                self.grew(operator, part, bytes, has);
                self.seen.granted += 1;
            }
            Action::Refuse {
                operator,
                needed,
                others,
                fits_alone,
            } => {
                let bytes = self.answered(operator);
                let query = self.operators[&operator].query;
                let fixed = self.unspillable(query) + self.rooms_beside(operator);
                assert_eq!(needed, fixed + bytes);
                assert_eq!(others, self.of_others(query));
                assert_eq!(fits_alone, self.fits_alone(operator, bytes));
                self.keeps_room(operator);
            }
            Action::Open { scratch } => {
                self.scratch.get_mut(&scratch).expect("it arrived").1 = true;
            }
            Action::Reclaim { holder, bytes } => {
                let one = self.holders.get_mut(&holder).expect("known");
                assert!(bytes <= one.droppable(), "MEM-I2: more than it has");
                assert!(one.asked.is_none(), "MEM-I2: it was asked already");
                assert!(!one.spent, "MEM-I2: it has just given nothing");
                one.asked = Some(bytes);
                self.seen.reclaimed += 1;
            }
            Action::End { query } => {
                let one = self.queries.get_mut(&query).expect("it runs");
                assert!(!one.ends, "it was told already");
                match one.silent_since {
                    Some(_) => self.seen.ended_silent += 1,
                    None => self.seen.ended_by_limit += 1,
                }
                one.ends = true;
            }
        }
    }

    fn keeps_room(&mut self, operator: OperatorId) {
        let one = self.operators.get_mut(&operator).expect("it asked");
        if one.on_refusal != OnRefusal::Fails {
            let room = one.base.min(one.has);
            self.seen.rooms += u64::from(room > one.room);
            one.room = one.room.max(room);
        }
    }

    fn answered(&mut self, operator: OperatorId) -> u64 {
        let one = self.operators.get_mut(&operator).expect("it asked");
        one.asks.take().expect("it asked")
    }

    /// What the engine does then.
    fn follow(&mut self, action: Action) {
        match action {
            Action::Refuse {
                operator, needed, ..
            } => self.refused(operator, needed),
            Action::Reclaim { holder, .. } if self.prompt => self.answer_reclaim(holder),
            _ => {}
        }
    }

    fn admitted(&mut self, id: QueryId) {
        let minimum = self.queries[&id].minimum;
        let theirs = self.config.for_small.saturating_sub(self.of_small(None));
        let free = self.ceiling().saturating_sub(self.fixed());
        let is_theirs = self.is_small(minimum) && minimum <= theirs;
        let before: Vec<QueryId> = self.waiting().filter(|other| *other < id).collect();
        for other in before {
            if is_theirs {
                self.seen.passed_as_small += u64::from(minimum > 0);
                continue;
            }
            let other = self.queries.get_mut(&other).expect("it waits");
            other.passed += minimum;
            assert!(other.passed <= other.minimum, "MEM-I5: seed {}", self.seed);
            self.seen.passed += u64::from(minimum > 0);
        }
        let room = if is_theirs {
            minimum
        } else {
            free.saturating_sub(theirs)
        };
        let is_alone = !self
            .admitted_queries()
            .any(|(other, one)| self.is_awaited(other, one, id));
        assert!(is_alone || minimum <= room, "MEM-I4: seed {}", self.seed);
        let query = self.queries.get_mut(&id).expect("it waits");
        query.promised = Some(minimum.min(room));
    }

    /// Whether a query that waits may be waiting for this one's end.
    fn is_awaited(&self, id: QueryId, one: &Query, waiting: QueryId) -> bool {
        if id < waiting {
            one.minimum > 0 || self.has_or_may_have(id)
        } else {
            one.minimum > 0 && !self.is_small_query(id)
        }
    }

    fn refused(&mut self, id: OperatorId, needed: u64) {
        // Its query may have failed meanwhile.
        let Some(one) = self.operators.get(&id) else {
            return;
        };
        let (query, would_fail, parts) = (one.query, one.asked_failing, one.parts);
        if !would_fail {
            self.seen.spilled += 1;
            for (part, has) in parts.into_iter().enumerate() {
                // Its query may fail meanwhile.
                if has > 0 && self.operators.contains_key(&id) {
                    self.give(id, part, has);
                }
            }
            return;
        }
        let ends = self.queries[&query].ends;
        assert!(ends || !self.calm, "MEM-I3: seed {}", self.seed);
        self.seen.failed += 1;
        self.fail(query, needed);
    }

    /// MEM-I2: whoever is cheaper was asked for all it has.
    fn reclaims_are_the_cheapest(&self, actions: &[Action]) {
        let asked = |holder: &HolderId| {
            let now = actions.iter().find_map(|action| match action {
                Action::Reclaim { holder: one, bytes } if one == holder => Some(*bytes),
                _ => None,
            });
            let one = &self.holders[holder];
            now.or(one.asked).is_some() || one.spent
        };
        for action in actions {
            let Action::Reclaim { holder, .. } = action else {
                continue;
            };
            let price = self.holders[holder].price();
            for (id, other) in &self.holders {
                if other.price().is_some() && other.price() < price && other.droppable() > 0 {
                    assert!(asked(id), "MEM-I2: seed {}", self.seed);
                }
            }
        }
    }

    /// MEM-I4, where nothing comes that nobody asked for.
    fn nothing_is_exceeded(&self) {
        let asked = self.holders.values().any(|holder| holder.asked.is_some());
        let droppable: u64 = self.holders.values().map(Holder::droppable).sum();
        let all = self.taken() + if asked { 0 } else { droppable };
        assert!(all <= self.ceiling(), "seed {}: {all}", self.seed);
        let fixed = self.fixed();
        assert!(
            fixed <= self.ceiling(),
            "MEM-I4: seed {}: {fixed}",
            self.seed
        );
    }
}
