//! Sequences of events after which simpler rules get stuck (ABM-I6): every consumer waits, no chunk
//! is held and no load is outstanding, although the budget has room for any load.

use coscan_core::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Part, ScanId, ScanSpec,
    SharedExtent, TableId, TableLayout,
};

use coscan_core::{Abm, AbmConfig, Action, Event, Policy, StorageModel, Time};

use crate::Machine;
use crate::oracle::Oracle;

const TABLE: TableId = TableId(0);

fn table(bytes: &[u64], shared: Vec<SharedExtent>) -> Event {
    let chunk = |&bytes: &u64| ChunkLayout {
        device: DeviceId(0),
        bytes: [bytes].into(),
    };
    Event::TableRegistered {
        table: TABLE,
        layout: TableLayout {
            columns: 1,
            chunks: bytes.iter().map(chunk).collect(),
            shared,
        },
    }
}

fn scan(scan: u64, chunks: &[u32], ordered: bool) -> Event {
    let part = Part {
        chunks: chunks
            .iter()
            .map(|&chunk| ChunkId(chunk))
            .collect::<ChunkSet>(),
        columns: ColumnSet::all(1),
    };
    Event::ScanRegistered {
        scan: ScanId(scan),
        spec: ScanSpec {
            table: TABLE,
            parts: vec![part],
            consumers: 1,
            ordered,
            devices_max: None,
        },
    }
}

fn request(scan: u64) -> Event {
    Event::ChunkRequested { scan: ScanId(scan) }
}

fn loaded(chunk: u32) -> Event {
    Event::LoadCompleted {
        table: TABLE,
        chunk: ChunkId(chunk),
        columns: vec![ColumnId(0)],
    }
}

/// At the end a load must be outstanding, because no other event could follow.
fn moves_on<M: Machine>(policy: Policy, budget_bytes: u64, events: Vec<Event>) {
    moves_on_by::<M>(StorageModel::Nsm, policy, budget_bytes, events);
}

fn moves_on_by<M: Machine>(
    model: StorageModel,
    policy: Policy,
    budget_bytes: u64,
    events: Vec<Event>,
) {
    let mut machine = M::start(AbmConfig {
        policy,
        model,
        budget_bytes,
        loads_max: 1,
        stall_after_ns: 1_000,
        wait_unit_ns: 1,
        turns: None,
    });
    let mut outstanding = 0;
    for event in events {
        eprintln!("{event:?}");
        outstanding -= i32::from(matches!(event, Event::LoadCompleted { .. }));
        for action in machine.feed(Time(0), event) {
            eprintln!("  -> {action:?}");
            outstanding += i32::from(matches!(action, Action::Load { .. }));
        }
    }
    assert_eq!(outstanding, 1, "ABM-I6: stuck");
}

/// 1: chunks that are ready for an ordered scan are protected for it, although they cannot be
/// delivered before an earlier chunk, for which there is no space.
fn chunks_ahead_of_an_ordered_scan<M: Machine>(policy: Policy) {
    let end = Event::ScanEnded { scan: ScanId(0) };
    let ahead = [scan(0, &[2, 3], false), loaded(2), loaded(3)];
    let ordered = [scan(1, &[0, 1, 2, 3], true), end, request(1)];
    let events = [table(&[1, 1, 1, 1], Vec::new())]
        .into_iter()
        .chain(ahead)
        .chain(ordered);
    moves_on::<M>(policy, 2, events.collect());
}

/// 2: an extent that a neighbouring chunk wants is never freed, even if no other part of the
/// neighbour is resident and the neighbour is not loaded next.
fn extent_of_an_absent_neighbour<M: Machine>(policy: Policy, first: u32, neighbour: u32) {
    let extent = SharedExtent {
        column: ColumnId(0),
        first: ChunkId(0),
        last: ChunkId(1),
        bytes: 2,
    };
    let events = vec![
        table(&[1, 1, 3], vec![extent]),
        scan(0, &[first], false),
        scan(1, &[2], false),
        scan(2, &[neighbour, 2], false),
        loaded(first),
        request(1),
        request(2),
        Event::ScanEnded { scan: ScanId(0) },
    ];
    moves_on::<M>(policy, 3, events);
}

/// 3: a segment that has grown leaves no space for the other column of its chunk. What is missing
/// is at most the bytes of an extent that this column shares with a neighbour and that is in
/// memory.
fn grown_beside_an_extent<M: Machine>(policy: Policy) {
    let chunk = |bytes: [u64; 2]| ChunkLayout {
        device: DeviceId(0),
        bytes: bytes.into(),
    };
    let layout = TableLayout {
        columns: 2,
        chunks: vec![chunk([0, 0]), chunk([36, 59])],
        shared: vec![SharedExtent {
            column: ColumnId(0),
            first: ChunkId(0),
            last: ChunkId(1),
            bytes: 13,
        }],
    };
    let spec = ScanSpec {
        table: TABLE,
        parts: vec![Part {
            chunks: ChunkSet::from_range(0..2),
            columns: ColumnSet::all(2),
        }],
        consumers: 1,
        ordered: false,
        devices_max: None,
    };
    let (table, scan) = (TABLE, ScanId(0));
    let loaded = |chunk| Event::LoadCompleted {
        table,
        chunk: ChunkId(chunk),
        columns: vec![ColumnId(0), ColumnId(1)],
    };
    let events = vec![
        Event::TableRegistered { table, layout },
        Event::ScanRegistered { scan, spec },
        loaded(0),
        request(0),
        loaded(1),
        Event::SegmentResized {
            table,
            chunk: ChunkId(1),
            column: ColumnId(1),
            bytes: 60,
        },
        // Room for any load, but not for the grown segment, the extent and the other column
        // together.
        Event::BudgetChanged { bytes: 108 },
        Event::ChunkReleased {
            scan,
            chunk: ChunkId(0),
        },
        request(0),
    ];
    moves_on_by::<M>(StorageModel::Dsm, policy, 1000, events);
}

#[test]
fn grown_under_sequential_policies() {
    for policy in [Policy::Normal, Policy::Pbm, Policy::PbmSampling] {
        grown_beside_an_extent::<Oracle>(policy);
        grown_beside_an_extent::<Abm>(policy);
    }
}

#[test]
fn ordered_under_elevator() {
    chunks_ahead_of_an_ordered_scan::<Oracle>(Policy::Elevator);
    chunks_ahead_of_an_ordered_scan::<Abm>(Policy::Elevator);
}

#[test]
fn ordered_under_relevance() {
    chunks_ahead_of_an_ordered_scan::<Oracle>(Policy::Relevance);
    chunks_ahead_of_an_ordered_scan::<Abm>(Policy::Relevance);
}

#[test]
fn extent_under_normal() {
    extent_of_an_absent_neighbour::<Oracle>(Policy::Normal, 0, 1);
    extent_of_an_absent_neighbour::<Abm>(Policy::Normal, 0, 1);
}

#[test]
fn extent_under_elevator() {
    extent_of_an_absent_neighbour::<Oracle>(Policy::Elevator, 1, 0);
    extent_of_an_absent_neighbour::<Abm>(Policy::Elevator, 1, 0);
}

#[test]
fn extent_under_relevance() {
    extent_of_an_absent_neighbour::<Oracle>(Policy::Relevance, 0, 1);
    extent_of_an_absent_neighbour::<Abm>(Policy::Relevance, 0, 1);
}
