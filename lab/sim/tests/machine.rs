//! Promised: a scenario takes exactly the time that its parameters give, to the nanosecond, and a
//! scenario determines its outcome.

use coscan_core::{
    AbmConfig, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Part, Policy, StorageModel,
    TableLayout,
};
use coscan_sim::{
    DeviceModel, Fragments, Jobs, NetworkModel, Outcome, Placement, Query, Random, Scenario,
    Stream, arrivals, streams,
};

const DISK: DeviceModel = DeviceModel {
    bytes_per_second: 1_000_000_000,
    positioning_ns: 50,
    request_ns: 0,
    cpu_ns_per_mib: 0,
    cache: None,
};

/// A table of `chunks` chunks of two columns of 100 and 300 bytes, distributed over `disks` disks
/// in turn.
fn scenario(policy: Policy, chunks: u32, disks: u16, streams: Vec<Stream>) -> Scenario {
    let chunk = |n: u32| ChunkLayout {
        device: DeviceId(u16::try_from(n).expect("few chunks") % disks),
        bytes: [100, 300].into(),
    };
    Scenario {
        abm: AbmConfig {
            policy,
            model: StorageModel::Dsm,
            budget_bytes: 4_000,
            loads_max: 1,
            stall_after_ns: 1_000_000_000,
            wait_unit_ns: 1_000,
            turns: None,
        },
        layout: TableLayout {
            columns: 2,
            chunks: (0..chunks).map(chunk).collect(),
            shared: Vec::new(),
        },
        placement: Placement::ByColumn,
        devices: vec![DISK; usize::from(disks)],
        network: None,
        cores: 1,
        favoured_ns: 0,
        decode_window_ns: 0,
        fragments: None,
        streams,
    }
}

fn query(chunks: std::ops::Range<u32>, columns: &[u16], cpu_ns_per_chunk: u64) -> Query {
    Query {
        name: String::new(),
        parts: vec![Part {
            chunks: ChunkSet::from_range(chunks),
            columns: columns.iter().map(|&n| ColumnId(n)).collect::<ColumnSet>(),
        }],
        cpu_ns_per_chunk,
        decode_ns_per_chunk: 0,
        class: None,
    }
}

fn alone(query: Query, disks: u16) -> Outcome {
    scenario(Policy::Relevance, 20, disks, streams(vec![vec![query]], 0)).run()
}

#[test]
fn a_scan_of_one_column_is_read_in_one_sweep() {
    let outcome = alone(query(5..15, &[1], 10), 1);
    // One positioning, ten reads, and the work on the last chunk, which nothing hides.
    assert_eq!(outcome.total_ns, 50 + 10 * 300 + 10);
    assert_eq!((outcome.requests, outcome.bytes), (10, 3_000));
    assert_eq!(outcome.cpu_ns, 100);
}

#[test]
fn two_columns_lie_apart() {
    let outcome = alone(query(0..10, &[0, 1], 0), 1);
    assert_eq!(outcome.total_ns, 10 * (50 + 100 + 50 + 300));
    assert_eq!(outcome.requests, 20);
}

#[test]
fn two_columns_of_a_chunk_lie_together_by_chunk() {
    let queries = streams(vec![vec![query(0..10, &[0, 1], 0)]], 0);
    let mut scenario = scenario(Policy::Relevance, 20, 1, queries);
    scenario.placement = Placement::ByChunk;
    assert_eq!(scenario.run().total_ns, 50 + 10 * (100 + 300));
}

#[test]
fn a_slow_scan_takes_its_work() {
    let outcome = alone(query(0..10, &[0], 1_000), 1);
    assert_eq!(outcome.total_ns, 50 + 100 + 10 * 1_000);
}

#[test]
fn two_disks_read_at_once() {
    let outcome = alone(query(0..20, &[1], 0), 2);
    assert_eq!(outcome.total_ns, 50 + 10 * 300);
    assert_eq!(outcome.requests, 20);
}

#[test]
fn two_disks_behind_a_network_share_it() {
    let queries = streams(vec![vec![query(0..20, &[1], 0)]], 0);
    let mut scenario = scenario(Policy::Relevance, 20, 2, queries);
    scenario.network = Some(NetworkModel {
        bytes_per_second: 1_000_000_000,
        message_ns: 20,
    });
    let outcome = scenario.run();
    // The first messages are sent together; after that the network has no pause, because the two
    // disks together read twice as fast.
    assert_eq!(outcome.total_ns, 50 + 300 + 20 * (20 + 300));
    assert_eq!(outcome.requests, 20);
    let bounds = scenario.bounds(&outcome);
    assert_eq!((bounds.network_ns, bounds.device_ns), (20 * 320, 10 * 300));
    assert_eq!(bounds.time_ns(), bounds.network_ns);
}

#[test]
fn streams_begin_and_go_on_when_they_should() {
    let one = || query(0..10, &[1], 0);
    let two = vec![vec![one(), one()], vec![one()]];
    let outcome = scenario(Policy::Normal, 20, 1, streams(two, 100_000)).run();
    assert!(outcome.finished);
    // The second query finds all ten chunks in memory; so does the other stream, much later.
    assert_eq!(outcome.stream_ns, [3_050, 0]);
    assert_eq!(outcome.total_ns, 100_000);
    let begun: Vec<u64> = outcome.queries.iter().map(|q| q.begun_ns).collect();
    assert_eq!(begun, [0, 3_050, 100_000]);
}

#[test]
fn a_scenario_fixes_its_outcome() {
    for policy in [
        Policy::Normal,
        Policy::Attach,
        Policy::Elevator,
        Policy::Relevance,
    ] {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let queries = (0..30).map(|_| {
                let from = u32::try_from(random.below(15)).unwrap();
                let column = u16::try_from(random.below(2)).unwrap();
                query(from..from + 5, &[column], random.below(2_000))
            });
            let queries = queries.collect();
            let streams = arrivals(queries, 1_000, &mut random);
            scenario(policy, 20, 1, streams).run()
        };
        assert!(draw(1).finished);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1).accesses, draw(2).accesses);
    }
}

#[test]
fn scans_that_begin_on_a_chunk_together_share_its_decode() {
    let decoding = |cpu, decode| Query {
        decode_ns_per_chunk: decode,
        class: None,
        ..query(0..1, &[0], cpu)
    };
    let cpu_ns = |window, delay, queries: [Query; 2]| {
        let [one, other] = queries;
        let mut scenario = scenario(
            Policy::Relevance,
            1,
            1,
            streams(vec![vec![one], vec![other]], delay),
        );
        scenario.decode_window_ns = window;
        scenario.run().cpu_ns
    };
    let both = || [decoding(1_000, 500), decoding(2_000, 500)];
    assert_eq!(cpu_ns(0, 0, both()), 3_500);
    // The second scan begins to work on the chunk 200 ns after the first.
    assert_eq!(cpu_ns(100, 350, both()), 4_000);
    assert_eq!(cpu_ns(300, 350, both()), 3_500);
    // A scan that needs more decode pays for the rest.
    assert_eq!(cpu_ns(0, 0, [decoding(0, 500), decoding(0, 800)]), 800);
}

#[test]
fn nothing_is_read_or_takes_less_than_its_bounds() {
    // Room for ten columns of 400 bytes; two scans of 20 chunks, the second half a table behind the
    // first.
    let two = || {
        streams(
            vec![
                vec![query(0..20, &[0, 1], 100)],
                vec![query(0..20, &[1], 300)],
            ],
            4_000,
        )
    };
    for policy in [Policy::Normal, Policy::Elevator, Policy::Relevance] {
        let scenario = scenario(policy, 20, 1, two());
        let outcome = scenario.run();
        let bounds = scenario.bounds(&outcome);
        assert_eq!(outcome.handed.len(), 40);
        assert_eq!(
            (bounds.union_bytes, bounds.device_ns, bounds.cpu_ns),
            (8_000, 8_000, 8_000)
        );
        assert!(
            bounds.union_bytes <= bounds.belady_bytes && bounds.belady_bytes <= outcome.bytes,
            "{policy:?} {bounds:?} {}",
            outcome.bytes
        );
        assert!(bounds.time_ns() <= outcome.total_ns);
    }
    // With room for the whole table each policy reads the union.
    let mut all = scenario(Policy::Normal, 20, 1, two());
    all.abm.budget_bytes = 8_000;
    let outcome = all.run();
    assert_eq!(
        (outcome.bytes, all.bounds(&outcome).belady_bytes),
        (8_000, 8_000)
    );
}

/// Queries of these classes over the same ten chunks at once, with room for all, and chunk jobs as
/// `jobs` says.
fn fragments(jobs: Option<Jobs>, classes: &[Option<u16>]) -> Outcome {
    let of_class = |&class: &Option<u16>| {
        let query = query(0..10, &[0, 1], 1_000);
        vec![Query { class, ..query }]
    };
    let streams = streams(classes.iter().map(of_class).collect(), 0);
    let own_of_1000 = 100;
    Scenario {
        fragments: jobs.map(|jobs| Fragments { jobs, own_of_1000 }),
        ..scenario(Policy::Relevance, 10, 1, streams)
    }
    .run()
}

#[test]
fn a_chunk_is_worked_on_once_for_a_class() {
    let class = [Some(1); 4];
    let apart = fragments(None, &class);
    assert_eq!((apart.cpu_ns, apart.jobs), (4 * 10 * 1_000, 0));
    for jobs in [Jobs::OfClass, Jobs::OfAll] {
        let together = fragments(Some(jobs), &class);
        assert!(together.finished, "ABM-I6: every query ends");
        // Three members add a tenth each.
        assert_eq!(together.cpu_ns, 10 * 1_300);
        assert_eq!((together.jobs, together.served), (10, 40));
        let ends: Vec<u64> = together.queries.iter().map(|q| q.latency_ns).collect();
        assert_eq!(ends, [together.total_ns; 4]);
    }
}

#[test]
fn classes_share_nothing_but_a_job() {
    let classes = [Some(1), Some(1), Some(2), None];
    let each = fragments(Some(Jobs::OfClass), &classes);
    let one = fragments(Some(Jobs::OfAll), &classes);
    for (outcome, served) in [(&each, 30), (&one, 30)] {
        assert!(outcome.finished, "ABM-I6: every query ends");
        assert_eq!(outcome.cpu_ns, 10 * (1_100 + 1_000 + 1_000));
        assert_eq!(outcome.served, served);
    }
    assert_eq!((each.jobs, one.jobs), (20, 10));
}
