//! Table 2: 16 streams of 4 queries, FAST and SLOW, ranges of 1, 10, 50 and 100 %, four policies.
//!
//! The numbers of queries are the table's; the ranges and the arrangement of the queries are drawn
//! from the seed.

use coscan_core::Policy;
use coscan_sim::{Random, Scenario, streams};

use super::table::{CLASSES, PaperTable, queries};
use crate::coop::machine::{BUFFER_CHUNKS, CHUNKS, DELAY_NS, row_query, rows};
use crate::coop::measure::{Class, Figures, Runs};
use crate::coop::verdict::{ATTACH, ELEVATOR, NAMES, NORMAL, RELEVANCE, listed};
use crate::report::Report;
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-table2";

const TABLE: PaperTable = PaperTable {
    title: "Table 2: row-wise, 16 streams of 4 queries",
    stream_s: [283.72, 160.81, 138.41, 99.55],
    normalized: [6.42, 3.72, 13.52, 1.96],
    total_s: [453.06, 281.19, 244.45, 238.16],
    requests: [4186.0, 2325.0, 1404.0, 1842.0],
    cpu_percent: [53.20, 81.31, 90.20, 93.94],
    latency_s: [
        (0.26, [1.71, 1.02, 5.31, 0.52]),
        (2.06, [13.97, 6.23, 15.17, 3.30]),
        (10.72, [103.59, 58.77, 44.87, 18.21]),
        (20.37, [192.82, 96.98, 59.60, 29.01]),
        (0.38, [1.67, 1.19, 15.01, 0.55]),
        (3.55, [21.58, 15.12, 20.29, 11.30]),
        (17.73, [78.23, 46.98, 37.39, 37.77]),
        (35.27, [179.35, 105.51, 79.39, 98.71]),
    ],
};

/// The table's queries in the arrangement of a seed.
pub(crate) fn scenario(policy: Policy, seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let queries = queries(&mut random, |speed, percent, random| {
        row_query(speed, percent, CHUNKS, random)
    });
    rows(policy, CHUNKS, BUFFER_CHUNKS, streams(queries, DELAY_NS))
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let runs = Runs::over(seeds, scenario);
    let mut report = Report::new(NAME, seeds);
    TABLE.compare(&mut report, &runs);
    section_5_2(&mut report, &runs);
    report
}

/// Means over the seeds, by policy.
struct Means<'a> {
    runs: &'a Runs,
    stream: Vec<f64>,
    normalized: Vec<f64>,
    total: Vec<f64>,
    requests: Vec<f64>,
    cpu: Vec<f64>,
}

impl<'a> Means<'a> {
    fn of(runs: &'a Runs) -> Self {
        let mean = |figure: fn(&Figures) -> f64| {
            let spreads = (0..NAMES.len()).map(|policy| runs.spread(policy, figure));
            spreads.map(|spread| spread.mean).collect()
        };
        Self {
            runs,
            stream: mean(|f| f.stream_s),
            normalized: mean(|f| f.normalized),
            total: mean(|f| f.total_s),
            requests: mean(|f| f.requests),
            cpu: mean(|f| f.cpu_percent),
        }
    }

    fn latency(&self, policy: usize, class: &str) -> f64 {
        self.runs.class(policy, class, |c| c.latency_s).mean
    }
}

/// The sentences of §5.2 that state an outcome of Table 2. The sentences about Figure 4 are in
/// `../figures/fig4.rs`.
fn section_5_2(report: &mut Report, runs: &Runs) {
    let means = Means::of(runs);
    let names = CLASSES.map(|(speed, percent, _)| speed.query_name(percent));
    normal_and_attach(report, &means, &names);
    elevator(report, &means);
    relevance(report, &means, &names);
}

fn normal_and_attach(report: &mut Report, means: &Means<'_>, names: &[String]) {
    report.claim(
        "normal achieves the worst performance (stream and total time)",
        is_largest(&means.stream, NORMAL) && is_largest(&means.total, NORMAL),
        format!("stream time {}", listed(&means.stream)),
    );
    report.claim(
        "normal leads to the largest number of I/O requests",
        is_largest(&means.requests, NORMAL),
        listed(&means.requests),
    );
    report.claim(
        "normal still manages to use a significant fraction of the CPU time (40 to 75 %)",
        (40.0..75.0).contains(&means.cpu[NORMAL]),
        format!("{} %", number(means.cpu[NORMAL])),
    );
    let slower: Vec<&String> = names
        .iter()
        .filter(|name| means.latency(ATTACH, name) >= means.latency(NORMAL, name))
        .collect();
    report.claim(
        "attach improves the performance of all query types over normal, and the throughput",
        slower.is_empty() && means.stream[ATTACH] < means.stream[NORMAL],
        format!("types that are not faster: {slower:?}"),
    );
}

fn elevator(report: &mut Report, means: &Means<'_>) {
    report.claim(
        "elevator shows a further reduction of I/O requests and improvement of the throughput",
        means.requests[ELEVATOR] < means.requests[ATTACH]
            && means.stream[ELEVATOR] < means.stream[ATTACH],
        format!(
            "requests {}; stream time {}",
            listed(&means.requests),
            listed(&means.stream)
        ),
    );
    report.claim(
        "elevator: the normalised latency is very bad (more than twice normal's)",
        means.normalized[ELEVATOR] > 2.0 * means.normalized[NORMAL],
        listed(&means.normalized),
    );
    let short = |policy| means.latency(policy, "F-01") + means.latency(policy, "S-01");
    report.claim(
        "elevator: short queries achieve results even worse than in normal",
        short(ELEVATOR) > short(NORMAL),
        format!(
            "F-01 and S-01 together {} s, {} s",
            number(short(ELEVATOR)),
            number(short(NORMAL))
        ),
    );
    let gap = |policy| means.latency(policy, "S-100") / means.latency(policy, "F-100");
    report.claim(
        "elevator: fast and slow queries differ little (full scans by less than 1.73, their ratio alone)",
        gap(ELEVATOR) < 1.73,
        format!("S-100 / F-100 is {}; under relevance {}", number(gap(ELEVATOR)), number(gap(RELEVANCE))),
    );
}

fn relevance(report: &mut Report, means: &Means<'_>, names: &[String]) {
    let best = |name: &&String| {
        let relevance = means.latency(RELEVANCE, name);
        (0..3).all(|policy| relevance <= means.latency(policy, name))
    };
    let won: Vec<&String> = names.iter().filter(best).collect();
    report.claim(
        "relevance achieves the best stream time, total time and normalised latency",
        is_least(&means.stream, RELEVANCE)
            && is_least(&means.total, RELEVANCE)
            && is_least(&means.normalized, RELEVANCE),
        format!(
            "stream {}; total {}",
            listed(&means.stream),
            listed(&means.total)
        ),
    );
    report.claim(
        "relevance is best in most query times",
        won.len() * 2 > names.len(),
        format!("best of the four in {won:?}"),
    );
    report.claim(
        "relevance issues more I/O requests than elevator, and still has a better throughput",
        means.requests[RELEVANCE] > means.requests[ELEVATOR]
            && means.stream[RELEVANCE] < means.stream[ELEVATOR],
        format!("requests {}", listed(&means.requests)),
    );
    report.claim(
        "under relevance the system is mostly CPU-bound (90 % or more)",
        means.cpu[RELEVANCE] >= 90.0,
        listed(&means.cpu),
    );
    let normal = means.normalized[NORMAL] / means.normalized[RELEVANCE];
    let attach = means.normalized[ATTACH] / means.normalized[RELEVANCE];
    report.claim(
        "relevance: normalised latency three times better than normal (2 to 4)",
        (2.0..4.0).contains(&normal),
        format!("{} times", number(normal)),
    );
    report.claim(
        "relevance: normalised latency two times better than attach (1.4 to 2.6)",
        (1.4..2.6).contains(&attach),
        format!("{} times", number(attach)),
    );
    let full = |class: &Class| class.latency_s;
    let ratio = means.runs.class(ATTACH, "F-100", full).mean
        / means.runs.class(RELEVANCE, "F-100", full).mean;
    report.claim(
        "relevance: I/O-bound queries like F-100 can be three times faster than under attach (2.5 or more)",
        ratio >= 2.5,
        format!("{} times", number(ratio)),
    );
}

fn is_largest(figures: &[f64], at: usize) -> bool {
    figures.iter().all(|&figure| figure <= figures[at])
}

fn is_least(figures: &[f64], at: usize) -> bool {
    figures.iter().all(|&figure| figure >= figures[at])
}
