//! Promised: every device of which a scan misses chunks has outstanding loads for the scan,
//! whatever has arrived from the other devices; when memory is short, an idle device gets a load
//! before a busy one gets its next; a scan limited to some devices reads from that many and ends.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

const TABLE: TableId = TableId(0);
const SCAN: ScanId = ScanId(0);
const CHUNK_BYTES: u64 = 10;
const DEVICES: u16 = 4;
const CHUNKS: u32 = 40;

fn device_of(chunk: ChunkId) -> u32 {
    // Chunks are stored device by device, like files in the order of their paths.
    chunk.0 / (CHUNKS / u32::from(DEVICES))
}

struct World {
    abm: Abm,
    loading: BTreeMap<u32, Vec<ChunkId>>,
    handed: Vec<ChunkId>,
    exhausted: bool,
}

impl World {
    /// One scan with one consumer over four devices, two loads on each, and memory for `room`
    /// chunks.
    fn new(room: u64, devices_max: Option<u32>) -> Self {
        let abm = Abm::new(AbmConfig {
            policy: Policy::Relevance,
            model: StorageModel::Nsm,
            budget_bytes: room * CHUNK_BYTES,
            loads_max: 2,
            stall_after_ns: u64::MAX,
            wait_unit_ns: 1,
            turns: None,
        });
        let (loading, handed) = (BTreeMap::new(), Vec::new());
        let exhausted = false;
        let mut world = Self {
            abm,
            loading,
            handed,
            exhausted,
        };
        let chunk = |chunk| ChunkLayout {
            device: DeviceId(u16::try_from(device_of(ChunkId(chunk))).expect("few")),
            bytes: [CHUNK_BYTES].into(),
        };
        let layout = TableLayout {
            columns: 1,
            chunks: (0..CHUNKS).map(chunk).collect(),
            shared: Vec::new(),
        };
        let table = TABLE;
        world.take(Event::TableRegistered { table, layout });
        let spec = ScanSpec {
            table,
            parts: vec![Part {
                chunks: ChunkSet::from_range(0..CHUNKS),
                columns: ColumnSet::all(1),
            }],
            consumers: 1,
            ordered: false,
            devices_max,
        };
        world.take(Event::ScanRegistered { scan: SCAN, spec });
        world
    }

    fn take(&mut self, event: Event) {
        self.abm.handle(Time(0), event).expect("a valid event");
        self.abm.check();
        while let Some(action) = self.abm.poll_action() {
            match action {
                Action::Load { chunk, .. } => {
                    self.loading
                        .entry(device_of(chunk))
                        .or_default()
                        .push(chunk);
                }
                Action::Deliver { chunk, .. } => self.handed.push(chunk),
                Action::Exhausted { .. } => self.exhausted = true,
                _ => {}
            }
        }
    }

    fn loads(&self) -> Vec<usize> {
        let devices = 0..u32::from(DEVICES);
        let loads = devices.map(|device| self.loading.get(&device).map_or(0, Vec::len));
        loads.collect()
    }

    fn complete(&mut self, device: u32) {
        let chunk = self.loading.get_mut(&device).expect("it loads").remove(0);
        self.take(Event::LoadCompleted {
            table: TABLE,
            chunk,
            columns: ColumnSet::all(1).iter().collect(),
        });
    }

    /// The consumer requests a chunk and releases it, if one is delivered.
    fn work(&mut self) {
        let before = self.handed.len();
        self.take(Event::ChunkRequested { scan: SCAN });
        if let Some(&chunk) = self.handed.get(before) {
            self.take(Event::ChunkReleased { scan: SCAN, chunk });
        }
    }
}

#[test]
fn a_slow_device_is_never_idle() {
    let mut world = World::new(u64::from(CHUNKS), None);
    assert_eq!(world.loads(), [2, 2, 2, 2]);
    // All devices but the last are fast, and the consumer is silent: their chunks are read ahead,
    // and then these devices are idle.
    while world.loads()[..3].iter().any(|&loads| loads > 0) {
        let busy = world.loads()[..3].iter().position(|&loads| loads > 0);
        world.complete(u32::try_from(busy.expect("one")).expect("few"));
    }
    assert_eq!(world.loads(), [0, 0, 0, 2]);
    // A completed load of the slow device is replaced at once, although many chunks of the others
    // are ready.
    world.complete(3);
    assert_eq!(world.loads(), [0, 0, 0, 2]);
}

#[test]
fn an_idle_device_is_served_first_when_memory_is_short() {
    let world = World::new(4, None);
    assert_eq!(world.loads(), [1, 1, 1, 1]);
    let world = World::new(6, None);
    assert_eq!(world.loads(), [2, 2, 1, 1]);
}

#[test]
fn a_scan_limited_to_some_devices_ends() {
    for devices_max in [Some(1), Some(2), Some(3), None] {
        let mut world = World::new(u64::from(CHUNKS), devices_max);
        let most = devices_max.unwrap_or(4) as usize;
        let mut seen = BTreeSet::new();
        while !world.exhausted {
            let busy = world.loads().iter().filter(|&&loads| loads > 0).count();
            // One more device while the last chunks of the preceding one are loading.
            assert!(
                busy <= most + usize::from(most < 4),
                "{devices_max:?}: {:?}",
                world.loads()
            );
            if let Some(device) = world.loads().iter().position(|&loads| loads > 0) {
                world.complete(u32::try_from(device).expect("few"));
            }
            world.work();
            seen.extend(world.handed.iter().copied());
        }
        assert_eq!(seen.len(), CHUNKS as usize);
    }
    // The limit changes while the scan runs.
    let mut world = World::new(u64::from(CHUNKS), Some(1));
    assert_eq!(world.loads(), [2, 0, 0, 0]);
    let devices_max = None;
    world.take(Event::DegreeChanged {
        scan: SCAN,
        devices_max,
    });
    assert_eq!(world.loads(), [2, 2, 2, 2]);
}
