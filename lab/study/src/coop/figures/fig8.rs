//! Figure 8: what do the core's decisions cost, and what share of the execution time is that?
//!
//! 16 streams of 4 FAST queries over 1, 10 or 100 % of a table of 2 GB, divided into more and more
//! chunks. The cost is the CPU time of the real core on this machine, measured per thread around
//! every event; the execution time is that of the simulated machine. So this experiment alone
//! depends on the machine that runs it. One seed per number of chunks: the cost hardly depends on
//! the seed.

use coscan_core::Policy;
use coscan_sim::{Random, Scenario, streams};

use crate::coop::machine::{POLICIES, Speed, row_query, rows};
use crate::coop::measure::seconds;
use crate::coop::verdict::{NAMES, RELEVANCE};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;
use crate::thread_clock::Stopwatch;

pub(crate) const NAME: &str = "coop-fig8";

const TABLE_BYTES: u64 = 2 << 30;
/// From chunks of 16 MiB to 21 KB.
const CHUNKS: [u32; 6] = [128, 512, 2_048, 8_192, 32_768, 100_000];
/// The paper does not state its largest number of chunks; its smallest chunk of a plausible size is
/// 1 MB.
const PAPER_CHUNKS_MAX: u32 = 2_048;
const SIZES: [u32; 3] = [1, 10, 100];

fn scenario(policy: Policy, chunks: u32, percent: u32) -> Scenario {
    let mut random = Random::new(0);
    // The CPU time of 16 MiB is spread over more chunks.
    let mut query = || {
        let mut query = row_query(Speed::Fast, percent, chunks, &mut random);
        query.cpu_ns_per_chunk = query.cpu_ns_per_chunk * u64::from(CHUNKS[0]) / u64::from(chunks);
        query
    };
    let queries = (0..16).map(|_| (0..4).map(|_| query()).collect());
    let streams = streams(queries.collect(), 0);
    let mut scenario = rows(policy, chunks, 0, streams);
    let bytes = TABLE_BYTES / u64::from(chunks);
    for chunk in &mut scenario.layout.chunks {
        chunk.bytes[0] = bytes;
    }
    scenario.abm.budget_bytes = TABLE_BYTES / 4;
    scenario
}

/// The result of a run.
#[derive(Clone, Copy)]
struct Cost {
    /// Seconds in the core per query.
    per_query_s: f64,
    /// Percent of the execution time.
    percent: f64,
    /// Nanoseconds per event.
    per_event_ns: f64,
}

fn cost(policy: Policy, chunks: u32, percent: u32) -> Cost {
    let mut watch = Stopwatch::new();
    let outcome = scenario(policy, chunks, percent).run_watched(&mut watch);
    assert!(outcome.finished, "ABM-I6: every query ends");
    let spent = watch.total().as_secs_f64();
    Cost {
        per_query_s: spent / outcome.queries.len() as f64,
        percent: 100.0 * spent / seconds(outcome.total_ns),
        per_event_ns: 1e9 * spent / outcome.events as f64,
    }
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut by_size: Vec<Vec<Cost>> = Vec::new();
    for percent in SIZES {
        let mut costs = Vec::new();
        for chunks in CHUNKS {
            let cost = cost(POLICIES[RELEVANCE], chunks, percent);
            let mut row = |what: &str, value| {
                report.row(
                    format!("{percent} %, {chunks} chunks: {what}"),
                    None,
                    Spread::of([value]),
                );
            };
            row("scheduling for each query (s)", cost.per_query_s);
            row("share of the execution time (%)", cost.percent);
            row("for each event (ns)", cost.per_event_ns);
            costs.push(cost);
        }
        by_size.push(costs);
    }
    claims(&mut report, &by_size);
    report.figure = Some(figure(&by_size));
    report
}

fn claims(report: &mut Report, by_size: &[Vec<Cost>]) {
    let full = &by_size[SIZES.len() - 1];
    let policies: Vec<f64> = POLICIES
        .iter()
        .map(|&policy| cost(policy, PAPER_CHUNKS_MAX, 100).per_query_s)
        .collect();
    let each = NAMES.iter().zip(&policies);
    let each: Vec<String> = each
        .map(|(name, &s)| format!("{name} {}", number(s)))
        .collect();
    report.claim(
        "the cost of scheduling in relevance is significantly higher than for other policies (1.5 times or more; 2,048 chunks, full scans)",
        (0..3).all(|policy| policies[RELEVANCE] >= 1.5 * policies[policy]),
        format!("seconds a query: {}", each.join(", ")),
    );
    let growth = full[2].per_query_s / full[0].per_query_s;
    let chunks = f64::from(CHUNKS[2]) / f64::from(CHUNKS[0]);
    report.claim(
        "the overhead grows super-linearly with the number of chunks (128 to 2,048, full scans)",
        growth > chunks,
        format!(
            "{} times the chunks, {} times the time",
            number(chunks),
            number(growth)
        ),
    );
    let within = |max: u32| {
        let counts = CHUNKS
            .iter()
            .enumerate()
            .filter(move |&(_, &chunks)| chunks <= max);
        let shares = counts.flat_map(|(at, _)| by_size.iter().map(move |costs| costs[at].percent));
        shares.fold(0.0, f64::max)
    };
    let worst = within(PAPER_CHUNKS_MAX);
    report.claim(
        "the scheduling overhead in the worst case does not exceed 1 % of the execution time (up to 2,048 chunks)",
        worst <= 1.0,
        format!("at most {} %", number(worst)),
    );
    let worst = within(CHUNKS[CHUNKS.len() - 1]);
    report.claim(
        "ours: the same up to 100,000 chunks, where the paper expects that simpler policies are needed",
        worst <= 1.0,
        format!("at most {} %", number(worst)),
    );
}

fn figure(by_size: &[Vec<Cost>]) -> Figure {
    let panel = |title: &str, label: &str, of: fn(&Cost) -> f64| Panel {
        title: title.to_owned(),
        x: Axis::log("chunks"),
        y: Axis::log(label),
        series: by_size
            .iter()
            .zip(SIZES)
            .enumerate()
            .map(|(color, (costs, percent))| Series {
                name: format!("{percent} %"),
                color,
                mark: Mark::Line(
                    CHUNKS
                        .map(f64::from)
                        .into_iter()
                        .zip(costs.iter().map(of))
                        .collect(),
                ),
            })
            .collect(),
    };
    Figure {
        title: "Figure 8: scheduling cost of relevance".to_owned(),
        columns: 2,
        panels: vec![
            panel("time in the core for each query", "seconds", |c| {
                c.per_query_s
            }),
            panel("share of the execution time", "percent", |c| c.percent),
        ],
    }
}
