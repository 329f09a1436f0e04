//! The example of the introduction: how does each policy treat a short query beside a long one?
//!
//! "Assume a system has to execute two queries, Q1 and Q2, which enter the system at the same time
//! and process data at the same speed. Q1 needs to read 30 pages and is scheduled first, while Q2
//! needs 10 different pages." A page takes a second.

use coscan_core::{
    ChunkLayout, ChunkSet, ColumnSet, DeviceId, Part, Policy, StorageModel, TableLayout,
};
use coscan_sim::{DeviceModel, Placement, Query, Scenario, streams};

use super::machine::scheduler;
use super::measure::seconds;
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-intro";

/// Latencies of Q1 and Q2 in seconds, when Q1 reads the pages from `q1` on and Q2 the pages from
/// `q2` on.
fn latencies(policy: Policy, q1: u32, q2: u32) -> (f64, f64) {
    let query = |first: u32, pages: u32| Query {
        name: String::new(),
        parts: vec![Part {
            chunks: ChunkSet::from_range(first..first + pages),
            columns: ColumnSet::all(1),
        }],
        cpu_ns_per_chunk: 0,
        decode_ns_per_chunk: 0,
        class: None,
    };
    let page = ChunkLayout {
        device: DeviceId(0),
        bytes: vec![1].into(),
    };
    let mut scenario = Scenario {
        abm: scheduler(policy, StorageModel::Nsm, 40),
        layout: TableLayout {
            columns: 1,
            chunks: vec![page; 40],
            shared: Vec::new(),
        },
        placement: Placement::ByColumn,
        devices: vec![DeviceModel {
            bytes_per_second: 1,
            positioning_ns: 0,
            request_ns: 0,
            cpu_ns_per_mib: 0,
            cache: None,
        }],
        network: None,
        cores: 2,
        favoured_ns: 0,
        decode_window_ns: 0,
        fragments: None,
        streams: streams(vec![vec![query(q1, 30)], vec![query(q2, 10)]], 0),
    };
    scenario.abm.loads_max = 1;
    let outcome = scenario.run();
    let latency = |stream| {
        let done = outcome.queries.iter().find(|q| q.stream == stream);
        done.map_or(f64::NAN, |q| seconds(q.latency_ns))
    };
    (latency(0), latency(1))
}

/// Policy, first page of Q1 and of Q2, the paper's latencies. The text computes those of normal and
/// elevator.
type Case = (&'static str, Policy, (u32, u32), Option<(f64, f64)>);
const CASES: [Case; 6] = [
    ("normal", Policy::Normal, (0, 30), Some((40.0, 20.0))),
    ("attach", Policy::Attach, (0, 30), None),
    (
        "elevator, Q2 ahead",
        Policy::Elevator,
        (10, 0),
        Some((40.0, 10.0)),
    ),
    (
        "elevator, Q1 ahead",
        Policy::Elevator,
        (0, 30),
        Some((30.0, 40.0)),
    ),
    ("relevance, Q2 ahead", Policy::Relevance2007, (10, 0), None),
    ("relevance, Q1 ahead", Policy::Relevance2007, (0, 30), None),
];

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut bars = Vec::new();
    let mut papers = Vec::new();
    for (place, (name, policy, (q1, q2), paper)) in CASES.into_iter().enumerate() {
        let (first, second) = latencies(policy, q1, q2);
        let mean = f64::midpoint(first, second);
        let paper_mean = paper.map(|(a, b)| f64::midpoint(a, b));
        let mut row = |what: &str, paper, value| {
            report.row(format!("{name}: {what} (s)"), paper, Spread::of([value]));
        };
        row("Q1", paper.map(|p| p.0), first);
        row("Q2", paper.map(|p| p.1), second);
        row("mean", paper_mean, mean);
        let x = place as f64;
        bars.push((x, first.min(second), mean, first.max(second)));
        papers.extend(paper_mean.map(|mean| (x, mean)));
        if let Some(paper) = paper {
            let text = format!(
                "{name}: Q1 ends after {} pages and Q2 after {}",
                paper.0, paper.1
            );
            let evidence = format!("{first} and {second}");
            report.claim(text, paper == (first, second), evidence);
        } else if policy == Policy::Relevance2007 {
            let text = format!("{name}: close to the optimal mean latency of 25 pages");
            report.claim(text, (mean - 25.0).abs() < 1.0, format!("{mean}"));
        }
    }
    report.figure = Some(Figure {
        title: "Two queries of 30 and 10 pages".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: "latency of both queries and their mean".to_owned(),
            x: Axis::names(
                CASES
                    .iter()
                    .map(|case| case.0.replace(", ", ": "))
                    .collect(),
            ),
            y: Axis::new("pages read until the end").within(0.0, 45.0),
            series: vec![
                Series {
                    name: "ours".to_owned(),
                    color: 3,
                    mark: Mark::Ranges(bars),
                },
                Series {
                    name: "paper's mean".to_owned(),
                    color: crate::report::plot::PAPER,
                    mark: Mark::Crosses(papers),
                },
            ],
        }],
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_comes_out_as_the_paper_computes_it() {
        assert_eq!(latencies(Policy::Normal, 0, 30), (40.0, 20.0));
        assert_eq!(latencies(Policy::Elevator, 10, 0), (40.0, 10.0));
        assert_eq!(latencies(Policy::Elevator, 0, 30), (30.0, 40.0));
        assert_eq!(latencies(Policy::Relevance2007, 10, 0), (40.0, 10.0));
        assert_eq!(latencies(Policy::Relevance2007, 0, 30), (40.0, 10.0));
    }
}
