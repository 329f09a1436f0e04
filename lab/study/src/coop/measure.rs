//! The figures of a run that the paper's tables report: stream time, normalised latency, total
//! time, CPU use, requests.

use std::collections::BTreeMap;

use coscan_core::{ChunkId, Part, Policy};
use coscan_sim::{Outcome, Query, Scenario, Stream};

use super::machine::POLICIES;
use crate::report::statistics::{Spread, mean};
use crate::seeds::Seeds;

/// The figures of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Mean stream time, seconds.
    pub(crate) stream_s: f64,
    /// Mean of latency over standalone time.
    pub(crate) normalized: f64,
    /// The latency that one query in twenty exceeds, seconds.
    pub(crate) p95_s: f64,
    /// Seconds.
    pub(crate) total_s: f64,
    /// Share of all cores used, in percent.
    pub(crate) cpu_percent: f64,
    /// Requests to the device.
    pub(crate) requests: f64,
    /// The figures of each class of query.
    pub(crate) classes: BTreeMap<String, Class>,
}

/// The figures of a class of queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Class {
    pub(crate) count: usize,
    pub(crate) standalone_s: f64,
    pub(crate) latency_s: f64,
    pub(crate) requests: f64,
}

/// Standalone times, simulated with the parameters of a scenario. Queries that differ only in the
/// place of their range take the same time.
#[derive(Debug, Default)]
pub(crate) struct Standalone {
    known: BTreeMap<(u64, u64, u64), u64>,
}

impl Standalone {
    fn ns(&mut self, scenario: &Scenario, query: &Query) -> u64 {
        let chunks = |part: &Part| part.chunks.len() as u64;
        let bytes = |part: &Part| {
            let layout = &scenario.layout.chunks;
            let of = |chunk: ChunkId| {
                let bytes = &layout[chunk.0 as usize].bytes;
                let columns = part.columns.iter();
                columns
                    .map(|column| bytes[usize::from(column.0)])
                    .sum::<u64>()
            };
            part.chunks.iter().map(of).sum::<u64>()
        };
        let key = (
            query.parts.iter().map(chunks).sum(),
            query.parts.iter().map(bytes).sum(),
            query.cpu_ns_per_chunk,
        );
        *self.known.entry(key).or_insert_with(|| {
            let alone = Stream {
                start_ns: 0,
                queries: vec![query.clone()],
            };
            let streams = vec![alone];
            let scenario = Scenario {
                streams,
                ..scenario.clone()
            };
            scenario.run().total_ns
        })
    }
}

/// Runs a scenario and measures it.
///
/// # Panics
/// A query did not end: a bug in the core (ABM-I6).
pub(crate) fn measure(scenario: &Scenario, alone: &mut Standalone) -> (Figures, Outcome) {
    let outcome = scenario.run();
    assert!(outcome.finished, "ABM-I6: every query ends");
    let mut figures = Figures {
        stream_s: mean(outcome.stream_ns.iter().map(|&ns| seconds(ns))),
        total_s: seconds(outcome.total_ns),
        cpu_percent: 100.0 * outcome.cpu_ns as f64 / (outcome.total_ns * scenario.cores) as f64,
        requests: outcome.requests as f64,
        ..Figures::default()
    };
    let mut normalized = Vec::new();
    for done in &outcome.queries {
        let query = &scenario.streams[done.stream].queries[done.at];
        let standalone_s = seconds(alone.ns(scenario, query));
        let latency_s = seconds(done.latency_ns);
        normalized.push(latency_s / standalone_s);
        let class = figures.classes.entry(query.name.clone()).or_default();
        class.count += 1;
        class.standalone_s += standalone_s;
        class.latency_s += latency_s;
        class.requests += done.requests as f64;
    }
    for class in figures.classes.values_mut() {
        let count = class.count as f64;
        class.standalone_s /= count;
        class.latency_s /= count;
        class.requests /= count;
    }
    figures.normalized = mean(normalized.into_iter());
    figures.p95_s = p95(outcome.queries.iter().map(|done| done.latency_ns));
    (figures, outcome)
}

/// The 95th percentile in seconds, by the nearest rank.
fn p95(latencies_ns: impl Iterator<Item = u64>) -> f64 {
    let mut all: Vec<u64> = latencies_ns.collect();
    all.sort_unstable();
    let at = (all.len() * 95).div_ceil(100).saturating_sub(1);
    all.get(at).map_or(0.0, |&ns| seconds(ns))
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The figures of the four policies over the seeds.
#[derive(Debug)]
pub(crate) struct Runs {
    by_policy: Vec<Vec<Figures>>,
}

impl Runs {
    /// Runs every policy on the workload that each seed draws.
    pub(crate) fn over(seeds: Seeds, scenario: impl Fn(Policy, u64) -> Scenario) -> Self {
        let mut alone = Standalone::default();
        let mut run = |policy| {
            let of_seed = |seed| measure(&scenario(policy, seed), &mut alone).0;
            seeds.iter().map(of_seed).collect()
        };
        Self {
            by_policy: POLICIES.iter().map(|&policy| run(policy)).collect(),
        }
    }

    /// A figure of the policy at this index of [`POLICIES`].
    pub(crate) fn spread(&self, policy: usize, figure: impl Fn(&Figures) -> f64) -> Spread {
        Spread::of(self.by_policy[policy].iter().map(figure))
    }

    /// A figure of one policy divided by that of another, seed by seed.
    pub(crate) fn relative(
        &self,
        policy: usize,
        other: usize,
        figure: impl Fn(&Figures) -> f64,
    ) -> Spread {
        let pairs = self.by_policy[policy].iter().zip(&self.by_policy[other]);
        Spread::of(pairs.map(|(one, other)| figure(one) / figure(other)))
    }

    /// A figure of a class of queries.
    pub(crate) fn class(
        &self,
        policy: usize,
        name: &str,
        figure: impl Fn(&Class) -> f64,
    ) -> Spread {
        let of = |figures: &Figures| figures.classes.get(name).map(&figure);
        Spread::of(self.by_policy[policy].iter().filter_map(of))
    }
}
