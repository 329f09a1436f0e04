//! Figure 7: how does the mean query time grow with the number of concurrent queries?
//!
//! 1 to 32 streams of 4 queries, all of one range size (5, 20 or 50 %), begin at once. The paper
//! does not say how fast the queries are. Here they are FAST, because the gains over attach that
//! the paper reports are those of an I/O-bound system.

use coscan_core::Policy;
use coscan_sim::{Random, Scenario, streams};

use crate::coop::machine::{BUFFER_CHUNKS, CHUNKS, Speed, row_query, rows};
use crate::coop::measure::{Figures, Runs};
use crate::coop::verdict::{ATTACH, ELEVATOR, NAMES, NORMAL, RELEVANCE};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-fig7";

const SIZES: [u32; 3] = [5, 20, 50];
const QUERIES: [usize; 6] = [1, 2, 4, 8, 16, 32];

fn scenario(policy: Policy, seed: u64, queries: usize, percent: u32) -> Scenario {
    let mut random = Random::new(seed);
    let mut query = || row_query(Speed::Fast, percent, CHUNKS, &mut random);
    let queries = (0..queries).map(|_| (0..4).map(|_| query()).collect());
    let streams = streams(queries.collect(), 0);
    rows(policy, CHUNKS, BUFFER_CHUNKS, streams)
}

/// All queries are of one class.
fn mean_latency(figures: &Figures) -> f64 {
    let latencies = figures.classes.values().map(|class| class.latency_s);
    crate::report::statistics::mean(latencies)
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    // By size, policy, and number of queries.
    let mut means: Vec<[Vec<f64>; 4]> = Vec::new();
    for percent in SIZES {
        let mut of_size: [Vec<f64>; 4] = Default::default();
        for queries in QUERIES {
            let runs = Runs::over(seeds, |policy, seed| {
                scenario(policy, seed, queries, percent)
            });
            for (policy, means) in of_size.iter_mut().enumerate() {
                let spread = runs.spread(policy, mean_latency);
                let name = NAMES[policy];
                report.row(
                    format!("{percent} %, {queries} queries, {name}: query time (s)"),
                    None,
                    spread,
                );
                means.push(spread.mean);
            }
        }
        means.push(of_size);
    }
    claims(&mut report, &means);
    report.figure = Some(figure(&means));
    report
}

fn claims(report: &mut Report, means: &[[Vec<f64>; 4]]) {
    let gain = |size: usize, policy: usize, queries: usize| {
        means[size][policy][queries] / means[size][RELEVANCE][queries]
    };
    let listed = |policy: usize| {
        let of_size = |size: usize| {
            let gains = (0..QUERIES.len()).map(|queries| number(gain(size, policy, queries)));
            format!("{} %: {}", SIZES[size], gains.collect::<Vec<_>>().join(" "))
        };
        (0..SIZES.len()).map(of_size).collect::<Vec<_>>().join("; ")
    };
    let (few, many) = (2, QUERIES.len() - 1);
    let all = |claim: &dyn Fn(usize) -> bool| (0..SIZES.len()).all(claim);
    report.claim(
        "the benefit of relevance over normal grows with more concurrency (32 queries against 4)",
        all(&|size| gain(size, NORMAL, many) > gain(size, NORMAL, few)),
        listed(NORMAL),
    );
    report.claim(
        "the benefit of relevance over normal grows with larger scans (16 queries, 5 against 50 %)",
        gain(2, NORMAL, 4) > gain(0, NORMAL, 4),
        listed(NORMAL),
    );
    report.claim(
        "relevance also enhances its advantage over attach when more queries run concurrently (32 against 4)",
        all(&|size| gain(size, ATTACH, many) > gain(size, ATTACH, few)),
        listed(ATTACH),
    );
    report.claim(
        "relevance even exceeds a factor of two over attach when scan ranges are very or moderately selective (5 and 20 %)",
        (0..2).all(|size| gain(size, ATTACH, many) > 2.0),
        listed(ATTACH),
    );
    report.claim(
        "as the query set is uniform in range sizes, elevator can score close to relevance (within 25 % with 16 or 32 queries)",
        (0..SIZES.len()).any(|size| gain(size, ELEVATOR, 4) < 1.25 && gain(size, ELEVATOR, 5) < 1.25),
        listed(ELEVATOR),
    );
}

fn figure(means: &[[Vec<f64>; 4]]) -> Figure {
    let panel = |(of_size, percent): (&[Vec<f64>; 4], u32)| Panel {
        title: format!("queries over {percent} %"),
        x: Axis::log("concurrent queries"),
        y: Axis::new("mean query time (s)"),
        series: of_size
            .iter()
            .enumerate()
            .map(|(policy, values)| Series {
                name: NAMES[policy].to_owned(),
                color: policy,
                mark: Mark::Line(
                    QUERIES
                        .iter()
                        .map(|&n| n as f64)
                        .zip(values.iter().copied())
                        .collect(),
                ),
            })
            .collect(),
    };
    Figure {
        title: "Figure 7: 1 to 32 concurrent queries".to_owned(),
        columns: 3,
        panels: means.iter().zip(SIZES).map(panel).collect(),
    }
}
