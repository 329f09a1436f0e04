//! Figure 6: clustered index scans, one at a time and concurrently.
//!
//! Source: [RahmStohr94 §4.3].

use coscan_sim::shared_disk::{Access, Arrivals};

use super::curves::{self, Curve, NODES};
use super::measure::{Setting, scan};
use crate::report::Report;
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME_6A: &str = "rahm-fig6a";
pub(crate) const NAME_6B: &str = "rahm-fig6b";

pub(crate) fn alone(nodes: u32, disks: u32) -> Setting {
    Setting::alone(nodes, disks, scan(Access::ClusteredIndex, true, nodes))
}

pub(crate) fn together(nodes: u32, disks: u32, rate: u64) -> Setting {
    let arrivals = Arrivals::per_kilosecond(rate * u64::from(nodes));
    let scan = scan(Access::ClusteredIndex, true, nodes);
    let mut setting = Setting::new(nodes, disks, scan, arrivals);
    // A load that is not sustained shows it within a minute.
    let minute = u32::try_from(rate * u64::from(nodes) * 60 / 1_000).unwrap_or(u32::MAX);
    setting.extent.warm_up = minute / 6;
    setting.extent.measured = minute;
    setting
}

/// [RahmStohr94 Figure 6a].
pub(crate) fn run_6a(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_6A, seeds);
    let ran = curves::run(
        &mut report,
        &[
            Curve::new("D = 1", |n| alone(n, 1)),
            Curve::new("D = n/2", |n| alone(n, (n / 2).max(1))),
            Curve::new("D = n", |n| alone(n, n)),
            Curve::new("D = 8n", |n| alone(n, 8 * n)),
        ],
        seeds,
    );
    let [one, _, all, eight] = ran.as_slice() else {
        return report;
    };
    let relation = Setting::alone(1, 1, scan(Access::Relation, true, 1)).run(seeds);
    let times = relation.response() / one.response(1).unwrap_or(1.0);
    report.figure_claim(
        "6a",
        "sequential: roughly 100 times faster than the relation scan with prefetching (70 to 140)",
        "100",
        number(times),
        (70.0..=140.0).contains(&times),
    );
    let highest = |ran: &curves::Ran| {
        let each = NODES.map(|n| ran.speed_up(n));
        each.iter().copied().fold(0.0, f64::max)
    };
    for (name, ran) in [("D = 1", one), ("D = n", all)] {
        let gain = highest(ran);
        report.figure_claim(
            "6a",
            &format!("{name}: parallelism is of little use (a speed-up under 2)"),
            "little",
            format!("{} ({})", number(gain), ran.listed()),
            gain < 2.0,
        );
    }
    let small = NODES.iter().filter(|&&n| n > 1).map(|&n| {
        let one = one.response(n).unwrap_or(0.0);
        one / all.response(n).unwrap_or(f64::INFINITY)
    });
    let small: Vec<f64> = small.collect();
    report.figure_claim(
        "6a",
        "D = n is a small improvement over D = 1 (30 % at most)",
        "small",
        curves::list(&small),
        small.iter().all(|&gain| gain < 1.3),
    );
    let gain = highest(eight);
    report.figure_claim(
        "6a",
        "D = 8n: a speed-up of 2 at most (1.5 to 2.2)",
        "2",
        format!("{} ({})", number(gain), eight.listed()),
        (1.5..=2.2).contains(&gain),
    );
    report.figure = Some(curves::figure(
        "Figure 6a: clustered index scan alone",
        &ran,
    ));
    report
}

/// [RahmStohr94 Figure 6b].
pub(crate) fn run_6b(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_6B, seeds);
    let curve = |times: u32, rate: u64| {
        let name = format!("D = {times}n, {} QPS per node", rate as f64 / 1e3);
        Curve::new(name, move |n| together(n, n * times, rate))
    };
    let ran = curves::run(
        &mut report,
        &[
            curve(1, 600),
            curve(8, 600),
            curve(1, 2_000),
            curve(4, 2_000),
            curve(8, 2_000),
        ],
        seeds,
    );
    let [_, eight, all, four, _] = ran.as_slice() else {
        return report;
    };
    for (name, ran) in [("D = n", all), ("D = 4n", four)] {
        report.figure_claim(
            "6b",
            &format!(
                "{name}: 2 QPS per node are sustained for a few nodes (up to 2, 4 or 8), and not \
                 with 16 or 32"
            ),
            "a few",
            ran.listed(),
            ran.sustained_for_few(),
        );
    }
    report.figure_claim(
        "6b",
        "D = 8n: 0.6 QPS per node are sustained up to 32 nodes",
        "32",
        eight.listed(),
        eight.sustained_to() == 32,
    );
    let sequential = NODES.map(|n| {
        let mut setting = together(n, 4 * n, 2_000);
        if let coscan_sim::shared_disk::Work::Scan(scan) = &mut setting.classes[0].work {
            scan.degree = coscan_sim::shared_disk::Degree::Fixed(1);
        }
        let measured = setting.run(seeds);
        (measured.sustained(), measured.response())
    });
    let text = sequential.map(|(_, response)| response);
    report.figure_claim(
        "6b",
        "sequential scans support high throughput (D = 4n, 2 QPS per node, up to 32 nodes)",
        "should be sequential",
        curves::list(&text),
        sequential.iter().all(|&(sustained, _)| sustained),
    );
    report.figure = Some(curves::figure(
        "Figure 6b: clustered index scans together",
        &ran,
    ));
    report
}
