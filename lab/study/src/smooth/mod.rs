//! [SmoothScan18] with the state machine that the engine will run, over tables that are nothing but
//! pages with results and without.

use std::ops::Range;

use coscan_core::smooth::{PageCosts, Probe, SmoothOptions, SmoothPolicy, SmoothScan};

pub(crate) mod density;
pub(crate) mod skew;
pub(crate) mod worst;

/// The paper's hard disk.
const DISK: PageCosts = PageCosts {
    random: 10,
    sequential: 1,
};

const POLICIES: [(&str, SmoothPolicy); 3] = [
    ("greedy", SmoothPolicy::Greedy),
    ("selectivity increase", SmoothPolicy::SelectivityIncrease),
    ("elastic", SmoothPolicy::Elastic),
];

struct Device {
    name: &'static str,
    costs: PageCosts,
}

const DEVICES: [Device; 3] = [
    Device {
        name: "disk",
        costs: DISK,
    },
    Device {
        name: "flash",
        costs: PageCosts {
            random: 2,
            sequential: 1,
        },
    },
    Device {
        name: "object store",
        costs: PageCosts {
            random: 300,
            sequential: 1,
        },
    },
];

/// The policies of the paper, which know nothing of the device, and the elastic one that does.
const KINDS: [(&str, SmoothPolicy, bool); 4] = [
    (POLICIES[0].0, POLICIES[0].1, false),
    (POLICIES[1].0, POLICIES[1].1, false),
    (POLICIES[2].0, POLICIES[2].1, false),
    ("elastic that knows the device", POLICIES[2].1, true),
];

/// A scan that begins to morph at once. `costs`: what it is told of the device; the paper's are
/// told nothing.
fn eager(
    pages: u32,
    policy: SmoothPolicy,
    region_pages_max: u32,
    costs: Option<PageCosts>,
) -> SmoothScan {
    let options = SmoothOptions {
        policy,
        index_rows: 0,
        region_pages_max,
    };
    let mut scan = SmoothScan::new(pages, options);
    if let Some(costs) = costs {
        scan.set_costs(costs);
    }
    scan
}

/// Reads what the scan wants when the index names `page`: the runs of pages and their price. Each
/// region is a jump, and so is a gap of pages seen already, unless reading through it is cheaper.
fn read(scan: &mut SmoothScan, page: u32, costs: PageCosts) -> Option<(Vec<Range<u32>>, f64)> {
    let Probe::Region(runs) = scan.probe(page) else {
        return None;
    };
    let gap = |pair: &[Range<u32>]| {
        let through = f64::from(pair[1].start - pair[0].end) * costs.sequential as f64;
        through.min((costs.random - costs.sequential) as f64)
    };
    let gaps: f64 = runs.windows(2).map(gap).sum();
    let cost = costs.of(length(&runs).into(), 1.0) + gaps;
    Some((runs, cost))
}

/// Reads and examines, with nothing else on its way. `results` says in how many pages of a region
/// there are results.
fn step(
    scan: &mut SmoothScan,
    page: u32,
    costs: PageCosts,
    results: impl FnOnce(&SmoothScan, &[Range<u32>]) -> u32,
) -> Option<Step> {
    let (runs, cost) = read(scan, page, costs)?;
    let results = results(scan, &runs);
    scan.examined(length(&runs), results);
    Some(Step {
        end: runs.last()?.end,
        results,
        cost,
    })
}

/// Pages of a region.
fn length(runs: &[Range<u32>]) -> u32 {
    runs.iter().map(|run| run.end - run.start).sum()
}

/// A region that was read.
struct Step {
    end: u32,
    results: u32,
    cost: f64,
}
