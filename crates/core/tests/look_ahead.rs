//! Promised: a scan whose consumer does not ask loads each of its chunks ahead at most once,
//! however little memory there is.

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const CHUNK_BYTES: u64 = 10;

fn take(abm: &mut Abm, event: Event) -> Vec<Action> {
    abm.handle(Time(0), event).expect("a valid event");
    abm.check();
    std::iter::from_fn(|| abm.poll_action()).collect()
}

#[test]
fn chunks_ahead_do_not_evict_each_other() {
    for policy in Policy::ALL {
        let mut abm = Abm::new(AbmConfig {
            policy,
            model: StorageModel::Nsm,
            budget_bytes: CHUNK_BYTES,
            loads_max: 1,
            stall_after_ns: 1_000,
            wait_unit_ns: 1,
            turns: None,
        });
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: [CHUNK_BYTES].into(),
        };
        let layout = TableLayout {
            columns: 1,
            chunks: vec![chunk; 4],
            shared: Vec::new(),
        };
        let table = TABLE;
        take(&mut abm, Event::TableRegistered { table, layout });
        let part = Part {
            chunks: ChunkSet::from_range(0..4),
            columns: ColumnSet::all(1),
        };
        let spec = ScanSpec {
            table,
            parts: vec![part],
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        let scan = ScanId(1);
        let mut actions = take(&mut abm, Event::ScanRegistered { scan, spec });
        let mut loads = 0;
        while let Some(action) = actions.pop() {
            let Action::Load { chunk, columns, .. } = action else {
                panic!("{policy:?}: {action:?}")
            };
            loads += 1;
            assert!(loads <= 4, "{policy:?} loads {chunk:?} again");
            let completed = Event::LoadCompleted {
                table,
                chunk,
                columns,
            };
            actions.extend(take(&mut abm, completed));
        }
        let actions = take(&mut abm, Event::ChunkRequested { scan });
        let handed = |action: &Action| {
            matches!(
                action,
                Action::Deliver {
                    chunk: ChunkId(0),
                    ..
                }
            )
        };
        assert!(actions.iter().any(handed), "{policy:?}: {actions:?}");
    }
}
