//! [SmoothScan18] with the state machine of the engine, over tables that consist only of pages with
//! and without results.

use coscan_core::Time;
use coscan_core::smooth::{
    AccessPath, Event, Examined, Job, JobId, PageCosts, PageLayout, PageRun, Pricing, Probe,
    ProbeOptions, ReadAhead, SmoothOptions, SmoothPolicy,
};

pub(crate) mod density;
mod operator;
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

/// The policies of the paper, which do not know the prices of pages, and the elastic one that does.
const KINDS: [(&str, SmoothPolicy, bool); 4] = [
    (POLICIES[0].0, POLICIES[0].1, false),
    (POLICIES[1].0, POLICIES[1].1, false),
    (POLICIES[2].0, POLICIES[2].1, false),
    ("elastic that knows the device", POLICIES[2].1, true),
];

/// Pages of one row each, in one chunk: an entry of the index names a page.
#[derive(Clone, Copy, Debug)]
struct RowPages(u32);

impl PageLayout for RowPages {
    fn page_count(&self) -> u32 {
        self.0
    }

    fn page_of(&self, position: u64) -> Option<u32> {
        let page = u32::try_from(position).ok()?;
        (page < self.0).then_some(page)
    }

    fn positions_of(&self, page: u32) -> std::ops::Range<u64> {
        u64::from(page)..u64::from(page) + 1
    }

    fn chunk_of(&self, _: u32) -> usize {
        0
    }
}

/// A smooth scan as in the paper: it morphs from the start, takes one index entry after the other,
/// reads one region per job, and never leaves the rest to a scan. `costs`: the prices that the scan
/// knows; `None` as in the paper.
fn eager(
    pages: u32,
    policy: SmoothPolicy,
    region_pages_max: u32,
    costs: Option<PageCosts>,
) -> Probe<RowPages> {
    let options = ProbeOptions {
        path: AccessPath::Smooth,
        smooth: SmoothOptions {
            policy,
            region_pages_max,
        },
        rows_first: 0,
        pricing: costs.map_or(Pricing::Unknown, Pricing::Known),
        take_over_pages: u32::MAX,
        entries_at_most: None,
        read_ahead: ReadAhead::SINGLE,
    };
    Probe::new(Time(0), RowPages(pages), options)
}

/// A region under way.
struct Region {
    job: JobId,
    runs: Vec<PageRun>,
    /// Its price.
    cost: f64,
}

impl Region {
    fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|run| run.pages.clone())
    }

    fn len(&self) -> u32 {
        length(&self.runs)
    }
}

/// The next region to read, where the index names the pages in `named`; `None` at their end.
fn next_region(
    probe: &mut Probe<RowPages>,
    named: &mut impl Iterator<Item = u32>,
    costs: PageCosts,
) -> Option<Region> {
    loop {
        match probe.poll_job() {
            Job::ReadEntries => {
                let entry = named.next().map(u64::from);
                let event = match &entry {
                    Some(position) => Event::EntriesRead {
                        positions: std::slice::from_ref(position),
                        before: 1,
                    },
                    None => Event::EntriesEnded,
                };
                probe.handle(Time(0), event);
            }
            Job::Regions { id, mut regions } => {
                let runs = regions.pop()?;
                let cost = price(&runs, costs);
                return Some(Region {
                    job: id,
                    runs,
                    cost,
                });
            }
            // Such scans have no other jobs.
            _ => return None,
        }
    }
}

/// Reports a region as examined.
fn examine(probe: &mut Probe<RowPages>, region: &Region, with_results: u32) {
    let examined = Examined {
        pages: region.len(),
        with_results,
        pruned: 0,
    };
    let regions = &[examined];
    let job = region.job;
    probe.handle(Time(0), Event::Examined { job, regions });
}

/// The price of pages that are read together: one jump, and one more for each gap unless reading
/// through the gap is cheaper.
fn price(runs: &[PageRun], costs: PageCosts) -> f64 {
    let gap = |pair: &[PageRun]| {
        let through = f64::from(pair[1].pages.start - pair[0].pages.end) * costs.sequential as f64;
        through.min((costs.random - costs.sequential) as f64)
    };
    let gaps: f64 = runs.windows(2).map(gap).sum();
    costs.of(length(runs).into(), 1.0) + gaps
}

fn length(runs: &[PageRun]) -> u32 {
    runs.iter().map(PageRun::len).sum()
}

/// The number of these pages that hold results.
fn with_results(pages: impl Iterator<Item = u32>, holds: &[bool]) -> u32 {
    let held = pages.filter(|page| holds[*page as usize]).count();
    u32::try_from(held).unwrap_or(u32::MAX)
}
