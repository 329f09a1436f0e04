//! Promised: with turns no more chunks are in work than allowed, the scan with less work (by its
//! order of magnitude) is served first, other scans of high rank join it, an old scan is not
//! overtaken without end, and a consumer that holds its chunk for long delays no scan. Ordered
//! scans take no turns.

use std::ops::Range;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time, TurnLimit,
};

const TABLE: TableId = TableId(0);
const CHUNKS: u32 = 100;
const LONG: ScanId = ScanId(1);
const SHORT: ScanId = ScanId(2);
const LENGTH_MAX_NS: u64 = 1_000;

/// One resident table, one chunk in work at a time.
struct Driver {
    abm: Abm,
    now: u64,
}

impl Driver {
    fn new(chunks_max: usize) -> Self {
        let abm = Abm::new(AbmConfig {
            policy: Policy::Relevance,
            model: StorageModel::Nsm,
            budget_bytes: u64::from(CHUNKS),
            loads_max: 1,
            stall_after_ns: u64::MAX,
            wait_unit_ns: 1,
            turns: Some(TurnLimit {
                chunks_max,
                length_ns_max: LENGTH_MAX_NS,
            }),
        });
        let mut driver = Self { abm, now: 0 };
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: [1].into(),
        };
        let layout = TableLayout {
            columns: 1,
            chunks: vec![chunk; CHUNKS as usize],
            shared: Vec::new(),
        };
        driver.tell(Event::TableRegistered {
            table: TABLE,
            layout,
        });
        // A first scan loads everything and ends.
        let warm = ScanId(0);
        let mut loads = driver.register(warm, 0..CHUNKS, 1);
        for _ in 0..CHUNKS {
            let (table, chunk, columns) = loads
                .into_iter()
                .find_map(|action| match action {
                    Action::Load {
                        table,
                        chunk,
                        columns,
                        ..
                    } => Some((table, chunk, columns)),
                    _ => None,
                })
                .expect("the next chunk is loaded");
            loads = driver.tell(Event::LoadCompleted {
                table,
                chunk,
                columns,
            });
            loads.extend(driver.request(warm));
            for (scan, chunk) in handed_out(&loads) {
                loads.extend(driver.tell(Event::ChunkReleased { scan, chunk }));
            }
        }
        driver.tell(Event::ScanEnded { scan: warm });
        driver
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        self.abm
            .handle(Time(self.now), event)
            .expect("a valid event");
        self.abm.check();
        std::iter::from_fn(|| self.abm.poll_action()).collect()
    }

    fn register(&mut self, scan: ScanId, chunks: Range<u32>, consumers: u32) -> Vec<Action> {
        self.register_as(scan, chunks, consumers, false)
    }

    fn register_as(
        &mut self,
        scan: ScanId,
        chunks: Range<u32>,
        consumers: u32,
        ordered: bool,
    ) -> Vec<Action> {
        let part = Part {
            chunks: ChunkSet::from_range(chunks),
            columns: ColumnSet::all(1),
        };
        let spec = ScanSpec {
            table: TABLE,
            parts: vec![part],
            consumers,
            ordered,
            devices_max: None,
        };
        self.tell(Event::ScanRegistered { scan, spec })
    }

    fn request(&mut self, scan: ScanId) -> Vec<Action> {
        self.tell(Event::ChunkRequested { scan })
    }

    /// The consumer works for `ns`, releases the chunk and requests the next. Returns the
    /// deliveries that follow.
    fn work(&mut self, (scan, chunk): (ScanId, ChunkId), ns: u64) -> Vec<(ScanId, ChunkId)> {
        self.now += ns;
        let mut actions = self.request(scan);
        actions.extend(self.tell(Event::ChunkReleased { scan, chunk }));
        handed_out(&actions)
    }
}

fn handed_out(actions: &[Action]) -> Vec<(ScanId, ChunkId)> {
    let handed_out = actions.iter().map(|action| match action {
        Action::Deliver { scan, chunk, .. } => Some((*scan, *chunk)),
        _ => None,
    });
    handed_out.flatten().collect()
}

#[test]
fn the_scan_with_least_work_left_is_served_first() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..5, 1);
    let mut turn = handed_out(&driver.request(LONG));
    assert!(
        handed_out(&driver.request(SHORT)).is_empty(),
        "one at a time"
    );
    let mut order = Vec::new();
    for _ in 0..55 {
        assert_eq!(turn.len(), 1, "one chunk in work");
        order.push(turn[0].0);
        turn = driver.work(turn[0], 10);
    }
    // Each scan works once before its price is known.
    assert_eq!(order[..2], [LONG, SHORT]);
    assert_eq!(order[2..6], [SHORT; 4]);
    assert_eq!(order[6..], [LONG; 49]);
}

#[test]
fn the_cost_of_a_chunk_counts() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..5, 1);
    let mut turn = handed_out(&driver.request(LONG));
    driver.request(SHORT);
    // Five chunks at 900 are more work than fifty at 1.
    for n in 0..55 {
        let price = if turn[0].0 == LONG { 1 } else { 900 };
        if n > 2 && n < 51 {
            assert_eq!(turn[0].0, LONG);
        }
        turn = driver.work(turn[0], price);
    }
}

#[test]
fn an_old_scan_does_not_starve() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    let mut turn = handed_out(&driver.request(LONG));
    turn = driver.work(turn[0], 10);
    let (mut others, mut next) = (0, 2);
    // A new short scan arrives whenever its predecessor has ended.
    while driver
        .abm
        .scans()
        .any(|scan| scan.scan == LONG && scan.chunks_needed > 0)
    {
        assert!(others < 2_000, "the long scan starves");
        let busy = driver.abm.scans().any(|scan| scan.scan != LONG);
        if !busy {
            driver.register(ScanId(next), 0..2, 1);
            driver.request(ScanId(next));
            next += 1;
            others += 1;
        }
        assert_eq!(turn.len(), 1);
        let (scan, chunk) = turn[0];
        turn = driver.work((scan, chunk), 10);
        let over = driver
            .abm
            .scans()
            .filter(|s| s.scan != LONG && s.chunks_needed + s.chunks_held == 0);
        let over: Vec<ScanId> = over.map(|scan| scan.scan).collect();
        for scan in over {
            driver.tell(Event::ScanEnded { scan });
        }
    }
    assert!(others > 10, "short scans pass first");
}

#[test]
fn a_chunk_that_is_held_for_long_stops_counting() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..5, 1);
    assert_eq!(handed_out(&driver.request(LONG)).len(), 1);
    assert!(handed_out(&driver.request(SHORT)).is_empty());
    assert_eq!(driver.abm.next_deadline(), Some(Time(LENGTH_MAX_NS)));
    driver.now = LENGTH_MAX_NS;
    let served = handed_out(&driver.tell(Event::TimePassed));
    assert_eq!(served.len(), 1);
    assert_eq!(served[0].0, SHORT);
}

#[test]
fn a_consumer_that_makes_progress_keeps_its_turn() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..5, 1);
    let (scan, chunk) = handed_out(&driver.request(LONG))[0];
    driver.request(SHORT);
    driver.now = LENGTH_MAX_NS - 1;
    driver.tell(Event::ChunkProgressed { scan, chunk });
    driver.now = LENGTH_MAX_NS;
    assert!(handed_out(&driver.tell(Event::TimePassed)).is_empty());
    assert_eq!(
        driver.abm.next_deadline(),
        Some(Time(2 * LENGTH_MAX_NS - 1))
    );
    driver.now = 2 * LENGTH_MAX_NS - 1;
    assert_eq!(handed_out(&driver.tell(Event::TimePassed)).len(), 1);
}

/// A merge join reads two ordered scans crosswise: it holds a chunk of each while it requests the
/// next. Other scans take their turns at the same time.
#[test]
fn ordered_scans_take_no_turns() {
    let (left, right) = (ScanId(3), ScanId(4));
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..5, 1);
    driver.register_as(left, 0..3, 1, true);
    driver.register_as(right, 0..3, 1, true);
    let (scan, chunk) = handed_out(&driver.request(LONG))[0];
    assert!(handed_out(&driver.request(SHORT)).is_empty(), "one turn");
    for n in 0..3 {
        assert_eq!(handed_out(&driver.request(left)), [(left, ChunkId(n))]);
        assert_eq!(handed_out(&driver.request(right)), [(right, ChunkId(n))]);
        for scan in [left, right] {
            let released = driver.tell(Event::ChunkReleased {
                scan,
                chunk: ChunkId(n),
            });
            assert!(handed_out(&released).is_empty(), "no turn has ended");
        }
    }
    let exhausted = driver.request(left);
    assert_eq!(exhausted, [Action::Exhausted { scan: left }]);
    assert_eq!(driver.work((scan, chunk), 10)[0].0, SHORT);
}

#[test]
fn several_consumers_take_several_turns() {
    let mut driver = Driver::new(3);
    driver.register(LONG, 50..100, 4);
    let turns: usize = (0..4)
        .map(|_| handed_out(&driver.request(LONG)).len())
        .sum();
    assert_eq!(turns, 3);
}

#[test]
fn exhaustion_needs_no_turn() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..1, 2);
    let chunk = handed_out(&driver.request(SHORT))[0];
    driver.request(LONG);
    let actions = driver.request(SHORT);
    assert_eq!(actions, [Action::Exhausted { scan: SHORT }]);
    assert_eq!(driver.work(chunk, 1)[0].0, LONG);
}

#[test]
fn waiting_scans_of_high_rank_join_a_turn() {
    let mut driver = Driver::new(1);
    let ids: Vec<ScanId> = (1..=6).map(ScanId).collect();
    for &scan in &ids {
        driver.register(scan, 0..50, 1);
    }
    let first = handed_out(&driver.request(ids[0]))[0];
    for &scan in &ids[1..] {
        assert!(handed_out(&driver.request(scan)).is_empty(), "all wait");
    }
    // The other scans' prices are not known yet, so all join.
    driver.now += 10;
    let (scan, chunk) = first;
    let turn = handed_out(&driver.tell(Event::ChunkReleased { scan, chunk }));
    let scans: Vec<ScanId> = turn.iter().map(|&(scan, _)| scan).collect();
    assert_eq!(scans, ids[1..]);
    assert!(
        turn.iter().all(|&(_, chunk)| chunk == turn[0].1),
        "one chunk for all"
    );
    driver.request(ids[0]);
    driver.now += 10;
    let mut next = Vec::new();
    for (scan, chunk) in turn {
        assert!(next.is_empty(), "the turn lasts until the last has ended");
        driver.request(scan);
        next = handed_out(&driver.tell(Event::ChunkReleased { scan, chunk }));
    }
    // All prices are equal now. The oldest scan leads, and three join: the third has three scans
    // before it, and, counting itself, three after.
    let scans: Vec<ScanId> = next.iter().map(|&(scan, _)| scan).collect();
    assert_eq!(scans, ids[..4]);
}

#[test]
fn a_scan_that_does_not_need_the_chunk_does_not_join() {
    let mut driver = Driver::new(1);
    driver.register(LONG, 50..100, 1);
    driver.register(SHORT, 0..5, 1);
    driver.register(ScanId(3), 0..5, 1);
    let (scan, chunk) = handed_out(&driver.request(LONG))[0];
    driver.request(SHORT);
    driver.request(ScanId(3));
    driver.request(LONG);
    driver.now += 10;
    let turn = handed_out(&driver.tell(Event::ChunkReleased { scan, chunk }));
    assert!(!turn.is_empty() && turn.iter().all(|&(scan, _)| scan != LONG));
}
