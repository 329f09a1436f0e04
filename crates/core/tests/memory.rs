//! Promised: whatever queries, operators, holders and clients do, and however the limit changes,
//! memory is taken back where that is cheapest, an operator that would fail gets all of its query's
//! minimum, queries begin in order of arrival but for small ones, the process stays within its
//! limit once everybody has done what was asked, and every query ends. A naive transcription of the
//! rules (`memory_world/naive.rs`) gives the same answer to every request.

mod draw;
mod memory_world;

use coscan_core::Time;
use coscan_core::memory::{
    Action, Class, Event, HolderId, Memory, MemoryConfig, MemoryError, OperatorId, ScratchId,
    Standing, WHOLE,
};
use coscan_core::tasks::QueryId;
use memory_world::small::{
    FAILS, SPILLS, Small, admit, end, grant, reclaim, refuse, refuse_beside_others, small_arrives,
};
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
    assert!(
        all.waited > 10_000 && all.passed > 1_000 && all.passed_as_small > 1_000,
        "{all:?}"
    );
    assert!(all.rejected > 100 && all.came_back > 1_000, "{all:?}");
    assert!(
        all.ended_by_limit > 100 && all.ended_silent > 100,
        "{all:?}"
    );
    assert!(all.scratch_waited > 1_000 && all.rooms > 1_000, "{all:?}");
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

#[test]
fn nobody_starves_while_small_queries_come_without_end() {
    let waited: usize = (0..500).map(|seed| World::new(seed).run_on()).sum();
    assert!(waited > 500, "{waited}");
}

// ------------------------------------------------------------------ rules, one by one

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
    assert_eq!(small.ask(1, 201), [refuse(1, 701, 0)]);
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
    assert_eq!(
        small.ask(1, 50),
        [refuse(1, 450, 0)],
        "arrays are worth more"
    );
    small_arrives(&mut small, 2);
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 100), [reclaim(2, 100)], "it would fail");
}

#[test]
fn what_is_promised_nobody_else_gets() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 600), [admit(1)]);
    small_arrives(&mut small, 2);
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 301), [refuse_beside_others(2, 301, 600)]);
    assert_eq!(small.ask(2, 300), [grant(2)]);
    assert_eq!(small.ask(1, 600), [grant(1)]);
    assert_eq!(small.ask(1, 1), [refuse_beside_others(1, 601, 300)]);
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
    assert_eq!(small.ask(2, 1), [refuse_beside_others(2, 1, 900)]);
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
        [refuse(1, 20, 200)],
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
    let lower = |limit| Event::LimitChanged {
        limit,
        reserve: 0,
        for_small: 0,
        batch: 0,
    };
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
    assert_eq!(
        small.ask(2, 1),
        [refuse_beside_others(2, 201, 200)],
        "it is to end"
    );
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
    assert_eq!(small.ask(1, 51), [refuse(1, 851, 0)]);
    assert_eq!(small.ask(1, 50), [grant(1)]);
}

#[test]
fn what_the_kernel_counts_beyond_counts() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 100), [grant(1)]);
    small.tell(Event::Measured { bytes: 550 });
    assert_eq!(
        small.core.usage().unaccounted,
        0,
        "it may be what was freed"
    );
    small.tell(Event::Measured { bytes: 550 });
    assert_eq!(small.ask(1, 351), [refuse(1, 451, 0)]);
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
fn whoever_asks_learns_what_a_query_has_and_waits_for() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 900);
    assert_eq!(small.arrive(1, 400), [admit(1)]);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 100), [reclaim(1, 100)]);
    let runs = |held, aside, asks| Some(Standing::Runs { held, aside, asks });
    let query = QueryId;
    assert_eq!(small.core.standing(query(1)), runs(0, 300, 100));
    assert_eq!(small.gave_way(1, 800), [grant(1)]);
    assert_eq!(small.core.standing(query(1)), runs(100, 300, 0));
    assert_eq!(small.tick_after(7), []);
    assert_eq!(small.arrive(2, 600), [], "500 are free");
    let waits = Standing::Waits {
        minimum: 600,
        since: Time(7_000_000),
    };
    assert_eq!(small.core.standing(query(2)), Some(waits));
    assert_eq!(small.core.standing(query(3)), None, "it has not arrived");
    let operator = OperatorId(1);
    assert_eq!(small.tell(Event::OperatorEnded { operator }), []);
    assert_eq!(small.tick_after(1), []);
    assert_eq!(small.core.standing(query(2)), Some(waits), "since then");
    assert_eq!(small.end(1), [admit(2)]);
    assert_eq!(small.core.standing(query(1)), None, "it has ended");
    assert_eq!(small.core.standing(query(2)), runs(0, 600, 0));
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
                left: 0,
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

// ------------------------------------------------------------------ what once went wrong

#[test]
fn nothing_is_always_granted() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 800), [grant(1)]);
    let (limit, reserve) = (500, 100);
    small.tell(Event::LimitChanged {
        limit,
        reserve,
        for_small: 0,
        batch: 0,
    });
    assert_eq!(small.ask(1, 0), [grant(1)]);
}

#[test]
fn a_query_without_a_minimum_never_waits() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 900), [grant(1)]);
    small.tell(Event::Measured { bytes: 990 });
    assert_eq!(small.arrive(2, 100), [], "it waits");
    for query in 3..20 {
        small_arrives(&mut small, query);
    }
}

#[test]
fn queries_without_a_minimum_do_not_keep_a_large_one_waiting() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 10), [grant(1)]);
    assert_eq!(small.arrive(2, 5_000), [], "it came after the first");
    small_arrives(&mut small, 3);
    small.begin(3, FAILS);
    assert_eq!(small.ask(3, 10), [grant(3)]);
    let operator = OperatorId(1);
    assert_eq!(
        small.tell(Event::OperatorEnded { operator }),
        [],
        "the first may have its bytes again"
    );
    assert_eq!(small.end(1), [admit(2)], "only younger ones have memory");
}

#[test]
fn a_query_that_has_no_memory_is_in_nobodys_way() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.tell(Event::QuerySilent { query: QueryId(1) });
    assert_eq!(small.arrive(2, 5_000), [admit(2)]);
}

#[test]
fn a_silent_client_loses_a_promise_too() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 450), [admit(1)]);
    small.tell(Event::QuerySilent { query: QueryId(1) });
    assert_eq!(small.arrive(2, 600), [], "it waits for the promise");
    assert_eq!(small.tick_after(5_000), [end(1)]);
    assert_eq!(small.end(1), [admit(2)]);
}

#[test]
fn a_chunk_waits_a_second_for_one_that_does_not_close() {
    let mut small = Small::new();
    let open = |scratch| Action::Open {
        scratch: ScratchId(scratch),
    };
    assert_eq!(small.scratch(1, 800), [open(1)]);
    assert_eq!(small.tick_after(2_000), []);
    assert_eq!(small.scratch(2, 200), []);
    assert_eq!(small.scratch(3, 200), []);
    assert_eq!(small.tick_after(999), []);
    assert_eq!(small.tick_after(1), [open(2)], "its reader may wait for it");
    assert_eq!(small.tick_after(999), []);
    assert_eq!(small.tick_after(1), [open(3)]);
}

#[test]
fn a_request_that_waits_is_counted_once() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 900);
    assert_eq!(small.arrive(1, 400), [admit(1)]);
    small_arrives(&mut small, 2);
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    assert_eq!(small.ask(1, 400), [reclaim(1, 400)]);
    assert_eq!(small.ask(2, 500), [], "500 bytes are promised to nobody");
    assert_eq!(small.gave_way(1, 500), [grant(1), reclaim(1, 500)]);
    assert_eq!(small.gave_way(1, 0), [grant(2)]);
}

#[test]
fn a_promise_is_kept_for_one_of_two_requests_at_a_time() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 600);
    assert_eq!(small.arrive(1, 300), [admit(1)]);
    assert_eq!(small.arrive(2, 600), [admit(2)]);
    small.begin(1, FAILS);
    small.tell(Event::OperatorBegan {
        operator: OperatorId(11),
        query: QueryId(1),
        on_refusal: FAILS,
    });
    assert_eq!(small.ask(1, 300), [grant(1)]);
    assert_eq!(
        small.ask(11, 1),
        [refuse_beside_others(11, 301, 600)],
        "600 are promised to 2"
    );
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 500), [reclaim(1, 500)]);
    small.tell(Event::OperatorBegan {
        operator: OperatorId(12),
        query: QueryId(2),
        on_refusal: FAILS,
    });
    assert_eq!(
        small.ask(12, 101),
        [refuse_beside_others(12, 101, 300)],
        "100 are left"
    );
}

#[test]
fn a_holder_that_cannot_give_is_not_asked_all_the_time() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 400);
    small.hold(2, Class::Drops(20), 400);
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 300), [reclaim(1, 200)]);
    let asked_next = [reclaim(2, 200)];
    assert_eq!(small.gave_way(1, 400), asked_next, "it gave nothing");
    assert_eq!(small.gave_way(2, 400), [refuse(1, 300, 0)]);
    assert_eq!(small.ask(1, 10), [grant(1)]);
    assert_eq!(
        small.ask(1, 95),
        [refuse(1, 105, 0)],
        "there is nobody to ask"
    );
    small.tick_after(100);
    assert_eq!(small.ask(1, 95), [reclaim(1, 15)]);
}

#[test]
fn what_was_given_back_earlier_is_free_though_more_is_given_back() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small_arrives(&mut small, 2);
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    assert_eq!(small.ask(1, 900), [grant(1)]);
    small.give(1, 800);
    for _ in 0..5 {
        small.tick_after(100);
        small.give(1, 1);
    }
    assert_eq!(small.ask(2, 790), [grant(2)]);
}

#[test]
fn what_a_sort_spilled_is_of_its_share_until_the_limit_changes() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small_arrives(&mut small, 2);
    small.begin(1, SPILLS);
    small.begin(2, SPILLS);
    for operator in [1, 2] {
        assert_eq!(small.ask(operator, 1), [grant(operator)]);
        assert_eq!(small.ask(operator, 399), [grant(operator)]);
    }
    small.give(1, 399);
    // A query waits, so nobody gets more than a share.
    assert_eq!(small.arrive(3, 500), []);
    assert_eq!(small.ask(1, 290), [grant(1)], "what it has just given");
    small.give(1, 290);
    small.tell(Event::LimitChanged {
        limit: 500,
        reserve: 0,
        for_small: 0,
        batch: 0,
    });
    assert_eq!(small.core.usage().aside, 0, "it may not be there any more");
}

#[test]
fn what_a_holder_freed_is_not_believed_to_be_taken() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 600);
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 300), [grant(1)]);
    assert_eq!(small.tell(Event::Measured { bytes: 900 }), []);
    assert_eq!(small.ask(1, 200), [reclaim(1, 200)]);
    assert_eq!(small.gave_way(1, 400), [grant(1)]);
    small.give(1, 200);
    // The allocator has not given the 200 bytes back.
    assert_eq!(small.tell(Event::Measured { bytes: 900 }), []);
    assert_eq!(small.core.usage().unaccounted, 0);
    assert_eq!(small.tell(Event::Measured { bytes: 900 }), []);
    assert_eq!(small.core.usage().unaccounted, 200, "now it might have");
}

#[test]
fn one_measurement_ends_no_query() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 600), [grant(1)]);
    assert_eq!(small.tell(Event::Measured { bytes: 1_200 }), []);
    assert_eq!(small.tick_after(2_000), []);
    assert_eq!(small.tell(Event::Measured { bytes: 1_200 }), []);
    assert_eq!(small.tick_after(900), []);
    assert_eq!(small.tick_after(100), [end(1)], "it is still too much");
}

#[test]
fn some_memory_is_left_whatever_the_kernel_counts() {
    let mut small = Small::new();
    small.tell(Event::Measured { bytes: 5_000 });
    small.tell(Event::Measured { bytes: 5_000 });
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 400), [grant(1)]);
    assert_eq!(small.ask(1, 1), [refuse(1, 401, 0)]);
    assert_eq!(small.tick_after(2_000), [], "it would be in vain");
}

#[test]
fn a_promise_may_end_before_its_query() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 600), [admit(1)]);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 200), [grant(1)]);
    assert_eq!(small.arrive(2, 700), []);
    let needs_less = |minimum| Event::QueryNeedsLess {
        query: QueryId(1),
        minimum,
    };
    assert_eq!(small.tell(needs_less(200)), [admit(2)]);
    assert_eq!(small.tell(needs_less(900)), []);
    let aside = small.core.usage().aside;
    assert_eq!(aside, 700, "what it has is all that it needs");
}

#[test]
fn a_client_alone_leaves_no_room_for_others() {
    let mut small = Small::new();
    for query in 1..=3 {
        assert_eq!(small.arrive(query, 50), [admit(query)]);
        small.begin(query, SPILLS);
        assert_eq!(small.ask(query, 50), [grant(query)]);
        while small.ask(query, 10) == [grant(query)] {}
        // A sixteenth is left to its merge.
        assert_eq!(small.core.usage().operators, 840);
        let operator = OperatorId(query);
        small.tell(Event::OperatorEnded { operator });
        small.end(query);
    }
}

#[test]
fn what_spills_is_not_needed_to_run_again() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 10), [grant(1)]);
    assert_eq!(small.ask(1, 590), [grant(1)]);
    small.tell(Event::OperatorBegan {
        operator: OperatorId(2),
        query: QueryId(1),
        on_refusal: FAILS,
    });
    assert_eq!(small.ask(2, 400), [refuse(2, 410, 0)], "with the base");
}

/// An aggregate of a few bytes gains nothing by spilling: its table keeps the room for a batch, and
/// the aggregate fails without that room. Here unused promises fill the memory, its own query's
/// among them.
#[test]
fn what_an_operator_needs_for_a_batch_comes_out_of_its_minimum() {
    for batch in [0, 50] {
        let mut small = Small::with_batch(batch);
        assert_eq!(small.arrive(1, 200), [admit(1)]);
        assert_eq!(small.arrive(2, 700), [admit(2)], "all is promised");
        small.begin(1, SPILLS);
        assert_eq!(small.ask(1, 10), [grant(1)], "its first bytes");
        let more = small.ask(1, 40);
        if batch == 0 {
            assert_eq!(more, [refuse(1, 50, 700)]);
            continue;
        }
        assert_eq!(more, [grant(1)], "up to a batch");
        assert_eq!(small.core.usage().aside, 850, "it counts as needed");
        assert_eq!(small.ask(1, 1), [refuse(1, 51, 700)], "beyond it spills");
        small.give(1, 20);
        assert_eq!(small.ask(1, 20), [grant(1)], "and once more after that");
    }
}

/// An aggregate that had far more than a batch, and has spilled, keeps a table for a batch. It
/// cannot spill that, so dear frames make way for the rest of it.
#[test]
fn what_is_left_of_a_batch_is_not_spilled_once_more() {
    for batch in [0, 50] {
        let mut small = Small::with_batch(batch);
        for query in 1..=20 {
            small_arrives(&mut small, query);
            small.begin(query, SPILLS);
        }
        assert_eq!(small.ask(1, 10), [grant(1)], "its first bytes");
        assert_eq!(small.ask(1, 70), [grant(1)], "at once beyond a batch");
        small.give(1, 40);
        small.tick_after(250);
        assert_eq!(small.core.usage().aside, 0, "it may not have them again");
        small.hold(1, Class::Drops(200), 860);
        let more = small.ask(1, 5);
        if batch == 0 {
            assert_eq!(more, [refuse(1, 15, 0)], "its own bytes are cheaper");
            continue;
        }
        assert_eq!(more, [reclaim(1, 15)]);
        assert_eq!(small.gave_way(1, 845), [grant(1)]);
    }
}

/// An aggregate that has spilled merges what it wrote into a table of its own. The merge takes what
/// it can get. Then it can spill neither, though the operator is one that spills, and the table is
/// refused beside whatever minimum its query has, in each of its runs.
#[test]
fn each_part_of_an_operator_has_its_batch_out_of_the_minimum() {
    let mut small = Small::with_batch(50);
    assert_eq!(small.arrive(1, 200), [admit(1)]);
    assert_eq!(small.arrive(2, 600), [admit(2)], "100 are left");
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 40), [grant(1)], "its merge");
    assert_eq!(small.ask(1, 50), [grant(1)], "of what is free");
    assert_eq!(small.core.usage().aside, 150 + 600, "50 are its base");
    assert_eq!(small.arrive(3, 700), [], "it waits");
    assert_eq!(
        small.ask(1, 50),
        [refuse(1, 100, 600)],
        "the merge goes on with less"
    );
    assert_eq!(small.ask_for_part(1, 0, 30), [grant(1)], "its table");
    assert_eq!(small.core.usage().aside, 120 + 600);
    assert_eq!(small.ask_for_part(1, 30, 20), [grant(1)], "up to a batch");
    assert_eq!(
        small.ask_for_part(1, 50, 11),
        [refuse(1, 111, 600)],
        "beyond it as any operator that spills"
    );
    for _ in 0..10 {
        small.give_of_part(1, 50, 0);
        assert_eq!(small.core.usage().operators, 90);
        small.tick_after(250);
        assert_eq!(small.core.usage().aside, 150 + 600, "the merge's base");
        assert_eq!(small.ask_for_part(1, 0, 50), [grant(1)], "once more");
    }
    small.give_of_part(1, 90, 0);
    small.tick_after(250);
    assert_eq!(small.core.usage().aside, 150 + 600, "the table's base");
}

/// Three tables that spill, and the merges of what they spilled.
#[test]
fn a_minimum_of_a_batch_for_each_part_is_enough_for_all_of_them() {
    let mut small = Small::with_batch(50);
    assert_eq!(small.arrive(1, 300), [admit(1)]);
    assert_eq!(small.arrive(2, 600), [admit(2)], "all is promised");
    for operator in [1, 11, 12] {
        small.tell(Event::OperatorBegan {
            operator: OperatorId(operator),
            query: QueryId(1),
            on_refusal: SPILLS,
        });
    }
    for operator in [1, 11, 12] {
        assert_eq!(small.ask(operator, 50), [grant(operator)]);
    }
    for operator in [1, 11, 12] {
        assert_eq!(small.ask_for_part(operator, 0, 50), [grant(operator)]);
    }
    assert_eq!(small.core.usage().aside, 600, "all of it is taken");
    assert_eq!(
        small.ask_for_part(12, 0, 1),
        [refuse_beside_others(12, 301, 600)]
    );
}

/// A sort writes for seconds what it has, and another query takes all that is free meanwhile.
/// Without room for its next batch it would fail because it has spilled.
#[test]
fn an_operator_that_spilled_has_room_for_as_much_as_it_began_with() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 100), [grant(1)], "its first batch");
    assert_eq!(small.ask(1, 300), [grant(1)]);
    assert_eq!(small.ask(1, 501), [refuse(1, 601, 0)]);
    for _ in 0..3 {
        small.give(1, 400);
        small.tick_after(250);
        small.tick_after(250);
        assert_eq!(small.core.usage().aside, 100, "its credit has ended");
        small_arrives(&mut small, 2);
        small.begin(2, FAILS);
        assert_eq!(small.ask(2, 800), [grant(2)]);
        assert_eq!(small.ask(2, 1), [refuse_beside_others(2, 801, 100)]);
        assert_eq!(small.ask(1, 60), [grant(1)]);
        assert_eq!(small.ask(1, 40), [grant(1)], "all of the room");
        assert_eq!(small.ask(1, 1), [refuse(1, 101, 800)]);
        small.tell(Event::OperatorEnded {
            operator: OperatorId(2),
        });
        small.end(2);
        assert_eq!(small.ask(1, 300), [grant(1)]);
    }
    small.tell(Event::OperatorEnded {
        operator: OperatorId(1),
    });
    small.tick_after(250);
    small.tick_after(250);
    assert_eq!(small.core.usage().aside, 0);
}

/// Two sorts of a query, one of which has ended and is merged while the other still spills. What
/// the query is promised is not for the merge alone.
#[test]
fn a_merge_leaves_a_sort_of_its_query_the_room() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 300), [admit(1)]);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 100), [grant(1)]);
    small_arrives(&mut small, 2);
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 600), [grant(2)], "all that is free");
    assert_eq!(small.ask(1, 1), [refuse(1, 101, 600)]);
    small.give(1, 100);
    small.tick_after(250);
    small.tick_after(250);
    small.tell(Event::OperatorBegan {
        operator: OperatorId(3),
        query: QueryId(1),
        on_refusal: FAILS,
    });
    assert_eq!(small.ask(3, 201), [refuse_beside_others(3, 301, 600)]);
    assert_eq!(small.ask(3, 200), [grant(3)], "the rest of the promise");
    assert_eq!(small.ask(1, 100), [grant(1)], "its room");
}

/// A sort gives back what it has spilled, and another query takes all that is not kept for this
/// one. Were the sort to take back more, its query's next operator would be refused a promise.
#[test]
fn what_a_sort_takes_back_is_not_what_is_promised() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 300), [admit(1)]);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 10), [grant(1)]);
    assert_eq!(small.ask(1, 350), [grant(1)]);
    small_arrives(&mut small, 2);
    small.begin(2, FAILS);
    small.give(1, 350);
    assert_eq!(small.core.usage().aside, 350, "290 are promised");
    assert_eq!(small.ask(2, 530), [grant(2)], "10 are left");
    assert_eq!(small.ask(1, 71), [refuse(1, 81, 530)]);
    assert_eq!(small.ask(1, 60), [grant(1)], "it had no more than these");
    small.tell(Event::OperatorBegan {
        operator: OperatorId(3),
        query: QueryId(1),
        on_refusal: FAILS,
    });
    assert_eq!(small.ask(3, 301), [refuse_beside_others(3, 311, 530)]);
    assert_eq!(small.ask(3, 290), [grant(3)], "its promise");
}

/// A sort that waits for holders has a part of its query's promise, as far as it has room.
#[test]
fn what_a_sort_waits_for_in_its_room_is_no_longer_promised() {
    let mut small = Small::new();
    assert_eq!(small.arrive(1, 300), [admit(1)]);
    assert_eq!(small.arrive(2, 500), [admit(2)]);
    small.begin(1, SPILLS);
    assert_eq!(small.ask(1, 100), [grant(1)]);
    assert_eq!(small.ask(1, 500), [refuse(1, 600, 500)]);
    small.give(1, 99);
    small.tick_after(250);
    small.tick_after(250);
    small.hold(1, Class::Drops(10), 899);
    assert_eq!(small.ask(1, 110), [reclaim(1, 110)], "99 are its room");
    assert_eq!(small.core.usage().aside, 200 + 500);
    small.tell(Event::OperatorBegan {
        operator: OperatorId(3),
        query: QueryId(1),
        on_refusal: FAILS,
    });
    assert_eq!(small.ask(3, 290), [refuse_beside_others(3, 291, 500)]);
    assert_eq!(small.gave_way(1, 700), [grant(1)]);
}

#[test]
fn the_second_sort_of_a_query_has_more_than_its_first_batch() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    for operator in [1, 2] {
        small.tell(Event::OperatorBegan {
            operator: OperatorId(operator),
            query: QueryId(1),
            on_refusal: SPILLS,
        });
    }
    let fill = |small: &mut Small, id| {
        let mut has = 0;
        while small.ask(id, 10) == [grant(id)] {
            has += 10;
        }
        has
    };
    let first = fill(&mut small, 1);
    let second = fill(&mut small, 2);
    assert!(first >= 600 && second >= 200, "{first} and {second}");
}

#[test]
fn sorts_leave_something_to_their_merge() {
    let mut small = Small::new();
    small_arrives(&mut small, 1);
    let began = |small: &mut Small, operator, on_refusal| {
        small.tell(Event::OperatorBegan {
            operator: OperatorId(operator),
            query: QueryId(1),
            on_refusal,
        });
    };
    for operator in [1, 2] {
        began(&mut small, operator, SPILLS);
    }
    // In turn, as partitions do.
    let mut has = 0;
    while small.ask(1, 10) == [grant(1)] && small.ask(2, 10) == [grant(2)] {
        has += 20;
    }
    assert!(has >= 800, "{has}");
    began(&mut small, 3, FAILS);
    assert_eq!(small.ask(3, 50), [grant(3)]);
}

#[test]
fn dear_frames_leave_a_sort_more_than_a_batch() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(200), 900);
    small_arrives(&mut small, 1);
    small.begin(1, SPILLS);
    let mut left = 900;
    loop {
        match small.ask(1, 10)[..] {
            [Action::Reclaim { bytes, .. }] => {
                left -= bytes;
                assert_eq!(small.gave_way(1, left), [grant(1)]);
            }
            [Action::Grant { .. }] => {}
            _ => break,
        }
    }
    assert!((400..500).contains(&left), "half of its share: {left}");
}

#[test]
fn a_holder_may_always_have_its_floor() {
    let mut small = Small::new();
    small.hold(1, Class::Drops(10), 0);
    small.hold(2, Class::Drops(10), 0);
    small.held(2, 0, 200);
    assert_eq!(small.core.room(HolderId(1)), 700);
    small.held(1, 700, 0);
    assert_eq!(small.core.room(HolderId(2)), 200, "its next load");
    small.tell(Event::Measured { bytes: 700 });
    assert_eq!(small.core.usage().unaccounted, 0);
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 701), [refuse(1, 701, 0)], "scans go on");
}

#[test]
fn only_what_drops_has_a_price() {
    let mut small = Small::new();
    small.hold(1, Class::Connections, 50);
    let (holder, price) = (HolderId(1), 7);
    let priced = Event::Priced { holder, price };
    let refused = Err(MemoryError::Holder(holder));
    assert_eq!(small.core.handle(Time(0), priced), refused);
}

#[test]
fn absurd_numbers_stop_nothing() {
    let mut small = Small::new();
    small.hold(1, Class::Keeps, 10);
    small.held(1, u64::MAX, 0);
    small.scratch(1, u64::MAX);
    small.scratch(2, u64::MAX);
    small.tell(Event::Measured { bytes: u64::MAX });
    small.arrive(1, u64::MAX);
    small.begin(1, FAILS);
    let operator = OperatorId(1);
    let bytes = u64::MAX;
    assert_eq!(small.ask(1, bytes), [refuse(1, bytes, 0)]);
    small.tell(Event::Took { operator, bytes });
    small.held(1, 0, 0);
}

/// A thousand queries wait, and ten thousand operators ask. Takes minutes where an event looks at
/// all pairs of anything.
#[test]
fn many_cost_little() {
    let config = MemoryConfig {
        limit: 1 << 30,
        reserve: 1 << 20,
        for_small: 1 << 26,
        batch: 0,
        waiting_max: 2_000,
    };
    let mut core = Memory::new(config);
    let mut tell = |event| {
        core.handle(Time(0), event).expect("possible");
        while core.poll_action().is_some() {}
    };
    for query in (0..1_000).map(QueryId) {
        tell(Event::QueryArrived { query, minimum: 0 });
    }
    for number in 0..10_000 {
        tell(Event::OperatorBegan {
            operator: OperatorId(number),
            query: QueryId(number % 1_000),
            on_refusal: SPILLS,
        });
    }
    for number in 1_000..2_000 {
        let (query, minimum) = (QueryId(number), (1 << 30) + number);
        tell(Event::QueryArrived { query, minimum });
    }
    for number in 0..100_000 {
        let operator = OperatorId(number % 10_000);
        let bytes = 1_000;
        tell(Event::Asked {
            operator,
            bytes,
            has: WHOLE,
        });
    }
    let (limit, reserve) = (1 << 20, 0);
    tell(Event::LimitChanged {
        limit,
        reserve,
        for_small: 0,
        batch: 0,
    });
}

// ------------------------------------------------------------------ small queries

#[test]
fn small_queries_begin_and_grow_beside_large_ones_that_hold_all_the_rest() {
    let mut small = Small::with_memory_for_small(40);
    small_arrives(&mut small, 1);
    small_arrives(&mut small, 2);
    small.begin(1, FAILS);
    small.begin(2, FAILS);
    assert_eq!(small.ask(1, 861), [refuse(1, 861, 0)], "40 are for small");
    assert_eq!(small.ask(1, 860), [grant(1)]);
    small.tell(Event::QuerySilent { query: QueryId(1) });
    assert_eq!(small.arrive(3, 400), [], "it waits for the first");
    for _ in 0..100 {
        assert_eq!(small.arrive(4, 10), [admit(4)], "it passes without end");
        small.end(4);
    }
    assert_eq!(small.arrive(5, 11), [], "it is not small");
    assert_eq!(small.ask(2, 10), [grant(2)], "it has no promise");
    assert_eq!(
        small.ask(2, 1),
        [refuse_beside_others(2, 11, 860)],
        "it would not be small"
    );
    for query in 6..9 {
        assert_eq!(small.arrive(query, 10), [admit(query)]);
    }
    assert_eq!(small.arrive(9, 10), [], "forty are taken");
    assert_eq!(small.end(6), [admit(9)]);
}

#[test]
fn a_query_that_was_small_leaves_the_memory_of_small_ones() {
    let mut small = Small::with_memory_for_small(40);
    for query in 1..=3 {
        small_arrives(&mut small, query);
        small.begin(query, FAILS);
    }
    assert_eq!(small.ask(1, 10), [grant(1)]);
    assert_eq!(small.ask(2, 850), [grant(2)], "30 are left to small ones");
    assert_eq!(
        small.ask(1, 1),
        [refuse_beside_others(1, 11, 850)],
        "40 would be left"
    );
    small.give(2, 1);
    small.tick_after(250);
    small.tick_after(250);
    assert_eq!(small.ask(1, 1), [grant(1)]);
    assert_eq!(small.ask(3, 10), [grant(3)]);
}

#[test]
fn a_large_query_does_not_wait_for_small_ones_that_came_later() {
    let mut small = Small::with_memory_for_small(40);
    assert_eq!(small.arrive(1, 11), [admit(1)]);
    assert_eq!(small.arrive(2, 900), [], "it wants all");
    assert_eq!(small.arrive(3, 10), [admit(3)]);
    assert_eq!(small.end(1), [admit(2)]);
    assert_eq!(small.core.usage().aside, 10 + 860, "less than it wants");
    assert_eq!(small.arrive(4, 10), [admit(4)]);
}

#[test]
fn a_small_query_finds_the_part_that_another_leaves_by_growing() {
    let mut small = Small::with_memory_for_small(40);
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 840), [grant(1)]);
    for query in 2..6 {
        assert_eq!(small.arrive(query, 10), [admit(query)]);
    }
    assert_eq!(small.arrive(6, 31), [], "20 are free");
    assert_eq!(small.arrive(7, 10), [admit(7)], "it passes");
    assert_eq!(small.arrive(8, 10), [admit(8)], "it passes");
    small.end(7);
    assert_eq!(small.arrive(9, 10), [admit(9)], "30 have passed 31");
    small.end(8);
    small.end(9);
    // 20 are free, and all of the part is taken.
    assert_eq!(small.arrive(10, 2), [], "1 may pass");
    small.begin(2, FAILS);
    let (operator, bytes) = (OperatorId(2), 11);
    assert_eq!(
        small.tell(Event::Took { operator, bytes }),
        [admit(10)],
        "less is free, but more for small ones"
    );
}

#[test]
fn connections_leave_the_memory_of_small_queries() {
    let mut small = Small::with_memory_for_small(40);
    small.hold(1, Class::Connections, 0);
    let room = |small: &Small| small.core.room(HolderId(1));
    assert_eq!(room(&small), 960, "with the reserve of 100");
    small.held(1, 960, 0);
    small_arrives(&mut small, 1);
    small.begin(1, FAILS);
    assert_eq!(small.ask(1, 10), [grant(1)]);
    assert_eq!(room(&small), 960, "it has what is for it");
    small_arrives(&mut small, 2);
    small.begin(2, FAILS);
    assert_eq!(small.ask(2, 11), [refuse(2, 11, 10)]);
}

#[test]
fn small_queries_have_their_part_whatever_else_is_taken() {
    let mut small = Small::with_memory_for_small(40);
    for query in 1..=2 {
        small_arrives(&mut small, query);
        small.begin(query, FAILS);
    }
    assert_eq!(small.ask(1, 860), [grant(1)]);
    let (operator, bytes) = (OperatorId(1), 75);
    assert_eq!(small.tell(Event::Took { operator, bytes }), []);
    small.hold(1, Class::Keeps, 20);
    assert_eq!(small.ask(2, 11), [refuse_beside_others(2, 11, 935)]);
    assert_eq!(small.ask(2, 10), [grant(2)]);
    for (query, minimum) in [(3, 10), (4, 10), (5, 5)] {
        assert_eq!(small.arrive(query, minimum), [admit(query)]);
    }
    assert_eq!(small.arrive(6, 10), [], "five are left");
    small.begin(5, SPILLS);
    assert_eq!(small.ask(5, 2), [grant(5)]);
    assert_eq!(small.ask(5, 5), [grant(5)], "though others wait");
}

#[test]
fn holders_give_back_for_small_queries_what_they_can() {
    let mut small = Small::with_memory_for_small(40);
    small.hold(1, Class::Drops(10), 10);
    for query in 1..=2 {
        small_arrives(&mut small, query);
        small.begin(query, FAILS);
    }
    small.hold(2, Class::Keeps, 885);
    assert_eq!(small.ask(2, 10), [reclaim(1, 10)]);
    small.held(2, 895, 0);
    assert_eq!(small.gave_way(1, 2), [reclaim(1, 2)], "it has more");
    assert_eq!(small.gave_way(1, 2), [grant(2)], "it gave nothing");
}

#[test]
fn chunks_in_work_leave_the_part_of_small_queries() {
    let mut small = Small::with_memory_for_small(40);
    let open = |scratch| Action::Open {
        scratch: ScratchId(scratch),
    };
    assert_eq!(small.scratch(1, 10), [open(1)]);
    assert_eq!(small.scratch(2, 851), [], "one is open");
    let scratch = ScratchId(1);
    assert_eq!(small.tell(Event::ScratchClosed { scratch }), [open(2)]);
    assert_eq!(small.scratch(3, 9), [open(3)]);
    assert_eq!(small.scratch(4, 1), []);
}
