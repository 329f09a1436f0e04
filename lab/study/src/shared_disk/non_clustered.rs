//! Figure 7: non-clustered index scans, one at a time and concurrently.
//!
//! Source: [RahmStohr94 §4.3].

use coscan_sim::shared_disk::{Access, Arrivals};

use super::curves::{self, Curve, NODES, ratio};
use super::measure::{Setting, scan};
use crate::report::Report;
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME_7A: &str = "rahm-fig7a";
pub(crate) const NAME_7B: &str = "rahm-fig7b";

pub(crate) fn alone(nodes: u32, disks: u32) -> Setting {
    Setting::alone(nodes, disks, scan(Access::NonClusteredIndex, false, nodes))
}

pub(crate) fn together(nodes: u32, disks: u32, rate: u64) -> Setting {
    let arrivals = Arrivals::per_kilosecond(rate * u64::from(nodes));
    let scan = scan(Access::NonClusteredIndex, false, nodes);
    let mut setting = Setting::new(nodes, disks, scan, arrivals);
    setting.extent.warm_up = 30 + 10 * nodes;
    setting.extent.measured = 100 + 20 * nodes;
    setting
}

/// [RahmStohr94 Figure 7a].
pub(crate) fn run_7a(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_7A, seeds);
    let ran = curves::run(
        &mut report,
        &[
            Curve::new("D = 1", |n| alone(n, 1)),
            Curve::new("D = n/2", |n| alone(n, (n / 2).max(1))),
            Curve::new("D = n", |n| alone(n, n)),
            Curve::new("D = 4n", |n| alone(n, 4 * n)),
        ],
        seeds,
    );
    // Curves for comparison; their rows are in Figures 4 and 6.
    let mut other = Report::new(NAME_7A, seeds);
    let relation = |n, prefetch| Setting::alone(n, n, scan(Access::Relation, prefetch, n));
    let others = curves::run(
        &mut other,
        &[
            Curve::new("relation scan", move |n| relation(n, false)),
            Curve::new("relation scan, prefetching", move |n| relation(n, true)),
        ],
        seeds,
    );
    let clustered = Setting::alone(1, 1, scan(Access::ClusteredIndex, true, 1)).run(seeds);
    let ([_, half, all, four], [plain, prefetched]) = (ran.as_slice(), others.as_slice()) else {
        return report;
    };
    let times = ratio(plain, all, 1);
    report.figure_claim(
        "7a",
        "sequential: about 10 times faster than the relation scan without prefetching (8 to 12)",
        "10",
        number(times),
        (8.0..=12.0).contains(&times),
    );
    let gain = all.speed_up(32);
    report.figure_claim(
        "7a",
        "D = n: a speed-up of 15 for P = 32 (12 to 18)",
        "15",
        format!("{} ({})", number(gain), all.listed()),
        (12.0..=18.0).contains(&gain),
    );
    let gain = half.speed_up(32);
    report.figure_claim(
        "7a",
        "from D = n/2 on, parallelism is effective (a speed-up of 8 and more for P = 32)",
        "effective",
        number(gain),
        gain >= 8.0,
    );
    let gains = NODES.map(|n| ratio(all, four, n));
    report.figure_claim(
        "7a",
        "D = 4n is slightly better than D = n (up to 40 %)",
        "slightly",
        curves::list(&gains),
        gains[1..].iter().all(|&gain| gain > 1.0 && gain < 1.4),
    );
    let ours = all.response(32).unwrap_or(0.0);
    report.figure_claim(
        "7a",
        "a sequential clustered index scan is better than a 32-way non-clustered one",
        "better",
        format!(
            "{} s against {} s",
            number(clustered.response()),
            number(ours)
        ),
        clustered.response() < ours,
    );
    let gains = NODES.map(|n| ratio(prefetched, all, n));
    report.figure_claim(
        "7a",
        "it is always better than a relation scan with prefetching (D = n)",
        "always",
        curves::list(&gains),
        gains.iter().all(|&gain| gain > 1.0),
    );
    report.figure_claim(
        "7a",
        "and the difference becomes smaller with parallelism",
        "smaller",
        format!(
            "{} times at 1 node, {} at 32",
            number(gains[0]),
            number(gains[5])
        ),
        gains[5] < gains[0],
    );
    report.figure = Some(curves::figure(
        "Figure 7a: non-clustered index scan alone",
        &ran,
    ));
    report
}

/// [RahmStohr94 Figure 7b].
pub(crate) fn run_7b(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_7B, seeds);
    let curve = |times: u32, rate: u64| {
        let name = format!("D = {times}n, {} QPS per node", rate as f64 / 1e3);
        Curve::new(name, move |n| together(n, n * times, rate))
    };
    let ran = curves::run(
        &mut report,
        &[curve(4, 200), curve(8, 200), curve(8, 400), curve(8, 600)],
        seeds,
    );
    let [_, low, _, high] = ran.as_slice() else {
        return report;
    };
    report.figure_claim(
        "7b",
        "D = 8n: 0.6 QPS per node cannot be supported for more than 8 nodes",
        "8",
        high.listed(),
        (1..=8).contains(&high.sustained_to()),
    );
    let gains = (low.speed_up(32), high.speed_up(8));
    report.figure_claim(
        "7b",
        "parallelism is effective for low rates (0.2 QPS, 32 nodes) or few nodes (0.6, 8): 3 times",
        "effective",
        format!("{}, {}", number(gains.0), number(gains.1)),
        gains.0 > 3.0 && gains.1 > 3.0,
    );
    let alone = Setting::alone(32, 256, scan(Access::NonClusteredIndex, false, 32)).run(seeds);
    let alone_gain = Setting::alone(1, 8, scan(Access::NonClusteredIndex, false, 1))
        .run(seeds)
        .response()
        / alone.response();
    report.figure_claim(
        "7b",
        "the speed-up is much smaller than in single-user mode (32 nodes, D = 8n, 0.2 QPS: 0.8 of it \
         at most)",
        "smaller",
        format!(
            "{} against {}",
            number(low.speed_up(32)),
            number(alone_gain)
        ),
        low.speed_up(32) < 0.8 * alone_gain,
    );
    report.figure = Some(curves::figure(
        "Figure 7b: non-clustered index scans together",
        &ran,
    ));
    report
}
