//! Between index scan and full scan: the cost of a smooth scan where results lie at random, from
//! one page in ten thousand to all pages.
//!
//! The index names pages in random order (its key is independent of the rows' order). The smooth
//! scan is compared with a full scan, and with an index scan that reads no page twice: a perfect
//! optimizer would choose the better of these two if rows are wanted in key order.

use coscan_core::smooth::{PageCosts, SmoothPolicy};
use coscan_sim::Random;

use super::{DEVICES, Device, KINDS, eager, examine, next_region, with_results};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "smooth-density";

const PAGES: u32 = 50_000;
/// 16 MiB of pages of 8 KiB.
const REGION_PAGES_MAX: u32 = 2_048;
/// Pages with results per ten thousand pages.
const DENSITIES: [u32; 11] = [1, 10, 50, 100, 250, 500, 1_000, 2_000, 5_000, 7_500, 10_000];

/// A smooth scan's price divided by that of the better of full scan and index scan.
fn over_best(kind: (&str, SmoothPolicy, bool), costs: PageCosts, density: u32, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let holds: Vec<bool> = (0..PAGES)
        .map(|_| random.below(10_000) < density.into())
        .collect();
    let mut named: Vec<u32> = (0..PAGES).filter(|&page| holds[page as usize]).collect();
    random.shuffle(&mut named);
    let mut probe = eager(PAGES, kind.1, REGION_PAGES_MAX, kind.2.then_some(costs));
    let mut cost = 0.0;
    let mut pages = named.iter().copied();
    while let Some(region) = next_region(&mut probe, &mut pages, costs) {
        cost += region.cost;
        examine(&mut probe, &region, with_results(region.pages(), &holds));
    }
    let full = costs.of(PAGES.into(), 1.0);
    let index = costs.of(named.len() as f64, named.len() as f64);
    cost / full.min(index).max(1.0)
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut panels = Vec::new();
    for Device { name, costs } in DEVICES {
        let mut series = Vec::new();
        for (color, kind) in KINDS.into_iter().enumerate() {
            let of = |density| {
                Spread::of(
                    seeds
                        .iter()
                        .map(|seed| over_best(kind, costs, density, seed)),
                )
            };
            let spreads = DENSITIES.map(of);
            for (density, &spread) in DENSITIES.iter().zip(&spreads) {
                let percent = f64::from(*density) / 100.0;
                report.row(
                    format!("{name}, {}, {percent} % of the pages", kind.0),
                    None,
                    spread,
                );
            }
            let worst = spreads.iter().map(|spread| spread.p95).fold(0.0, f64::max);
            if kind.2 {
                report.claim(
                    format!("{name}: an elastic scan that knows what pages cost never costs over 1.75 times the better of full scan and index scan"),
                    worst <= 1.75,
                    format!("{} at most; without results, nothing", number(worst)),
                );
                let all = spreads[spreads.len() - 1].mean;
                report.claim(
                    format!("{name}: where every page holds results it costs at most 1.25 times a full scan"),
                    all <= 1.25,
                    number(all),
                );
            }
            series.push(Series {
                name: kind.0.to_owned(),
                color,
                mark: Mark::Line(
                    DENSITIES
                        .iter()
                        .zip(&spreads)
                        .map(|(&d, s)| (f64::from(d) / 100.0, s.mean))
                        .collect(),
                ),
            });
        }
        panels.push(Panel {
            title: format!(
                "{name}: a random page costs as much as {} in sequence",
                costs.random / costs.sequential
            ),
            x: Axis::log("pages with results (%)"),
            y: Axis::log("price over the better of full and index scan").within(0.8, 2_000.0),
            series,
        });
    }
    report.figure = Some(Figure {
        title: "Smooth scan between index scan and full scan".to_owned(),
        columns: 3,
        panels,
    });
    report
}
