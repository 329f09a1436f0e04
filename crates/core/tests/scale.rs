//! Promised: what holds in the oracle's small worlds also holds where chunks fill several branches
//! of the index: every scan ends and gets each of its chunks once, and scans with the same chunks
//! share their loads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event,
    Part, Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const CHUNKS: u32 = 4_500;
const SCANS: u64 = 4;

/// All chunks except some, which differ for each scan.
fn chunks_of(scan: u64) -> ChunkSet {
    let hole = |chunk: u64| (chunk * 7 + scan * 11) % 23 < 5;
    (0..CHUNKS)
        .filter(|&chunk| !hole(chunk.into()))
        .map(ChunkId)
        .collect()
}

fn columns_of(scan: u64) -> ColumnSet {
    let sets: [&[u16]; 3] = [&[0, 1], &[1, 2], &[0, 1, 2]];
    let columns = sets[usize::try_from(scan % 3).expect("below 3")];
    columns.iter().map(|&column| ColumnId(column)).collect()
}

fn run(policy: Policy) {
    let mut abm = Abm::new(AbmConfig {
        policy,
        model: StorageModel::Dsm,
        budget_bytes: u64::from(CHUNKS) / 8 * 3,
        loads_max: 2,
        stall_after_ns: u64::MAX,
        wait_unit_ns: 1_000,
        turns: None,
    });
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: [1, 1, 1].into(),
    };
    let layout = TableLayout {
        columns: 3,
        chunks: vec![chunk; CHUNKS as usize],
        shared: Vec::new(),
    };
    let mut events = VecDeque::from([Event::TableRegistered {
        table: TABLE,
        layout,
    }]);
    let mut left: BTreeMap<ScanId, BTreeSet<ChunkId>> = BTreeMap::new();
    for scan in 0..SCANS {
        let chunks = chunks_of(scan);
        left.insert(ScanId(scan), chunks.iter().collect());
        let columns = columns_of(scan);
        let spec = ScanSpec {
            table: TABLE,
            parts: vec![Part { chunks, columns }],
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        let scan = ScanId(scan);
        events.push_back(Event::ScanRegistered { scan, spec });
    }
    events.extend((0..SCANS).map(|scan| Event::ChunkRequested { scan: ScanId(scan) }));

    let (mut handled, mut loaded) = (0_u64, 0);
    while let Some(event) = events.pop_front() {
        handled += 1;
        abm.handle(Time(handled), event).expect("a valid event");
        if handled.is_multiple_of(5_000) {
            abm.check();
        }
        while let Some(action) = abm.poll_action() {
            match action {
                Action::Load { chunk, columns, .. } => {
                    loaded += columns.len();
                    events.push_back(Event::LoadCompleted {
                        table: TABLE,
                        chunk,
                        columns,
                    });
                }
                Action::Deliver { scan, chunk, .. } => {
                    let of_scan = left.get_mut(&scan).expect("a running scan");
                    assert!(of_scan.remove(&chunk), "{scan} was handed {chunk} twice");
                    events.push_back(Event::ChunkReleased { scan, chunk });
                    events.push_back(Event::ChunkRequested { scan });
                }
                Action::Exhausted { scan } => {
                    assert_eq!(left.remove(&scan), Some(BTreeSet::new()));
                    events.push_back(Event::ScanEnded { scan });
                }
                Action::Evict { .. } => {}
                other => panic!("not in this world: {other:?}"),
            }
        }
    }
    abm.check();
    assert!(left.is_empty(), "every scan ends");
    let all = 3 * CHUNKS as usize;
    assert!(loaded <= all + all / 10, "scans that move together share");
}

#[test]
fn elevator_shares() {
    run(Policy::Elevator);
}

#[test]
fn relevance_shares() {
    run(Policy::Relevance);
}
