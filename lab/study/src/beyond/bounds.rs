//! How far is each policy from the best possible? Bytes and time of every policy divided by their
//! lower bounds, on the workloads of Tables 2 and 3.
//!
//! The union bounds all schedules; Belady's figure bounds only the evictions, in the order in
//! which the policy handed out chunks.

use coscan_core::{Policy, TurnLimit};
use coscan_sim::{Bounds, Outcome, Scenario};

use super::TURNS;
use crate::coop::{table2, table3};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "beyond-bounds";

const POLICIES: [(&str, Policy, Option<TurnLimit>); 7] = [
    ("normal", Policy::Normal, None),
    ("attach", Policy::Attach, None),
    ("pbm", Policy::Pbm, None),
    ("sampling", Policy::PbmSampling, None),
    ("elevator", Policy::Elevator, None),
    ("2007", Policy::Relevance2007, None),
    ("relevance", Policy::Relevance, Some(TURNS)),
];

/// A workload: its name, and its scenario for a policy and a seed.
struct Workload {
    name: &'static str,
    scenario: fn(Policy, u64) -> Scenario,
}

const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "table 2",
        scenario: table2::scenario,
    },
    Workload {
        name: "table 3",
        scenario: table3::scenario,
    },
];

/// A figure of a run in relation to its bound.
struct Measure {
    label: &'static str,
    of: fn(&Outcome, &Bounds) -> f64,
}

const MEASURES: [Measure; 3] = [
    Measure {
        label: "bytes / union",
        of: |outcome, bounds| outcome.bytes as f64 / bounds.union_bytes as f64,
    },
    Measure {
        label: "bytes / Belady's",
        of: |outcome, bounds| outcome.bytes as f64 / bounds.belady_bytes as f64,
    },
    Measure {
        label: "total time / least",
        of: |outcome, bounds| outcome.total_ns as f64 / bounds.time_ns() as f64,
    },
];

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut panels = Vec::new();
    let mut sound = true;
    for Workload {
        name: workload,
        scenario,
    } in WORKLOADS
    {
        let mut spreads: Vec<Vec<Spread>> = Vec::new();
        for (name, policy, turns) in POLICIES {
            let run = |seed| {
                let mut scenario = scenario(policy, seed);
                if turns.is_some() {
                    (scenario.abm.turns, scenario.abm.loads_max) = (turns, super::LOADS_MAX);
                }
                let outcome = scenario.run();
                let bounds = scenario.bounds(&outcome);
                (outcome, bounds)
            };
            let runs: Vec<(Outcome, Bounds)> = seeds.iter().map(run).collect();
            let of = |m: &Measure| Spread::of(runs.iter().map(|(o, b)| (m.of)(o, b)));
            let figures: Vec<Spread> = MEASURES.iter().map(of).collect();
            for (measure, &spread) in MEASURES.iter().zip(&figures) {
                report.row(
                    format!("{workload} {name}: {}", measure.label),
                    None,
                    spread,
                );
            }
            sound &= runs.iter().all(|(outcome, bounds)| {
                outcome.bytes >= bounds.belady_bytes
                    && bounds.belady_bytes >= bounds.union_bytes
                    && outcome.total_ns >= bounds.time_ns()
            });
            spreads.push(figures);
        }
        claims(&mut report, workload, &spreads);
        panels.extend((0..2).map(|place| panel(workload, [0, 2][place], &spreads)));
    }
    let text = "no run reads or takes less than its bounds";
    report.claim(text, sound, "checked for every run");
    report.figure = Some(Figure {
        title: "Over what no schedule could go below".to_owned(),
        columns: 2,
        panels,
    });
    report
}

fn claims(report: &mut Report, workload: &str, spreads: &[Vec<Spread>]) {
    let means = |measure: usize| spreads.iter().map(move |figures| figures[measure].mean);
    let best = means(1).fold(f64::INFINITY, f64::min);
    let relevance = spreads[POLICIES.len() - 1][1].mean;
    report.claim(
        format!("{workload}: relevance's evictions cost at most 1.5 times Belady's bytes for its own order"),
        relevance <= 1.5,
        format!("{}; the least of all policies is {}", number(relevance), number(best)),
    );
}

fn panel(workload: &str, measure: usize, spreads: &[Vec<Spread>]) -> Panel {
    let of = |(x, figures): (usize, &Vec<Spread>)| {
        let spread = figures[measure];
        (x as f64, spread.p05, spread.mean, spread.p95)
    };
    let high = spreads.iter().map(|f| f[measure].p95).fold(0.0, f64::max);
    Panel {
        title: format!("{workload}: {}", MEASURES[measure].label),
        x: Axis::names(POLICIES.map(|(name, ..)| name.to_owned()).to_vec()),
        y: Axis::new("").within(0.0, high * 1.25),
        series: vec![Series {
            name: "mean, 5 % to 95 %".to_owned(),
            color: 3,
            mark: Mark::Ranges(spreads.iter().enumerate().map(of).collect()),
        }],
    }
}
