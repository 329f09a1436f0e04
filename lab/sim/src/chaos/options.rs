//! Which world, which faults? All numbers that a seed draws before the run.
//!
//! Idea: a world is a few numbers, which are printed when it fails, and simplified one by one to
//! find the smallest world that also fails.
//! Not here: draws made during the run (`driver.rs`); they follow from the seed and these numbers.

use coscan_core::{AbmConfig, Policy, StorageModel, TurnLimit};

use crate::random::Random;

/// A world and its faults. Times are nanoseconds of virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of every later draw.
    pub seed: u64,
    /// The scheduling policy.
    pub policy: Policy,
    /// The storage model.
    pub model: StorageModel,
    /// The limit on turns; `None` if scans take no turns.
    pub turns: Option<TurnLimit>,
    /// The most outstanding loads per device.
    pub loads_max: usize,
    /// How long a scan is silent before it counts as stalled.
    pub stall_after_ns: u64,
    /// The waiting time that weighs as much as one needed chunk.
    pub wait_unit_ns: u64,
    /// The shortest time between two `TimePassed` events.
    pub tick_ns: u64,
    /// Devices that tables are spread over.
    pub devices: u16,
    /// The number of tables at first.
    pub tables: u32,
    /// The most chunks per table.
    pub chunks_max: u32,
    /// The most columns per table. 1 under `nsm`.
    pub columns_max: u16,
    /// Shared extents per 100 chunks.
    pub shared_percent: u32,
    /// Whether every segment has the same size.
    pub even_sizes: bool,
    /// The first budget, in percent of all bytes.
    pub budget_percent: u64,
    /// The most scans at a time.
    pub scans_max: usize,
    /// The most consumers per scan.
    pub consumers_max: u32,
    /// Of 100 scans, how many are ordered.
    pub ordered_percent: u64,
    /// The longest time of a load.
    pub load_ns: u64,
    /// The longest time that a consumer works on a chunk.
    pub work_ns: u64,
    /// The mean time between two arrivals.
    pub arrive_ns: u64,
    /// The length of the safety phase.
    pub safety_ns: u64,
    /// Of 1000 delivered chunks, how many get a chunk job.
    pub jobs: u64,
    /// The rates of faults in the safety phase.
    pub faults: Faults,
    /// Short scans that run in the liveness phase; each is replaced when it has ended.
    pub churn: u32,
    /// The most consumers that stay stalled in the liveness phase.
    pub frozen_max: usize,
    /// Whether the core gets its planted bug (feature `canary` of coscan-core). Never drawn.
    pub plant_canary: bool,
}

/// The rate of each kind of fault, of 1000 occasions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Faults {
    /// A load (or a column of it) fails.
    pub load_fails: u64,
    /// A load takes up to twenty times as long, so that others overtake it.
    pub load_is_late: u64,
    /// The columns of a load complete one by one, in any order.
    pub load_comes_in_parts: u64,
    /// A consumer falls silent, holding its chunk or not.
    pub consumer_stalls: u64,
    /// The chunk of a consumer that falls silent lapses.
    pub chunk_lapses: u64,
    /// A chunk job gives its chunk back, to some or all of its scans.
    pub job_fails: u64,
    /// The scan that leads a chunk job is cancelled during the job.
    pub host_stops: u64,
    /// A consumer requests another chunk while it holds one.
    pub consumer_hoards: u64,
    /// A waiting consumer withdraws its request, and makes it later.
    pub request_withdrawn: u64,
    /// A scan is cancelled. This rate and those below count per arrival.
    pub scan_cancelled: u64,
    /// A scan withdraws chunks.
    pub chunks_withdrawn: u64,
    /// The budget changes, also to less than is pinned.
    pub budget_changed: u64,
    /// A table grows, or a new version of it is registered and the old one dropped once it is
    /// unused.
    pub table_changed: u64,
    /// A page is requested.
    pub page_requested: u64,
}

impl Options {
    /// The world that the seed draws.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        // Another sequence than the one that the driver draws from, and than that of a neighbouring
        // seed.
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
        // Drawn from sequences of their own, so that the other numbers of a seed do not depend on
        // them.
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

    /// The configuration of the core; the budget follows when the tables are known.
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

    /// Worlds that are simpler than this one in one respect each.
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

/// The rate of a kind of fault; 0 in a third of the worlds.
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

/// One of the items; there must be at least one.
pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[index(random, from.len())]
}

/// A number below `len`.
pub(super) fn index(random: &mut Random, len: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    let at = random.below(len as u64) as usize;
    at
}
