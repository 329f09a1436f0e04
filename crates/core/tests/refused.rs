//! Promised: an event that contradicts the state is refused and changes nothing; an event that
//! only looks odd is accepted.

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event,
    EventError, ExtentId, PageRequestId, Part, Policy, ScanId, ScanSpec, SharedExtent,
    StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const CHUNK: ChunkId = ChunkId(0);
const A: ColumnId = ColumnId(0);
const B: ColumnId = ColumnId(1);

/// A manager with one table of two columns.
fn abm(chunks: usize, shared: Vec<SharedExtent>) -> Abm {
    let mut abm = Abm::new(AbmConfig {
        policy: Policy::Relevance,
        model: StorageModel::Dsm,
        budget_bytes: 1_000,
        loads_max: 2,
        stall_after_ns: 1_000,
        wait_unit_ns: 1,
        turns: None,
    });
    let layout = TableLayout {
        columns: 2,
        chunks: vec![chunk(); chunks],
        shared,
    };
    take(
        &mut abm,
        Event::TableRegistered {
            table: TABLE,
            layout,
        },
    );
    abm
}

fn chunk() -> ChunkLayout {
    ChunkLayout {
        device: DeviceId(0),
        bytes: [10, 10].into(),
    }
}

fn extent(first: u32, last: u32) -> SharedExtent {
    SharedExtent {
        column: A,
        first: ChunkId(first),
        last: ChunkId(last),
        bytes: 5,
    }
}

fn scan(scan: u64, chunks: &[u32], column: ColumnId) -> Event {
    let chunks: ChunkSet = chunks.iter().map(|&chunk| ChunkId(chunk)).collect();
    let part = Part {
        chunks,
        columns: ColumnSet::from_iter([column]),
    };
    let spec = ScanSpec {
        table: TABLE,
        parts: vec![part],
        consumers: 1,
        ordered: false,
        devices_max: None,
    };
    Event::ScanRegistered {
        scan: ScanId(scan),
        spec,
    }
}

fn completed(chunk: u32, columns: &[ColumnId]) -> Event {
    Event::LoadCompleted {
        table: TABLE,
        chunk: ChunkId(chunk),
        columns: columns.into(),
    }
}

fn failed(chunk: u32, columns: &[ColumnId]) -> Event {
    Event::LoadFailed {
        table: TABLE,
        chunk: ChunkId(chunk),
        columns: columns.into(),
    }
}

fn appended(shared: Vec<SharedExtent>) -> Event {
    Event::ChunksAppended {
        table: TABLE,
        chunks: vec![chunk()],
        shared,
    }
}

fn dropped() -> Event {
    Event::TableDropped { table: TABLE }
}

fn page(request: u64) -> Event {
    Event::PageRequested {
        request: PageRequestId(request),
        table: TABLE,
        chunk: CHUNK,
        columns: ColumnSet::all(1),
    }
}

fn take(abm: &mut Abm, event: Event) -> Vec<Action> {
    abm.handle(Time(0), event).expect("a valid event");
    abm.check();
    std::iter::from_fn(|| abm.poll_action()).collect()
}

fn refuse(abm: &mut Abm, event: Event) -> EventError {
    let before = format!("{abm:?}");
    let error = abm
        .handle(Time(0), event)
        .expect_err("it contradicts the state");
    assert_eq!(
        format!("{abm:?}"),
        before,
        "a refused event changes nothing"
    );
    error
}

#[test]
fn a_table_may_begin_without_chunks() {
    let mut abm = abm(0, Vec::new());
    let nothing = ScanSpec {
        table: TABLE,
        parts: Vec::new(),
        consumers: 1,
        ordered: false,
        devices_max: None,
    };
    let id = ScanId(1);
    take(
        &mut abm,
        Event::ScanRegistered {
            scan: id,
            spec: nothing,
        },
    );
    let actions = take(&mut abm, Event::ChunkRequested { scan: id });
    assert_eq!(actions, [Action::Exhausted { scan: id }]);
    take(&mut abm, appended(vec![extent(0, 0)]));
    assert_eq!(take(&mut abm, scan(2, &[0], A)).len(), 1);
}

#[test]
fn appended_extents_serve_new_chunks_only() {
    let mut abm = abm(2, Vec::new());
    let error = refuse(&mut abm, appended(vec![extent(1, 2)]));
    assert_eq!(error, EventError::BadLayout(TABLE));
    take(&mut abm, appended(vec![extent(2, 2)]));
}

#[test]
fn a_table_in_use_is_not_dropped() {
    let mut abm = abm(1, vec![extent(0, 0)]);
    let in_use = EventError::TableInUse(TABLE);
    take(&mut abm, scan(1, &[0], A));
    assert_eq!(refuse(&mut abm, dropped()), in_use);
    take(&mut abm, Event::ScanEnded { scan: ScanId(1) });
    assert_eq!(refuse(&mut abm, dropped()), in_use, "a load is outstanding");
    take(&mut abm, completed(0, &[A]));
    take(&mut abm, page(1));
    assert_eq!(refuse(&mut abm, dropped()), in_use, "a page is served");
    let request = PageRequestId(1);
    take(&mut abm, Event::PageReleased { request });
    let evicted = [
        Action::Evict {
            table: TABLE,
            chunk: CHUNK,
            column: A,
        },
        Action::EvictExtent {
            table: TABLE,
            extent: ExtentId(0),
        },
    ];
    assert_eq!(take(&mut abm, dropped()), evicted);
    assert_eq!(abm.used_bytes(), 0);
}

#[test]
fn a_queued_page_keeps_its_table() {
    let mut abm = abm(1, Vec::new());
    assert_eq!(take(&mut abm, page(1)), []);
    assert_eq!(refuse(&mut abm, dropped()), EventError::TableInUse(TABLE));
    let request = PageRequestId(1);
    take(&mut abm, Event::PageCompleted { request });
    take(&mut abm, dropped());
}

#[test]
fn one_event_may_answer_several_loads() {
    let mut abm = abm(1, Vec::new());
    take(&mut abm, scan(1, &[0], A));
    take(&mut abm, scan(2, &[0], B));
    let error = refuse(&mut abm, completed(0, &[A, ColumnId(2)]));
    assert_eq!(error, EventError::NotLoading(TABLE, CHUNK, ColumnId(2)));
    take(&mut abm, completed(0, &[A, B]));
    let error = refuse(&mut abm, completed(0, &[B]));
    assert_eq!(error, EventError::NotLoading(TABLE, CHUNK, B));
}

#[test]
fn a_segment_that_is_not_resident_cannot_be_resized() {
    let mut abm = abm(2, Vec::new());
    let resized = |column, bytes| Event::SegmentResized {
        table: TABLE,
        chunk: CHUNK,
        column,
        bytes,
    };
    take(&mut abm, scan(1, &[0], A));
    let error = refuse(&mut abm, resized(A, 50));
    assert_eq!(error, EventError::NotResident(TABLE, CHUNK, A));
    take(&mut abm, completed(0, &[A]));
    let before = abm.used_bytes();
    take(&mut abm, resized(A, 50));
    let grown = abm.used_bytes();
    take(&mut abm, resized(A, 0));
    assert_eq!((grown - abm.used_bytes(), before > 0), (50, true));
    let error = refuse(&mut abm, resized(B, 50));
    assert_eq!(error, EventError::NotResident(TABLE, CHUNK, B));
}

/// Two loads share an extent that the first of them should have brought.
#[test]
fn a_segment_is_not_complete_without_its_extents() {
    let mut abm = abm(2, vec![extent(0, 1)]);
    let shared = ExtentId(0);
    take(&mut abm, scan(1, &[0, 1], A));
    assert_eq!(abm.used_bytes(), 25);
    take(&mut abm, failed(0, &[A]));
    assert_eq!(abm.used_bytes(), 10);
    assert!(!abm.extent_is_resident(TABLE, shared));
    let error = refuse(&mut abm, completed(1, &[A]));
    assert_eq!(error, EventError::ExtentAbsent(TABLE, ChunkId(1), A));
    take(&mut abm, failed(1, &[A]));
    assert_eq!(abm.used_bytes(), 0);

    take(&mut abm, scan(2, &[0, 1], A));
    take(&mut abm, completed(1, &[A]));
    assert!(abm.extent_is_resident(TABLE, shared));
    take(&mut abm, failed(0, &[A]));
    assert!(abm.extent_is_resident(TABLE, shared), "it had arrived");
    assert_eq!(abm.used_bytes(), 15);
}

#[test]
fn a_lapsed_chunk_can_only_be_released() {
    let mut abm = abm(1, Vec::new());
    let id = ScanId(1);
    take(&mut abm, scan(1, &[0], A));
    let lapsed = Event::ChunkLapsed {
        scan: id,
        chunk: CHUNK,
    };
    let progressed = Event::ChunkProgressed {
        scan: id,
        chunk: CHUNK,
    };
    let released = Event::ChunkReleased {
        scan: id,
        chunk: CHUNK,
    };
    let not_held = EventError::NotHeld(id, CHUNK);
    assert_eq!(refuse(&mut abm, lapsed.clone()), not_held);
    take(&mut abm, completed(0, &[A]));
    take(&mut abm, Event::ChunkRequested { scan: id });
    take(&mut abm, lapsed.clone());
    assert!(!abm.holds(id, CHUNK));
    assert_eq!(refuse(&mut abm, lapsed), not_held);
    assert_eq!(refuse(&mut abm, progressed), not_held);
    take(&mut abm, released.clone());
    assert_eq!(refuse(&mut abm, released), not_held);
}
