//! [CoopScans07] Table 2: 16 streams of 4 queries, FAST and SLOW, ranges of 1, 10, 50 and 100 %, four policies.
//!
//! The query counts are the table's, their arrangement is drawn from the seed. Parameters, from the table itself: a SLOW full scan
//! costs 35.3 CPU seconds (its standalone time), a FAST one about 4 (total CPU less the SLOW scans'), the disk delivers slightly
//! over 200 MB/s, and positioning accounts for what 4186 requests took longer than that.

use std::collections::BTreeMap;

use coscan_core::{
    AbmConfig, ChunkLayout, ChunkSet, ColumnSet, DeviceId, Part, Policy, StorageModel, TableLayout,
};

use crate::device::DeviceModel;
use crate::run::{Experiment, Outcome, Query, Stream};

/// Query class and how many of the 64 there are.
const COUNTS: [(&str, usize); 8] = [
    ("F-01", 9),
    ("F-10", 7),
    ("F-50", 6),
    ("F-100", 9),
    ("S-01", 13),
    ("S-10", 6),
    ("S-50", 6),
    ("S-100", 8),
];
const CHUNKS: u32 = 256;
const CHUNK_BYTES: u64 = 16 << 20;
const SLOTS: u64 = 64;
const SLOW_CPU_NS: u64 = 35_300_000_000;
const FAST_CPU_NS: u64 = 4_000_000_000;
const DELAY_NS: u64 = 3_000_000_000;

/// The figures of a run that the table gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Mean stream time, seconds.
    pub stream_s: f64,
    /// Mean of latency over standalone time.
    pub normalized: f64,
    /// Seconds.
    pub total_s: f64,
    /// Share of all cores used.
    pub cpu: f64,
    /// Loads.
    pub loads: u64,
}

/// A splitmix64 sequence.
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

fn query(name: &str, random: &mut Random) -> Query {
    let (speed, percent) = name.split_once('-').unwrap_or((name, "100"));
    let percent: u32 = percent.parse().unwrap_or(100);
    let length = (CHUNKS * percent).div_ceil(100);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "below the number of chunks"
    )]
    let start = random.below(u64::from(CHUNKS - length) + 1) as u32;
    let cpu = if speed == "F" {
        FAST_CPU_NS
    } else {
        SLOW_CPU_NS
    };
    Query {
        name: name.to_owned(),
        parts: vec![Part {
            chunks: ChunkSet::from_range(start..start + length),
            columns: ColumnSet::all(1),
        }],
        cpu_ns_per_chunk: cpu / u64::from(CHUNKS),
    }
}

/// The 64 queries of Table 2 in an arrangement that the seed draws.
#[must_use]
pub fn paper_workload(seed: u64) -> Vec<Stream> {
    let mut random = Random(seed);
    let names = COUNTS
        .iter()
        .flat_map(|&(name, count)| std::iter::repeat_n(name, count));
    let mut queries: Vec<Query> = names.map(|name| query(name, &mut random)).collect();
    for at in (1..queries.len()).rev() {
        #[expect(clippy::cast_possible_truncation, reason = "at most `at`")]
        queries.swap(at, random.below(at as u64 + 1) as usize);
    }
    let streams = queries.chunks(4).zip(0_u64..);
    streams
        .map(|(queries, n)| Stream {
            start_ns: n * DELAY_NS,
            queries: queries.to_vec(),
        })
        .collect()
}

/// Table 2's experiment for one policy and arrangement.
#[must_use]
pub fn table2(policy: Policy, seed: u64) -> Experiment {
    let chunk = ChunkLayout {
        device: DeviceId(0),
        bytes: vec![CHUNK_BYTES].into(),
    };
    Experiment {
        abm: AbmConfig {
            policy,
            model: StorageModel::Nsm,
            budget_bytes: SLOTS * CHUNK_BYTES,
            loads_max: 1,
            stall_after_ns: 60_000_000_000,
            wait_unit_ns: 1_000_000_000,
        },
        layout: TableLayout {
            columns: 1,
            chunks: vec![chunk; CHUNKS as usize],
            shared: Vec::new(),
        },
        device: DeviceModel {
            bytes_per_second: 210_000_000,
            positioning_ns: 25_000_000,
        },
        cores: 2,
        streams: paper_workload(seed),
    }
}

/// The table's figures of an outcome. Standalone times are simulated with the same parameters.
#[must_use]
pub fn summarise(experiment: &Experiment, outcome: &Outcome) -> Summary {
    let mut standalone: BTreeMap<&str, f64> = BTreeMap::new();
    let mut sum = 0.0;
    for query in &outcome.queries {
        let alone = *standalone.entry(&query.name).or_insert_with(|| {
            let queries = experiment.streams.iter().flat_map(|s| &s.queries);
            let same = queries
                .filter(|q| q.name == query.name)
                .take(1)
                .cloned()
                .collect();
            let streams = vec![Stream {
                start_ns: 0,
                queries: same,
            }];
            Experiment {
                streams,
                ..experiment.clone()
            }
            .run()
            .total_ns as f64
        });
        sum += query.latency_ns as f64 / alone;
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    let streams = outcome.stream_ns.len() as f64;
    Summary {
        stream_s: outcome.stream_ns.iter().map(|&ns| seconds(ns)).sum::<f64>() / streams,
        normalized: sum / outcome.queries.len() as f64,
        total_s: seconds(outcome.total_ns),
        cpu: outcome.cpu_ns as f64 / (outcome.total_ns * experiment.cores) as f64,
        loads: outcome.loads,
    }
}
