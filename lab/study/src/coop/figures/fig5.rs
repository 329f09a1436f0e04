//! Figure 5: fifteen mixes of query speeds and range sizes, throughput and latency relative to
//! relevance.
//!
//! The paper names the mixes `SPEED-SIZE`: five mixtures of FAST and SLOW, three sets of ranges. It
//! does not state all five mixtures; those here range from fast only to slow only. The speed and
//! the range of each query are drawn.

use coscan_core::Policy;
use coscan_sim::{Random, Scenario, streams};

use crate::coop::machine::{BUFFER_CHUNKS, CHUNKS, DELAY_NS, Speed, row_query, rows};
use crate::coop::measure::Runs;
use crate::coop::verdict::{ATTACH, ELEVATOR, NAMES, NORMAL, RELEVANCE};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::mean;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-fig5";

use Speed::{Fast as F, Slow as S};
pub(crate) const SPEEDS: [(&str, &[Speed]); 5] = [
    ("F", &[F]),
    ("FFS", &[F, F, S]),
    ("FS", &[F, S]),
    ("FSS", &[F, S, S]),
    ("S", &[S]),
];
pub(crate) const SIZES: [(&str, &[u32]); 3] = [
    ("S", &[1, 2, 5, 10, 20]),
    ("M", &[1, 2, 10, 50, 100]),
    ("L", &[10, 30, 50, 100]),
];

/// 16 streams of 4 queries of a mix.
pub(crate) fn scenario(policy: Policy, seed: u64, speeds: &[Speed], sizes: &[u32]) -> Scenario {
    let mut random = Random::new(seed);
    let mut one_of = |n: usize| usize::try_from(random.below(n as u64)).unwrap_or(0);
    let drawn: Vec<(Speed, u32)> = (0..64)
        .map(|_| (speeds[one_of(speeds.len())], sizes[one_of(sizes.len())]))
        .collect();
    let mut queries = drawn
        .into_iter()
        .map(|(speed, percent)| row_query(speed, percent, CHUNKS, &mut random));
    let queries = (0..16).map(|_| queries.by_ref().take(4).collect());
    let queries = queries.collect();
    rows(policy, CHUNKS, BUFFER_CHUNKS, streams(queries, DELAY_NS))
}

/// The figures of a policy in a mix, relative to relevance.
struct Point {
    mix: String,
    stream: f64,
    latency: f64,
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut points: [Vec<Point>; 3] = Default::default();
    for (speed, speeds) in SPEEDS {
        for (size, sizes) in SIZES {
            let mix = format!("{speed}-{size}");
            let runs = Runs::over(seeds, |policy, seed| scenario(policy, seed, speeds, sizes));
            for (policy, points) in points.iter_mut().enumerate() {
                let stream = runs.relative(policy, RELEVANCE, |f| f.stream_s);
                let latency = runs.relative(policy, RELEVANCE, |f| f.normalized);
                let name = NAMES[policy];
                report.row(
                    format!("{mix} {name}: stream time / relevance's"),
                    None,
                    stream,
                );
                report.row(
                    format!("{mix} {name}: latency / relevance's"),
                    None,
                    latency,
                );
                points.push(Point {
                    mix: mix.clone(),
                    stream: stream.mean,
                    latency: latency.mean,
                });
            }
        }
    }
    claims(&mut report, &points);
    report.figure = Some(figure(&points));
    report
}

fn claims(report: &mut Report, points: &[Vec<Point>; 3]) {
    let mut beats = |policy: usize, text: &str| {
        let lost = points[policy]
            .iter()
            .filter(|p| p.stream < 1.0 || p.latency < 1.0);
        let lost: Vec<String> = lost
            .map(|p| {
                format!(
                    "{} (stream {}, latency {})",
                    p.mix,
                    number(p.stream),
                    number(p.latency)
                )
            })
            .collect();
        let evidence = format!("relevance is not better in: {}", listed(&lost));
        report.claim(text, lost.is_empty(), evidence);
    };
    beats(
        NORMAL,
        "normal is inferior on both dimensions, in every mix",
    );
    beats(
        ATTACH,
        "attach is consistently beaten by relevance in both dimensions",
    );
    beats(
        ELEVATOR,
        "relevance is consistently better than elevator, on both dimensions",
    );
    let means = |policy: usize, of: fn(&Point) -> f64| mean(points[policy].iter().map(of));
    let stream: Vec<f64> = (0..3).map(|policy| means(policy, |p| p.stream)).collect();
    let latency: Vec<f64> = (0..3).map(|policy| means(policy, |p| p.latency)).collect();
    let all = format!(
        "means over the mixes: normal {} and {}, attach {} and {}, elevator {} and {}",
        number(stream[NORMAL]),
        number(latency[NORMAL]),
        number(stream[ATTACH]),
        number(latency[ATTACH]),
        number(stream[ELEVATOR]),
        number(latency[ELEVATOR])
    );
    report.claim(
        "elevator gets close to relevance on throughput (within a factor of 1.6), but is significantly hindered by poor latencies \
         (a factor above 2)",
        stream[ELEVATOR] < 1.6 && latency[ELEVATOR] > 2.0,
        all.clone(),
    );
    report.claim(
        "attach finds a balance between throughput and latency (better throughput than normal, better latency than elevator)",
        stream[ATTACH] < stream[NORMAL] && latency[ATTACH] < latency[ELEVATOR],
        all,
    );
}

fn listed(items: &[String]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.join(", ")
}

fn figure(points: &[Vec<Point>; 3]) -> Figure {
    let series = points.iter().enumerate().map(|(policy, points)| Series {
        name: NAMES[policy].to_owned(),
        color: policy,
        mark: Mark::Labels(
            points
                .iter()
                .map(|p| (p.latency, p.stream, p.mix.clone()))
                .collect(),
        ),
    });
    let mut series: Vec<Series> = series.collect();
    series.push(Series {
        name: "relevance".to_owned(),
        color: RELEVANCE,
        mark: Mark::Labels(vec![(1.0, 1.0, String::new())]),
    });
    Figure {
        title: "Figure 5: fifteen mixes, relative to relevance".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: "lower and further left is better".to_owned(),
            x: Axis::new("normalised latency / relevance's"),
            y: Axis::new("stream time / relevance's"),
            series,
        }],
    }
}
