//! Promised: a query on a cluster takes what its parameters give; queries of one degree read the
//! table once between them if it fits; and with as many nodes as the load leaves, queries take at
//! most a tenth longer than with the best fixed number. `--nocapture` shows the table:
//! `cargo test -p coscan-sim --test nodes -- --nocapture`.

use coscan_sim::nodes::{Answers, ClusterModel, Width};

/// The processors are the bottleneck, and a node has memory for the whole table.
const MEMORY: ClusterModel = ClusterModel {
    nodes: 8,
    processors: 2,
    buffer_pieces: 200,
    bytes_per_second: 2_000_000_000,
    piece_bytes: 16 << 20,
    pieces: 64,
    piece_ns: 40_000_000,
    part_ns: 5_000_000,
    peer_ns: 2_000_000,
    bytes_per_node: 128 << 20,
};

/// The device is the bottleneck, and three nodes have memory for the whole table.
const DEVICE: ClusterModel = ClusterModel {
    buffer_pieces: 24,
    bytes_per_second: 200_000_000,
    piece_ns: 10_000_000,
    ..MEMORY
};

fn mean_ms(answers: &Answers) -> f64 {
    let all: u64 = answers.responses_ns.iter().sum();
    all as f64 / answers.responses_ns.len() as f64 / 1e6
}

/// How often the table was read.
fn reads(model: &ClusterModel, answers: &Answers) -> f64 {
    answers.read_bytes as f64 / (model.piece_bytes * model.pieces as u64) as f64
}

#[test]
fn a_query_alone_takes_what_its_parameters_give() {
    let one = ClusterModel { nodes: 1, ..MEMORY };
    let answers = one.run(Width::Fixed(1), 1, 3);
    // A part, and half of the pieces on each processor. The first query waits for its first pieces.
    let in_memory_ns = 5_000_000 + 32 * 40_000_000;
    assert_eq!(answers.responses_ns[1..], [in_memory_ns; 2]);
    assert!(answers.responses_ns[0] > in_memory_ns);
    assert_eq!(answers.read_bytes, 64 * (16 << 20));
    assert_eq!(answers.degrees, [1; 3]);
}

#[test]
fn queries_of_one_degree_read_the_table_once() {
    for degree in [1, 2, 4, 8] {
        let answers = MEMORY.run(Width::Fixed(degree), 8, 2);
        assert_eq!(answers.read_bytes, 64 * (16 << 20), "{degree} nodes");
    }
}

#[test]
fn a_model_fixes_its_outcome() {
    let run = || DEVICE.run(Width::ByLoad, 24, 2);
    assert_eq!(run(), run());
}

#[test]
fn many_queries_are_narrow_and_few_are_wide() {
    let alone = MEMORY.run(Width::ByLoad, 1, 4);
    assert_eq!(alone.degrees, [8; 4]);
    let many = MEMORY.run(Width::ByLoad, 24, 4);
    let narrow = many.degrees.iter().filter(|degree| **degree < 8).count();
    assert!(narrow > 24, "{narrow} of 96 are narrow");
    let wide = MEMORY.run(Width::Fixed(8), 24, 4);
    let (narrow_ms, wide_ms) = (mean_ms(&many), mean_ms(&wide));
    assert!(narrow_ms < wide_ms, "{narrow_ms} and {wide_ms} ms");
}

#[test]
fn the_load_leaves_nearly_the_best_degree() {
    println!("mean response in ms (reads of the table)");
    println!("model, nodes, streams: P = 1, 2, 4, 8, by load");
    let mut missed = vec![];
    for (name, model) in [("memory", MEMORY), ("device", DEVICE)] {
        for nodes in [1, 2, 4, 8] {
            for streams in [1, 8] {
                let model = ClusterModel { nodes, ..model };
                let fixed = [1, 2, 4, 8].into_iter().filter(|degree| *degree <= nodes);
                let fixed = fixed.map(|degree| model.run(Width::Fixed(degree), streams, 4));
                let fixed: Vec<Answers> = fixed.collect();
                let ours = model.run(Width::ByLoad, streams, 4);
                let shown = |answers: &Answers| {
                    let reads = reads(&model, answers);
                    format!("{:.0} ({reads:.1})", mean_ms(answers))
                };
                let row: Vec<String> = fixed.iter().chain([&ours]).map(shown).collect();
                let what = format!("{name}, {nodes}, {streams}");
                println!("{what}: {}", row.join(", "));
                let best = fixed.iter().map(mean_ms).fold(f64::INFINITY, f64::min);
                if mean_ms(&ours) > 1.1 * best {
                    missed.push(what);
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
