//! Tables 2 and 3 of the paper, whose workload is 16 streams of 4 queries: the paper's figures, the
//! queries, and the figures measured here beside the paper's.
//!
//! Not here: the ranges of queries, and which sentences about the table hold (`table2.rs`,
//! `table3.rs`).

use coscan_sim::{Query, Random};

use crate::coop::machine::Speed;
use crate::coop::measure::Runs;
use crate::coop::verdict::{NAMES, NORMAL, SystemFigure, system_figures};
use crate::report::Report;

/// The figures of the paper's table; arrays of four have one figure per policy.
pub(crate) struct PaperTable {
    pub(crate) title: &'static str,
    pub(crate) stream_s: [f64; 4],
    pub(crate) normalized: [f64; 4],
    pub(crate) total_s: [f64; 4],
    pub(crate) requests: [f64; 4],
    pub(crate) cpu_percent: [f64; 4],
    /// For each of [`CLASSES`]: seconds alone, and seconds under each policy.
    pub(crate) latency_s: [(f64, [f64; 4]); 8],
}

/// The classes of queries in the tables: speed, percentage that they read, number of queries.
pub(crate) const CLASSES: [(Speed, u32, usize); 8] = [
    (Speed::Fast, 1, 9),
    (Speed::Fast, 10, 7),
    (Speed::Fast, 50, 6),
    (Speed::Fast, 100, 9),
    (Speed::Slow, 1, 13),
    (Speed::Slow, 10, 6),
    (Speed::Slow, 50, 6),
    (Speed::Slow, 100, 8),
];

/// The tables' queries, distributed at random to streams of four.
pub(crate) fn queries(
    random: &mut Random,
    query: impl Fn(Speed, u32, &mut Random) -> Query,
) -> Vec<Vec<Query>> {
    let mut queries = Vec::new();
    for (speed, percent, count) in CLASSES {
        for _ in 0..count {
            queries.push(query(speed, percent, random));
        }
    }
    random.shuffle(&mut queries);
    queries.chunks(4).map(<[Query]>::to_vec).collect()
}

impl PaperTable {
    /// Adds each figure to the report, the measured one beside the paper's.
    pub(crate) fn compare(&self, report: &mut Report, runs: &Runs) {
        let figure = |label, of, paper| SystemFigure { label, of, paper };
        let figures = [
            figure("stream time (s)", |f| f.stream_s, self.stream_s),
            figure("normalised latency", |f| f.normalized, self.normalized),
            figure("total time (s)", |f| f.total_s, self.total_s),
            figure("I/O requests", |f| f.requests, self.requests),
        ];
        system_figures(report, runs, self.title, &figures);
        for (policy, paper) in self.cpu_percent.into_iter().enumerate() {
            let ours = runs.spread(policy, |f| f.cpu_percent);
            report.row(format!("{}: CPU use (%)", NAMES[policy]), Some(paper), ours);
        }
        for ((speed, percent, _), (alone_s, latency_s)) in CLASSES.into_iter().zip(self.latency_s) {
            let name = speed.query_name(percent);
            let alone = runs.class(NORMAL, &name, |c| c.standalone_s);
            report.row(format!("{name} alone (s)"), Some(alone_s), alone);
            for (policy, paper) in latency_s.into_iter().enumerate() {
                let label = format!("{name} {}: latency (s)", NAMES[policy]);
                let ours = runs.class(policy, &name, |c| c.latency_s);
                report.row(label, Some(paper), ours);
            }
        }
    }
}
