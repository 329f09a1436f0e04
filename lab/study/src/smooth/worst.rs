//! Figures 8 to 12: the worst distributions of results for each policy, constructed by an adversary
//! that sees the state machine.
//!
//! The oracle reads exactly the pages that hold results, in sequence. The index names one page in
//! every region; jumps between regions are random.

use coscan_core::smooth::{PageCosts, Probe, SmoothPolicy, competitive};

use super::{DISK, POLICIES, Region, RowPages, eager, examine, next_region};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "smooth-worst";

/// Regions may grow over the whole table.
const REGION_PAGES_MAX: u32 = 1 << 30;
const SIZES: [u32; 4] = [100, 1_000, 10_000, 100_000];

/// Where the adversary puts results.
#[derive(Clone, Copy)]
enum Results {
    /// In the first page of each region (Figure 8a).
    FirstPages,
    /// In as few pages as make `growths` regions grow, then in one page of each region (Figure 8b).
    Mislead { growths: u32 },
    /// In as few pages as make regions grow, for half of the table, then in one page of each region
    /// (Figure 9).
    Halves,
    /// In every second page (Figure 8c).
    EverySecond,
}

/// The competitive ratio of a scan over a table of `pages` pages.
fn ratio(policy: SmoothPolicy, told: Option<PageCosts>, pages: u32, results: Results) -> f64 {
    let mut probe = eager(pages, policy, REGION_PAGES_MAX, told);
    let (mut page, mut regions, mut cost, mut found) = (0, 0, 0.0, 0);
    while page < pages {
        let Some(region) = next_region(&mut probe, &mut std::iter::once(page), DISK) else {
            break;
        };
        let hits = match results {
            Results::FirstPages => 1,
            Results::Mislead { growths } if regions < growths => just_enough(&probe, &region),
            Results::Halves if page < pages / 2 => just_enough(&probe, &region),
            Results::Mislead { .. } | Results::Halves => 1,
            Results::EverySecond => even_pages(&region),
        };
        examine(&mut probe, &region, hits);
        cost += region.cost;
        found += hits;
        regions += 1;
        let end = region.runs.last().map_or(pages, |run| run.pages.end);
        page = match results {
            Results::EverySecond => end.next_multiple_of(2),
            _ => end,
        };
    }
    cost / (f64::from(found) * DISK.sequential as f64)
}

fn just_enough(probe: &Probe<RowPages>, region: &Region) -> u32 {
    let pages = region.len();
    let grows = |&results: &u32| probe.region_pages_after(pages, results) > probe.region_pages();
    (1..pages).find(grows).unwrap_or(pages)
}

fn even_pages(region: &Region) -> u32 {
    let runs = region.runs.iter().map(|run| &run.pages);
    runs.map(|run| run.end.div_ceil(2) - run.start.div_ceil(2))
        .sum()
}

/// The number of growths that misleads the selectivity-increase policy most, and the ratio.
fn most_misled(pages: u32) -> (u32, f64) {
    let of = |growths| {
        let results = Results::Mislead { growths };
        (
            growths,
            ratio(SmoothPolicy::SelectivityIncrease, None, pages, results),
        )
    };
    let all = (1..pages.ilog2()).map(of);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

/// Ratios over tables of each of [`SIZES`].
struct Ratios {
    greedy: Vec<f64>,
    misled: Vec<(u32, f64)>,
    halves: Vec<f64>,
    second: Vec<f64>,
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let elastic = |told, pages, results| ratio(SmoothPolicy::Elastic, told, pages, results);
    let over_sizes = |of: &dyn Fn(u32) -> f64| SIZES.map(of).to_vec();
    let ratios = Ratios {
        greedy: over_sizes(&|pages| ratio(SmoothPolicy::Greedy, None, pages, Results::FirstPages)),
        misled: SIZES.map(most_misled).to_vec(),
        halves: over_sizes(&|pages| elastic(None, pages, Results::Halves)),
        second: over_sizes(&|pages| elastic(None, pages, Results::EverySecond)),
    };
    let mut report = Report::new(NAME, seeds);
    let mut row = |label, paper, value| report.row(label, paper, Spread::of([value]));
    row(
        "greedy, first pages only, 1,000 pages",
        Some(110.0),
        ratios.greedy[1],
    );
    row(
        "greedy, first pages only, 10,000 pages",
        Some(760.0),
        ratios.greedy[2],
    );
    row(
        "selectivity increase, misled, 100,000 pages",
        Some(100.0),
        ratios.misled[3].1,
    );
    row(
        "growths that mislead it most",
        Some(8.0),
        ratios.misled[3].0.into(),
    );
    row(
        "elastic, dense half, 100 pages",
        Some(2.45),
        ratios.halves[0],
    );
    let many = elastic(None, 3_000_000, Results::Halves);
    row("elastic, dense half, 3,000,000 pages", Some(2.0001), many);
    let second = ratios.second[3];
    row("elastic, every second page", Some(11.0), second);
    row(
        "elastic, every second page, over a full scan",
        Some(5.5),
        second / 2.0,
    );
    let told = elastic(Some(DISK), 100_000, Results::EverySecond);
    row(
        "elastic that knows the device, every second page",
        None,
        told,
    );

    let formula = SIZES.map(|pages| competitive::greedy(DISK, pages.into()));
    report.claim(
        "greedy: the state machine's ratio is equation 31's (within 15 %)",
        ratios
            .greedy
            .iter()
            .zip(formula)
            .all(|(ours, paper)| (ours / paper - 1.0).abs() < 0.15),
        format!("{}; {}", listed(&ratios.greedy), listed(&formula)),
    );
    let misled: Vec<f64> = ratios.misled.iter().map(|&(_, ratio)| ratio).collect();
    report.claim(
        "greedy and selectivity increase have no bound: their ratios grow with the table",
        [&ratios.greedy, &misled]
            .iter()
            .all(|ratios| ratios.is_sorted_by(|a, b| a < b)),
        format!("{}; {}", listed(&ratios.greedy), listed(&misled)),
    );
    let worst = worst_elastic();
    report.claim(
        "elastic: 11 is a firm bound, over these and misleading distributions",
        worst <= 11.0,
        format!("{} at most", number(worst)),
    );
    report.claim(
        "elastic: every second page costs the same whatever the table's size (within 10 %)",
        ratios
            .second
            .iter()
            .all(|ratio| (ratio / second - 1.0).abs() < 0.1),
        listed(&ratios.second),
    );
    report.claim(
        "an elastic policy that knows what pages cost takes every second page for what it is: at most 2.1 times the oracle's price",
        told <= 2.1,
        number(told),
    );
    report.figure = Some(figure(&ratios, &misled));
    report
}

fn listed(ratios: &[f64]) -> String {
    let ratios: Vec<String> = ratios.iter().map(|&ratio| number(ratio)).collect();
    ratios.join(", ")
}

/// The elastic policy's worst ratio over all distributions.
fn worst_elastic() -> f64 {
    let fixed = [Results::FirstPages, Results::Halves, Results::EverySecond];
    let all = (1..12)
        .map(|growths| Results::Mislead { growths })
        .chain(fixed);
    let ratios = all.map(|results| ratio(SmoothPolicy::Elastic, None, 100_000, results));
    ratios.fold(0.0, f64::max)
}

/// Ratios over the size of the table, as Figures 10 and 12.
fn figure(ratios: &Ratios, misled: &[f64]) -> Figure {
    let series = |color: usize, name: &str, ratios: &[f64]| Series {
        name: name.to_owned(),
        color,
        mark: Mark::Line(
            SIZES
                .iter()
                .map(|&pages| pages.into())
                .zip(ratios.iter().copied())
                .collect(),
        ),
    };
    Figure {
        title: "Smooth scan where it is worst: random page 10, sequential page 1".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: "over an oracle that knows the pages".to_owned(),
            x: Axis::log("pages of the table"),
            y: Axis::log("price over the oracle's").within(1.0, 100_000.0),
            series: vec![
                series(0, POLICIES[0].0, &ratios.greedy),
                series(1, POLICIES[1].0, misled),
                series(2, "elastic, every second page", &ratios.second),
                series(3, "elastic, dense half", &ratios.halves),
            ],
        }],
    }
}
