//! Figures 8 and 9: which degree of parallelism is best at which load?
//!
//! Source: [RahmStohr94 §4.4].

use coscan_sim::shared_disk::{Access, Arrivals, Class, Transaction, Work};

use super::measure::{Measured, Setting, claim_as_good, scan, scan_among};
use crate::figure::{Axis, Figure, Mark, Panel, Series};
use crate::number::number;
use crate::report::Report;

pub(crate) const NAME_8: &str = "rahm-fig8";
pub(crate) const NAME_9: &str = "rahm-fig9";

pub(crate) const NODES: u32 = 16;
const DISKS: u32 = 64;
pub(crate) const DEGREES: [u32; 5] = [1, 2, 4, 8, 16];

/// Relation scans with prefetching, at this rate per second (in thousandths); one at a time if 0.
pub(crate) fn scans(rate: u64, degree: u32) -> Setting {
    if rate == 0 {
        return Setting::alone(NODES, DISKS, scan(Access::Relation, true, degree));
    }
    let arrivals = Arrivals::per_kilosecond(rate);
    Setting::new(NODES, DISKS, scan_among(true, degree), arrivals)
}

/// With transactions that alone take a quarter of the disks' time.
fn with_transactions(rate: u64, degree: u32) -> Setting {
    let mut setting = scans(rate, degree);
    let transaction = Transaction {
        pages: 4,
        writes: false,
        on_relation: false,
    };
    // Each transaction reads four pages; hardly any is in a buffer or a cache.
    let each_ns = u64::from(transaction.pages) * setting.machine.access_ns;
    let mean_ns = each_ns * 4 / u64::from(DISKS);
    setting.classes.push(Class {
        work: Work::Transaction(transaction),
        arrivals: Arrivals::Open(mean_ns),
        nodes: 0..NODES,
    });
    setting
}

/// The controller in comparison with the best fixed degree.
fn claim_chosen(
    report: &mut Report,
    figure: &str,
    name: &str,
    fixed: &[Measured],
    ours: &Measured,
) {
    report.row(
        format!("{name}, chosen: response (s)"),
        None,
        ours.responses(),
    );
    let disk = ours.spread(|outcome| outcome.disk_utilisation * 100.0);
    report.row(format!("{name}, chosen: disk utilisation (%)"), None, disk);
    let claim =
        format!("{name}: the controller is within 10 % of the best fixed P, without being told");
    claim_as_good(report, figure, &claim, fixed, ours);
}

/// The degree with the smallest response time.
pub(crate) fn best(points: &[Measured]) -> u32 {
    let sustained = DEGREES
        .iter()
        .zip(points)
        .filter(|(_, point)| point.sustained());
    let best = sustained.min_by(|a, b| a.1.response().total_cmp(&b.1.response()));
    best.map_or(0, |(&degree, _)| degree)
}

fn listed(points: &[Measured]) -> String {
    let each = DEGREES.iter().zip(points).map(|(degree, point)| {
        let seconds = number(point.response());
        let ended = if point.sustained() {
            ""
        } else {
            " (not sustained)"
        };
        format!("P = {degree}: {seconds} s{ended}")
    });
    each.collect::<Vec<_>>().join(", ")
}

fn rows(report: &mut Report, name: &str, points: &[Measured]) {
    for (degree, point) in DEGREES.iter().zip(points) {
        let name = format!("{name}, P = {degree}");
        if point.sustained() {
            report.row(format!("{name}: response (s)"), None, point.responses());
        }
        let disk = point.spread(|outcome| outcome.disk_utilisation * 100.0);
        report.row(format!("{name}: disk utilisation (%)"), None, disk);
    }
}

/// [RahmStohr94 Figure 8].
pub(crate) fn run_8(seeds: u64) -> Report {
    let mut report = Report::new(NAME_8, seeds);
    let loads = [(0, "alone", 16), (1_000, "1 QPS", 8), (1_500, "1.5 QPS", 4)];
    let mut curves = Vec::new();
    for (rate, name, paper) in loads {
        let points: Vec<Measured> = DEGREES.iter().map(|&p| scans(rate, p).run(seeds)).collect();
        rows(&mut report, name, &points);
        report.figure_claim(
            "8",
            &format!("{name}: the best degree of parallelism is {paper}"),
            &paper.to_string(),
            listed(&points),
            best(&points) == paper,
        );
        let ours = scans(rate, 1).chosen(NODES).run(seeds);
        claim_chosen(&mut report, "8", name, &points, &ours);
        curves.push((name, points));
    }
    let [(_, alone), _, (_, busy)] = curves.as_slice() else {
        return report;
    };
    let slower = busy[0].response() / alone[0].response();
    report.figure_claim(
        "8",
        "P = 1: response times are only slightly higher than alone (1.5 QPS: 1.5 times at most)",
        "slightly",
        listed(busy),
        busy[0].sustained() && slower < 1.5,
    );
    changing(&mut report, seeds);
    report.figure = Some(figure(
        "Figure 8: degree of parallelism and arrival rate",
        &curves,
        0,
    ));
    report
}

/// A load that alternates between idle and nearly the capacity of the disks.
pub(crate) fn changing_load(degree: u32) -> Setting {
    let minute = 60_000_000_000;
    let mut setting = scans(1_000, degree);
    setting.classes[0].arrivals = Arrivals::Changing(vec![
        (minute / 2, 5_000_000_000),
        (minute / 4, 1_000_000_000_000 / 2_200),
    ]);
    setting
}

fn changing(report: &mut Report, seeds: u64) {
    let load = changing_load;
    let points: Vec<Measured> = DEGREES.iter().map(|&p| load(p).run(seeds)).collect();
    rows(report, "changing", &points);
    let ours = load(1).chosen(NODES).run(seeds);
    claim_chosen(report, "8", "changing", &points, &ours);
    let sustained = points.iter().filter(|point| point.sustained());
    let least = sustained
        .map(Measured::response)
        .fold(f64::INFINITY, f64::min);
    report.figure_claim(
        "8",
        "a load of 0.2 and 2.2 QPS in turns: the controller is better than every fixed P",
        "(ours)",
        format!("{} s against {}", number(ours.response()), listed(&points)),
        ours.sustained() && ours.response() < least,
    );
}

/// [RahmStohr94 Figure 9].
pub(crate) fn run_9(seeds: u64) -> Report {
    let mut report = Report::new(NAME_9, seeds);
    let mut curves = Vec::new();
    for (rate, name) in [(500, "0.5 QPS"), (1_000, "1 QPS")] {
        let each = DEGREES
            .iter()
            .map(|&p| with_transactions(rate, p).run(seeds));
        let points: Vec<Measured> = each.collect();
        rows(&mut report, name, &points);
        for (degree, point) in DEGREES.iter().zip(&points) {
            let label = format!("{name}, P = {degree}: transactions (ms)");
            let spread = point.spread(|outcome| outcome.classes[1].mean_s() * 1e3);
            report.row(label, None, spread);
        }
        let ours = with_transactions(rate, 1).chosen(NODES).run(seeds);
        claim_chosen(&mut report, "9", name, &points, &ours);
        let milliseconds = ours.spread(|outcome| outcome.classes[1].mean_s() * 1e3);
        report.row(
            format!("{name}, chosen: transactions (ms)"),
            None,
            milliseconds,
        );
        curves.push((name, points));
    }
    let [(_, low), (_, high)] = curves.as_slice() else {
        return report;
    };
    report.figure_claim(
        "9",
        "1 QPS beside transactions: the best degree of parallelism is 4",
        "4",
        listed(high),
        best(high) == 4,
    );
    let transactions = |points: &[Measured]| -> Vec<f64> {
        let each = points.iter();
        each.map(|point| point.spread(|outcome| outcome.classes[1].mean_s()).mean * 1e3)
            .collect()
    };
    let (low_ms, high_ms) = (transactions(low), transactions(high));
    report.figure_claim(
        "9",
        "0.5 QPS: transactions do not slow down with P (20 % at most from P = 1 to 16)",
        "no",
        super::curves::list(&low_ms),
        low_ms[4] < 1.2 * low_ms[0],
    );
    report.figure_claim(
        "9",
        "1 QPS: transactions slow down with P (over 20 % from P = 1 to 16)",
        "deteriorate",
        super::curves::list(&high_ms),
        high_ms[4] > 1.2 * high_ms[0],
    );
    report.figure = Some(figure("Figure 9: queries beside transactions", &curves, 1));
    report
}

fn figure(title: &str, curves: &[(&str, Vec<Measured>)], classes: usize) -> Figure {
    let titles = ["queries", "transactions"];
    let panel = |class: usize| Panel {
        title: titles[class].to_owned(),
        x: Axis::log("degree of parallelism"),
        y: Axis::log("response time (s)"),
        series: curves
            .iter()
            .enumerate()
            .map(|(color, (name, points))| {
                // A load that is not sustained has no response time.
                let at = |(degree, point): (&u32, &Measured)| {
                    let response = point.spread(|outcome| outcome.classes[class].mean_s());
                    point
                        .sustained()
                        .then_some((f64::from(*degree), response.mean))
                };
                Series {
                    name: (*name).to_owned(),
                    color,
                    mark: Mark::Line(DEGREES.iter().zip(points).filter_map(at).collect()),
                }
            })
            .collect(),
    };
    Figure {
        title: title.to_owned(),
        columns: classes + 1,
        panels: (0..=classes).map(panel).collect(),
    }
}
