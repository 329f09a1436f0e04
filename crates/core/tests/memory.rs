//! Promised: whatever queries, operators, holders and clients do, and however the limit changes,
//! memory is taken back where that is cheapest, an operator that would fail gets all of its query's
//! minimum, queries begin in order of arrival but for small ones, the process stays within its
//! limit once everybody has done what was asked, and every query ends. A naive transcription of the
//! rules (`memory_world/naive.rs`) gives the same answer to every request.

mod draw;
mod memory_world;

use coscan_core::Time;
use coscan_core::memory::{
    Action, Class, Event, HolderId, Memory, MemoryConfig, MemoryError, OnRefusal, OperatorId,
    ScratchId,
};
use coscan_core::tasks::QueryId;
use memory_world::{Seen, World};

#[test]
fn ten_thousand_worlds() {
    let mut all = Seen::default();
    for seed in 0..10_000 {
        all.add(&World::new(seed).run());
    }
    // A world in which nothing happens proves nothing.
    assert!(all.granted > 100_000 && all.reclaimed > 10_000, "{all:?}");
    assert!(all.spilled > 10_000 && all.failed > 1_000, "{all:?}");
    assert!(all.waited > 10_000 && all.passed > 1_000, "{all:?}");
    assert!(all.rejected > 100 && all.came_back > 1_000, "{all:?}");
    assert!(
        all.ended_by_limit > 100 && all.ended_silent > 100,
        "{all:?}"
    );
    assert!(all.scratch_waited > 1_000, "{all:?}");
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..50 {
        assert_eq!(
            World::new(seed).run(),
            World::new(seed).run(),
            "seed {seed}"
        );
    }
}

// ------------------------------------------------------------------ rules, one by one

const MS: u64 = 1_000_000;

/// A memory with its clock.
struct Small {
    core: Memory,
    now: u64,
}

impl Small {
    /// Of 1000 bytes; queries never get 100.
    fn new() -> Self {
        let config = MemoryConfig {
            limit: 1_000,
            reserve: 100,
            waiting_max: 4,
        };
        Self {
            core: Memory::new(config),
            now: 0,
        }
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        self.core.handle(Time(self.now), event).expect("possible");
        self.core.check();
        std::iter::from_fn(|| self.core.poll_action()).collect()
    }

    fn tick_after(&mut self, ms: u64) -> Vec<Action> {
        self.now += ms * MS;
        self.tell(Event::Ticked)
    }

    fn arrive(&mut self, query: u64, minimum: u64) -> Vec<Action> {
        let query = QueryId(query);
        self.tell(Event::QueryArrived { query, minimum })
    }

    fn end(&mut self, query: u64) -> Vec<Action> {
        let query = QueryId(query);
        self.tell(Event::QueryEnded { query })
    }

    /// An operator with the number of its query.
    fn begin(&mut self, id: u64, on_refusal: OnRefusal) {
        let (operator, query) = (OperatorId(id), QueryId(id));
        let began = Event::OperatorBegan {
            operator,
            query,
            on_refusal,
        };
        assert_eq!(self.tell(began), []);
    }

    fn ask(&mut self, id: u64, bytes: u64) -> Vec<Action> {
        let operator = OperatorId(id);
        self.tell(Event::Asked { operator, bytes })
    }

    fn give(&mut self, id: u64, bytes: u64) -> Vec<Action> {
        let operator = OperatorId(id);
        self.tell(Event::Gave { operator, bytes })
    }

    fn hold(&mut self, holder: u32, class: Class, bytes: u64) {
        let holder = HolderId(holder);
        let floor = 0;
        self.tell(Event::HolderAdded { holder, class });
        let held = Event::Held {
            holder,
            bytes,
            floor,
        };
        assert_eq!(self.tell(held), []);
    }

    /// The holder has this much left.
    fn gave_way(&mut self, holder: u32, bytes: u64) -> Vec<Action> {
        let holder = HolderId(holder);
        let floor = 0;
        let mut all = self.tell(Event::Held {
            holder,
            bytes,
            floor,
        });
        all.extend(self.tell(Event::Reclaimed { holder }));
        all
    }
}

fn admit(query: u64) -> Action {
    let query = QueryId(query);
    Action::Admit { query }
}

fn grant(id: u64) -> Action {
    let operator = OperatorId(id);
    Action::Grant { operator }
}

fn refuse(id: u64, needed: u64) -> Action {
    let operator = OperatorId(id);
    Action::Refuse { operator, needed }
}

fn reclaim(holder: u32, bytes: u64) -> Action {
    let holder = HolderId(holder);
    Action::Reclaim { holder, bytes }
}

const FAILS: OnRefusal = OnRefusal::Fails;
const SPILLS: OnRefusal = OnRefusal::Spills(100);

#[test]
fn the_cheapest_bytes_go_first() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(50), 300);
    small.hold(2, Class::Drops(10), 300);
    small.hold(3, Class::Keeps, 200);
    small.arrive(1, 0);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 100), [grant(1)]);
    let asked = [reclaim(2, 300), reclaim(1, 100)];
    assert_eq!(small.ask(1, 400), asked);
    assert_eq!(small.gave_way(2, 0), []);
    assert_eq!(small.gave_way(1, 200), [grant(1)]);
    // Holders give no more than they have: 200 of 201.
    assert_eq!(small.ask(1, 201), [refuse(1, 701)]);
}

#[test]
fn an_operator_spills_if_its_own_bytes_are_cheaper() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(50), 200);
    small.hold(2, Class::Drops(200), 200);
    small.arrive(1, 0);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 400), [grant(1)]);
    assert_eq!(small.ask(1, 100), [grant(1)]);
    assert_eq!(small.ask(1, 50), [reclaim(1, 50)]);
    assert_eq!(small.gave_way(1, 150), [grant(1)]);
    assert_eq!(small.ask(1, 150), [reclaim(1, 150)]);
    assert_eq!(small.gave_way(1, 0), [grant(1)]);
    assert_eq!(small.ask(1, 50), [refuse(1, 750)], "arrays are worth more");
    small_arrives(&mut small, 2);
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 100), [reclaim(2, 100)], "it would fail");
}

fn small_arrives(small: &mut Small, query: u64) {
    assert_eq!(small.arrive(query, 0), [admit(query)]);
}

#[test]
fn what_is_promised_nobody_else_gets() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 600), [admit(1)]);
    small_arrives(&mut small, 2);
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 301), [refuse(2, 301)]);
    assert_eq!(small.ask(2, 300), [grant(2)]);
    assert_eq!(small.ask(1, 600), [grant(1)]);
    assert_eq!(small.ask(1, 1), [refuse(1, 601)]);
}

#[test]
fn what_a_query_gives_back_is_its_own_for_a_moment() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small_arrives(&mut small, 2);
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    assert_eq!(small.ask(1, 900), [grant(1)]);
    small.give(1, 800);
    assert_eq!(small.ask(2, 1), [refuse(2, 1)]);
    assert_eq!(small.ask(1, 500), [grant(1)]);
    small.tick_after(250);
    assert_eq!(small.ask(2, 300), [grant(2)]);
}

#[test]
fn spilling_queries_share_and_leave_room_for_one_more() {
    let mut small = Small::new();
    for query in 1..=2 {
        assert_eq!(small.arrive(query, 100), [admit(query)]);
        small.begin(query, SPILLS);
    }
    let fill = |small: &mut Small, id| {
        let mut has = 0;
        while small.ask(id, 10) == [grant(id)] {
            has += 10;
        }
        has
    };
    // Of 900 bytes 100 are promised to each, and one more leaves 100 free.
    assert_eq!(fill(&mut small, 1), 610);
    // The share of each is 300, but 90 are promised to the other.
    assert_eq!(fill(&mut small, 2), 110);
    assert_eq!(small.arrive(3, 95), [], "it waits");
    assert_eq!(
        small.ask(1, 10),
        [refuse(1, 620)],
        "it has more than its share"
    );
    assert_eq!(small.give(1, 610), [], "its merge may want that");
    assert_eq!(small.tick_after(250), [admit(3)]);
    assert_eq!(small.ask(1, 10), [grant(1)]);
}

#[test]
fn small_queries_pass_a_large_one_but_not_for_ever() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 600), [admit(1)]);
    assert_eq!(small.arrive(2, 400), [], "it waits");
    assert_eq!(small.arrive(3, 250), [admit(3)]);
    assert_eq!(small.end(3), []);
    assert_eq!(small.arrive(4, 200), [], "650 would pass 400");
    assert_eq!(small.arrive(5, 150), [admit(5)]);
    assert_eq!(small.arrive(6, 0), [admit(6)], "nothing always passes");
    small.end(5);
    assert_eq!(small.arrive(7, 1), []);
    assert_eq!(small.arrive(8, 9), []);
    let rejected = Action::Reject { query: QueryId(9) };
    assert_eq!(small.arrive(9, 9), [rejected], "four wait");
    assert_eq!(small.arrive(10, 0), [admit(10)]);
    assert_eq!(small.end(1), [admit(2), admit(4), admit(7), admit(8)]);
}

#[test]
fn alone_a_query_gets_what_there_is() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 5_000), [admit(1)]);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 900), [grant(1)]);
    assert_eq!(small.arrive(2, 5_000), []);
    small.tell(Event::OperatorEnded {
        operator: OperatorId(1),
    });
    assert_eq!(small.end(1), [admit(2)]);
}

#[test]
fn a_lower_limit_ends_the_youngest_and_gives_the_others_a_second_to_spill() {
    let mut small = Small::new();
    for query in 1..=3 {
        small_arrives(&mut small, query);
    }
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    small.begin(3, SPILLS);
    assert_eq!(small.ask(1, 200), [grant(1)]);
    assert_eq!(small.ask(2, 200), [grant(2)]);
    assert_eq!(small.ask(3, 10), [grant(3)]);
    assert_eq!(small.ask(3, 290), [grant(3)]);
    let lower = |limit| Event::LimitChanged { limit, reserve: 0 };
    let end = |query| Action::End {
        query: QueryId(query),
    };
    assert_eq!(small.tell(lower(600)), [], "290 may be spilled");
    assert_eq!(small.tick_after(900), []);
    assert_eq!(small.tick_after(100), [end(3)]);
    small.tell(Event::OperatorEnded {
        operator: OperatorId(3),
    });
    small.end(3);
    assert_eq!(small.tell(lower(300)), [end(2)], "at once");
    assert_eq!(small.ask(2, 1), [refuse(2, 201)], "it is to end");
}

#[test]
fn a_silent_client_loses_its_query_where_others_want_memory() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 450), [grant(1)]);
    small.tell(Event::QuerySilent { query: QueryId(1) });
    assert_eq!(small.tick_after(60_000), [], "nobody wants it");
    small.tell(Event::QueryHeard { query: QueryId(1) });
    small.tell(Event::QuerySilent { query: QueryId(1) });
    assert_eq!(small.arrive(2, 800), []);
    assert_eq!(
        small.tick_after(4_999),
        [],
        "it holds half, and has half of the time"
    );
    let end = Action::End { query: QueryId(1) };
    assert_eq!(small.tick_after(1), [end]);
}

#[test]
fn connections_have_the_reserve() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 900), [grant(1)]);
    small.hold(1, Class::Connections, 100);
    assert_eq!(small.core.usage().operators, 900);
    small.give(1, 100);
    assert_eq!(small.ask(1, 100), [grant(1)], "the reserve covers them");
    small.give(1, 100);
    let (holder, bytes, floor) = (HolderId(1), 150, 0);
    small.tell(Event::Held {
        holder,
        bytes,
        floor,
    });
    assert_eq!(small.ask(1, 51), [refuse(1, 851)]);
    assert_eq!(small.ask(1, 50), [grant(1)]);
}

#[test]
fn what_the_kernel_counts_beyond_counts() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 100), [grant(1)]);
    small.tell(Event::Measured { bytes: 900 });
    assert_eq!(small.ask(1, 1), [refuse(1, 101)]);
    for _ in 0..50 {
        small.tell(Event::Measured { bytes: 100 });
    }
    assert!(small.core.usage().unaccounted < 8);
}

#[test]
fn dearer_holders_have_the_room_of_cheaper_ones() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 300);
    small.hold(2, Class::Drops(20), 300);
    small.hold(3, Class::Keeps, 100);
    let room = |small: &Small, holder| small.core.room(HolderId(holder));
    assert_eq!((room(&small, 1), room(&small, 2)), (500, 800));
    assert_eq!(room(&small, 3), 0, "nobody asks it");
    small.tell(Event::Priced {
        holder: HolderId(1),
        price: 30,
    });
    assert_eq!((room(&small, 1), room(&small, 2)), (800, 500));
}

#[test]
fn impossible_events_are_refused_and_change_nothing() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 10), [grant(1)]);
    let before = small.core.usage();
    let (operator, query, holder) = (OperatorId(1), QueryId(1), HolderId(7));
    let too_much = MemoryError::TooMuch {
        operator,
        bytes: 11,
        has: 10,
    };
    let unknown = OperatorId(2);
    let on_refusal = FAILS;
    let began = |operator, query| Event::OperatorBegan {
        operator,
        query,
        on_refusal,
    };
    for (event, error) in [
        (
            Event::Gave {
                operator,
                bytes: 11,
            },
            too_much,
        ),
        (
            Event::QueryEnded { query },
            MemoryError::OperatorsLeft(query),
        ),
        (
            Event::QueryArrived { query, minimum: 1 },
            MemoryError::Query(query),
        ),
        (
            Event::QuerySilent { query: QueryId(2) },
            MemoryError::Query(QueryId(2)),
        ),
        (began(operator, query), MemoryError::Operator(operator)),
        (began(unknown, QueryId(3)), MemoryError::Query(QueryId(3))),
        (
            Event::OperatorEnded { operator: unknown },
            MemoryError::Operator(unknown),
        ),
        (Event::Reclaimed { holder }, MemoryError::Holder(holder)),
        (Event::HolderRemoved { holder }, MemoryError::Holder(holder)),
        (
            Event::ScratchClosed {
                scratch: ScratchId(1),
            },
            MemoryError::Scratch(ScratchId(1)),
        ),
    ] {
        assert_eq!(small.core.handle(Time(0), event), Err(error));
        small.core.check();
    }
    assert_eq!(small.core.usage(), before);
}
