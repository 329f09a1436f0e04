//! Figure 6: how do the policies perform with buffers from an eighth of the table to all of it?
//!
//! A table of 2 GB, 8 streams of 4 queries over 1, 10, 50 and 100 %: fast queries only
//! (disk-intensive), or fast and slow (CPU-intensive).

use coscan_core::Policy;
use coscan_sim::{Random, Scenario, streams};

use crate::coop::machine::{DELAY_NS, Speed, row_query, rows};
use crate::coop::measure::{Figures, Runs};
use crate::coop::verdict::{ATTACH, NAMES, NORMAL, RELEVANCE};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-fig6";

const CHUNKS: u32 = 128;
/// Buffers in eighths of the table.
const EIGHTHS: u64 = 8;
const SIZES: [u32; 4] = [1, 10, 50, 100];
const SETS: [(&str, &[Speed]); 2] = [
    ("disk-intensive", &[Speed::Fast]),
    ("CPU-intensive", &[Speed::Fast, Speed::Slow]),
];
const DISK: usize = 0;
const CPU: usize = 1;

/// A figure with its label.
type Measured = (&'static str, fn(&Figures) -> f64);
const FIGURES: [Measured; 4] = [
    ("I/O requests", |f| f.requests),
    ("stream time (s)", |f| f.stream_s),
    ("normalised latency", |f| f.normalized),
    ("CPU use (%)", |f| f.cpu_percent),
];
const REQUESTS: usize = 0;
const STREAM: usize = 1;
const LATENCY: usize = 2;
const CPU_USE: usize = 3;

fn scenario(policy: Policy, seed: u64, speeds: &[Speed], eighths: u64) -> Scenario {
    let mut random = Random::new(seed);
    let mut queries = Vec::new();
    for _ in 0..8 {
        let mut stream = Vec::new();
        for _ in 0..4 {
            let chosen = speeds[one_of(speeds.len(), &mut random)];
            let percent = SIZES[one_of(SIZES.len(), &mut random)];
            stream.push(row_query(chosen, percent, CHUNKS, &mut random));
        }
        queries.push(stream);
    }
    let buffer = u64::from(CHUNKS) * eighths / EIGHTHS;
    rows(policy, CHUNKS, buffer, streams(queries, DELAY_NS))
}

fn one_of(n: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(n as u64)).unwrap_or(0)
}

/// Means by set, figure, policy, and eighths minus one.
type Means = Vec<[[Vec<f64>; 4]; 4]>;

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut means: Means = Vec::new();
    for (set, speeds) in SETS {
        let mut of_set: [[Vec<f64>; 4]; 4] = Default::default();
        for eighths in 1..=EIGHTHS {
            let runs = Runs::over(seeds, |policy, seed| {
                scenario(policy, seed, speeds, eighths)
            });
            for ((label, figure), by_policy) in FIGURES.iter().zip(&mut of_set) {
                for (policy, means) in by_policy.iter_mut().enumerate() {
                    let spread = runs.spread(policy, figure);
                    let buffer = 12.5 * eighths as f64;
                    let name = NAMES[policy];
                    report.row(format!("{set}, {buffer} %, {name}: {label}"), None, spread);
                    means.push(spread.mean);
                }
            }
        }
        means.push(of_set);
    }
    claims(&mut report, &means);
    report.figure = Some(figure(&means));
    report
}

fn claims(report: &mut Report, means: &Means) {
    let falls = |values: &[f64]| values.windows(2).all(|pair| pair[1] <= pair[0] * 1.02);
    let rising = || {
        let places = (0..SETS.len()).flat_map(|set| (0..4).map(move |policy| (set, policy)));
        places.filter(|&(set, policy)| !falls(&means[set][REQUESTS][policy]))
    };
    let rise: Vec<String> = rising()
        .map(|(s, p)| format!("{} {}", SETS[s].0, NAMES[p]))
        .collect();
    report.claim(
        "the number of I/Os is decreasing with increasing buffer size",
        rise.is_empty(),
        format!("not for: {rise:?}"),
    );
    let flat = |figure: usize| means[DISK][figure].iter().flatten().copied();
    let related = correlation(
        &flat(REQUESTS).collect::<Vec<_>>(),
        &flat(STREAM).collect::<Vec<_>>(),
    );
    let busiest = flat(CPU_USE).fold(0.0, f64::max);
    report.claim(
        "disk-intensive: performance is directly influenced by the number of I/Os, because the system is never CPU-bound",
        related > 0.95 && busiest < 90.0,
        format!("correlation of requests and stream time {related:.3}; CPU use at most {} %", number(busiest)),
    );
    let at = |set: usize, figure: usize, policy: usize, eighths: usize| {
        means[set][figure][policy][eighths - 1]
    };
    let sevenths: Vec<f64> = (0..4).map(|policy| at(DISK, REQUESTS, policy, 7)).collect();
    report.claim(
        "disk-intensive: relevance issues significantly fewer I/O requests (10 % or more) even with a buffer of 87.5 %",
        (0..3).all(|policy| sevenths[RELEVANCE] <= 0.9 * sevenths[policy]),
        crate::coop::verdict::listed(&sevenths),
    );
    let shrinks = |figure, policy| at(CPU, figure, policy, 1) / at(CPU, figure, policy, 8);
    let (requests, time) = (shrinks(REQUESTS, NORMAL), shrinks(STREAM, NORMAL));
    report.claim(
        "CPU-intensive: the number of I/Os influences the time only partially",
        time < 0.7 * requests,
        format!(
            "normal, 12.5 % against 100 %: {} times the requests, {} times the time",
            number(requests),
            number(time)
        ),
    );
    let constant = shrinks(STREAM, RELEVANCE);
    report.claim(
        "CPU-intensive: for relevance a buffer of 12.5 % is enough to make the system CPU-bound; its performance is mostly constant \
         (within 20 %)",
        constant < 1.2,
        format!("12.5 % takes {} times as long as 100 %", number(constant)),
    );
    for (set, figure, what) in [(DISK, STREAM, "stream time"), (CPU, LATENCY, "latency")] {
        let ratio = |policy, eighths| {
            at(set, figure, policy, eighths) / at(set, figure, RELEVANCE, eighths)
        };
        let listed = |policy| {
            let all = (1..=8).map(|eighths| number(ratio(policy, eighths)));
            all.collect::<Vec<_>>().join(" ")
        };
        let largest = |policy: usize| {
            let low = ratio(policy, 1).max(ratio(policy, 2));
            (3..=8).all(|eighths| ratio(policy, eighths) <= low)
        };
        report.claim(
            format!("{}, {what}: relevance's advantage over normal and attach is largest at low buffered percentages (12.5 or 25 %)", SETS[set].0),
            largest(NORMAL) && largest(ATTACH),
            format!("by eighths, normal: {}; attach: {}", listed(NORMAL), listed(ATTACH)),
        );
    }
    let throughput = at(DISK, STREAM, ATTACH, 1) / at(DISK, STREAM, ATTACH, 8);
    let latency = at(CPU, LATENCY, ATTACH, 1) / at(CPU, LATENCY, ATTACH, 8);
    report.claim(
        "attach: throughput in I/O-bound situations and latency of CPU-bound queries deteriorate strongly with small buffers (1.3 times or more)",
        throughput >= 1.3 && latency >= 1.3,
        format!(
            "12.5 % against 100 %: stream time {} times, latency {} times",
            number(throughput),
            number(latency)
        ),
    );
}

/// Pearson's correlation.
fn correlation(xs: &[f64], ys: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mx, my) = (mean(xs), mean(ys));
    let pairs = xs.iter().zip(ys);
    let (mut both, mut x2, mut y2) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        both += (x - mx) * (y - my);
        x2 += (x - mx).powi(2);
        y2 += (y - my).powi(2);
    }
    both / (x2 * y2).sqrt()
}

fn figure(means: &Means) -> Figure {
    let mut panels = Vec::new();
    for (figure, (label, _)) in FIGURES.iter().enumerate().take(3) {
        for (set, (name, _)) in SETS.iter().enumerate() {
            let series = means[set][figure]
                .iter()
                .enumerate()
                .map(|(policy, values)| {
                    let points = values.iter().zip(1..);
                    let points = points.map(|(&y, eighths)| (12.5 * f64::from(eighths), y));
                    Series {
                        name: NAMES[policy].to_owned(),
                        color: policy,
                        mark: Mark::Line(points.collect()),
                    }
                });
            panels.push(Panel {
                title: format!("{name}: {label}"),
                x: Axis::new("buffer, % of the table").within(0.0, 105.0),
                y: Axis::new(""),
                series: series.collect(),
            });
        }
    }
    Figure {
        title: "Figure 6: buffers of 12.5 to 100 % of the table".to_owned(),
        columns: 2,
        panels,
    }
}
