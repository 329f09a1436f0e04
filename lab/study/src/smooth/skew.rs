//! Figure 20: the beginning of the table holds results in every page, the rest in few. What does a
//! scan read if the dense part misleads it?
//!
//! Two tables: the paper's, a tenth as large, and the one measured on the engine
//! (`docs/BENCHMARKS.md`), whose rest is 17 times as dense. Several regions may be under way: that
//! many are requested before the first of them is examined. The oracle reads the pages that hold
//! results in the table's order, and through gaps where that is cheaper than a jump. The policies
//! show the cost of regions alone: they never sample the index and never hand over. The engine's
//! scan does both (`operator.rs`), with as many regions under way as it chooses.

use std::collections::VecDeque;

use coscan_core::smooth::{PageCosts, SmoothPolicy};
use coscan_sim::Random;

use super::{DEVICES, Device, KINDS, eager, examine, next_region, operator, with_results};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "smooth-skew";

/// 16 MiB of pages of 8 KiB.
const REGION_PAGES_MAX: u32 = 2_048;
/// The numbers of regions under way.
const ON_THEIR_WAY: [usize; 3] = [1, 8, 32];

struct Table {
    name: &'static str,
    pages: u32,
    /// The number of first pages, all of which hold results.
    dense: u32,
    /// The number of pages with results in the rest, at random.
    sparse: u32,
}

const TABLES: [Table; 2] = [
    Table {
        name: "the paper's table",
        pages: 1_250_000,
        dense: 12_500,
        sparse: 1_500,
    },
    Table {
        name: "the small table",
        pages: 9_766,
        dense: 98,
        sparse: 199,
    },
];

/// The order in which the index names pages.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Table,
    /// The dense part in the table's order, the sparse part at random.
    SparseAtRandom,
    Random,
}

const ORDERS: [(&str, Order); 3] = [
    ("in order", Order::Table),
    ("sparse part at random", Order::SparseAtRandom),
    ("at random", Order::Random),
];

impl Table {
    /// The pages that hold results, in the order of the index.
    fn named(&self, order: Order, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let mut rest: Vec<u32> = (self.dense..self.pages).collect();
        random.shuffle(&mut rest);
        rest.truncate(self.sparse as usize);
        if order == Order::Table {
            rest.sort_unstable();
        }
        let mut named: Vec<u32> = (0..self.dense).chain(rest).collect();
        if order == Order::Random {
            random.shuffle(&mut named);
        }
        named
    }

    /// The number of pages read, and their price.
    fn scan(
        &self,
        kind: (&str, SmoothPolicy, bool),
        costs: PageCosts,
        on_their_way: usize,
        named: &[u32],
    ) -> (f64, f64) {
        let holds = self.holds(named);
        let told = kind.2.then_some(costs);
        let mut probe = eager(self.pages, kind.1, REGION_PAGES_MAX, told);
        let mut coming = VecDeque::new();
        let (mut pages, mut price) = (0, 0.0);
        let mut in_order = named.iter().copied();
        while let Some(region) = next_region(&mut probe, &mut in_order, costs) {
            pages += region.len();
            price += region.cost;
            coming.push_back(region);
            if coming.len() == on_their_way
                && let Some(region) = coming.pop_front()
            {
                examine(&mut probe, &region, with_results(region.pages(), &holds));
            }
        }
        (f64::from(pages), price)
    }

    /// Per page, whether it holds results.
    fn holds(&self, named: &[u32]) -> Vec<bool> {
        let mut holds = vec![false; self.pages as usize];
        for &page in named {
            holds[page as usize] = true;
        }
        holds
    }

    /// The rows that hold results, in the order of the index: all rows of a page of the dense part,
    /// one row of each other page.
    fn rows(&self, order: Order, named: &[u32], seed: u64) -> Vec<u64> {
        let mut rows: Vec<u64> = Vec::new();
        for &page in named {
            let all = operator::rows_of(page);
            if page < self.dense {
                rows.extend(all);
            } else {
                rows.push(all.start);
            }
        }
        if order == Order::Random {
            Random::new(!seed).shuffle(&mut rows);
        }
        rows
    }

    /// The number of pages that the engine's scan reads, and their price.
    fn operate(&self, costs: PageCosts, order: Order, named: &[u32], seed: u64) -> (f64, f64) {
        let rows = self.rows(order, named, seed);
        operator::scan(self.pages, &rows, &self.holds(named), costs)
    }

    /// The price for an oracle that knows the pages.
    fn oracle(costs: PageCosts, named: &[u32]) -> f64 {
        let mut pages = named.to_vec();
        pages.sort_unstable();
        let jump = costs.random - costs.sequential;
        let between =
            |pair: &[u32]| (u64::from(pair[1] - pair[0] - 1) * costs.sequential).min(jump);
        let gaps: u64 = pages.windows(2).map(between).sum();
        costs.of(pages.len() as f64, 1.0) + gaps as f64
    }
}

/// One policy on one device.
struct Case {
    table: &'static str,
    order: Order,
    device: &'static str,
    /// `None` for the engine's scan, which chooses the number itself.
    on_their_way: Option<usize>,
    kind: &'static str,
    /// Pages read divided by pages that hold results.
    pages: Spread,
    /// The price divided by the oracle's.
    price: Spread,
}

const SELECTIVITY_INCREASE: &str = KINDS[1].0;
const KNOWS: &str = KINDS[3].0;
const OPERATOR: &str = "as the engine runs it";

fn measure(seeds: Seeds) -> Vec<Case> {
    let mut cases = Vec::new();
    for table in TABLES {
        for (_, order) in ORDERS {
            let named: Vec<_> = seeds.iter().map(|seed| table.named(order, seed)).collect();
            // The order hardly matters to the other policies.
            let kinds = KINDS.iter().filter(|kind| order == Order::Table || kind.2);
            for &kind in kinds {
                for device in DEVICES {
                    for on_their_way in ON_THEIR_WAY {
                        let each = named.iter().map(|named| {
                            let (pages, price) =
                                table.scan(kind, device.costs, on_their_way, named);
                            let oracle = Table::oracle(device.costs, named);
                            (pages / named.len() as f64, price / oracle)
                        });
                        let (pages, prices): (Vec<f64>, Vec<f64>) = each.unzip();
                        cases.push(Case {
                            table: table.name,
                            order,
                            device: device.name,
                            on_their_way: Some(on_their_way),
                            kind: kind.0,
                            pages: Spread::of(pages),
                            price: Spread::of(prices),
                        });
                    }
                }
            }
        }
    }
    for table in TABLES {
        for (_, order) in ORDERS {
            for device in DEVICES {
                let each = seeds.iter().map(|seed| {
                    let named = table.named(order, seed);
                    let (pages, price) = table.operate(device.costs, order, &named, seed);
                    let oracle = Table::oracle(device.costs, &named);
                    (pages / named.len() as f64, price / oracle)
                });
                let (pages, prices): (Vec<f64>, Vec<f64>) = each.unzip();
                cases.push(Case {
                    table: table.name,
                    order,
                    device: device.name,
                    on_their_way: None,
                    kind: OPERATOR,
                    pages: Spread::of(pages),
                    price: Spread::of(prices),
                });
            }
        }
    }
    cases
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let cases = measure(seeds);
    for case in &cases {
        let order = ORDERS.iter().find(|order| order.1 == case.order);
        let on_their_way = case
            .on_their_way
            .map(|many| format!("{many} on their way, "));
        let label = format!(
            "{}, {}, {}, {}{}",
            case.table,
            order.map_or("", |order| order.0),
            case.device,
            on_their_way.unwrap_or_default(),
            case.kind
        );
        report.row(format!("{label}: pages"), None, case.pages);
        report.row(format!("{label}: price"), None, case.price);
    }
    claims(&mut report, &cases);
    report.figure = Some(figure(&cases));
    report
}

fn claims(report: &mut Report, cases: &[Case]) {
    // The largest mean of the elastic policy that knows the prices, where the dense part comes
    // first.
    let worst = |device: &str, tables: &[Table], of: fn(&Case) -> f64| {
        let of_policy = cases.iter().filter(|case| {
            case.kind == KNOWS
                && case.device == device
                && case.order != Order::Random
                && tables.iter().any(|table| table.name == case.table)
        });
        of_policy.map(of).fold(0.0, f64::max)
    };
    let [disk, flash, object_store] = DEVICES.map(|device| device.name);
    let pages = worst(flash, &TABLES, |case| case.pages.mean);
    report.claim(
        "flash: elastic that knows the device fetches at most 1.2 times the pages that hold results, however many regions are on their way",
        pages <= 1.2,
        format!("{} at most", number(pages)),
    );
    let pages = worst(disk, &TABLES[..1], |case| case.pages.mean);
    report.claim(
        "disk, the paper's table: 1.2 times as well",
        pages <= 1.2,
        format!("{} at most", number(pages)),
    );
    let price = worst(disk, &TABLES, |case| case.price.mean);
    report.claim(
        "disk: where pages in vain are cheap beside jumps it costs at most 1.5 times the oracle's price",
        price <= 1.5,
        format!("{} at most", number(price)),
    );
    let price = cases.iter().filter(|case| {
        case.kind == KNOWS && case.device == object_store && case.on_their_way == Some(1)
    });
    let price = price.map(|case| case.price.mean).fold(0.0, f64::max);
    report.claim(
        "object store: one region at a time, it costs at most 1.75 times the oracle's price in any order",
        price <= 1.75,
        format!("{} at most", number(price)),
    );
    let times = |table: &Table| {
        let fetched = |kind, on_their_way| {
            let mut found = cases.iter().filter(move |case| {
                case.kind == kind
                    && case.on_their_way == Some(on_their_way)
                    && case.table == table.name
                    && case.order == Order::Table
                    && case.device == flash
            });
            found.next().map_or(f64::NAN, |case| case.pages.mean)
        };
        ON_THEIR_WAY.map(|k| fetched(SELECTIVITY_INCREASE, k) / fetched(KNOWS, k))
    };
    let [papers, small] = [times(&TABLES[0]), times(&TABLES[1])];
    let all = papers.iter().chain(&small).map(|&times| number(times));
    report.claim(
        "flash: selectivity increase fetches many times as many pages: at least 50 times on the paper's table (56 there), 20 times on the small one",
        papers.iter().all(|&times| times >= 50.0) && small.iter().all(|&times| times >= 20.0),
        all.collect::<Vec<_>>().join(", "),
    );
    let of_engine = |devices: &[&str], of: fn(&Case) -> f64| {
        let of_engine = cases
            .iter()
            .filter(|case| case.kind == OPERATOR && devices.contains(&case.device));
        of_engine.map(of).fold(0.0, f64::max)
    };
    let pages = of_engine(&[disk, flash], |case| case.pages.mean);
    report.claim(
        "disk and flash: the engine's scan, which asks the index before its first region, fetches no page in vain, in any order",
        pages <= 1.0,
        format!("{} at most", number(pages)),
    );
    let price = of_engine(&[disk, flash, object_store], |case| case.price.mean);
    report.claim(
        "it costs at most 1.2 times the oracle's price on any device, in any order",
        price <= 1.2,
        format!("{} at most", number(price)),
    );
}

/// Pages read over the number of regions under way, where the index names pages in the table's
/// order.
fn figure(cases: &[Case]) -> Figure {
    let points = |table: &str, device: &str, kind: &str| {
        let of = cases.iter().filter(|case| {
            case.table == table
                && case.device == device
                && case.kind == kind
                && case.order == Order::Table
        });
        let ends = [ON_THEIR_WAY[0], ON_THEIR_WAY[ON_THEIR_WAY.len() - 1]];
        let points = of.flat_map(|case| {
            let at = match case.on_their_way {
                Some(many) => vec![many],
                None => ends.to_vec(),
            };
            at.into_iter().map(|many| (many as f64, case.pages.mean))
        });
        points.collect()
    };
    let panel = |table: &Table, device: &Device| Panel {
        title: format!("{}, {}", table.name, device.name),
        x: Axis::log("regions on their way"),
        y: Axis::log("pages read over pages with results").within(0.8, 200.0),
        series: KINDS
            .iter()
            .map(|kind| kind.0)
            .chain([OPERATOR])
            .enumerate()
            .map(|(color, kind)| Series {
                name: kind.to_owned(),
                color,
                mark: Mark::Line(points(table.name, device.name, kind)),
            })
            .collect(),
    };
    let of_table = |table| DEVICES.iter().map(move |device| panel(table, device));
    Figure {
        title: "Smooth scan after a dense beginning".to_owned(),
        columns: DEVICES.len(),
        panels: TABLES.iter().flat_map(of_table).collect(),
    }
}
