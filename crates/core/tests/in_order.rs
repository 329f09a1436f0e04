//! Promised: scans in order that follow one another do not evict the chunks that another will take
//! next.
//!
//! A scan that is further ahead leaves chunks behind that the scans behind it will want; the
//! further ahead it is, the later. When space is needed, the chunk that will be wanted last is
//! evicted [PBM12 §3]. Otherwise the scan behind would load the chunk that it is about to take,
//! lose it, and load it a second time.

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const CHUNK_BYTES: u64 = 10;
const CHUNKS: u32 = 40;

/// Ordered scans of one table, each of which works on a chunk for a unit of time.
struct World {
    abm: Abm,
    now: u64,
    loads: u32,
    /// Outstanding loads; each takes half a unit.
    loading: Vec<Action>,
    /// Scans with the chunks that they hold.
    held: Vec<(ScanId, Option<ChunkId>)>,
}

impl World {
    fn new(model: StorageModel, chunks_in_memory: u64) -> Self {
        let abm = Abm::new(AbmConfig {
            policy: Policy::Relevance,
            model,
            budget_bytes: chunks_in_memory * CHUNK_BYTES,
            loads_max: 2,
            stall_after_ns: 1_000_000,
            wait_unit_ns: 1,
            turns: None,
        });
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: [CHUNK_BYTES].into(),
        };
        let layout = TableLayout {
            columns: 1,
            chunks: vec![chunk; CHUNKS as usize],
            shared: Vec::new(),
        };
        let mut world = Self {
            abm,
            now: 0,
            loads: 0,
            loading: Vec::new(),
            held: Vec::new(),
        };
        let table = TABLE;
        world.take(Event::TableRegistered { table, layout });
        world
    }

    fn take(&mut self, event: Event) {
        self.abm.handle(Time(self.now), event).expect("valid");
        self.abm.check();
        while let Some(action) = self.abm.poll_action() {
            match action {
                Action::Load { .. } => {
                    self.loads += 1;
                    self.loading.push(action);
                }
                Action::Deliver { scan, chunk, .. } => {
                    let mut held = self.held.iter_mut();
                    let mine = held.find(|(id, _)| *id == scan).expect("registered");
                    mine.1 = Some(chunk);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, id: u64) {
        let scan = ScanId(id);
        let spec = ScanSpec {
            table: TABLE,
            parts: vec![Part {
                chunks: ChunkSet::from_range(0..CHUNKS),
                columns: ColumnSet::all(1),
            }],
            consumers: 1,
            ordered: true,
            devices_max: None,
        };
        self.held.push((scan, None));
        self.take(Event::ScanRegistered { scan, spec });
        self.take(Event::ChunkRequested { scan });
    }

    /// A unit of time: every scan releases the chunk that it has worked on and requests the next.
    fn step(&mut self, left: &mut [(u64, u32)]) {
        for _ in 0..2 {
            self.now += 50;
            for load in std::mem::take(&mut self.loading) {
                if let Action::Load {
                    table,
                    chunk,
                    columns,
                    ..
                } = load
                {
                    self.take(Event::LoadCompleted {
                        table,
                        chunk,
                        columns,
                    });
                }
            }
        }
        for (scan, chunk) in self.held.clone() {
            let Some(chunk) = chunk else { continue };
            let mine = self.held.iter_mut().find(|(id, _)| *id == scan);
            mine.expect("registered").1 = None;
            self.take(Event::ChunkReleased { scan, chunk });
            let one = left.iter_mut().find(|(id, _)| *id == scan.0);
            let one = one.expect("started");
            one.1 -= 1;
            if one.1 == 0 {
                self.take(Event::ScanEnded { scan });
                self.held.retain(|(id, _)| *id != scan);
            } else {
                self.take(Event::ChunkRequested { scan });
            }
        }
    }
}

/// How many chunks are loaded for scans that start one after another, `apart` chunks apart.
fn loads(model: StorageModel, in_memory: u64, scans: u64, apart: u32) -> u32 {
    let mut world = World::new(model, in_memory);
    let mut left = Vec::new();
    for id in 0..scans {
        world.start(id);
        left.push((id, CHUNKS));
        for _ in 0..apart {
            world.step(&mut left);
        }
    }
    for _ in 0..20 * CHUNKS {
        world.step(&mut left);
    }
    assert!(left.iter().all(|&(_, chunks)| chunks == 0), "{left:?}");
    world.loads
}

#[test]
fn a_scan_behind_finds_the_chunks_that_the_one_ahead_has_left() {
    for model in [StorageModel::Nsm, StorageModel::Dsm] {
        for apart in 1..CHUNKS {
            let loads = loads(model, 10, 2, apart);
            // Of the chunks in memory, a scan cannot use the two outstanding loads of each scan
            // and the chunks that they hold.
            assert!(loads <= 2 * CHUNKS - 5, "{model:?}, {apart} apart: {loads}");
        }
    }
}

#[test]
fn no_chunk_is_loaded_more_often_than_it_is_taken() {
    for model in [StorageModel::Nsm, StorageModel::Dsm] {
        for scans in 3..8 {
            for apart in [1, 2, 5, 9, 13] {
                let loads = loads(model, 4 * u64::from(scans), scans.into(), apart);
                let taken = scans * CHUNKS;
                assert!(loads < taken, "{model:?}, {scans}, {apart} apart: {loads}");
            }
        }
    }
}
