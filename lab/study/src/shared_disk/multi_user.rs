//! Figures 8 and 9: which degree of parallelism is best at which load?
//!
//! Source: [RahmStohr94 §4.4].

use coscan_sim::shared_disk::{Access, Arrivals, Class, Room, Transaction, Work};

use super::measure::{Measured, Setting, claim_as_good, claim_found, least, scan};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME_8: &str = "rahm-fig8";
pub(crate) const NAME_9: &str = "rahm-fig9";

pub(crate) const NODES: u32 = 16;
const DISKS: u32 = 64;
pub(crate) const DEGREES: [u32; 5] = [1, 2, 4, 8, 16];
/// A degree near the limit of the cache is sustained until chance has brought enough queries at a
/// time: P = 8 at 1.5 QPS takes one to two hundred queries. P = 4 sustains these, and breaks down
/// within 2,000 in some seeds.
const MEASURED: u32 = 200;
/// Beside transactions P = 8 at 1 QPS breaks down after 1 to 1,500 queries, 400 on average, and P =
/// 4 not within this many; nor does P = 8 without transactions.
const MEASURED_LONG: u32 = 2_000;

/// Relation scans with prefetching, at this rate per second (in thousandths); one at a time if 0.
pub(crate) fn scans(rate: u64, degree: u32) -> Setting {
    if rate == 0 {
        return Setting::alone(NODES, DISKS, scan(Access::Relation, true, degree));
    }
    let scan = scan(Access::Relation, true, degree);
    let mut setting = Setting::new(NODES, DISKS, scan, Arrivals::per_kilosecond(rate));
    setting.extent.warm_up = 66;
    setting.extent.measured = MEASURED;
    setting
}

/// The higher rate of Figure 9, in thousandths of a query per second.
const HIGH: u64 = 1_000;

/// With transactions that alone take a quarter of the disks' time.
fn with_transactions(rate: u64, degree: u32) -> Setting {
    let mut setting = scans(rate, degree);
    if rate == HIGH {
        setting.extent.measured = MEASURED_LONG;
    }
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

/// The controller, which finds the room in the cache itself, in comparison with the best fixed
/// degree; beside it a controller that has the room as a parameter. Returns both.
fn claim_chosen(
    report: &mut Report,
    (figure, name): (&str, &str),
    (fixed, of): (&[Measured], &Setting),
    seeds: Seeds,
) -> (Measured, Measured) {
    let run = |room| of.clone().chosen(NODES, room).run(seeds);
    let (ours, told) = (run(Room::Found), run(Room::Told));
    for (who, measured) in [("chosen", &ours), ("told", &told)] {
        let label = format!("{name}, {who}: response (s)");
        report.row(label, None, measured.responses());
        let disk = measured.spread(|outcome| outcome.disk_utilisation * 100.0);
        let label = format!("{name}, {who}: disk utilisation (%)");
        report.row(label, None, disk);
        transactions_row(report, &format!("{name}, {who}"), measured);
    }
    let claim = format!(
        "{name}: the controller is within 10 % of the best fixed P, without being told the rate \
         or the size of the cache"
    );
    claim_as_good(report, figure, &claim, fixed, &ours);
    (ours, told)
}

/// The response time of transactions, if there are any.
fn transactions_row(report: &mut Report, name: &str, point: &Measured) {
    if point.outcomes[0].classes.len() > 1 {
        let spread = point.spread(|outcome| outcome.classes[1].mean_s() * 1e3);
        report.row(format!("{name}: transactions (ms)"), None, spread);
    }
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
        if point.sustained() {
            transactions_row(report, &name, point);
        }
    }
}

/// [RahmStohr94 Figure 8].
pub(crate) fn run_8(seeds: Seeds) -> Report {
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
        let setting = scans(rate, 1);
        let (ours, told) = claim_chosen(&mut report, ("8", name), (&points, &setting), seeds);
        // At lower rates the room is never met.
        if rate == 1_500 {
            claim_found(&mut report, ("8", name), &ours, &told);
        }
        curves.push((name, points));
    }
    let [(_, alone), (_, middle), (_, busy)] = curves.as_slice() else {
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
    high_utilisation(&mut report, &[alone, middle, busy], seeds);
    changing(&mut report, seeds);
    report.figure = Some(figure(
        "Figure 8: degree of parallelism and arrival rate",
        &curves,
        0,
    ));
    report
}

/// "Disk utilization must be rather high (> 50%) before varying the degree of scan parallelism has
/// a significant impact": at which utilisation does the highest degree lose more than a tenth? The
/// utilisation is that of the best degree, because a degree that is not sustained has none: its
/// reads are repeated until the run is given up.
fn high_utilisation(report: &mut Report, curves: &[&[Measured]], seeds: Seeds) {
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for rate in [500, 750] {
        let points = [8, 16].map(|p| scans(rate, p).run(seeds));
        seen.push(loss(&points));
    }
    seen.extend(curves.iter().map(|points| loss(points)));
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let each = seen.iter().map(|(busy, loss)| match loss {
        loss if loss.is_finite() => format!("{busy:.0} %: {}", number(*loss)),
        _ => format!("{busy:.0} %: not sustained"),
    });
    let significant = |&(_, loss): &(f64, f64)| loss > 1.1;
    report.figure_claim(
        "8",
        "disks must be used over 50 % (under the best degree) before the highest (P = 16) loses \
         over 10 % to the best, and then it does",
        "> 50 %",
        each.collect::<Vec<_>>().join(", "),
        seen.iter().all(|at| significant(at) == (at.0 > 50.0)) && seen.iter().any(significant),
    );
}

/// Disk utilisation in percent under the best degree, and how many times as long queries take under
/// the highest one; infinite if that is not sustained.
fn loss(points: &[Measured]) -> (f64, f64) {
    let sustained = points.iter().filter(|point| point.sustained());
    let best = sustained.min_by(|a, b| a.response().total_cmp(&b.response()));
    let (Some(best), Some(highest)) = (best, points.last()) else {
        return (0.0, f64::INFINITY);
    };
    let response = if highest.sustained() {
        highest.response()
    } else {
        f64::INFINITY
    };
    (best.disk_utilisation() * 100.0, response / best.response())
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

fn changing(report: &mut Report, seeds: Seeds) {
    let load = changing_load;
    let points: Vec<Measured> = DEGREES.iter().map(|&p| load(p).run(seeds)).collect();
    rows(report, "changing", &points);
    let name = ("8", "changing");
    let (ours, told) = claim_chosen(report, name, (&points, &load(1)), seeds);
    claim_found(report, name, &ours, &told);
    report.figure_claim(
        "8",
        "a load of 0.2 and 2.2 QPS in turns: the controller is better than every fixed P",
        "(ours)",
        format!("{} s against {}", number(ours.response()), listed(&points)),
        ours.sustained() && least(&points).is_finite() && ours.response() < least(&points),
    );
}

/// [RahmStohr94 Figure 9].
pub(crate) fn run_9(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_9, seeds);
    let mut curves = Vec::new();
    for (rate, name) in [(500, "0.5 QPS"), (HIGH, "1 QPS")] {
        let run = |&p: &u32| with_transactions(rate, p).run(seeds);
        let points: Vec<Measured> = DEGREES.iter().map(run).collect();
        rows(&mut report, name, &points);
        let setting = with_transactions(rate, 1);
        claim_chosen(&mut report, ("9", name), (&points, &setting), seeds);
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
    let (low_ms, high_ms) = (transactions(low), transactions(high));
    report.figure_claim(
        "9",
        "0.5 QPS: transactions do not slow down with P (20 % at most from P = 1 to 16)",
        "no",
        listed_ms(&low_ms),
        matches!((&low_ms[0], &low_ms[4]), (Some(one), Some(all)) if *all < 1.2 * one),
    );
    // Up to P = 4, beyond which scans are not sustained.
    let slower = |ms: &[Option<f64>]| match (ms[0], ms[2]) {
        (Some(one), Some(four)) => four / one,
        _ => 0.0,
    };
    let (at_low, at_high) = (slower(&low_ms), slower(&high_ms));
    report.figure_claim(
        "9",
        "1 QPS: transactions slow down with P (by over 10 % from P = 1 to 4, and more than at 0.5 \
         QPS)",
        "deteriorate",
        format!(
            "{} times, at 0.5 QPS {} times ({})",
            number(at_high),
            number(at_low),
            listed_ms(&high_ms)
        ),
        at_high > 1.1 && at_high > at_low,
    );
    let lowest = high_ms
        .iter()
        .flatten()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let of_queries = DEGREES.iter().position(|&degree| degree == best(high));
    let beside_best = of_queries.and_then(|at| high_ms[at]);
    report.figure_claim(
        "9",
        "1 QPS: at the degree that is best for queries transactions take over 10 % longer than at \
         their own best, a lower one",
        "a lower degree",
        listed_ms(&high_ms),
        beside_best.is_some_and(|ms| ms > 1.1 * lowest),
    );
    report.figure = Some(figure("Figure 9: queries beside transactions", &curves, 1));
    report
}

/// Mean response times of transactions, milliseconds; none where the load is not sustained.
fn transactions(points: &[Measured]) -> Vec<Option<f64>> {
    let of = |point: &Measured| {
        let mean = point.spread(|outcome| outcome.classes[1].mean_s()).mean;
        point.sustained().then_some(mean * 1e3)
    };
    points.iter().map(of).collect()
}

fn listed_ms(milliseconds: &[Option<f64>]) -> String {
    let each = DEGREES.iter().zip(milliseconds);
    let each = each.map(|(degree, ms)| match ms {
        Some(ms) => format!("P = {degree}: {} ms", number(*ms)),
        None => format!("P = {degree}: not sustained"),
    });
    each.collect::<Vec<_>>().join(", ")
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
