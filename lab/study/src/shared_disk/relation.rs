//! Figures 4 and 5: relation scans, one at a time and at 0.07 queries per second and node.
//!
//! Source: [RahmStohr94 §4.2].

use coscan_sim::shared_disk::{Access, Arrivals, Extent};

use super::curves::{self, Curve, NODES, Ran, list, ratio};
use super::measure::{Setting, scan};
use crate::report::Report;
use crate::report::number::number;
use crate::seeds::Seeds;

pub(crate) const NAME_4A: &str = "rahm-fig4a";
pub(crate) const NAME_4B: &str = "rahm-fig4b";
pub(crate) const NAME_5: &str = "rahm-fig5";

/// Queries per second and node of Figure 5, in thousandths.
const RATE: u64 = 70;
/// With more queries in the system the load counts as not sustained. The smallest rate that the
/// paper sustains leaves three (0.07 per second, 51 seconds each alone).
const POPULATION_MAX: usize = 64;

/// One relation scan at a time, one subquery per node.
fn alone(nodes: u32, disks: u32, prefetch: bool) -> Setting {
    Setting::alone(nodes, disks, scan(Access::Relation, prefetch, nodes))
}

/// Relation scans at the rate of Figure 5.
pub(crate) fn together(nodes: u32, disks: u32, prefetch: bool) -> Setting {
    let arrivals = Arrivals::per_kilosecond(RATE * u64::from(nodes));
    let scan = scan(Access::Relation, prefetch, nodes);
    let mut setting = Setting::new(nodes, disks, scan, arrivals);
    setting.extent = Extent {
        warm_up: 10 + nodes,
        measured: 24 + 4 * nodes,
        population_max: POPULATION_MAX,
    };
    setting
}

fn alone_curves(prefetch: bool) -> Vec<Curve<'static>> {
    vec![
        Curve::new("D = 1", move |n| alone(n, 1, prefetch)),
        Curve::new("D = n/2", move |n| alone(n, (n / 2).max(1), prefetch)),
        Curve::new("D = n", move |n| alone(n, n, prefetch)),
        Curve::new("cached", move |n| alone(n, n, prefetch).cached()),
    ]
}

/// [RahmStohr94 Figure 4a].
pub(crate) fn run_4a(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_4A, seeds);
    let plain = curves::run(&mut report, &alone_curves(false), seeds);
    let mut other = Report::new(NAME_4B, seeds);
    let prefetched = curves::run(&mut other, &alone_curves(true), seeds);
    let [one, half, all, _] = plain.as_slice() else {
        return report;
    };
    let busy = one.points[0].disk_utilisation();
    report.figure_claim(
        "4a",
        "sequential scan: the disk is 85 % utilised (within 1)",
        "85 %",
        format!("{:.1} %", busy * 100.0),
        (busy - 0.85).abs() <= 0.01,
    );
    let gain = one.speed_up(32) / one.speed_up(2);
    report.figure_claim(
        "4a",
        "D = 1: no significant improvement for P > 2 (under 10 % from 2 to 32)",
        "none",
        format!("{} times", number(gain)),
        gain < 1.1,
    );
    let slower = NODES.map(|n| ratio(one, &prefetched[0], n));
    let highest = slower.iter().copied().fold(0.0, f64::max);
    report.figure_claim(
        "4a",
        "D = 1: up to 5 times slower than with prefetching (4.5 to 5.5)",
        "5",
        number(highest),
        (4.5..=5.5).contains(&highest),
    );
    linear(&mut report, "4a", all);
    let better = NODES[1..]
        .iter()
        .all(|&n| ratio(half, one, n) < 0.9 || n == 2);
    report.figure_claim(
        "4a",
        "D = n/2 is significantly better than D = 1 (by 10 % from 4 nodes on; at 2 they are one)",
        "better",
        format!("{} against {}", half.listed(), one.listed()),
        better,
    );
    let behind = [2, 4, 8].map(|n| ratio(half, all, n));
    report.figure_claim(
        "4a",
        "D = n/2 suffers from contention, in particular for P <= 8 (10 % and more behind D = n)",
        "contention",
        format!("2, 4, 8 nodes: {}", list(&behind)),
        behind.iter().all(|&behind| behind > 1.1),
    );
    report.figure = Some(curves::figure(
        "Figure 4a: relation scan alone, no prefetching",
        &plain,
    ));
    report
}

/// [RahmStohr94 Figure 4b].
pub(crate) fn run_4b(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_4B, seeds);
    let ran = curves::run(&mut report, &alone_curves(true), seeds);
    let [one, half, all, cached] = ran.as_slice() else {
        return report;
    };
    let busy = one.points[0].disk_utilisation();
    report.figure_claim(
        "4b",
        "sequential scan with prefetching: the disk is 55 % utilised (within 1)",
        "55 %",
        format!("{:.1} %", busy * 100.0),
        (busy - 0.55).abs() <= 0.01,
    );
    let speed_up = one.speed_up(4);
    report.figure_claim(
        "4b",
        "D = 1: a speed-up of 1.7 is achieved with up to 4 nodes (1.5 to 1.9)",
        "1.7",
        format!("{} (all: {})", number(speed_up), one.listed()),
        (1.5..=1.9).contains(&speed_up),
    );
    let gain = one.speed_up(32) / speed_up;
    report.figure_claim(
        "4b",
        "D = 1: beyond 4 nodes nothing is gained (under 10 %)",
        "none",
        format!("{} times from 4 to 32", number(gain)),
        gain < 1.1,
    );
    let behind = NODES.map(|n| ratio(half, all, n));
    report.figure_claim(
        "4b",
        "D = n/2 is almost as good as D = n (within 30 %; without prefetching it is 70 % behind)",
        "almost",
        list(&behind),
        behind.iter().all(|&behind| behind < 1.3),
    );
    linear(&mut report, "4b", all);
    let share = NODES.map(|n| ratio(all, cached, n));
    report.figure_claim(
        "4b",
        "response times are dominated by disk access (D = n over cached: more than 2)",
        "dominated",
        list(&share),
        share.iter().all(|&share| share > 2.0),
    );
    report.figure = Some(curves::figure(
        "Figure 4b: relation scan alone, prefetching",
        &ran,
    ));
    report
}

fn linear(report: &mut Report, figure: &str, all: &Ran) {
    let speed_up = all.speed_up(32);
    report.figure_claim(
        figure,
        "D = n: optimal speed-up (32 nodes: within 10 %)",
        "32",
        number(speed_up),
        (28.8..=35.2).contains(&speed_up),
    );
}

/// [RahmStohr94 Figure 5].
#[expect(clippy::too_many_lines, reason = "a claim after the other")]
pub(crate) fn run_5(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME_5, seeds);
    let curve = |name: &str, prefetch: bool, times: u32| {
        Curve::new(name, move |n| together(n, n * times, prefetch))
    };
    let ran = curves::run(
        &mut report,
        &[
            curve("D = n, no prefetching", false, 1),
            curve("D = n, prefetching", true, 1),
            curve("D = 4n, no prefetching", false, 4),
            curve("D = 4n, prefetching", true, 4),
            // As many controllers as the curve that it is compared with.
            Curve::new("cached", |n| together(n, 4 * n, true).cached()),
        ],
        seeds,
    );
    let [plain, prefetched, plain4, prefetched4, cached] = ran.as_slice() else {
        return report;
    };
    let busy = cached.points[3].processor_utilisation();
    report.figure_claim(
        "5",
        "0.07 queries per second and node use about 30 % of the processors (25 to 35)",
        "30 %",
        format!("{:.1} %", busy * 100.0),
        (0.25..=0.35).contains(&busy),
    );
    let fewer_than = together(4, 2, true);
    let fewer = fewer_than.run(seeds);
    let machine = fewer_than.machine;
    let pages = fewer_than.relation.pages();
    let reads = f64::from(pages) / f64::from(machine.prefetch_pages);
    let offered = 4.0 * RATE as f64 / 1e3 * reads * machine.prefetch_ns as f64 / 1e9 / 2.0;
    report.figure_claim(
        "5",
        "the rate cannot be sustained with fewer disks than processors (n = 4, D = 2), and it can \
         with as many (D = 4)",
        "cannot",
        format!(
            "offered to two arms: {:.0} %; as many disks, by nodes: {}",
            offered * 100.0,
            prefetched.listed()
        ),
        !fewer.sustained() && prefetched.response(4).is_some(),
    );
    report.figure_claim(
        "5",
        "D = n, no prefetching: sustained up to 8 nodes, not beyond",
        "8",
        plain.listed(),
        plain.sustained_to() == 8,
    );
    report.figure_claim(
        "5",
        "D = n, prefetching: sustained up to 8 nodes, not beyond",
        "8",
        prefetched.listed(),
        prefetched.sustained_to() == 8,
    );
    let gain = prefetched.speed_up(2).max(prefetched.speed_up(4));
    report.figure_claim(
        "5",
        "D = n: a speed-up of 1.25 for 2 to 4 nodes (1.1 to 1.4)",
        "1.25",
        number(gain),
        (1.1..=1.4).contains(&gain),
    );
    let gains = NODES.map(|n| ratio(plain4, prefetched4, n).max(ratio(plain, prefetched, n)));
    let highest = gains.iter().copied().fold(0.0, f64::max);
    report.figure_claim(
        "5",
        "prefetching improves response times up to 5 times (4 to 6)",
        "5",
        format!("{} (D = 4n without: {})", number(highest), plain4.listed()),
        (4.0..=6.0).contains(&highest),
    );
    let better = [1, 2, 4].iter().all(|&n| {
        let with = prefetched.response(n);
        let without = plain4.response(n);
        with.is_some_and(|with| without.is_none_or(|without| with < without))
    });
    report.figure_claim(
        "5",
        "up to 4 nodes prefetching on D = n is better than none on D = 4n",
        "better",
        format!("{} against {}", prefetched.listed(), plain4.listed()),
        better,
    );
    report.figure_claim(
        "5",
        "D = 4n, prefetching: the rate is sustained up to 32 nodes",
        "32",
        prefetched4.listed(),
        prefetched4.sustained_to() == 32,
    );
    let over = NODES.map(|n| ratio(prefetched4, cached, n));
    report.figure_claim(
        "5",
        "D = 4n, prefetching: response times approach those of the cached relation (3 times at most)",
        "approach",
        list(&over),
        over.iter().all(|&over| over > 0.0 && over <= 3.0),
    );
    report.figure = Some(curves::figure(
        "Figure 5: relation scans, 0.07 QPS per node",
        &ran,
    ));
    report
}
