//! Promised: of the chunks that may be evicted, the victim is the one with the smallest
//! keepRelevance, in whatever order the search examines them.
//!
//! keepRelevance counts the scans for which a chunk is kept: almost starved scans that want one of
//! its *resident* columns [CoopScans07 §6.2]. The search must exclude other scans from its bounds
//! too; otherwise it skips chunks that are kept for no scan.

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ColumnId, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
/// A narrow and a wide column: a chunk kept for one scan weighs more per byte if its column is
/// narrow.
const A: ColumnId = ColumnId(0);
const A_BYTES: u64 = 10;
const B: ColumnId = ColumnId(1);
const B_BYTES: u64 = 20;

/// A manager with one load at a time, so that a scan is almost starved with two chunks and not with
/// three.
fn abm() -> Abm {
    let mut abm = Abm::new(AbmConfig {
        policy: Policy::Relevance,
        model: StorageModel::Dsm,
        budget_bytes: 1_000,
        loads_max: 1,
        stall_after_ns: 1_000,
        wait_unit_ns: 1,
        turns: None,
    });
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: [A_BYTES, B_BYTES].into(),
    };
    let layout = TableLayout {
        columns: 2,
        chunks: vec![chunk; 6],
        shared: Vec::new(),
    };
    let table = TABLE;
    let registered = Event::TableRegistered { table, layout };
    assert_eq!(take(&mut abm, registered), []);
    abm
}

fn take(abm: &mut Abm, event: Event) -> Vec<Action> {
    abm.handle(Time(0), event).expect("a valid event");
    abm.check();
    std::iter::from_fn(|| abm.poll_action()).collect()
}

/// Registers a scan and completes the loads that it starts, one after another.
fn scan(abm: &mut Abm, scan: u64, chunks: &[u32], column: ColumnId) {
    let mut actions = start(abm, scan, chunks, column);
    while let Some(action) = actions.pop() {
        let Action::Load {
            table,
            chunk,
            columns,
            ..
        } = action
        else {
            panic!("{action:?}")
        };
        let completed = Event::LoadCompleted {
            table,
            chunk,
            columns,
        };
        actions.extend(take(abm, completed));
    }
}

fn start(abm: &mut Abm, scan: u64, chunks: &[u32], column: ColumnId) -> Vec<Action> {
    let part = Part {
        chunks: chunks.iter().map(|&chunk| ChunkId(chunk)).collect(),
        columns: ColumnSet::from_iter([column]),
    };
    let spec = ScanSpec {
        table: TABLE,
        parts: vec![part],
        consumers: 1,
        ordered: false,
        devices_max: None,
    };
    let scan = ScanId(scan);
    take(abm, Event::ScanRegistered { scan, spec })
}

/// Chunks 0 to 2 have column A resident, for a scan that is fed. Scan ids start at `first`.
fn kept_for_no_scan(abm: &mut Abm, first: u64) {
    for chunk in 0..3 {
        scan(abm, first + u64::from(chunk), &[chunk], A);
    }
    scan(abm, first + 3, &[0, 1, 2], A);
    // Helper scans loaded the chunks, because the scan alone would have stopped at two.
    for helper in first..first + 3 {
        let ended = Event::ScanEnded {
            scan: ScanId(helper),
        };
        assert_eq!(take(abm, ended), []);
    }
}

/// Chunks 3 and 4 have column B resident, for a scan that is almost starved.
fn kept_for_one(abm: &mut Abm, first: u64) {
    scan(abm, first, &[3, 4], B);
}

#[test]
fn a_scan_of_other_columns_keeps_no_chunk() {
    // In either order: the search first examines the chunks that were loaded first.
    for order in [
        [kept_for_no_scan, kept_for_one],
        [kept_for_one, kept_for_no_scan],
    ] {
        let mut abm = abm();
        for (fill, first) in order.into_iter().zip([0, 10]) {
            fill(&mut abm, first);
        }
        // The device is busy from now on, so the next scan stays starved: of chunks 0 to 2, but of
        // their column B.
        assert_eq!(start(&mut abm, 20, &[5], A).len(), 1);
        assert_eq!(start(&mut abm, 21, &[0, 1, 2], B), []);
        let used = 4 * A_BYTES + 2 * B_BYTES;
        let shrunk = Event::BudgetChanged { bytes: used - 1 };
        let evicted = Action::Evict {
            table: TABLE,
            chunk: ChunkId(0),
            column: A,
        };
        assert_eq!(take(&mut abm, shrunk), [evicted]);
    }
}
