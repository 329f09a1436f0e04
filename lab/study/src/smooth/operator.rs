//! What does the engine's index scan read?
//!
//! The state machine with the engine's default options, over pages of 8 KiB, chunks of 16 MiB and
//! an index with leaves of 4,096 entries. Prices are those of the table's pages alone, as for the
//! oracle; the scan gets the index's time and uses it in its decisions.

use std::collections::VecDeque;
use std::ops::Range;

use coscan_core::Time;
use coscan_core::smooth::{
    AccessPath, Event, Examined, HandOver, Job, PageBytes, PageCosts, PageLayout, PageRun, Pricing,
    Probe, ProbeOptions, ReadAhead, Sample, SmoothOptions, SmoothPolicy, sampled_leaves,
    take_over_pages,
};

use super::{length, price, with_results};

/// Rows per page: pages of 8 KiB, as in the paper, and rows of 64 bytes.
const PAGE_ROWS: u64 = 120;
const PAGE_BYTES: u64 = 8 << 10;
/// 16 MiB, the default of `coscan.chunk_bytes` and of `coscan.smooth_region_max`.
const CHUNK_PAGES: u32 = 2_048;
const MEMORY_BYTES: u64 = 1 << 30;
/// Entries per leaf; a leaf counts as the pages that 16 bytes per entry take.
const LEAF_ENTRIES: usize = 4_096;
const LEAF_PAGES: f64 = 8.0;
/// Prices are given as times in nanoseconds; this is the time of a page in sequence.
const UNIT_NS: f64 = 1_000.0;

/// The rows of a page.
pub(super) fn rows_of(page: u32) -> Range<u64> {
    u64::from(page) * PAGE_ROWS..u64::from(page + 1) * PAGE_ROWS
}

/// A table with this many pages.
struct Table(u32);

impl PageLayout for Table {
    fn page_count(&self) -> u32 {
        self.0
    }

    fn page_of(&self, position: u64) -> Option<u32> {
        let page = u32::try_from(position / PAGE_ROWS).ok()?;
        (page < self.0).then_some(page)
    }

    fn positions_of(&self, page: u32) -> Range<u64> {
        rows_of(page)
    }

    fn chunk_of(&self, page: u32) -> usize {
        (page / CHUNK_PAGES) as usize
    }
}

/// Reads the pages that the index names, in its order: returns their number and their price.
/// `holds`: per page, whether it holds results.
pub(super) fn scan(pages: u32, entries: &[u64], holds: &[bool], costs: PageCosts) -> (f64, f64) {
    let mut probe = Probe::new(Time(0), Table(pages), options(pages, entries.len(), costs));
    let mut leaves = entries.chunks(LEAF_ENTRIES);
    let (mut pages_read, mut paid) = (0.0, 0.0);
    let mut coming = VecDeque::new();
    loop {
        if coming.len() >= probe.jobs_max()
            && let Some((job, regions)) = coming.pop_front()
        {
            let regions: Vec<Examined> = regions;
            probe.handle(
                time(paid),
                Event::Examined {
                    job,
                    regions: &regions,
                },
            );
            continue;
        }
        match probe.poll_job() {
            Job::ReadEntries => {
                let event = leaves.next().map_or(Event::EntriesEnded, |positions| {
                    let before = positions.len();
                    Event::EntriesRead { positions, before }
                });
                probe.handle(time(paid), event);
            }
            Job::SampleEntries { leaves: wanted } => {
                let (sampled, scale) = sample(leaves.clone(), wanted);
                let took = sampled.len().div_ceil(LEAF_ENTRIES) as f64 * costs.of(LEAF_PAGES, 1.0);
                let sample = scale.map(|scale| Sample {
                    positions: &sampled,
                    scale,
                    took_ns: took * UNIT_NS,
                });
                probe.handle(time(paid), Event::EntriesSampled(sample));
            }
            Job::Regions { id, regions } => {
                for runs in &regions {
                    pages_read += f64::from(length(runs));
                    paid += price(runs, costs);
                }
                let examined = regions.iter().map(|runs| examined(runs, holds));
                coming.push_back((id, examined.collect()));
            }
            Job::Pages(runs) => {
                pages_read += f64::from(length(&runs));
                paid += price(&runs, costs);
            }
            Job::HandOver(left) => {
                for chunk in scanned(pages, &left) {
                    pages_read += f64::from(chunk.len());
                    paid += price(&[chunk], costs);
                }
            }
            // This scan fetches no rows, and has no bound.
            Job::Rows(_) | Job::Bound | Job::End => return (pages_read, paid),
        }
    }
}

fn options(pages: u32, entries: usize, costs: PageCosts) -> ProbeOptions {
    let page_bytes = PageBytes {
        together: PAGE_BYTES,
        alone: PAGE_BYTES,
    };
    let chunks = pages.div_ceil(CHUNK_PAGES) as usize;
    let PageCosts { random, sequential } = costs;
    ProbeOptions {
        path: AccessPath::Smooth,
        smooth: SmoothOptions {
            policy: SmoothPolicy::Elastic,
            region_pages_max: CHUNK_PAGES,
        },
        rows_first: 0,
        pricing: Pricing::Measured(PageCosts {
            random: random * 1_000,
            sequential: sequential * 1_000,
        }),
        take_over_pages: take_over_pages(pages, chunks, CHUNK_PAGES),
        entries_at_most: Some(entries as u64),
        read_ahead: ReadAhead::new(page_bytes, MEMORY_BYTES),
    }
}

fn time(paid: f64) -> Time {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A float cast saturates.
    Time((paid * UNIT_NS) as u64)
}

/// Evenly spread leaves of those that are left, and the number of leaves per sampled leaf.
fn sample<'a>(left: impl Iterator<Item = &'a [u64]>, wanted: usize) -> (Vec<u64>, Option<f64>) {
    let left: Vec<&[u64]> = left.collect();
    let Some(sampled) = sampled_leaves(left.len(), wanted) else {
        return (Vec::new(), None);
    };
    let positions = sampled.flat_map(|at| left[at]).copied().collect();
    (positions, Some(left.len() as f64 / wanted as f64))
}

fn examined(runs: &[PageRun], holds: &[bool]) -> Examined {
    let pages = runs.iter().flat_map(|run| run.pages.clone());
    Examined {
        pages: length(runs),
        with_results: with_results(pages, holds),
        pruned: 0,
    }
}

/// The chunks that a scan reads for the rest.
fn scanned(pages: u32, left: &HandOver) -> Vec<PageRun> {
    let wanted = |run: &PageRun| run.pages.clone().any(|page| !left.done[page as usize]);
    Table(pages).runs(0..pages).filter(wanted).collect()
}
