//! Figure 4: which chunks does each policy read when?
//!
//! The figure shows Table 2's workload in the arrangement of seed 0; the claims are decided over
//! all seeds. A *front* is a run of loads of neighbouring chunks, ascending, each at most
//! [`MEMORY`] loads after its predecessor.

use std::collections::BTreeMap;

use coscan_core::Policy;
use coscan_sim::{Access, Scenario, streams};

use crate::coop::machine::{BUFFER_CHUNKS, CHUNKS, POLICIES, Speed, row_query, rows};
use crate::coop::measure::seconds;
use crate::coop::tables::table2::scenario;
use crate::coop::verdict::{ATTACH, ELEVATOR, NAMES, NORMAL, RELEVANCE, listed};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;
use coscan_sim::Random;

pub(crate) const NAME: &str = "coop-fig4";

/// A front ends after this many other loads.
const MEMORY: usize = 64;

/// The shape of an access pattern.
struct Shape {
    /// The number of fronts at a time, averaged over the loads.
    fronts: f64,
    /// The percentage of loads that begin a front.
    jumps: f64,
}

fn shape(accesses: &[Access]) -> Shape {
    // For each front the chunk that it would read next, and the position of its last load.
    let mut fronts: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut active, mut jumps) = (0, 0);
    for (at, access) in accesses.iter().enumerate() {
        fronts.retain(|_, &mut last| at - last <= MEMORY);
        // A sweep that wraps around to the first chunk is not a jump.
        let wrapped = access.chunk.0 == 0 && fronts.remove(&CHUNKS).is_some();
        if fronts.remove(&access.chunk.0).is_none() && !wrapped {
            jumps += 1;
        }
        fronts.insert(access.chunk.0 + 1, at);
        active += fronts.len();
    }
    let loads = accesses.len().max(1) as f64;
    Shape {
        fronts: active as f64 / loads,
        jumps: 100.0 * f64::from(jumps) / loads,
    }
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut panels = Vec::new();
    let (mut fronts, mut jumps) = (Vec::new(), Vec::new());
    for (place, policy) in POLICIES.into_iter().enumerate() {
        let outcomes = seeds
            .iter()
            .map(|seed| scenario(policy, seed).run().accesses);
        let outcomes: Vec<Vec<Access>> = outcomes.collect();
        let shapes: Vec<Shape> = outcomes.iter().map(|accesses| shape(accesses)).collect();
        let of_fronts = Spread::of(shapes.iter().map(|shape| shape.fronts));
        let of_jumps = Spread::of(shapes.iter().map(|shape| shape.jumps));
        report.row(
            format!("{}: concurrent fronts", NAMES[place]),
            None,
            of_fronts,
        );
        report.row(
            format!("{}: loads that begin a front (%)", NAMES[place]),
            None,
            of_jumps,
        );
        fronts.push(of_fronts.mean);
        jumps.push(of_jumps.mean);
        panels.push(panel(place, &outcomes[0]));
    }
    report.claim(
        "normal maintains multiple concurrent sequential scans (more than 4 at a time)",
        fronts[NORMAL] > 4.0,
        listed(&fronts),
    );
    report.claim(
        "under attach there are multiple concurrent scans, albeit fewer than in normal",
        fronts[ATTACH] > 2.0 && fronts[ATTACH] < fronts[NORMAL],
        listed(&fronts),
    );
    report.claim(
        "elevator has a simple I/O pattern (the fewest fronts)",
        (0..4).all(|policy| fronts[ELEVATOR] <= fronts[policy]),
        listed(&fronts),
    );
    report.claim(
        "relevance's request pattern is much more dynamic than that of all others (twice the share of loads that begin a front)",
        (0..3).all(|policy| jumps[RELEVANCE] >= 2.0 * jumps[policy]),
        listed(&jumps),
    );
    let (together, apart) = detached();
    report.claim(
        "attach: a faster query can detach from a slower one, resulting in a split of a reading sequence",
        apart > together,
        format!(
            "a FAST full scan that attaches to a SLOW one reads {} chunks of its own and makes {} loads in all; with a buffer for \
             the whole table {}",
            CHUNKS,
            number(apart),
            number(together)
        ),
    );
    report.figure = Some(Figure {
        title: "Figure 4: disk accesses over time".to_owned(),
        columns: 2,
        panels,
    });
    report
}

fn panel(place: usize, accesses: &[Access]) -> Panel {
    let points = accesses.iter();
    let points = points.map(|a| (seconds(a.at_ns), f64::from(a.chunk.0)));
    Panel {
        title: format!("{}: {} loads", NAMES[place], accesses.len()),
        x: Axis::new("time (s)"),
        y: Axis::new("chunk").within(0.0, f64::from(CHUNKS)),
        series: vec![Series {
            name: String::new(),
            color: place,
            mark: Mark::Dots(points.collect()),
        }],
    }
}

/// The loads of a SLOW full scan and a FAST one that starts 3 s later, under attach: with a buffer
/// of the whole table, and with Table 2's buffer.
fn detached() -> (f64, f64) {
    let loads = |buffer| {
        let mut random = Random::new(0);
        let mut full = |speed| vec![row_query(speed, 100, CHUNKS, &mut random)];
        let queries = vec![full(Speed::Slow), full(Speed::Fast)];
        let scenario: Scenario = rows(
            Policy::Attach,
            CHUNKS,
            buffer,
            streams(queries, 3_000_000_000),
        );
        scenario.run().requests as f64
    };
    (loads(u64::from(CHUNKS)), loads(BUFFER_CHUNKS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_core::{ChunkId, ColumnId};

    fn accesses(chunks: &[u32]) -> Vec<Access> {
        let access = |&chunk: &u32| Access {
            at_ns: 0,
            chunk: ChunkId(chunk),
            column: ColumnId(0),
            stream: 0,
        };
        chunks.iter().map(access).collect()
    }

    #[test]
    fn a_sweep_is_one_front() {
        let sweep: Vec<u32> = (0..CHUNKS).chain(0..10).collect();
        let shape = shape(&accesses(&sweep));
        assert!((shape.fronts - 1.0).abs() < 1e-9);
        assert!((shape.jumps - 100.0 / sweep.len() as f64).abs() < 1e-9);
    }

    #[test]
    fn two_scans_in_turns_are_two_fronts() {
        let turns: Vec<u32> = (0..100).flat_map(|n| [n, n + 100]).collect();
        let shape = shape(&accesses(&turns));
        assert!((shape.fronts - 2.0).abs() < 0.02, "{}", shape.fronts);
        assert!((shape.jumps - 1.0).abs() < 1e-9, "{}", shape.jumps);
    }

    #[test]
    fn a_front_is_forgotten() {
        let long: Vec<u32> = [0].into_iter().chain(100..200).chain([1]).collect();
        let shape = shape(&accesses(&long));
        assert!(
            (shape.jumps - 300.0 / 102.0).abs() < 1e-9,
            "{}",
            shape.jumps
        );
    }
}
