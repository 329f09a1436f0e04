//! Promised: on small runs of the simulator the core handles exactly as many events, takes as many
//! decisions, and reads as many bytes with as many requests as `counts.json` says; and simulator
//! and core together make as many allocations.
//!
//! To accept an intended change, run with `COSCAN_WRITE_COUNTS=1`; the commit says why.

mod allocations;

use std::path::Path;

use coscan_core::{
    AbmConfig, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Part, Policy, StorageModel,
    TableLayout, TurnLimit,
};
use coscan_sim::chaos::{self, Options, Trace};
use coscan_sim::{DeviceModel, Placement, Query, Random, Scenario, streams};
use coscan_study::Counts;

use allocations::counted;

const MIB: u64 = 1 << 20;
const CHUNKS: u32 = 150;
/// Bytes of a chunk by column.
const WIDTHS: [u64; 6] = [4 * MIB, 2 * MIB, 2 * MIB, MIB, MIB, MIB];
/// The columns that queries read.
const SETS: [&[u16]; 3] = [&[0, 1, 5], &[1, 2, 3, 4], &[5]];
/// Random worlds with faults per policy.
const WORLDS: u64 = 25;

/// Eight streams of three queries of mixed ranges over a buffer of a quarter of the table.
fn scenario(policy: Policy, model: StorageModel) -> Scenario {
    let widths: Vec<u64> = match model {
        StorageModel::Nsm => vec![WIDTHS.iter().sum()],
        StorageModel::Dsm => WIDTHS.to_vec(),
    };
    let columns = u16::try_from(widths.len()).expect("six at most");
    let mut random = Random::new(1);
    let mut query = || {
        let percent = [2, 10, 50, 100][usize::try_from(random.below(4)).expect("below four")];
        let length = CHUNKS * percent / 100;
        let first = u32::try_from(random.below(u64::from(CHUNKS - length) + 1)).expect("a chunk");
        let set = SETS[usize::try_from(random.below(3)).expect("below three")];
        Query {
            name: String::new(),
            parts: vec![Part {
                chunks: ChunkSet::from_range(first..first + length),
                columns: match model {
                    StorageModel::Nsm => ColumnSet::all(1),
                    StorageModel::Dsm => set.iter().map(|&column| ColumnId(column)).collect(),
                },
            }],
            cpu_ns_per_chunk: 5_000_000 * (1 + random.below(20)),
            decode_ns_per_chunk: 10_000_000,
            class: None,
        }
    };
    let queries = (0..8).map(|_| (0..3).map(|_| query()).collect());
    let queries = queries.collect();
    Scenario {
        abm: AbmConfig {
            policy,
            model,
            budget_bytes: u64::from(CHUNKS) / 4 * WIDTHS.iter().sum::<u64>(),
            loads_max: 2,
            stall_after_ns: 500_000_000,
            wait_unit_ns: 100_000_000,
            turns: Some(TurnLimit {
                chunks_max: 3,
                length_ns_max: 250_000_000,
            }),
        },
        layout: TableLayout {
            columns,
            chunks: vec![
                ChunkLayout {
                    device: DeviceId(0),
                    bytes: widths.into(),
                };
                CHUNKS as usize
            ],
            shared: Vec::new(),
        },
        placement: Placement::ByChunk,
        devices: vec![DeviceModel {
            bytes_per_second: 200_000_000,
            positioning_ns: 1_000_000,
            request_ns: 100_000,
            cpu_ns_per_mib: 100_000,
            cache: None,
        }],
        network: None,
        cores: 2,
        favoured_ns: 0,
        decode_window_ns: 100_000_000,
        fragments: None,
        streams: streams(queries, 500_000_000),
    }
}

#[test]
fn the_core_does_as_much_as_is_committed() {
    let mut counts = Counts::default();
    for policy in Policy::ALL {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let name = format!("streams, {policy}, {}", model.name());
            let scenario = scenario(policy, model);
            let (outcome, allocations) = counted(|| scenario.run());
            assert!(outcome.finished, "ABM-I6: every query ends");
            counts.note(&name, "events", outcome.events);
            counts.note(&name, "requests", outcome.requests);
            counts.note(&name, "bytes read", outcome.bytes);
            counts.note(&name, "hand-outs", outcome.handed.len() as u64);
            counts.note(&name, "allocations", allocations);
        }
        let name = format!("chaos, {policy}");
        let (mut events, mut actions, mut allocations) = (0, 0, 0);
        let mut happened = chaos::Counts::default();
        for seed in 0..WORLDS {
            let options = Options {
                policy,
                ..Options::draw(seed)
            };
            let mut trace = Trace::new(false);
            let (report, made) = counted(|| chaos::run(&options, &mut trace));
            allocations += made;
            let report = report.unwrap_or_else(|failure| panic!("{seed}: {}", failure.message));
            events += report.events;
            actions += report.actions;
            happened.add(&report.counts);
        }
        counts.note(&name, "events", events);
        counts.note(&name, "decisions", actions);
        counts.note(&name, "chunk loads", happened.loads);
        counts.note(&name, "hand-outs", happened.deliveries);
        counts.note(&name, "evictions", happened.evictions);
        counts.note(&name, "allocations", allocations);
    }
    let file = Path::new("tests/counts.json");
    if let Err(differs) = counts.hold_to(file, &[]) {
        panic!("{differs}");
    }
}
