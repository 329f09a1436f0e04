//! What is the effect of working on a chunk once for all queries of a class? And is one job for
//! all classes better than one job per class?
//!
//! The workloads of Tables 2 and 3, and clients that query data in memory; each without sharing,
//! with a job per class, and with one job for all. Varied, one at a time: the number of classes,
//! the price of a chunk, its share of decode, the share of a query's own work, and the number of
//! cores.
//! Not here: the time of a job (`coscan-sim`, `run/jobs.rs`).

use coscan_core::{Policy, TurnLimit};
use coscan_sim::{Fragments, Jobs, Outcome, Query, Scenario};

use super::mixes::WINDOW_NS;
use super::{LOADS_MAX, TURNS, clients};
use crate::coop::measure::{Figures, Standalone, measure, seconds};
use crate::coop::{table2, table3};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "beyond-fragments";

/// The ways of sharing work: none, jobs of a class, jobs of all classes.
const MODES: [(&str, Option<Jobs>); 3] = [
    ("alone", None),
    ("each", Some(Jobs::OfClass)),
    ("one", Some(Jobs::OfAll)),
];
const ALONE: usize = 0;
const EACH: usize = 1;
const ONE: usize = 2;

struct Workload {
    name: &'static str,
    scenario: fn(Policy, u64) -> Scenario,
    /// The name of its shortest queries.
    short: &'static str,
    /// The class of the n-th query, if there are this many classes.
    class: fn(&Query, u16, u16) -> u16,
    /// The names of the queries that are fragments; `None` if all are.
    fragments: Option<&'static [&'static str]>,
}

/// Clients whose queries are all fragments.
const CLIENTS: &str = "clients";

/// The clients, with only the queries without joins as fragments.
const MIX: &str = "mix";

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "nsm",
        scenario: table2::scenario,
        short: "F-01",
        class: of_speed,
        fragments: None,
    },
    Workload {
        name: "dsm",
        scenario: table3::scenario,
        short: "F-01",
        class: of_speed,
        fragments: None,
    },
    Workload {
        name: CLIENTS,
        scenario: clients::scenario,
        short: "Q6",
        class: of_kind,
        fragments: None,
    },
    Workload {
        name: MIX,
        scenario: clients::scenario,
        short: "Q6",
        class: of_kind,
        // The fragments that the engine recognises: the work of joins on a chunk is no fragment.
        fragments: Some(&["Q1", "Q6"]),
    },
];

/// FAST and SLOW have different grouping expressions: half of the classes are of each.
fn of_speed(query: &Query, n: u16, classes: u16) -> u16 {
    let half = (classes / 2).max(1);
    let first = if query.name.starts_with('F') { 0 } else { half };
    first + n % half
}

fn of_kind(query: &Query, _: u16, classes: u16) -> u16 {
    let mut kinds = clients::KINDS.iter();
    let kind = kinds.position(|(name, _)| *name == query.name);
    u16::try_from(kind.unwrap_or(0)).unwrap_or(0) % classes
}

/// The varied parameters.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    classes: u16,
    /// The price of a chunk, in quarters of the cost of the paper's queries.
    price_quarters: u64,
    cores: u64,
    own_of_1000: u64,
    /// The percentage of a chunk's cost that is decode; `None` for that of the workload.
    decode_percent: Option<u64>,
}

/// Eight different Q1 at once cost 1.14 times one, eight Q6 2.4 times (docs/results/fragments): 2
/// and 20 % for each query that joins.
const BASE: Setting = Setting {
    name: "4 classes",
    classes: 4,
    price_quarters: 4,
    cores: 2,
    own_of_1000: 100,
    decode_percent: None,
};

const SETTINGS: [Setting; 8] = [
    BASE,
    Setting {
        name: "2 classes",
        classes: 2,
        ..BASE
    },
    Setting {
        name: "16 classes",
        classes: 16,
        ..BASE
    },
    Setting {
        name: "a third is own",
        own_of_1000: 333,
        ..BASE
    },
    Setting {
        name: "80 % is decode",
        decode_percent: Some(80),
        ..BASE
    },
    Setting {
        name: "price / 4",
        price_quarters: 1,
        ..BASE
    },
    Setting {
        name: "price × 4",
        price_quarters: 16,
        ..BASE
    },
    Setting {
        name: "8 cores",
        cores: 8,
        ..BASE
    },
];

fn scenario(workload: &Workload, setting: Setting, jobs: Option<Jobs>, seed: u64) -> Scenario {
    let mut scenario = (workload.scenario)(Policy::Relevance, seed);
    let chunks_max = usize::try_from(setting.cores).unwrap_or(1);
    scenario.abm.turns = Some(TurnLimit {
        chunks_max,
        ..TURNS
    });
    scenario.abm.loads_max = LOADS_MAX;
    scenario.cores = setting.cores;
    // No bonus of threads that have slept: a job belongs to no query, and has no history.
    scenario.favoured_ns = 0;
    scenario.decode_window_ns = WINDOW_NS;
    let own_of_1000 = setting.own_of_1000;
    scenario.fragments = jobs.map(|jobs| Fragments { jobs, own_of_1000 });
    for (n, query) in (0..).zip(scenario.streams.iter_mut().flat_map(|s| &mut s.queries)) {
        let price = query.cpu_ns_per_chunk + query.decode_ns_per_chunk;
        if let Some(percent) = setting.decode_percent {
            query.decode_ns_per_chunk = price * percent / 100;
        }
        query.cpu_ns_per_chunk = price - query.decode_ns_per_chunk;
        query.cpu_ns_per_chunk = query.cpu_ns_per_chunk * setting.price_quarters / 4;
        query.decode_ns_per_chunk = query.decode_ns_per_chunk * setting.price_quarters / 4;
        let fragments = workload.fragments;
        let shared = fragments.is_none_or(|names| names.contains(&query.name.as_str()));
        query.class = shared.then(|| (workload.class)(query, n, setting.classes));
    }
    scenario
}

/// The figures of a run.
struct Run {
    figures: Figures,
    outcome: Outcome,
    cores: u64,
    short_s: f64,
}

type Measure = (&'static str, fn(&Run) -> f64);

/// The figures that are reported for a run.
const MEASURES: [Measure; 8] = [
    ("stream time (s)", |run| run.figures.stream_s),
    ("latency", |run| run.figures.normalized),
    ("short queries (s)", |run| run.short_s),
    ("P95 (s)", |run| run.figures.p95_s),
    ("total time (s)", |run| run.figures.total_s),
    ("device needs (s)", |run| seconds(run.outcome.device_ns)),
    ("cores need (s)", |run| {
        seconds(run.outcome.cpu_ns / run.cores)
    }),
    ("queries a job", |run| {
        run.outcome.served as f64 / run.outcome.jobs.max(1) as f64
    }),
];
const STREAM: usize = 0;
const LATENCY: usize = 1;
const SHORT: usize = 2;
const P95: usize = 3;
const TOTAL: usize = 4;
const DEVICE: usize = 5;
const CORES: usize = 6;

/// A workload in a setting, with the runs of each mode.
struct Case {
    name: String,
    modes: Vec<Vec<Run>>,
}

impl Case {
    fn of(workload: &Workload, setting: Setting, seeds: Seeds) -> Self {
        let mut alone = Standalone::default();
        let mut run = |jobs, seed| {
            let scenario = scenario(workload, setting, jobs, seed);
            let (figures, outcome) = measure(&scenario, &mut alone);
            let short = figures.classes.get(workload.short);
            Run {
                short_s: short.map_or(0.0, |class| class.latency_s),
                cores: scenario.cores,
                figures,
                outcome,
            }
        };
        let mut of_mode = |jobs| seeds.iter().map(|seed| run(jobs, seed)).collect();
        Self {
            name: format!("{}, {}", workload.name, setting.name),
            modes: MODES.iter().map(|&(_, jobs)| of_mode(jobs)).collect(),
        }
    }

    fn spread(&self, mode: usize, measure: usize) -> Spread {
        Spread::of(self.modes[mode].iter().map(MEASURES[measure].1))
    }

    /// A figure of one mode divided by that of another, seed by seed.
    fn over(&self, mode: usize, other: usize, measure: usize) -> Spread {
        let of = MEASURES[measure].1;
        let pairs = self.modes[mode].iter().zip(&self.modes[other]);
        let pairs = pairs.filter(|(_, other)| of(other) > 0.0);
        Spread::of(pairs.map(|(run, other)| of(run) / of(other)))
    }

    fn rows(&self, report: &mut Report) {
        for (mode, (name, _)) in MODES.iter().enumerate() {
            for (measure, (label, _)) in MEASURES.iter().enumerate() {
                let name = format!("{}, {name}: {label}", self.name);
                if mode != ALONE && measure < DEVICE {
                    let text = format!("{name} / alone");
                    report.row(text, None, self.over(mode, ALONE, measure));
                }
                report.row(name, None, self.spread(mode, measure));
            }
        }
    }

    /// Whether the cores take longer than the device.
    fn is_bound_by_cores(&self, mode: usize) -> bool {
        self.spread(mode, CORES).mean > self.spread(mode, DEVICE).mean
    }
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut cases = Vec::new();
    for workload in &WORKLOADS {
        // This workload always has two classes, whatever the setting says.
        let alike = |setting: &Setting| workload.name == MIX && setting.classes != BASE.classes;
        for setting in SETTINGS.into_iter().filter(|setting| !alike(setting)) {
            let case = Case::of(workload, setting, seeds);
            case.rows(&mut report);
            cases.push(case);
        }
    }
    claims(&mut report, &cases);
    report.figure = Some(Figure {
        title: "One job for all classes, and a job for each, over no sharing".to_owned(),
        columns: 2,
        panels: vec![
            panel("mean stream time", STREAM, &cases),
            panel("short queries", SHORT, &cases),
            panel("normalised latency", LATENCY, &cases),
            panel("P95", P95, &cases),
        ],
    });
    report
}

/// The largest ratio of two figures that count as equal, to allow for noise.
const EQUAL: f64 = 1.02;

fn claims(report: &mut Report, cases: &[Case]) {
    for (mode, text) in [
        (EACH, "a job for each class"),
        (ONE, "one job for all classes"),
    ] {
        for (measure, what) in [
            (STREAM, "mean stream time"),
            (P95, "P95 of queries"),
            (LATENCY, "normalised latency"),
            (SHORT, "the shortest queries"),
        ] {
            let worst = worst(cases, mode, ALONE, measure);
            report.claim(
                format!("{text} makes {what} nowhere longer than without sharing (1.02)"),
                worst.1 <= EQUAL,
                format!("most in {}: {}", worst.0, number(worst.1)),
            );
        }
    }
    let better = |measure: usize| {
        let of = |case: &&Case| case.over(EACH, ONE, measure).mean < 1.0;
        cases.iter().filter(of).count()
    };
    let all = |case: &&Case| {
        let mut measures = [STREAM, LATENCY, SHORT].iter();
        measures.all(|&measure| case.over(EACH, ONE, measure).mean <= 1.0)
    };
    report.claim(
        "a job for each class beats one for all on stream time, normalised latency and the shortest queries in most settings",
        cases.iter().filter(all).count() * 2 > cases.len(),
        format!(
            "of {}, better on all three in {}; on stream time in {}, latency {}, the shortest {}, P95 {}, total time {}",
            cases.len(),
            cases.iter().filter(all).count(),
            better(STREAM),
            better(LATENCY),
            better(SHORT),
            better(P95),
            better(TOTAL)
        ),
    );
    for workload in [CLIENTS, MIX] {
        let of_it = cases.iter().filter(|case| case.name.starts_with(workload));
        let share = |mode: usize, case: &Case| {
            let runs = case.modes[mode].iter();
            Spread::of(runs.map(|run| run.figures.p95_s / run.figures.total_s)).mean
        };
        let most = |mode: usize| {
            let shares = of_it.clone().map(|case| share(mode, case));
            shares.fold(0.0, f64::max)
        };
        report.claim(
            format!("{workload}: with a job for each class P95 is at most half of the total time, in every setting"),
            most(EACH) <= 0.5,
            format!(
                "most {}; without sharing {}, one job {}",
                number(most(EACH)),
                number(most(ALONE)),
                number(most(ONE))
            ),
        );
    }
    let moved: Vec<&str> = cases
        .iter()
        .filter(|case| case.is_bound_by_cores(ALONE) && !case.is_bound_by_cores(EACH))
        .map(|case| case.name.as_str())
        .collect();
    let bound = cases.iter().filter(|case| case.is_bound_by_cores(ALONE));
    let bound = bound.count();
    report.claim(
        "with a job for each class the device is the limit in most settings where the cores were",
        moved.len() * 2 > bound,
        format!("{} of {bound}: {}", moved.len(), moved.join("; ")),
    );
    let idle = |mode: usize| {
        let of = |case: &Case| {
            let needs = case
                .spread(mode, CORES)
                .mean
                .max(case.spread(mode, DEVICE).mean);
            needs / case.spread(mode, TOTAL).mean
        };
        cases.iter().map(of).fold(f64::INFINITY, f64::min)
    };
    let least = idle(EACH);
    report.claim(
        "with a job for each class cores or device are at work 0.8 of the total time at least, in every setting",
        least >= 0.8,
        format!("least {}; alone {}, one job {}", number(least), number(idle(ALONE)), number(idle(ONE))),
    );
}

/// The case in which a mode is worst in comparison with another, and the ratio.
fn worst(cases: &[Case], mode: usize, other: usize, measure: usize) -> (&str, f64) {
    let ratios = cases
        .iter()
        .map(|case| (case.name.as_str(), case.over(mode, other, measure).mean));
    ratios
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or_default()
}

fn panel(title: &str, measure: usize, cases: &[Case]) -> Panel {
    let series = [(EACH, "a job each", 3), (ONE, "one job", 1)].map(|(mode, name, color)| {
        let of = |(at, case): (usize, &Case)| {
            let spread = case.over(mode, ALONE, measure);
            let x = at as f64 + if mode == ONE { 0.3 } else { 0.0 };
            (x, spread.p05, spread.mean, spread.p95)
        };
        Series {
            name: name.to_owned(),
            color,
            mark: Mark::Ranges(cases.iter().enumerate().map(of).collect()),
        }
    });
    Panel {
        title: format!("{title} / without sharing"),
        x: Axis::new("nsm, dsm, clients: eight settings each; mix: six"),
        y: if [SHORT, LATENCY].contains(&measure) {
            Axis::log("")
        } else {
            Axis::new("")
        },
        series: series.to_vec(),
    }
}
