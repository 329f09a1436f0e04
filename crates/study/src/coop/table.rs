//! A table of the paper whose workload is 16 streams of 4 queries: what it says, its queries, and our figures beside it.
//!
//! Not here: what a query reads, and which sentences about the table hold (`table2.rs`, `table3.rs`).

use coscan_sim::{Query, Random};

use super::machine::Speed;
use super::measure::Runs;
use super::verdict::{NAMES, NORMAL, SystemFigure, system_figures};
use crate::report::Report;

/// What the paper's table says.
pub(crate) struct PaperTable {
    pub(crate) title: &'static str,
    pub(crate) figures: [SystemFigure; 4],
    /// Under the four policies.
    pub(crate) cpu_percent: [f64; 4],
    pub(crate) classes: [PaperClass; 8],
}

/// A class of queries in the table.
pub(crate) struct PaperClass {
    pub(crate) speed: Speed,
    pub(crate) percent: u32,
    count: usize,
    standalone_s: f64,
    /// Under the four policies.
    latency_s: [f64; 4],
}

/// A line of the table.
pub(crate) const fn class(
    speed: Speed,
    percent: u32,
    count: usize,
    standalone_s: f64,
    latency_s: [f64; 4],
) -> PaperClass {
    PaperClass {
        speed,
        percent,
        count,
        standalone_s,
        latency_s,
    }
}

impl PaperTable {
    /// Its queries as `random` deals them to streams of four.
    pub(crate) fn queries(
        &self,
        random: &mut Random,
        query: impl Fn(Speed, u32, &mut Random) -> Query,
    ) -> Vec<Vec<Query>> {
        let mut queries = Vec::new();
        for class in &self.classes {
            for _ in 0..class.count {
                queries.push(query(class.speed, class.percent, random));
            }
        }
        random.shuffle(&mut queries);
        queries.chunks(4).map(<[Query]>::to_vec).collect()
    }

    /// Adds each of its figures to the report, ours beside it.
    pub(crate) fn compare(&self, report: &mut Report, runs: &Runs) {
        system_figures(report, runs, self.title, &self.figures);
        for (policy, paper) in self.cpu_percent.into_iter().enumerate() {
            let ours = runs.spread(policy, |f| f.cpu_percent);
            report.row(format!("{}: CPU use (%)", NAMES[policy]), Some(paper), ours);
        }
        for class in &self.classes {
            let name = class.speed.query_name(class.percent);
            let alone = runs.class(NORMAL, &name, |c| c.standalone_s);
            report.row(format!("{name} alone (s)"), Some(class.standalone_s), alone);
            for (policy, paper) in class.latency_s.into_iter().enumerate() {
                let label = format!("{name} {}: latency (s)", NAMES[policy]);
                let ours = runs.class(policy, &name, |c| c.latency_s);
                report.row(label, Some(paper), ours);
            }
        }
    }
}
