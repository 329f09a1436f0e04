//! Twelve clients run four whole-table queries each, of eight kinds, all from the first instant,
//! in memory: the shape of `coscan bench mix`, TPC-H's queries of lineitem.
//!
//! The costs of Q1 and Q6 are measured (docs/results/fragments); those of the other kinds are
//! chosen around them, because the costs of their scans alone are not known. The machine is that of
//! `mixes.rs` with decode, and reads from the page cache.

use coscan_core::{ChunkSet, ColumnSet, Part, Policy};
use coscan_sim::{DeviceModel, Query, Random, Scenario, streams};

use super::mixes::decoding;
use crate::coop::machine::{CHUNKS, rows};

/// Each kind with the CPU time of one such query alone, in milliseconds.
pub(crate) const KINDS: [(&str, u64); 8] = [
    ("Q1", 2_240),
    ("Q6", 480),
    ("Q14", 1_000),
    ("Q12", 1_500),
    ("Q4", 2_000),
    ("Q19", 3_000),
    ("Q8", 4_000),
    ("Q13", 6_000),
];

/// The virtual disk of `vm2`, or a page cache.
const DEVICE: DeviceModel = DeviceModel {
    bytes_per_second: 1_200_000_000,
    positioning_ns: 100_000,
    request_ns: 0,
    cpu_ns_per_mib: 100_000,
    cache: None,
};

const CLIENTS: usize = 12;
const QUERIES: usize = 4;

pub(crate) fn scenario(policy: Policy, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let mut query = || {
        let kind = usize::try_from(random.below(KINDS.len() as u64)).unwrap_or(0);
        let (name, cpu_ms) = KINDS[kind];
        Query {
            name: name.to_owned(),
            parts: vec![Part {
                chunks: ChunkSet::from_range(0..CHUNKS),
                columns: ColumnSet::all(1),
            }],
            cpu_ns_per_chunk: cpu_ms * 1_000_000 / u64::from(CHUNKS),
            decode_ns_per_chunk: 0,
            class: None,
        }
    };
    let mut of_client = || (0..QUERIES).map(|_| query()).collect();
    let queries = (0..CLIENTS).map(|_| of_client()).collect();
    let streams = streams(queries, 0);
    let mut scenario = decoding(rows(policy, CHUNKS, u64::from(CHUNKS), streams));
    scenario.devices = vec![DEVICE];
    scenario
}
