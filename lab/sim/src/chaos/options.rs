//! Which world, which faults? Everything a seed draws before anything happens.
//!
//! Idea: a world is a handful of numbers, printed when it fails, and simplified one by one to find
//! the smallest that still does.
//! Not here: the draws made while the world runs (`driver.rs`); they follow from the seed and these
//! numbers.

use coscan_core::{AbmConfig, Policy, StorageModel, TurnLimit};

use crate::random::Random;

/// A world and what goes wrong in it. Times are nanoseconds of virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Fixes every later draw.
    pub seed: u64,
    /// How the core decides.
    pub policy: Policy,
    /// What a load brings.
    pub model: StorageModel,
    /// Scans take turns on the cores.
    pub turns: Option<TurnLimit>,
    /// Outstanding loads per device.
    pub loads_max: usize,
    /// When a silent scan is stalled.
    pub stall_after_ns: u64,
    /// What waiting weighs.
    pub wait_unit_ns: u64,
    /// The driver says that time passed at most this often.
    pub tick_ns: u64,
    /// Devices that tables are spread over.
    pub devices: u16,
    /// Tables at a time.
    pub tables: u32,
    /// Chunks per table, at most.
    pub chunks_max: u32,
    /// Columns per table, at most. 1 under `nsm`.
    pub columns_max: u16,
    /// Shared extents per 100 chunks.
    pub shared_percent: u32,
    /// Every segment has the same size.
    pub even_sizes: bool,
    /// The first budget, as a part of all bytes.
    pub budget_percent: u64,
    /// Scans at a time.
    pub scans_max: usize,
    /// Consumers per scan, at most.
    pub consumers_max: u32,
    /// Scans that want their chunks in order, of 100.
    pub ordered_percent: u64,
    /// A load takes up to this long.
    pub load_ns: u64,
    /// A consumer works on a chunk up to this long.
    pub work_ns: u64,
    /// A scan arrives about this often.
    pub arrive_ns: u64,
    /// How long there are faults.
    pub safety_ns: u64,
    /// Chunks of which a chunk job is made that serves other scans too, of 1000.
    pub jobs: u64,
    /// What goes wrong until then.
    pub faults: Faults,
    /// Short scans that keep arriving in the liveness phase, each after the end of the one before.
    pub churn: u32,
    /// Stalled consumers that stay so in the liveness phase.
    pub frozen_max: usize,
    /// The core is to have its planted bug (feature `canary` of coscan-core). Never drawn.
    pub plant_canary: bool,
}

/// How often something goes wrong, of 1000 occasions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Faults {
    /// A load (or a column of it) fails.
    pub load_fails: u64,
    /// A load takes twenty times as long, so that others overtake it.
    pub load_is_late: u64,
    /// A load's columns come one by one, in any order.
    pub load_comes_in_parts: u64,
    /// A consumer falls silent, holding its chunk or not.
    pub consumer_stalls: u64,
    /// The chunk of a consumer that falls silent lapses.
    pub chunk_lapses: u64,
    /// A chunk job gives its chunk back, to some of those it works for or to all.
    pub job_fails: u64,
    /// The scan that leads a chunk job is cancelled while it runs.
    pub host_stops: u64,
    /// A consumer asks for more while it holds a chunk.
    pub consumer_hoards: u64,
    /// A consumer that waits gives up, and asks again later.
    pub request_withdrawn: u64,
    /// Of everything below: how often something of the kind happens between two arrivals.
    pub scan_cancelled: u64,
    /// A scan needs fewer chunks than it said.
    pub chunks_withdrawn: u64,
    /// The budget changes, to less than is pinned too.
    pub budget_changed: u64,
    /// A table grows, or a new version of it comes and the old one is dropped once it is unused.
    pub table_changed: u64,
    /// A page is asked for.
    pub page_requested: u64,
}

impl Options {
    /// What the seed draws.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        // Not the sequence that the driver draws from, nor that of a neighbouring seed.
        let mut random =
            Random::new(seed.wrapping_mul(0xA076_1D64_78BD_642F) ^ 0x6C62_272E_07BB_0142);
        let random = &mut random;
        let (policies, models) = (Policy::ALL, StorageModel::ALL);
        let policy = pick(random, &policies);
        let model = pick(random, &models);
        let load_ns = between(random, 100, 10_000);
        let work_ns = pick(random, &[load_ns / 50 + 1, load_ns, load_ns * 5]);
        let longest = load_ns + work_ns;
        let turns = chance(random, 300).then(|| TurnLimit {
            chunks_max: pick(random, &[1, 2, 4]),
            length_ns_max: pick(random, &[work_ns / 2 + 1, work_ns * 2, longest * 10]),
        });
        let chunks_max = pick(random, &[3, 8, 12, 16, 24, 40, 100]);
        let columns_max = match model {
            StorageModel::Nsm => 1,
            StorageModel::Dsm => pick(random, &[2, 3, 5]),
        };
        // From sequences of their own, so that the worlds of all other numbers stay what they
        // were.
        let lapses = &mut Random::new(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let classes = &mut Random::new(seed.wrapping_mul(0x9FB2_1C65_1E98_DF25));
        let faults = Faults {
            load_fails: rate(random, 100),
            load_is_late: rate(random, 200),
            load_comes_in_parts: rate(random, 600),
            consumer_stalls: rate(random, 150),
            chunk_lapses: pick(lapses, &[0, 300, 1000]),
            job_fails: rate(classes, 500),
            host_stops: rate(classes, 200),
            consumer_hoards: rate(random, 300),
            request_withdrawn: rate(random, 150),
            scan_cancelled: rate(random, 300),
            chunks_withdrawn: rate(random, 300),
            budget_changed: rate(random, 400),
            table_changed: rate(random, 300),
            page_requested: rate(random, 900),
        };
        Self {
            seed,
            policy,
            model,
            turns,
            loads_max: pick(random, &[1, 1, 2, 3]),
            stall_after_ns: pick(random, &[work_ns / 3 + 1, longest, longest * 20]),
            wait_unit_ns: pick(random, &[1, 1, load_ns / 50 + 1, load_ns]),
            tick_ns: pick(random, &[0, 0, longest * 2]),
            devices: pick(random, &[1, 1, 2, 3]),
            tables: pick(random, &[1, 2, 3]),
            chunks_max,
            columns_max,
            shared_percent: pick(random, &[0, 10, 60]),
            even_sizes: chance(random, 300),
            budget_percent: pick(random, &[0, 5, 20, 20, 50, 120]),
            scans_max: pick(random, &[2, 4, 6, 10]),
            consumers_max: pick(random, &[1, 1, 3]),
            ordered_percent: pick(random, &[0, 20, 60]),
            load_ns,
            work_ns,
            arrive_ns: longest * between(random, 1, 6),
            safety_ns: longest * between(random, 10, 60),
            jobs: pick(classes, &[0, 500, 1000, 1000]),
            faults,
            churn: pick(random, &[0, 0, 2, 5]),
            frozen_max: pick(random, &[0, 1, 3]),
            plant_canary: false,
        }
    }

    /// How the core is set up; the budget follows when the tables are known.
    #[must_use]
    pub fn abm(&self) -> AbmConfig {
        AbmConfig {
            policy: self.policy,
            model: self.model,
            budget_bytes: 0,
            loads_max: self.loads_max,
            stall_after_ns: self.stall_after_ns,
            wait_unit_ns: self.wait_unit_ns,
            turns: self.turns,
        }
    }

    /// Worlds that are simpler than this one, each in one respect.
    #[must_use]
    pub fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut options = self.clone();
            change(&mut options);
            if options != *self {
                simpler.push(options);
            }
        };
        with(&|o| o.safety_ns /= 2);
        with(&|o| o.safety_ns -= o.safety_ns / 8);
        with(&|o| o.faults = Faults::default());
        for fault in FAULTS {
            with(&|o| *fault(&mut o.faults) = 0);
        }
        with(&|o| o.jobs = 0);
        with(&|o| o.churn = 0);
        with(&|o| o.churn = o.churn.min(1));
        with(&|o| o.frozen_max = 0);
        with(&|o| o.frozen_max = o.frozen_max.min(1));
        with(&|o| o.tables = 1);
        with(&|o| o.devices = 1);
        with(&|o| o.loads_max = 1);
        with(&|o| o.turns = None);
        with(&|o| o.chunks_max = o.chunks_max / 2 + 1);
        with(&|o| o.columns_max = o.columns_max / 2 + 1);
        with(&|o| o.shared_percent = 0);
        with(&|o| o.even_sizes = true);
        with(&|o| o.scans_max = o.scans_max / 2 + 1);
        with(&|o| o.consumers_max = 1);
        with(&|o| o.ordered_percent = 0);
        with(&|o| o.tick_ns = 0);
        simpler
    }
}

/// Each kind of fault.
const FAULTS: [fn(&mut Faults) -> &mut u64; 14] = [
    |f| &mut f.load_fails,
    |f| &mut f.load_is_late,
    |f| &mut f.load_comes_in_parts,
    |f| &mut f.consumer_stalls,
    |f| &mut f.chunk_lapses,
    |f| &mut f.job_fails,
    |f| &mut f.host_stops,
    |f| &mut f.consumer_hoards,
    |f| &mut f.request_withdrawn,
    |f| &mut f.scan_cancelled,
    |f| &mut f.chunks_withdrawn,
    |f| &mut f.budget_changed,
    |f| &mut f.table_changed,
    |f| &mut f.page_requested,
];

/// A kind of fault is absent from a third of the worlds.
fn rate(random: &mut Random, most: u64) -> u64 {
    if chance(random, 333) {
        0
    } else {
        1 + random.below(most)
    }
}

pub(super) fn chance(random: &mut Random, of_1000: u64) -> bool {
    random.below(1000) < of_1000
}

/// A number from `least` to `most`, both included.
pub(super) fn between(random: &mut Random, least: u64, most: u64) -> u64 {
    least + random.below(most - least + 1)
}

/// One of them. There must be one.
pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[index(random, from.len())]
}

/// A number below `len`.
pub(super) fn index(random: &mut Random, len: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    let at = random.below(len as u64) as usize;
    at
}
