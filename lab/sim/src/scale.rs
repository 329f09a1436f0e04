//! Many scans over many chunks: how many events can the core handle per second?
//!
//! Idea: a driver that costs next to nothing itself. Loads complete in the order of issue,
//! consumers with mixed ranges come back in random order, a new scan replaces each scan that ends,
//! and the buffer holds a quarter of the table.
//! Not here: the clock (coscan-study times [`Scale::step`]), percentiles of single decisions
//! (`crates/core/benches/decision.rs`).

use std::collections::VecDeque;

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event,
    Part, Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};

use crate::random::Random;

/// The parameters of a world of [`Scale`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleOptions {
    /// The scheduling policy.
    pub policy: Policy,
    /// The storage model: one column under `nsm`, 16 under `dsm`.
    pub model: StorageModel,
    /// The number of scans at a time.
    pub scans: u64,
    /// Chunks of the one table.
    pub chunks: u32,
    /// Whether every scan wants the whole table; otherwise a scan wants 1, 10, 50 or 100 % of it.
    pub whole: bool,
    /// The seed of every draw.
    pub seed: u64,
}

/// A running world.
#[derive(Debug)]
pub struct Scale {
    options: ScaleOptions,
    abm: Abm,
    random: Random,
    now: u64,
    events: u64,
    columns: u16,
    loads: VecDeque<(ChunkId, Vec<ColumnId>)>,
    /// Chunks that consumers hold.
    held: Vec<(ScanId, ChunkId)>,
    ended: Vec<ScanId>,
    scans_registered: u64,
    scans_ended: u64,
}

const TABLE: TableId = TableId(0);
const CHUNK_BYTES: u64 = 16 << 20;
/// Time between two events. No scan stalls, so its length does not matter.
const STEP_NS: u64 = 100_000;
/// Column sets of three TPC-H queries on lineitem.
const SETS: [&[u16]; 3] = [&[4, 5, 6, 10], &[4, 5, 6, 7, 8, 9, 10], &[0, 5, 6]];

impl Scale {
    /// Registers the table and the first scans.
    #[must_use]
    pub fn new(options: ScaleOptions) -> Self {
        let columns = match options.model {
            StorageModel::Nsm => 1,
            StorageModel::Dsm => 16,
        };
        let abm = Abm::new(AbmConfig {
            policy: options.policy,
            model: options.model,
            budget_bytes: u64::from(options.chunks) / 4 * CHUNK_BYTES,
            loads_max: 2,
            stall_after_ns: u64::MAX,
            wait_unit_ns: 100_000_000,
            turns: None,
        });
        let mut world = Self {
            options,
            abm,
            random: Random::new(options.seed),
            now: 0,
            events: 0,
            columns,
            loads: VecDeque::new(),
            held: Vec::new(),
            ended: Vec::new(),
            scans_registered: 0,
            scans_ended: 0,
        };
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: vec![CHUNK_BYTES / u64::from(columns); columns.into()].into(),
        };
        let layout = TableLayout {
            columns,
            chunks: vec![chunk; options.chunks as usize],
            shared: Vec::new(),
        };
        world.tell(Event::TableRegistered {
            table: TABLE,
            layout,
        });
        for _ in 0..options.scans {
            world.start_scan();
        }
        world
    }

    /// The number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number of scans that have ended.
    #[must_use]
    pub fn scans_ended(&self) -> u64 {
        self.scans_ended
    }

    /// Checks every invariant of the core.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        self.abm.check();
    }

    /// A load completes, or a consumer requests its next chunk.
    pub fn step(&mut self) {
        let load = self.held.is_empty() || self.random.below(3) == 0;
        if load && let Some((chunk, columns)) = self.loads.pop_front() {
            self.tell(Event::LoadCompleted {
                table: TABLE,
                chunk,
                columns,
            });
        } else if !self.held.is_empty() {
            #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
            let at = self.random.below(self.held.len() as u64) as usize;
            let (scan, chunk) = self.held.swap_remove(at);
            self.tell(Event::ChunkReleased { scan, chunk });
            self.tell(Event::ChunkRequested { scan });
        }
        while let Some(scan) = self.ended.pop() {
            self.scans_ended += 1;
            self.tell(Event::ScanEnded { scan });
            self.start_scan();
        }
    }

    fn start_scan(&mut self) {
        let scan = ScanId(self.scans_registered);
        self.scans_registered += 1;
        let percent = match self.random.below(4) {
            _ if self.options.whole => 100,
            0 => 1,
            1 => 10,
            2 => 50,
            _ => 100,
        };
        let chunks = self.options.chunks;
        let length = (chunks / 100 * percent).max(1);
        let start = self.random.below(u64::from(chunks - length) + 1);
        let start = u32::try_from(start).unwrap_or(0);
        let columns = if self.columns == 1 {
            ColumnSet::all(1)
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "below 3")]
            let set = SETS[self.random.below(3) as usize];
            set.iter().map(|&column| ColumnId(column)).collect()
        };
        let chunks = ChunkSet::from_range(start..start + length);
        let spec = ScanSpec {
            table: TABLE,
            parts: vec![Part { chunks, columns }],
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        self.tell(Event::ScanRegistered { scan, spec });
        self.tell(Event::ChunkRequested { scan });
    }

    fn tell(&mut self, event: Event) {
        self.now += STEP_NS;
        self.events += 1;
        let outcome = self.abm.handle(Time(self.now), event);
        assert!(outcome.is_ok(), "a right driver is refused: {outcome:?}");
        while let Some(action) = self.abm.poll_action() {
            match action {
                Action::Load { chunk, columns, .. } => self.loads.push_back((chunk, columns)),
                Action::Deliver { scan, chunk, .. } => self.held.push((scan, chunk)),
                Action::Exhausted { scan } => self.ended.push(scan),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_end_and_others_follow() {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let mut world = Scale::new(ScaleOptions {
                policy: Policy::Relevance,
                model,
                scans: 20,
                chunks: 500,
                whole: false,
                seed: 1,
            });
            while world.scans_ended() < 60 {
                world.step();
                assert!(
                    world.events() < 200_000,
                    "ABM-I6: only {} ended",
                    world.scans_ended()
                );
            }
            world.check();
        }
    }
}
