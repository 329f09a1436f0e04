//! Promised: a written event is read back as the same event (LOG-I1); a damaged line is refused and
//! never causes a panic.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::{
    AbmConfig, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event, PageRequestId,
    Part, Policy, ScanId, ScanSpec, SharedExtent, StorageModel, TableId, TableLayout, Time,
    TurnLimit,
};

fn columns() -> impl Strategy<Value = Vec<ColumnId>> {
    vec((0u16..9).prop_map(ColumnId), 0..6)
}

fn column_set() -> impl Strategy<Value = ColumnSet> {
    columns().prop_map(|columns| columns.into_iter().collect())
}

fn chunk_set() -> impl Strategy<Value = ChunkSet> {
    btree_set(0u32..30, 0..12).prop_map(|all| all.into_iter().map(ChunkId).collect())
}

fn layouts() -> impl Strategy<Value = Vec<ChunkLayout>> {
    let chunk = (0u16..2, vec(0u64..3, 0..3)).prop_map(|(device, bytes)| ChunkLayout {
        device: DeviceId(device),
        bytes: bytes.into(),
    });
    vec(chunk, 0..5)
}

fn shared() -> impl Strategy<Value = Vec<SharedExtent>> {
    let extent = (any::<u16>(), any::<u32>(), any::<u32>(), any::<u64>());
    let extent = extent.prop_map(|(column, first, last, bytes)| SharedExtent {
        column: ColumnId(column),
        first: ChunkId(first),
        last: ChunkId(last),
        bytes,
    });
    vec(extent, 0..3)
}

fn spec() -> impl Strategy<Value = ScanSpec> {
    let part = (chunk_set(), column_set()).prop_map(|(chunks, columns)| Part { chunks, columns });
    let degree = proptest::option::of(any::<u32>());
    (
        any::<u32>(),
        vec(part, 0..4),
        any::<u32>(),
        any::<bool>(),
        degree,
    )
        .prop_map(|(table, parts, consumers, ordered, devices_max)| ScanSpec {
            table: TableId(table),
            parts,
            consumers,
            ordered,
            devices_max,
        })
}

fn event() -> impl Strategy<Value = Event> {
    let table = || any::<u32>().prop_map(TableId);
    let scan = || any::<u64>().prop_map(ScanId);
    let chunk = || any::<u32>().prop_map(ChunkId);
    let request = || any::<u64>().prop_map(PageRequestId);
    prop_oneof![
        (table(), any::<u16>(), layouts(), shared()).prop_map(
            |(table, columns, chunks, shared)| {
                let layout = TableLayout {
                    columns,
                    chunks,
                    shared,
                };
                Event::TableRegistered { table, layout }
            }
        ),
        (table(), layouts(), shared()).prop_map(|(table, chunks, shared)| Event::ChunksAppended {
            table,
            chunks,
            shared
        }),
        table().prop_map(|table| Event::TableDropped { table }),
        (scan(), spec()).prop_map(|(scan, spec)| Event::ScanRegistered { scan, spec }),
        scan().prop_map(|scan| Event::ChunkRequested { scan }),
        scan().prop_map(|scan| Event::RequestWithdrawn { scan }),
        (scan(), proptest::option::of(any::<u32>()))
            .prop_map(|(scan, devices_max)| Event::DegreeChanged { scan, devices_max }),
        (scan(), chunk()).prop_map(|(scan, chunk)| Event::ChunkProgressed { scan, chunk }),
        (scan(), chunk()).prop_map(|(scan, chunk)| Event::ChunkLapsed { scan, chunk }),
        (scan(), chunk()).prop_map(|(scan, chunk)| Event::ChunkReleased { scan, chunk }),
        (scan(), chunk_set()).prop_map(|(scan, chunks)| Event::ChunksWithdrawn { scan, chunks }),
        (scan(), chunk(), vec(scan(), 0..4)).prop_map(|(scan, chunk, members)| {
            Event::ChunkJobBegun {
                scan,
                chunk,
                members,
            }
        }),
        (scan(), chunk(), vec(scan(), 0..4)).prop_map(|(scan, chunk, given_back)| {
            Event::ChunkJobEnded {
                scan,
                chunk,
                given_back,
            }
        }),
        scan().prop_map(|scan| Event::ScanEnded { scan }),
        (table(), chunk(), columns()).prop_map(|(table, chunk, columns)| Event::LoadCompleted {
            table,
            chunk,
            columns
        }),
        (table(), chunk(), columns()).prop_map(|(table, chunk, columns)| Event::LoadFailed {
            table,
            chunk,
            columns
        }),
        (table(), chunk(), any::<u16>(), any::<u64>()).prop_map(|(table, chunk, column, bytes)| {
            Event::SegmentResized {
                table,
                chunk,
                column: ColumnId(column),
                bytes,
            }
        }),
        (request(), table(), chunk(), column_set()).prop_map(|(request, table, chunk, columns)| {
            Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            }
        }),
        request().prop_map(|request| Event::PageCompleted { request }),
        request().prop_map(|request| Event::PageReleased { request }),
        any::<u64>().prop_map(|bytes| Event::BudgetChanged { bytes }),
        Just(Event::TimePassed),
    ]
}

fn line_of(now: Time, event: &Event) -> String {
    let mut line = String::new();
    write_event(&mut line, now, event).unwrap();
    line
}

proptest! {
    #[test]
    fn an_event_is_read_back_as_it_was(now in any::<u64>(), event in event()) {
        let line = line_of(Time(now), &event);
        let line = line.strip_suffix('\n').unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(parse(line), Ok(Record::Event(Time(now), event)));
    }

    #[test]
    fn a_damaged_line_is_no_panic(
        now in any::<u64>(),
        event in event(),
        cut in any::<prop::sample::Index>(),
        put in "[-0-9,:;*/= a-zA-Z]{0,6}",
    ) {
        let line = line_of(Time(now), &event);
        let at = cut.index(line.len());
        let (head, tail) = line.trim_end().split_at(at.min(line.trim_end().len()));
        let _ = parse(&format!("{head}{put}{tail}"));
        let _ = parse(head);
    }
}

#[test]
fn configurations_are_read_back_and_other_versions_refused() {
    for policy in Policy::ALL {
        for model in StorageModel::ALL {
            let config = AbmConfig {
                policy,
                model,
                budget_bytes: u64::MAX,
                loads_max: 3,
                stall_after_ns: 4,
                wait_unit_ns: 5,
                turns: (model == StorageModel::Nsm).then_some(TurnLimit {
                    chunks_max: 6,
                    length_ns_max: 7,
                }),
            };
            let mut line = String::new();
            write_config(&mut line, &config).unwrap();
            assert_eq!(parse(line.trim_end()), Ok(Record::Config(config)));
            let newer = line.replacen(" 1 ", " 2 ", 1);
            assert_eq!(parse(newer.trim_end()), Err(LogError::Version(2)));
        }
    }
}

#[test]
fn a_layout_cannot_ask_for_all_memory() {
    let line = "0 ChunksAppended 0 chunks=0:1*99999999999 shared=-";
    assert!(matches!(parse(line), Err(LogError::BadField { .. })));
}

/// The format is stable: a change of these lines needs a new version.
#[test]
fn lines_look_as_documented() {
    let chunk = ChunkLayout {
        device: DeviceId(1),
        bytes: [5, 6].into(),
    };
    let shared = vec![SharedExtent {
        column: ColumnId(1),
        first: ChunkId(0),
        last: ChunkId(2),
        bytes: 7,
    }];
    let layout = TableLayout {
        columns: 2,
        chunks: vec![chunk; 3],
        shared,
    };
    let table = TableId(4);
    assert_eq!(
        line_of(Time(9), &Event::TableRegistered { table, layout }),
        "9 TableRegistered 4 columns=2 chunks=1:5/6*3 shared=1:0-2:7\n"
    );
    let columns = [3, 0, 1, 2].map(ColumnId).to_vec();
    let chunk = ChunkId(8);
    let loaded = Event::LoadCompleted {
        table,
        chunk,
        columns: columns.clone(),
    };
    assert_eq!(line_of(Time(10), &loaded), "10 LoadCompleted 4 8 3,0-2\n");
    let begun = Event::ChunkJobBegun {
        scan: ScanId(2),
        chunk,
        members: [3, 4, 9].map(ScanId).to_vec(),
    };
    let line = line_of(Time(11), &begun);
    assert_eq!(line, "11 ChunkJobBegun 2 8 members=3,4,9\n");
    let ended = Event::ChunkJobEnded {
        scan: ScanId(2),
        chunk,
        given_back: Vec::new(),
    };
    let line = line_of(Time(12), &ended);
    assert_eq!(line, "12 ChunkJobEnded 2 8 given_back=-\n");
    let mut line = String::new();
    let load = crate::Action::Load {
        table,
        chunk,
        columns,
        extents: Vec::new(),
        bytes: 18,
        scan: ScanId(2),
    };
    write_action(&mut line, &load).unwrap();
    assert_eq!(line, "> Load 4 8 columns=3,0-2 extents=- bytes=18 scan=2\n");
}
