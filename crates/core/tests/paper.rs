//! Promised: the example in the introduction of [CoopScans07] has the results that the paper
//! computes.
//!
//! "Assume a system has to execute two queries, Q1 and Q2, which enter the system at the same time
//! and process data at the same speed. Q1 needs to read 30 pages and is scheduled first, while Q2
//! needs 10 different pages." Latencies: normal 40 and 20 (mean 30), elevator 40 and 10 (mean 25)
//! or 30 and 40 (mean 35) by position, relevance 40 and 10.

use std::collections::BTreeMap;
use std::ops::Range;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const Q1: ScanId = ScanId(1);
const Q2: ScanId = ScanId(2);
/// A load takes one unit of time; processing a chunk takes none.
const UNIT_NS: u64 = 1_000;

/// A driver with one device, virtual time and consumers of infinite speed.
struct Driver {
    abm: Abm,
    now: Time,
    /// The end of the current load, and its answer.
    device: Option<(Time, Event)>,
    /// When each scan was exhausted, in units.
    finished: BTreeMap<ScanId, u64>,
}

impl Driver {
    /// The queries enter at the same time, so nothing can be loaded before both have asked for
    /// their first chunk.
    fn run(policy: Policy, q1: Range<u32>, q2: Range<u32>) -> (u64, u64) {
        let abm = Abm::new(AbmConfig {
            policy,
            model: StorageModel::Nsm,
            budget_bytes: 0,
            loads_max: 1,
            stall_after_ns: 1_000 * UNIT_NS,
            wait_unit_ns: UNIT_NS,
            turns: None,
        });
        let mut driver = Self {
            abm,
            now: Time(0),
            device: None,
            finished: BTreeMap::new(),
        };
        driver.tell(Event::TableRegistered {
            table: TABLE,
            layout: table_of(40),
        });
        driver.tell(scan(Q1, q1));
        driver.tell(scan(Q2, q2));
        driver.tell(Event::ChunkRequested { scan: Q1 });
        driver.tell(Event::ChunkRequested { scan: Q2 });
        driver.tell(Event::BudgetChanged { bytes: 1_000 });
        while let Some((end, answer)) = driver.device.take() {
            driver.now = end;
            driver.tell(answer);
        }
        (driver.finished[&Q1], driver.finished[&Q2])
    }

    fn tell(&mut self, event: Event) {
        self.abm.handle(self.now, event).expect("a valid event");
        self.abm.check();
        let actions: Vec<Action> = std::iter::from_fn(|| self.abm.poll_action()).collect();
        for action in actions {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Load {
                table,
                chunk,
                columns,
                ..
            } => {
                let end = Time(self.now.0 + UNIT_NS);
                let answer = Event::LoadCompleted {
                    table,
                    chunk,
                    columns,
                };
                assert!(
                    self.device.replace((end, answer)).is_none(),
                    "one load at a time"
                );
            }
            Action::Deliver { scan, chunk, .. } => {
                self.tell(Event::ChunkReleased { scan, chunk });
                self.tell(Event::ChunkRequested { scan });
            }
            Action::Exhausted { scan } => {
                self.finished.insert(scan, self.now.0 / UNIT_NS);
                self.tell(Event::ScanEnded { scan });
            }
            other => panic!("not in this example: {other:?}"),
        }
    }
}

fn table_of(chunks: usize) -> TableLayout {
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: [1].into(),
    };
    TableLayout {
        columns: 1,
        chunks: vec![chunk; chunks],
        shared: Vec::new(),
    }
}

fn scan(scan: ScanId, chunks: Range<u32>) -> Event {
    let part = Part {
        chunks: ChunkSet::from_range(chunks),
        columns: ColumnSet::from_iter([ColumnId(0)]),
    };
    let spec = ScanSpec {
        table: TABLE,
        parts: vec![part],
        consumers: 1,
        ordered: false,
        devices_max: None,
    };
    Event::ScanRegistered { scan, spec }
}

#[test]
fn normal_serves_the_queries_in_turns() {
    assert_eq!(Driver::run(Policy::Normal, 0..30, 30..40), (40, 20));
}

#[test]
fn attach_finds_nothing_to_attach_to() {
    assert_eq!(Driver::run(Policy::Attach, 0..30, 30..40), (40, 20));
}

#[test]
fn elevator_depends_on_the_position() {
    assert_eq!(Driver::run(Policy::Elevator, 10..40, 0..10), (40, 10));
    assert_eq!(Driver::run(Policy::Elevator, 0..30, 30..40), (30, 40));
}

#[test]
fn relevance_serves_the_short_query_first_wherever_it_is() {
    assert_eq!(Driver::run(Policy::Relevance2007, 10..40, 0..10), (40, 10));
    assert_eq!(Driver::run(Policy::Relevance2007, 0..30, 30..40), (40, 10));
}
