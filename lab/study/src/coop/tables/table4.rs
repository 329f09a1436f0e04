//! Table 4: how much sharing remains when queries read fewer columns in common?
//!
//! A table of 200 million rows and ten columns of 8 bytes, a buffer of 1 GB, 16 streams of 4
//! queries that read three neighbouring columns of 40 % of the rows. "The total number of chunks
//! for the entire run is 7680": 64 queries, three columns, 40 chunks of 2 million rows. A query
//! reads the same range whatever its columns are. The paper does not state the speed of the
//! queries; here they are FAST.
//!
//! *Placement.* A request took the paper 86 ms, 76 of them transfer; Table 2's positioning of 28 ms
//! divided by the three columns is 9 more. So the three neighbouring columns of a chunk are
//! adjacent: all columns are equally wide, and a loader that writes a block of each column whenever
//! it is full produces this placement.

use coscan_core::{ColumnId, ColumnSet, Part, Policy};
use coscan_sim::{Placement, Query, Random, Scenario, streams};

use crate::coop::machine::{DELAY_NS, FAST_NS, POLICIES, columns, random_range};
use crate::coop::measure::{Figures, Standalone, measure};
use crate::coop::verdict::{NAMES, NORMAL, RELEVANCE};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-table4";

const CHUNKS: u32 = 100;
/// 2 million values of 8 bytes.
const WIDTHS: [u64; 10] = [16_000_000; 10];
const BUFFER_BYTES: u64 = 1 << 30;
const DEMAND: f64 = 7_680.0;
/// FAST, scaled by rows: Table 2 has 60 million.
const CPU_NS_PER_CHUNK: u64 = FAST_NS / 30;

/// The columns of the query types by their first letter; the paper's requests and mean latency
/// under normal and relevance.
struct Setting {
    name: &'static str,
    firsts: &'static [u16],
    requests: [f64; 2],
    latency_s: [f64; 2],
}

const SETTINGS: [Setting; 5] = [
    Setting {
        name: "ABC",
        firsts: &[0],
        requests: [5094.0, 1560.0],
        latency_s: [100.58, 24.27],
    },
    Setting {
        name: "ABC,DEF",
        firsts: &[0, 3],
        requests: [6215.0, 3254.0],
        latency_s: [121.83, 57.87],
    },
    Setting {
        name: "ABC,BCD",
        firsts: &[0, 1],
        requests: [5447.0, 2258.0],
        latency_s: [107.86, 39.69],
    },
    Setting {
        name: "ABC,BCD,CDE",
        firsts: &[0, 1, 2],
        requests: [5791.0, 2918.0],
        latency_s: [113.26, 52.94],
    },
    Setting {
        name: "ABC,BCD,CDE,DEF",
        firsts: &[0, 1, 2, 3],
        requests: [6313.0, 3299.0],
        latency_s: [125.14, 60.20],
    },
];
const ALIKE: usize = 0;
const DISJOINT: usize = 1;

/// The policies that the table compares.
const COMPARED: [usize; 2] = [NORMAL, RELEVANCE];

fn scenario(policy: Policy, seed: u64, firsts: &[u16]) -> Scenario {
    let mut random = Random::new(seed);
    let mut kinds = firsts.iter().cycle();
    let mut query = || {
        let first = kinds.next().copied().unwrap_or(0);
        Query {
            name: String::new(),
            parts: vec![Part {
                chunks: random_range(40, CHUNKS, &mut random),
                columns: (first..first + 3).map(ColumnId).collect::<ColumnSet>(),
            }],
            cpu_ns_per_chunk: CPU_NS_PER_CHUNK,
            decode_ns_per_chunk: 0,
            class: None,
        }
    };
    let queries: Vec<Query> = (0..64).map(|_| query()).collect();
    // Every stream has another mixture of types, so that all types run concurrently: query n goes
    // to stream n mod 16, rotated by its position.
    let of_stream = |stream: usize| {
        let places = (0..4).map(|place| place * 16 + (stream + place) % 16);
        places.map(|at| queries[at].clone()).collect()
    };
    let streams = streams((0..16).map(of_stream).collect(), DELAY_NS);
    Scenario {
        placement: Placement::ByChunk,
        ..columns(policy, CHUNKS, &WIDTHS, BUFFER_BYTES, streams)
    }
}

fn mean_latency(figures: &Figures) -> f64 {
    crate::report::statistics::mean(figures.classes.values().map(|class| class.latency_s))
}

/// The figures of a setting under normal and relevance.
struct Shown {
    requests: [Spread; 2],
    latency: [Spread; 2],
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut alone = Standalone::default();
    let mut all = Vec::new();
    for setting in &SETTINGS {
        let mut show = |policy: usize| {
            let of_seed = |seed| {
                let scenario = scenario(POLICIES[policy], seed, setting.firsts);
                measure(&scenario, &mut alone).0
            };
            let figures: Vec<Figures> = seeds.iter().map(of_seed).collect();
            let requests = Spread::of(figures.iter().map(|f| f.requests));
            (requests, Spread::of(figures.iter().map(mean_latency)))
        };
        let (normal, relevance) = (show(NORMAL), show(RELEVANCE));
        all.push(Shown {
            requests: [normal.0, relevance.0],
            latency: [normal.1, relevance.1],
        });
    }
    for (setting, shown) in SETTINGS.iter().zip(&all) {
        for (at, policy) in COMPARED.into_iter().enumerate() {
            let label = |what| format!("{} {}: {what}", setting.name, NAMES[policy]);
            let figures = [
                (
                    label("I/O requests"),
                    setting.requests[at],
                    shown.requests[at],
                ),
                (
                    label("query latency (s)"),
                    setting.latency_s[at],
                    shown.latency[at],
                ),
            ];
            for (label, paper, ours) in figures {
                let text = format!(
                    "{label}: the paper's {} lies within ours, widened by 15 %",
                    number(paper)
                );
                let range = format!("5 % to 95 %: {} to {}", number(ours.p05), number(ours.p95));
                report.claim(text, ours.admits(paper, 0.15), range);
                report.row(label, Some(paper), ours);
            }
        }
    }
    section_6_3_1(&mut report, &all);
    report.figure = Some(figure(&all));
    report
}

/// The sentences of §6.3.1 that state an outcome.
fn section_6_3_1(report: &mut Report, all: &[Shown]) {
    let requests = |setting: usize, at: usize| all[setting].requests[at].mean;
    let latency = |setting: usize, at: usize| all[setting].latency[at].mean;
    let reused = |setting| 100.0 * (1.0 - requests(setting, 0) / DEMAND);
    report.claim(
        "normal can still re-use quite a few blocks in case of a single query type (around 33 % of the 7680; 25 to 41)",
        (25.0..41.0).contains(&reused(ALIKE)),
        format!("{} %", number(reused(ALIKE))),
    );
    report.claim(
        "about half of that is lost when two column-disjunct queries are used (35 to 65 %)",
        (0.35..0.65).contains(&(reused(DISJOINT) / reused(ALIKE))),
        format!("{} % are left", number(reused(DISJOINT))),
    );
    let beats = |setting: usize| latency(setting, 0) / latency(setting, 1);
    report.claim(
        "very good re-use using a single query type, with relevance beating normal by a factor 4 (3 to 5)",
        (3.0..5.0).contains(&beats(ALIKE)),
        format!("{} times", number(beats(ALIKE))),
    );
    let doubles = latency(DISJOINT, 1) / latency(ALIKE, 1);
    report.claim(
        "with two query types, relevance's average query latency doubles (1.6 to 2.6)",
        (1.6..2.6).contains(&doubles),
        format!("{} times", number(doubles)),
    );
    report.claim(
        "relevance still beats normal by a factor two there (1.7 to 2.6)",
        (1.7..2.6).contains(&beats(DISJOINT)),
        format!("{} times", number(beats(DISJOINT))),
    );
    let chain = [ALIKE, 2, 3, 4];
    for (at, policy) in COMPARED.into_iter().enumerate() {
        let figures: Vec<f64> = chain.iter().map(|&setting| requests(setting, at)).collect();
        let listed: Vec<String> = figures.iter().map(|&value| number(value)).collect();
        report.claim(
            format!(
                "{}: I/O reuse drops with decreasing column overlap",
                NAMES[policy]
            ),
            figures.windows(2).all(|pair| pair[0] < pair[1]),
            format!("requests {}", listed.join(", ")),
        );
    }
    let hit = |at: usize| latency(4, at) / latency(ALIKE, at);
    report.claim(
        "relevance is hit more, relative to normal",
        hit(1) > hit(0),
        format!(
            "latency grows {} times; under normal {}",
            number(hit(1)),
            number(hit(0))
        ),
    );
    let partial: Vec<f64> = (2..5).map(beats).collect();
    report.claim(
        "relevance beats normal by a factor two in these situations (1.7 or more)",
        partial.iter().all(|&factor| factor >= 1.7),
        partial
            .iter()
            .map(|&f| number(f))
            .collect::<Vec<_>>()
            .join(", "),
    );
}

fn figure(all: &[Shown]) -> Figure {
    let names: Vec<String> = SETTINGS.iter().map(|s| s.name.to_owned()).collect();
    let panel = |title: &str, of: fn(&Shown) -> [Spread; 2], paper: fn(&Setting) -> [f64; 2]| {
        let mut series = Vec::new();
        for (at, policy) in COMPARED.into_iter().enumerate() {
            let ours = all.iter().enumerate();
            let ours = ours.map(|(x, shown)| {
                let spread = of(shown)[at];
                (x as f64, spread.p05, spread.mean, spread.p95)
            });
            series.push(Series {
                name: NAMES[policy].to_owned(),
                color: policy,
                mark: Mark::Ranges(ours.collect()),
            });
        }
        let papers = SETTINGS.iter().enumerate();
        let papers = papers.flat_map(|(x, setting)| paper(setting).map(|y| (x as f64, y)));
        series.push(Series {
            name: "paper".to_owned(),
            color: crate::report::plot::PAPER,
            mark: Mark::Crosses(papers.collect()),
        });
        let highest = series.iter().flat_map(|s| s.mark.points()).map(|(_, y)| y);
        let highest = highest.fold(0.0, f64::max);
        Panel {
            title: title.to_owned(),
            x: Axis::names(names.clone()),
            y: Axis::new("").within(0.0, highest * 1.3),
            series,
        }
    };
    Figure {
        title: "Table 4: queries that share fewer and fewer columns".to_owned(),
        columns: 2,
        panels: vec![
            panel("I/O requests", |s| s.requests, |s| s.requests),
            panel("mean query latency (s)", |s| s.latency, |s| s.latency_s),
        ],
    }
}
