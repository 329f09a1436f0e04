//! Promised: a chunk job serves each of its members once (ABM-I5), whichever of them ends; its
//! columns stay resident while it runs (ABM-I2); a chunk that it gives back is needed; an event
//! that contradicts the state is refused and changes nothing; the scans that it served share its
//! price.

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event,
    EventError, Part, Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
    TurnLimit,
};

const TABLE: TableId = TableId(0);
const OTHER: TableId = TableId(1);
const CHUNK: ChunkId = ChunkId(0);
const LEADER: ScanId = ScanId(1);
const MEMBER: ScanId = ScanId(2);
const THIRD: ScanId = ScanId(3);
const CHUNKS: u32 = 4;

struct Driver {
    abm: Abm,
    now: u64,
}

/// Two tables of four chunks, with memory for all; loads complete at once.
fn driver(turns: Option<TurnLimit>) -> Driver {
    driver_under(Policy::Relevance, turns)
}

fn driver_under(policy: Policy, turns: Option<TurnLimit>) -> Driver {
    let abm = Abm::new(AbmConfig {
        policy,
        model: StorageModel::Dsm,
        budget_bytes: 1_000,
        loads_max: 2,
        stall_after_ns: 1_000_000,
        wait_unit_ns: 1,
        turns,
    });
    let mut driver = Driver { abm, now: 0 };
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: [10, 10].into(),
    };
    for table in [TABLE, OTHER] {
        let layout = TableLayout {
            columns: 2,
            chunks: vec![chunk.clone(); CHUNKS as usize],
            shared: Vec::new(),
        };
        driver.tell(Event::TableRegistered { table, layout });
    }
    driver
}

impl Driver {
    /// Handles an event; returns the actions that are not about memory.
    fn tell(&mut self, event: Event) -> Vec<Action> {
        let mut answers = Vec::new();
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let handled = self.abm.handle(Time(self.now), event);
            handled.expect("a valid event");
            self.abm.check();
            for action in std::iter::from_fn(|| self.abm.poll_action()) {
                match action {
                    Action::Load {
                        table,
                        chunk,
                        columns,
                        ..
                    } => events.push(Event::LoadCompleted {
                        table,
                        chunk,
                        columns,
                    }),
                    Action::Evict { .. } => {}
                    other => answers.push(other),
                }
            }
        }
        answers
    }

    fn refuse(&mut self, event: Event) -> EventError {
        let before = format!("{:?}", self.abm);
        let error = self.abm.handle(Time(self.now), event);
        let error = error.expect_err("it contradicts the state");
        assert_eq!(
            format!("{:?}", self.abm),
            before,
            "a refused event changes nothing"
        );
        error
    }

    fn register(&mut self, scan: ScanId, chunks: std::ops::Range<u32>, columns: &[u16]) {
        self.register_as(scan, TABLE, chunks, columns, false);
    }

    fn register_as(
        &mut self,
        scan: ScanId,
        table: TableId,
        chunks: std::ops::Range<u32>,
        columns: &[u16],
        ordered: bool,
    ) {
        let part = Part {
            chunks: ChunkSet::from_range(chunks),
            columns: columns.iter().copied().map(ColumnId).collect(),
        };
        let spec = ScanSpec {
            table,
            parts: vec![part],
            consumers: 1,
            ordered,
            devices_max: None,
        };
        self.tell(Event::ScanRegistered { scan, spec });
    }

    fn request(&mut self, scan: ScanId) -> Option<ChunkId> {
        handed(&self.tell(Event::ChunkRequested { scan }), scan)
    }

    fn release(&mut self, scan: ScanId, chunk: ChunkId) -> Vec<Action> {
        self.tell(Event::ChunkReleased { scan, chunk })
    }

    fn end(&mut self, scan: ScanId) -> Vec<Action> {
        self.tell(Event::ScanEnded { scan })
    }

    fn pinned(&self, chunk: ChunkId) -> ColumnSet {
        let mut chunks = self.abm.chunks();
        let found = chunks.find(|known| (known.table, known.chunk) == (TABLE, chunk));
        found.map(|known| known.pinned).unwrap_or_default()
    }
}

fn handed(actions: &[Action], to: ScanId) -> Option<ChunkId> {
    actions.iter().find_map(|action| match action {
        Action::Deliver { scan, chunk, .. } if *scan == to => Some(*chunk),
        _ => None,
    })
}

fn begun(scan: ScanId, chunk: ChunkId, members: &[ScanId]) -> Event {
    Event::ChunkJobBegun {
        scan,
        chunk,
        members: members.to_vec(),
    }
}

fn ended(scan: ScanId, chunk: ChunkId, given_back: &[ScanId]) -> Event {
    Event::ChunkJobEnded {
        scan,
        chunk,
        given_back: given_back.to_vec(),
    }
}

/// The leader, a scan of one chunk, holds its chunk, and a job has begun on it for the member,
/// which needs no other chunk.
fn begin() -> Driver {
    let mut driver = driver(None);
    driver.register(LEADER, 0..1, &[0]);
    driver.register(MEMBER, 0..1, &[0, 1]);
    assert_eq!(driver.request(LEADER), Some(CHUNK));
    driver.tell(begun(LEADER, CHUNK, &[MEMBER]));
    driver
}

#[test]
fn a_member_is_exhausted_when_its_jobs_have_ended() {
    let mut driver = begin();
    let job = driver.abm.jobs().next().expect("a job");
    assert_eq!(
        (job.scan, job.chunk, job.members),
        (LEADER, CHUNK, vec![MEMBER])
    );
    assert!(!driver.abm.needs(MEMBER, CHUNK));
    let none = driver.tell(Event::ChunkRequested { scan: MEMBER });
    assert_eq!(none, [], "the job may give the chunk back");
    let exhausted = Action::Exhausted { scan: MEMBER };
    assert_eq!(driver.tell(ended(LEADER, CHUNK, &[])), [exhausted]);
    driver.release(LEADER, CHUNK);
    assert_eq!(driver.abm.jobs().count(), 0);
}

#[test]
fn a_chunk_that_is_given_back_is_delivered() {
    let mut driver = begin();
    driver.tell(Event::ChunkRequested { scan: MEMBER });
    let answers = driver.tell(ended(LEADER, CHUNK, &[MEMBER]));
    assert_eq!(handed(&answers, MEMBER), Some(CHUNK));
    assert_eq!(driver.request(LEADER), None, "the leader is done with it");
}

#[test]
fn the_leader_may_be_given_the_chunk_back() {
    for lapses in [false, true] {
        let mut driver = begin();
        let (scan, chunk) = (LEADER, CHUNK);
        if lapses {
            driver.tell(Event::ChunkLapsed { scan, chunk });
        }
        driver.tell(ended(LEADER, CHUNK, &[LEADER]));
        assert_eq!(
            driver.refuse(Event::ChunkReleased { scan, chunk }),
            EventError::NotHeld(scan, chunk)
        );
        assert_eq!(driver.request(LEADER), Some(CHUNK));
    }
}

/// Whichever scan ends, and in whatever order, the columns of both stay resident until the job has
/// ended.
#[test]
fn a_job_continues_whichever_scan_ends() {
    for gone in [[LEADER, MEMBER], [MEMBER, LEADER]] {
        let mut driver = begin();
        assert_eq!(driver.pinned(CHUNK), ColumnSet::all(2));
        for scan in gone {
            driver.end(scan);
            driver.tell(Event::BudgetChanged { bytes: 0 });
            assert_eq!(driver.pinned(CHUNK), ColumnSet::all(2), "ABM-I2");
            let in_use = driver.refuse(Event::TableDropped { table: TABLE });
            assert_eq!(in_use, EventError::TableInUse(TABLE));
        }
        driver.tell(ended(LEADER, CHUNK, &[]));
        assert_eq!(driver.abm.used_bytes(), 0);
        driver.tell(Event::TableDropped { table: TABLE });
    }
}

#[test]
fn a_leader_may_release_the_chunk_before_the_job_ends() {
    let mut driver = begin();
    driver.release(LEADER, CHUNK);
    assert_eq!(driver.pinned(CHUNK), ColumnSet::all(2), "ABM-I2");
    let error = driver.refuse(ended(LEADER, CHUNK, &[LEADER]));
    assert_eq!(error, EventError::NotServed(LEADER, CHUNK));
    driver.tell(ended(LEADER, CHUNK, &[MEMBER]));
    assert_eq!(driver.pinned(CHUNK), ColumnSet::new());
    assert_eq!(driver.request(MEMBER), Some(CHUNK));
}

#[test]
fn a_lapsed_chunk_is_not_pinned_by_its_job() {
    let mut driver = begin();
    let (scan, chunk) = (LEADER, CHUNK);
    driver.tell(Event::ChunkLapsed { scan, chunk });
    assert_eq!(driver.pinned(CHUNK), ColumnSet::new());
    driver.tell(Event::BudgetChanged { bytes: 0 });
    assert_eq!(driver.abm.used_bytes(), 0);
    driver.tell(ended(LEADER, CHUNK, &[]));
    driver.release(LEADER, CHUNK);
    assert_eq!(
        driver.tell(Event::ChunkRequested { scan: MEMBER }),
        [Action::Exhausted { scan: MEMBER }]
    );
}

/// A member whose load fails needs nothing from then on, not from a job either (ABM-I7).
#[test]
fn a_member_that_fails_leaves_its_job() {
    let mut driver = driver(None);
    driver.register(LEADER, 0..1, &[0]);
    assert_eq!(driver.request(LEADER), Some(CHUNK));
    let part = |chunk: u32, column: u16| Part {
        chunks: ChunkSet::from_range(chunk..chunk + 1),
        columns: ColumnSet::from_iter([ColumnId(column)]),
    };
    let spec = ScanSpec {
        table: TABLE,
        parts: vec![part(0, 0), part(1, 1)],
        consumers: 1,
        ordered: false,
        devices_max: None,
    };
    let scan = MEMBER;
    let now = Time(0);
    let registered = driver.abm.handle(now, Event::ScanRegistered { scan, spec });
    registered.expect("a valid scan");
    let load = driver.abm.poll_action();
    assert!(matches!(
        load,
        Some(Action::Load {
            chunk: ChunkId(1),
            ..
        })
    ));
    driver.tell(begun(LEADER, CHUNK, &[MEMBER]));
    let failed = Event::LoadFailed {
        table: TABLE,
        chunk: ChunkId(1),
        columns: vec![ColumnId(1)],
    };
    let chunk = ChunkId(1);
    assert_eq!(driver.tell(failed), [Action::Fail { scan, chunk }]);
    let error = driver.refuse(ended(LEADER, CHUNK, &[MEMBER]));
    assert_eq!(error, EventError::NotServed(MEMBER, CHUNK));
    driver.tell(ended(LEADER, CHUNK, &[]));
}

#[test]
fn a_scan_that_cannot_join_is_refused() {
    let mut driver = driver(None);
    driver.register(LEADER, 0..2, &[0]);
    driver.register(MEMBER, 0..2, &[0]);
    driver.register_as(THIRD, OTHER, 0..1, &[0], false);
    let [ordered, elsewhere, unknown] = [4, 5, 6].map(ScanId);
    driver.register_as(ordered, TABLE, 0..1, &[0], true);
    driver.register(elsewhere, 2..3, &[0]);

    let not_held = driver.refuse(begun(LEADER, CHUNK, &[MEMBER]));
    assert_eq!(not_held, EventError::NotHeld(LEADER, CHUNK));
    let chunk = driver.request(LEADER).expect("it is in memory");
    for (member, error) in [
        (LEADER, EventError::NotNeeded(LEADER, chunk)),
        (THIRD, EventError::OtherTable(THIRD, TABLE)),
        (ordered, EventError::OrderedScan(ordered)),
        (elsewhere, EventError::NotNeeded(elsewhere, chunk)),
        (unknown, EventError::UnknownScan(unknown)),
    ] {
        assert_eq!(
            driver.refuse(begun(LEADER, chunk, &[MEMBER, member])),
            error
        );
    }
    let twice = driver.refuse(begun(LEADER, chunk, &[MEMBER, MEMBER]));
    assert_eq!(twice, EventError::NotNeeded(MEMBER, chunk));

    let in_order = driver.request(ordered).expect("it is in memory");
    let error = driver.refuse(begun(ordered, in_order, &[]));
    assert_eq!(error, EventError::OrderedScan(ordered));

    // A scan that leads a job on the chunk, or has consumed it, does not need it.
    assert_eq!(driver.request(MEMBER), Some(chunk));
    driver.tell(begun(MEMBER, chunk, &[]));
    let leads = driver.refuse(begun(LEADER, chunk, &[MEMBER]));
    assert_eq!(leads, EventError::NotNeeded(MEMBER, chunk));
    driver.tell(ended(MEMBER, chunk, &[]));
    driver.release(MEMBER, chunk);
    let done = driver.refuse(begun(LEADER, chunk, &[MEMBER]));
    assert_eq!(done, EventError::NotNeeded(MEMBER, chunk));
}

#[test]
fn a_chunk_of_a_scan_is_in_one_job() {
    let mut driver = driver(None);
    let [second, later] = [3, 4].map(ScanId);
    for scan in [LEADER, MEMBER, second] {
        driver.register(scan, 0..1, &[0]);
    }
    assert_eq!(driver.request(LEADER), Some(CHUNK));
    assert_eq!(driver.request(second), Some(CHUNK));
    driver.tell(begun(LEADER, CHUNK, &[MEMBER]));
    let error = driver.refuse(begun(LEADER, CHUNK, &[]));
    assert_eq!(error, EventError::JobExists(LEADER, CHUNK));
    let error = driver.refuse(begun(second, CHUNK, &[MEMBER]));
    assert_eq!(error, EventError::NotNeeded(MEMBER, CHUNK));
    // Two jobs on one chunk, for different scans.
    driver.register(later, 0..1, &[0]);
    driver.tell(begun(second, CHUNK, &[later]));
    for (scan, error) in [
        (later, EventError::NotServed(later, CHUNK)),
        (second, EventError::NotServed(second, CHUNK)),
        (ScanId(9), EventError::UnknownScan(ScanId(9))),
    ] {
        assert_eq!(driver.refuse(ended(LEADER, CHUNK, &[MEMBER, scan])), error);
    }
    let error = driver.refuse(ended(LEADER, CHUNK, &[MEMBER, MEMBER]));
    assert_eq!(error, EventError::NotServed(MEMBER, CHUNK));
    let error = driver.refuse(ended(MEMBER, CHUNK, &[]));
    assert_eq!(error, EventError::NoJob(MEMBER, CHUNK));
    driver.tell(ended(LEADER, CHUNK, &[MEMBER]));
    let error = driver.refuse(ended(LEADER, CHUNK, &[]));
    assert_eq!(error, EventError::NoJob(LEADER, CHUNK));
    driver.tell(ended(second, CHUNK, &[]));
}

/// The core delivers a chunk to all scans that join a turn, before the driver can report that a
/// job serves them.
#[test]
fn a_scan_that_holds_the_chunk_too_may_join() {
    for given_back in [false, true] {
        let mut driver = driver(None);
        driver.register(LEADER, 0..1, &[0]);
        driver.register(MEMBER, 0..1, &[0, 1]);
        for scan in [LEADER, MEMBER] {
            assert_eq!(driver.request(scan), Some(CHUNK));
        }
        driver.tell(begun(LEADER, CHUNK, &[MEMBER]));
        assert_eq!(driver.pinned(CHUNK), ColumnSet::all(2), "ABM-I2");
        let (scan, chunk) = (MEMBER, CHUNK);
        let error = driver.refuse(Event::ChunkReleased { scan, chunk });
        assert_eq!(error, EventError::NotHeld(scan, chunk));
        assert_eq!(driver.tell(Event::ChunkRequested { scan }), []);
        let back: &[ScanId] = if given_back { &[MEMBER] } else { &[] };
        let answers = driver.tell(ended(LEADER, CHUNK, back));
        if given_back {
            assert_eq!(handed(&answers, MEMBER), Some(CHUNK));
        } else {
            assert_eq!(answers, [Action::Exhausted { scan }]);
        }
    }
}

/// A scan of four chunks that a job serves together with another scan pays half, so its work is of
/// the same order as that of two chunks paid whole.
#[test]
fn a_job_costs_each_member_its_share() {
    let turns = TurnLimit {
        chunks_max: 1,
        length_ns_max: 1_000_000,
    };
    for shared in [true, false] {
        let mut driver = driver(Some(turns));
        let (long, mate, short) = (LEADER, MEMBER, THIRD);
        driver.register(long, 0..4, &[0]);
        driver.register(mate, 0..4, &[0]);
        driver.register_as(short, OTHER, 0..2, &[0], false);
        // Every scan pays for one chunk.
        let first = driver.request(long).expect("the first turn");
        if shared {
            driver.tell(begun(long, first, &[mate]));
        }
        driver.now += 40;
        if shared {
            driver.tell(ended(long, first, &[]));
        }
        driver.release(long, first);
        let second = driver.request(short).expect("the second turn");
        driver.now += 40;
        driver.release(short, second);
        // Four chunks of 20, or of 40; and two of 40. Within one order of magnitude the lower id
        // goes first.
        let third = driver.request(ScanId(2)).expect("the third turn");
        assert_eq!(driver.request(short), None);
        assert_eq!(driver.request(long), None);
        let next = driver.release(mate, third);
        let (served, other) = if shared { (long, short) } else { (short, long) };
        assert!(handed(&next, served).is_some(), "shared: {shared}");
        assert!(handed(&next, other).is_none(), "shared: {shared}");
    }
}

/// A waiting scan that joins a job pays half of that chunk, and its turn comes earlier.
#[test]
fn a_waiting_scan_that_joins_ranks_by_its_share() {
    let mut driver = driver(Some(TurnLimit {
        chunks_max: 1,
        length_ns_max: 1_000_000,
    }));
    for scan in [LEADER, MEMBER, THIRD] {
        driver.register(scan, 0..4, &[0]);
    }
    // Every scan pays 30 for one chunk, one after another: 120 for all.
    for scan in [LEADER, MEMBER, THIRD] {
        let chunk = driver.request(scan).expect("its turn");
        driver.now += 30;
        driver.release(scan, chunk);
    }
    let chunk = driver.request(LEADER).expect("its turn");
    for scan in [MEMBER, THIRD] {
        assert_eq!(driver.request(scan), None, "one chunk is in work");
    }
    let last = if driver.abm.needs(THIRD, chunk) {
        THIRD
    } else {
        MEMBER
    };
    driver.tell(begun(LEADER, chunk, &[last]));
    driver.tell(ended(LEADER, chunk, &[last]));
    driver.tell(begun(LEADER, chunk, &[last]));
    driver.now += 30;
    driver.tell(ended(LEADER, chunk, &[]));
    let next = driver.release(LEADER, chunk);
    assert!(
        handed(&next, last).is_some(),
        "45 for two chunks, 90 for all"
    );
}

/// When a job begins, the columns of all its scans count as used, not only those of its leader.
#[test]
fn a_job_counts_as_a_use_of_all_its_columns() {
    let mut driver = driver_under(Policy::Normal, None);
    driver.register(LEADER, 0..1, &[0]);
    driver.register(MEMBER, 0..1, &[0, 1]);
    driver.register(THIRD, 1..2, &[0]);
    let other = driver.request(THIRD).expect("it is in memory");
    driver.release(THIRD, other);
    assert_eq!(driver.request(LEADER), Some(CHUNK));
    driver.tell(begun(LEADER, CHUNK, &[MEMBER]));
    let (scan, chunk) = (LEADER, CHUNK);
    driver.tell(Event::ChunkLapsed { scan, chunk });
    driver.tell(Event::BudgetChanged { bytes: 20 });
    let left: Vec<ChunkId> = driver.abm.chunks().map(|known| known.chunk).collect();
    assert_eq!(left, [CHUNK], "the other was used longest ago");
}
