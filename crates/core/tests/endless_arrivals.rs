//! Promised: scans that arrive without end prevent no scan from ending, if the budget has room for
//! one load in addition to what the arriving scans hold (ABM-I6).
//!
//! With room for only one load that is impossible for any scheduler that keeps the other promises
//! (`docs/design/chaos.md`). The last test shows the run of the proof: a deliberate change of one
//! of these promises fails here and leads to the page to change.

use std::collections::VecDeque;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const CHUNK_BYTES: u64 = 10;
const ARRIVALS: u64 = 100;
const EVENTS_MAX: u64 = 20 * ARRIVALS;
/// The scan that must not starve. It wants chunks 1 to 4.
const PATIENT: ScanId = ScanId(1);

struct Run {
    abm: Abm,
    now: u64,
    /// The number of chunks delivered to the patient scan.
    handed: u32,
    /// Whether the patient scan is exhausted.
    ended: bool,
}

impl Run {
    fn new(policy: Policy, budget_bytes: u64) -> Self {
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: vec![CHUNK_BYTES].into(),
        };
        let abm = Abm::new(AbmConfig {
            policy,
            model: StorageModel::Nsm,
            budget_bytes,
            loads_max: 1,
            stall_after_ns: 1_000_000,
            wait_unit_ns: 1,
            turns: None,
        });
        let mut run = Self {
            abm,
            now: 0,
            handed: 0,
            ended: false,
        };
        let layout = TableLayout {
            columns: 1,
            chunks: vec![chunk; 5],
            shared: Vec::new(),
        };
        run.tell([Event::TableRegistered {
            table: TABLE,
            layout,
        }]);
        run
    }

    fn arrives(&mut self, scan: ScanId, chunks: std::ops::Range<u32>) {
        let part = Part {
            chunks: ChunkSet::from_range(chunks),
            columns: ColumnSet::all(1),
        };
        let spec = ScanSpec {
            table: TABLE,
            parts: vec![part],
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        self.tell([
            Event::ScanRegistered { scan, spec },
            Event::ChunkRequested { scan },
        ]);
    }

    /// Each load completes after the preceding events are handled. The patient scan releases and
    /// requests at once; the other scans keep their chunks.
    fn tell(&mut self, events: impl Into<VecDeque<Event>>) {
        let mut events = events.into();
        while let Some(event) = events.pop_front() {
            self.now += 1;
            assert!(self.now < EVENTS_MAX, "events without end: {event:?}");
            self.abm
                .handle(Time(self.now), event)
                .expect("a valid event");
            self.abm.check();
            while let Some(action) = self.abm.poll_action() {
                match action {
                    Action::Load {
                        table,
                        chunk,
                        columns,
                        ..
                    } => events.push_back(Event::LoadCompleted {
                        table,
                        chunk,
                        columns,
                    }),
                    Action::Deliver { scan, chunk, .. } if scan == PATIENT => {
                        self.handed += 1;
                        events.push_back(Event::ChunkReleased { scan, chunk });
                        events.push_back(Event::ChunkRequested { scan });
                    }
                    Action::Exhausted { scan } if scan == PATIENT => self.ended = true,
                    _ => {}
                }
            }
        }
    }

    /// Scans arrive one after another for chunk 0, each before its predecessor has released the
    /// chunk.
    fn of_arrivals(policy: Policy, budget_bytes: u64) -> Self {
        let mut run = Self::new(policy, budget_bytes);
        run.arrives(ScanId(0), HOT..HOT + 1);
        run.arrives(PATIENT, 1..5);
        for newcomer in 2..ARRIVALS {
            run.arrives(ScanId(newcomer), HOT..HOT + 1);
            let before = if newcomer == 2 { 0 } else { newcomer - 1 };
            let (scan, chunk) = (ScanId(before), ChunkId(HOT));
            run.tell([
                Event::ChunkReleased { scan, chunk },
                Event::ScanEnded { scan },
            ]);
        }
        run
    }
}

/// The chunk that all arriving scans want.
const HOT: u32 = 0;

#[test]
fn room_for_one_more_load_is_enough() {
    for policy in Policy::ALL {
        let run = Run::of_arrivals(policy, 2 * CHUNK_BYTES);
        assert_eq!((run.handed, run.ended), (4, true), "{policy:?}");
    }
}

#[test]
fn with_room_for_one_load_the_patient_scan_waits_for_the_last() {
    for policy in Policy::ALL {
        let mut run = Run::of_arrivals(policy, CHUNK_BYTES);
        assert_eq!((run.handed, run.ended), (0, false), "{policy:?}");
        let (scan, chunk) = (ScanId(ARRIVALS - 1), ChunkId(HOT));
        run.tell([Event::ChunkReleased { scan, chunk }]);
        assert_eq!((run.handed, run.ended), (4, true), "{policy:?}");
    }
}
