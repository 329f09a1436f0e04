//! What does one scheduling decision cost at 64 scans × 100,000 chunks?
//!
//! A tiny driver runs a buffer of a quarter of the table: loads complete in turn, scans of mixed
//! speeds and ranges request and release. Every `handle` is timed, including the removal of its
//! actions. Criterion gets the mean; the percentiles over all decisions are printed, because the
//! promise is about the p99 (docs/BENCHMARKS.md). Scans that come and go are printed separately,
//! because their cost depends on what they announce. `scattered` is the hard case: ranges full of
//! holes, so that hardly two chunks interest the same scans.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers drawn from a range, and percentiles of counts"
)]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what the core must not know, its bench measures"
)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use coscan_core::{
    Abm, AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event,
    Part, Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time, TurnLimit,
};
use criterion::{Criterion, criterion_group, criterion_main};

const CHUNKS: u32 = 100_000;
const SCANS: u64 = 64;
const CHUNK_BYTES: u64 = 1 << 20;
/// The engine's limit on two cores.
const TURNS: TurnLimit = TurnLimit {
    chunks_max: 2,
    length_ns_max: 250_000_000,
};
const TABLE: TableId = TableId(0);

/// A splitmix64 sequence, so that the bench depends on no other generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Case {
    Ranges,
    /// Ranges from which a quarter of the chunks is removed at random.
    Scattered,
    /// Ranges, and scans take turns on the cores, as in the engine.
    Turns,
}

struct Driver {
    abm: Abm,
    random: Random,
    now: u64,
    loads: VecDeque<(ChunkId, Vec<ColumnId>)>,
    /// The core's actions; the vector keeps its memory.
    actions: Vec<Action>,
    /// (scan, chunk) in consumers' hands.
    held: Vec<(ScanId, ChunkId)>,
    /// How long each decision took, and how many chunks it delivered.
    decisions: Vec<(Duration, usize)>,
    /// Scans that register or end.
    announcements: Vec<(Duration, usize)>,
    columns: u16,
    next_scan: u64,
    scattered: bool,
}

impl Driver {
    fn new(model: StorageModel, case: Case) -> Self {
        let columns = if model == StorageModel::Nsm { 1 } else { 16 };
        let abm = Abm::new(AbmConfig {
            policy: Policy::Relevance,
            model,
            budget_bytes: u64::from(CHUNKS) / 4 * CHUNK_BYTES,
            loads_max: 2,
            stall_after_ns: u64::MAX,
            wait_unit_ns: 100_000_000,
            turns: (case == Case::Turns).then_some(TURNS),
        });
        let mut driver = Self {
            abm,
            random: Random(1),
            now: 0,
            loads: VecDeque::new(),
            actions: Vec::new(),
            held: Vec::new(),
            decisions: Vec::new(),
            announcements: Vec::new(),
            columns,
            next_scan: 0,
            scattered: case == Case::Scattered,
        };
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: vec![CHUNK_BYTES / u64::from(columns); columns.into()].into(),
        };
        let layout = TableLayout {
            columns,
            chunks: vec![chunk; CHUNKS as usize],
            shared: Vec::new(),
        };
        driver.handle(Event::TableRegistered {
            table: TABLE,
            layout,
        });
        for _ in 0..SCANS {
            driver.start_scan();
        }
        driver
    }

    fn start_scan(&mut self) {
        let id = ScanId(self.next_scan);
        self.next_scan += 1;
        let share = [100, 10, 2, 1][self.random.below(4) as usize];
        let length = CHUNKS / share;
        let start = self.random.below(u64::from(CHUNKS - length) + 1) as u32;
        let mut chunks = ChunkSet::from_range(start..start + length);
        if self.scattered {
            for _ in 0..length / 4 {
                let at = start + self.random.below(length.into()) as u32;
                chunks.remove(ChunkId(at));
            }
        }
        let columns: ColumnSet = if self.columns == 1 {
            ColumnSet::all(1)
        } else {
            let sets: [&[u16]; 3] = [&[4, 5, 6, 10], &[4, 5, 6, 7, 8, 9, 10], &[0, 5, 6]];
            sets[self.random.below(3) as usize]
                .iter()
                .map(|&c| ColumnId(c))
                .collect()
        };
        let parts = vec![Part { chunks, columns }];
        let spec = ScanSpec {
            table: TABLE,
            parts,
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        self.handle(Event::ScanRegistered { scan: id, spec });
        self.handle(Event::ChunkRequested { scan: id });
    }

    fn handle(&mut self, event: Event) {
        let announces = matches!(
            event,
            Event::ScanRegistered { .. } | Event::ScanEnded { .. }
        );
        let begun = Instant::now();
        self.abm
            .handle(Time(self.now), event)
            .expect("the bench's driver is right");
        let mut actions = std::mem::take(&mut self.actions);
        actions.extend(std::iter::from_fn(|| self.abm.poll_action()));
        let took = begun.elapsed();
        let handed = actions
            .iter()
            .filter(|action| matches!(action, Action::Deliver { .. }));
        let timing = (took, handed.count());
        if announces {
            self.announcements.push(timing);
        } else {
            self.decisions.push(timing);
        }
        let mut ended = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Load { chunk, columns, .. } => self.loads.push_back((chunk, columns)),
                Action::Deliver { scan, chunk, .. } => self.held.push((scan, chunk)),
                Action::Exhausted { scan } => ended.push(scan),
                _ => {}
            }
        }
        self.actions = actions;
        for scan in ended {
            self.handle(Event::ScanEnded { scan });
            self.start_scan();
        }
    }

    /// One step: a consumer continues with its next chunk, or a load completes.
    fn step(&mut self) {
        self.now += 1_000_000;
        let load = self.held.is_empty() || self.random.below(3) == 0;
        if load && let Some((chunk, columns)) = self.loads.pop_front() {
            self.handle(Event::LoadCompleted {
                table: TABLE,
                chunk,
                columns,
            });
        } else if !self.held.is_empty() {
            let at = self.random.below(self.held.len() as u64) as usize;
            let (scan, chunk) = self.held.swap_remove(at);
            self.handle(Event::ChunkReleased { scan, chunk });
            self.handle(Event::ChunkRequested { scan });
        }
    }
}

fn decisions(criterion: &mut Criterion) {
    for (model, name) in [(StorageModel::Nsm, "nsm"), (StorageModel::Dsm, "dsm")] {
        for (case, suffix) in [
            (Case::Ranges, ""),
            (Case::Turns, "-turns"),
            (Case::Scattered, "-scattered"),
        ] {
            let label = format!("{name}{suffix}");
            let mut driver = Driver::new(model, case);
            // Warms up: a full buffer, scans at all positions.
            for _ in 0..40_000 {
                driver.step();
            }
            driver.decisions.clear();
            driver.announcements.clear();
            criterion.bench_function(&format!("decision/{label}"), |bencher| {
                bencher.iter_custom(|steps| {
                    let before = driver.decisions.len();
                    for _ in 0..steps {
                        driver.step();
                    }
                    black_box(driver.decisions[before..].iter().map(|of| of.0).sum())
                });
            });
            print("decisions", &label, &mut driver.decisions);
            print("scans come and go", &label, &mut driver.announcements);
        }
    }
}

fn print(what: &str, label: &str, timings: &mut [(Duration, usize)]) {
    timings.sort_unstable();
    let place = |share: f64| (timings.len().saturating_sub(1) as f64 * share) as usize;
    let at = |share: f64| timings.get(place(share)).copied().unwrap_or_default().0;
    let slowest = &timings[place(0.99)..];
    let handed: usize = slowest.iter().map(|of| of.1).sum();
    println!(
        "{label}, {what}: {}, p50 {:?}, p99 {:?}, p99.9 {:?}, max {:?}; the slowest percent hand out {:.1} chunks each",
        timings.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        handed as f64 / slowest.len().max(1) as f64,
    );
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(5));
    targets = decisions
}
criterion_main!(benches);
