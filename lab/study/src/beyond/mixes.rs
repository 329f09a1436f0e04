//! `relevance`, which takes turns, compared with the paper's policy, in the fifteen mixes of Figure
//! 5, on two machines.
//!
//! The paper's machine takes 80 ms to read a chunk that costs SLOW 137 ms of CPU. The other is a
//! present-day machine with compressed files: the whole table fits into memory, decode is half of a
//! scan's CPU time, and scans that begin to work on a chunk together share it.

use coscan_core::Policy;
use coscan_sim::Scenario;

use super::{LOADS_MAX, TURNS};
use crate::coop::fig5::{SIZES, SPEEDS, scenario};
use crate::coop::machine::CHUNKS;
use crate::coop::measure::{Figures, Standalone, measure};
use crate::coop::verdict::RELEVANCE;
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "beyond-mixes";

/// A machine: its name, and its difference from the paper's.
struct Machine {
    name: &'static str,
    change: fn(Scenario) -> Scenario,
}

const MACHINES: [Machine; 2] = [
    Machine {
        name: "paper",
        change: |scenario| scenario,
    },
    Machine {
        name: "decode",
        change: decoding,
    },
];

/// The engine keeps the first 16 batches of a chunk for scans that join later: at least a sixth of
/// the 100 ms that a chunk takes.
pub(crate) const WINDOW_NS: u64 = 15_000_000;

/// In how many of the fifteen mixes turns must be better on both dimensions.
const WON_MIN: usize = 12;

pub(crate) fn decoding(mut scenario: Scenario) -> Scenario {
    scenario.abm.budget_bytes = u64::from(CHUNKS) * (16 << 20);
    scenario.decode_window_ns = WINDOW_NS;
    scenario.favoured_ns = 0;
    for query in scenario.streams.iter_mut().flat_map(|s| &mut s.queries) {
        let work = query.cpu_ns_per_chunk;
        query.decode_ns_per_chunk = work / 2;
        query.cpu_ns_per_chunk = work - work / 2;
    }
    scenario
}

/// The figures with turns divided by those without, in one mix.
struct Point {
    mix: String,
    stream: Spread,
    latency: Spread,
}

impl Point {
    fn won(&self) -> bool {
        self.stream.mean < 1.0 && self.latency.mean < 1.0
    }
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut panels = Vec::new();
    for Machine {
        name: machine,
        change,
    } in MACHINES
    {
        let mut points = Vec::new();
        for (speed, speeds) in SPEEDS {
            for (size, sizes) in SIZES {
                let of = |policy| {
                    let mut alone = Standalone::default();
                    let run = |seed| {
                        let mut scenario = change(scenario(policy, seed, speeds, sizes));
                        scenario.abm.turns = Some(TURNS);
                        scenario.abm.loads_max = LOADS_MAX;
                        measure(&scenario, &mut alone).0
                    };
                    seeds.iter().map(run).collect::<Vec<Figures>>()
                };
                let (new, old) = (of(Policy::Relevance), of(Policy::Relevance2007));
                let over = |figure: fn(&Figures) -> f64| {
                    Spread::of(new.iter().zip(&old).map(|(n, o)| figure(n) / figure(o)))
                };
                let point = Point {
                    mix: format!("{speed}-{size}"),
                    stream: over(|f| f.stream_s),
                    latency: over(|f| f.normalized),
                };
                let (mix, cpu) = (&point.mix, over(|f| f.total_s * f.cpu_percent));
                report.row(
                    format!("{machine} {mix}: stream time / 2007's"),
                    None,
                    point.stream,
                );
                report.row(
                    format!("{machine} {mix}: latency / 2007's"),
                    None,
                    point.latency,
                );
                let p95 = over(|f| f.p95_s);
                report.row(format!("{machine} {mix}: P95 / 2007's"), None, p95);
                report.row(format!("{machine} {mix}: CPU time / 2007's"), None, cpu);
                points.push(point);
            }
        }
        claim(&mut report, machine, &points);
        panels.push(panel(machine, &points));
    }
    report.figure = Some(Figure {
        title: "relevance with turns over relevance-2007, fifteen mixes".to_owned(),
        columns: 2,
        panels,
    });
    report
}

fn claim(report: &mut Report, machine: &str, points: &[Point]) {
    let lost: Vec<String> = points
        .iter()
        .filter(|point| !point.won())
        .map(|p| {
            let (stream, latency) = (number(p.stream.mean), number(p.latency.mean));
            format!("{} (stream {stream}, latency {latency})", p.mix)
        })
        .collect();
    let won = points.len() - lost.len();
    let text = format!(
        "{machine}: turns beat the paper's relevance on stream time and normalised latency in at least {WON_MIN} of {} mixes",
        points.len()
    );
    let evidence = format!("won {won}; not better on both in: {}", lost.join(", "));
    report.claim(text, won >= WON_MIN, evidence);
}

fn panel(machine: &str, points: &[Point]) -> Panel {
    let labels = points
        .iter()
        .map(|p| (p.latency.mean, p.stream.mean, p.mix.clone()));
    Panel {
        title: format!("{machine}: lower and further left is better"),
        x: Axis::new("normalised latency / 2007's").within(0.5, 1.1),
        y: Axis::new("stream time / 2007's").within(0.5, 1.2),
        series: vec![
            Series {
                name: "relevance".to_owned(),
                color: RELEVANCE,
                mark: Mark::Labels(labels.collect()),
            },
            Series {
                name: "relevance-2007".to_owned(),
                color: 0,
                mark: Mark::Labels(vec![(1.0, 1.0, String::new())]),
            },
        ],
    }
}
