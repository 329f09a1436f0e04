//! Scanning a table by an index: what is read next?
//!
//! An index names rows, key by key. An access path turns these into reads: row by row (`index`),
//! all pages in the table's order once all are known (`sort`), row by row until there are more
//! than estimated (`switch`), or by regions that grow and shrink (`smooth`). Each path is a walk
//! through the phases below; none knows the keys, the device or the values of rows. The driver
//! carries out the jobs of [`Probe::poll_job`], several at once, and reports the results to
//! [`Probe::handle`]: the engine with real reads, the simulator with modelled ones.
//!
//! ```text
//! index, switch   Rows ─ index ended → LastRows → Over
//!                  └ switch: as many as were estimated → HandingOver
//! sort            Collecting ─ index ended → Known → Over
//! smooth          Rows ─ trigger → Morphing ─ index ended → Over
//!                                   └ regions are large → Weighing ─ not worth it → HandingOver
//!                                                          └ Collecting → Known → HandingOver
//! any             index failed → HandingOver → Over
//! ```
//! Once the region of a smooth scan is a quarter of a chunk, a cooperative scan takes over the
//! rest. If the index may name most pages, the smooth scan considers that at the beginning too.
//! First it examines a few leaves of the rest of the index. If knowing the whole rest promises to
//! save more than reading it takes, the whole rest is read, and in each chunk the cheaper of its
//! named pages and of the whole chunk is read (`rest.rs`).
//! Not here: the pages of a region (`scan.rs`), the index and its keys, reading, and which rows of
//! a page are in the answer (the driver).
//! Bounds: the entries that were read last; one bit per page, one bit and four bytes per block of
//! rows; two bytes per row fetched alone.
//!
//! SMOOTH-I3: each row that the index names is in one place: fetched alone, in a page of one job,
//! or in a page that is handed over. (Pages that are examined later skip rows that were fetched
//! alone: [`Probe::fetched`].)
//! SMOOTH-I4: entries are consumed once: at [`Job::Bound`] all entries before the bound are in
//! jobs, at [`Job::End`] all entries of the index are.
//! SMOOTH-I5: when the index fails, exactly the pages that are in no job are handed over.
//! SMOOTH-I6: a job is examined once, with the pages that were issued.
//! SMOOTH-I7: after [`Job::HandOver`] and [`Job::End`] the only job is [`Job::End`].
//! Source: [SmoothScan18 §3, §4, §7.7].

mod check;
mod entries;
mod job;
mod known;
mod options;
mod read_ahead;
mod regions;
mod rest;
mod rows;

pub use job::{Event, Examined, HandOver, Job, JobId, Sample};
pub use options::{Pricing, ProbeOptions, TableSize, take_over_pages};
pub use read_ahead::{PageBytes, ReadAhead, pages_bytes_max};

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{AccessPath, FetchedRows, PageLayout, PageRun, SeenRows, SmoothScan};
use crate::Time;
use entries::{Entries, Next};
use known::{AfterCollecting, AfterKnown};
use options::Prices;
use rest::Named;
use rows::{AfterRows, Gathered};

/// Leaves that are sampled before a scan takes over: 32,768 entries, which miss few chunks that
/// hold a notable share of the results.
pub const SAMPLED_LEAVES: usize = 8;

/// With fewer leaves left than this many times the sample, no sample is taken: reading the rest
/// costs little more.
const SAMPLE_OF_MIN: usize = 4;

/// The leaves of an evenly spread sample of `wanted` of the `left` leaves; `None` if too few are
/// left.
#[must_use]
pub fn sampled_leaves(left: usize, wanted: usize) -> Option<impl Iterator<Item = usize>> {
    let enough = wanted > 0 && left >= SAMPLE_OF_MIN * wanted;
    enough.then(|| (0..left).step_by(left / wanted).take(wanted))
}

/// A scan of a table by an index.
///
/// ```
/// use coscan_core::Time;
/// use coscan_core::smooth::*;
/// // 1,000 pages of 10 rows, a chunk of all of them.
/// struct Table;
/// impl PageLayout for Table {
///     fn page_count(&self) -> u32 { 1_000 }
///     fn page_of(&self, position: u64) -> Option<u32> { u32::try_from(position / 10).ok() }
///     fn positions_of(&self, page: u32) -> std::ops::Range<u64> {
///         u64::from(page) * 10..u64::from(page + 1) * 10
///     }
///     fn chunk_of(&self, _: u32) -> usize { 0 }
/// }
/// let options = ProbeOptions {
///     path: AccessPath::Smooth,
///     smooth: SmoothOptions { policy: SmoothPolicy::Elastic, region_pages_max: 64 },
///     rows_first: 0,
///     pricing: Pricing::Unknown,
///     take_over_pages: u32::MAX,
///     entries_at_most: None,
///     read_ahead: ReadAhead::SINGLE,
/// };
/// let mut probe = Probe::new(Time(0), Table, options);
/// assert!(matches!(probe.poll_job(), Job::ReadEntries));
/// probe.handle(Time(1), Event::EntriesRead { positions: &[401, 399], before: 2 });
/// let Job::Regions { id, regions } = probe.poll_job() else { panic!() };
/// assert_eq!(regions, [[PageRun { chunk: 0, pages: 40..41 }]]);
/// let read = Examined { pages: 1, with_results: 1, pruned: 0 };
/// probe.handle(Time(2), Event::Examined { job: id, regions: &[read] });
/// // The page held results, so regions have two pages now, of which 40 is read already.
/// let Job::Regions { regions, .. } = probe.poll_job() else { panic!() };
/// assert_eq!(regions, [[PageRun { chunk: 0, pages: 38..40 }]]);
/// assert!(matches!(probe.poll_job(), Job::ReadEntries));
/// probe.handle(Time(3), Event::EntriesEnded);
/// assert!(matches!(probe.poll_job(), Job::End));
/// ```
#[derive(Clone, Debug)]
pub struct Probe<L> {
    layout: L,
    options: ProbeOptions,
    phase: Phase,
    /// The entries that were read last.
    entries: Entries,
    /// The pages in regions, and the size of the next region.
    smooth: SmoothScan,
    /// The rows of the pages in the regions of `smooth`.
    seen_rows: SeenRows,
    prices: Prices,
    /// When regions were last examined.
    examined_at: Time,
    /// The rows fetched one by one (Tuple ID cache).
    fetched: Arc<FetchedRows>,
    /// Jobs that have not been examined: the number of pages of each of their regions.
    coming: BTreeMap<JobId, Vec<u32>>,
    jobs: u64,
    /// The number of pages in all regions.
    pages_given: u64,
    /// Entries whose page was in a region already.
    entries_seen: u64,
}

/// The phase of a probe.
#[derive(Clone, Debug)]
enum Phase {
    /// Rows are fetched one by one; `left` rows remain.
    Rows {
        gathered: Gathered,
        left: u64,
        then: AfterRows,
    },
    /// The index has ended; the last rows remain to be fetched.
    LastRows(Gathered),
    /// Regions are read around rows.
    Morphing {
        /// Positions taken from the entries, descending.
        ahead: Vec<u64>,
        /// The most regions of one job. It grows with every examined job, so that evidence arrives
        /// before many regions are outstanding.
        regions_max: usize,
    },
    /// Decides whether a scan that takes over would read many pages that the index does not name.
    Weighing { ahead: Vec<u64> },
    /// The rest of the index is being read.
    Collecting { named: Named, then: AfterCollecting },
    /// The known pages are read, in the table's order.
    Known {
        runs: VecDeque<PageRun>,
        then: AfterKnown,
    },
    /// A scan takes over; it skips these pages.
    HandingOver(Vec<bool>),
    /// The probe has ended.
    Over,
}

impl<L: PageLayout> Probe<L> {
    /// A probe that has read nothing.
    #[must_use]
    pub fn new(now: Time, layout: L, options: ProbeOptions) -> Self {
        let prices = Prices::of(options.pricing);
        let mut smooth = SmoothScan::new(layout.page_count(), options.smooth);
        if let Some(costs) = prices.costs() {
            smooth.set_costs(costs);
        }
        let rows = |left, then| Phase::Rows {
            gathered: Gathered::default(),
            left,
            then,
        };
        // An index with more entries than the table has pages may name most pages; a sample shows
        // that before any page is read.
        let pages = u64::from(layout.page_count()).max(1);
        let asked_first = options.entries_at_most.is_some_and(|all| all >= pages);
        let phase = match options.path {
            AccessPath::Index => rows(u64::MAX, AfterRows::HandOver),
            AccessPath::Switch => rows(options.rows_first, AfterRows::HandOver),
            AccessPath::Sort => Phase::Collecting {
                named: Named::new(&layout),
                then: AfterCollecting::Read,
            },
            AccessPath::Full | AccessPath::Smooth if asked_first && options.rows_first == 0 => {
                Phase::Weighing { ahead: Vec::new() }
            }
            AccessPath::Full | AccessPath::Smooth => rows(options.rows_first, AfterRows::Morph),
        };
        Self {
            phase,
            entries: Entries::default(),
            seen_rows: SeenRows::of(&layout),
            smooth,
            prices,
            examined_at: now,
            fetched: Arc::default(),
            coming: BTreeMap::new(),
            jobs: 0,
            pages_given: 0,
            entries_seen: 0,
            layout,
            options,
        }
    }

    /// Records an event.
    ///
    /// # Panics
    /// No job asked for the event.
    pub fn handle(&mut self, now: Time, event: Event<'_>) {
        match event {
            Event::EntriesRead { positions, before } => self.entries_read(positions, before),
            Event::EntriesEnded => self.entries_ended(),
            Event::EntriesSampled(sample) => self.sampled(sample),
            Event::BoundMoved { before } => self.entries.move_bound(before),
            Event::Examined { job, regions } => self.examined(now, job, regions),
            Event::IndexFailed => self.failed(),
        }
    }

    /// The next job.
    pub fn poll_job(&mut self) -> Job {
        loop {
            let job = match &mut self.phase {
                Phase::Rows { .. } => self.next_rows(),
                Phase::LastRows(gathered) => {
                    let gathered = std::mem::take(gathered);
                    self.phase = Phase::Over;
                    (gathered.rows > 0).then(|| self.fetch(gathered))
                }
                Phase::Morphing { .. } => self.next_regions(),
                Phase::Weighing { .. } => Some(Job::SampleEntries {
                    leaves: SAMPLED_LEAVES,
                }),
                Phase::Collecting { .. } => Some(Job::ReadEntries),
                Phase::Known { .. } => self.next_pages(),
                Phase::HandingOver(done) => {
                    let done = std::mem::take(done);
                    self.phase = Phase::Over;
                    Some(Job::HandOver(HandOver {
                        done,
                        fetched: self.fetched(),
                    }))
                }
                Phase::Over => Some(Job::End),
            };
            if let Some(job) = job {
                return job;
            }
        }
    }

    /// The rows of all jobs that fetch rows one by one.
    #[must_use]
    pub fn fetched(&self) -> Arc<FetchedRows> {
        Arc::clone(&self.fetched)
    }

    /// The most outstanding jobs. At least 1.
    #[must_use]
    pub fn jobs_max(&self) -> usize {
        match self.phase {
            Phase::Known { .. } => self.options.read_ahead.sorted_jobs(),
            _ => {
                let region_pages = self.smooth.region_pages();
                self.options.read_ahead.region_jobs(region_pages)
            }
        }
    }

    /// The size of the next region, if it were requested now.
    #[must_use]
    pub fn region_pages(&self) -> u32 {
        self.smooth.region_pages()
    }

    /// The size that the next region would have if a region of `pages` pages with `with_results`
    /// result pages had been examined: for an adversary.
    #[must_use]
    pub fn region_pages_after(&self, pages: u32, with_results: u32) -> u32 {
        self.smooth.region_pages_after(pages, with_results)
    }

    /// The number of entries whose page was already in a region when they were examined.
    #[must_use]
    pub fn entries_seen(&self) -> u64 {
        self.entries_seen
    }

    fn entries_read(&mut self, positions: &[u64], before: usize) {
        self.assert_entries_wanted();
        match &mut self.phase {
            Phase::Rows { .. } => self.entries.read(positions, before),
            Phase::Morphing { ahead, .. } => {
                assert!(
                    ahead.is_empty(),
                    "SMOOTH-I4: entries are read when none is left"
                );
                self.entries.read(positions, before);
                // The first entry is examined alone, the others in the table's order.
                if let Next::Row(first) = self.entries.next() {
                    ahead.push(first);
                }
            }
            Phase::Collecting { named, .. } => named.add(&self.layout, positions),
            _ => {}
        }
    }

    fn entries_ended(&mut self) {
        self.assert_entries_wanted();
        self.phase = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Rows { gathered, .. } => Phase::LastRows(gathered),
            Phase::Morphing { .. } => Phase::Over,
            Phase::Collecting { named, then } => self.collected(&named.into_pages(), then),
            phase => phase,
        };
    }

    fn assert_entries_wanted(&self) {
        assert!(
            matches!(
                self.phase,
                Phase::Rows { .. } | Phase::Morphing { .. } | Phase::Collecting { .. }
            ),
            "SMOOTH-I4: entries are read when they are asked for"
        );
    }

    /// A scan takes over everything that is in no job, gathered rows included.
    fn failed(&mut self) {
        match self.phase {
            Phase::Rows { .. }
            | Phase::Morphing { .. }
            | Phase::Weighing { .. }
            | Phase::Collecting { .. } => self.phase = Phase::HandingOver(self.given()),
            // These phases do not need the index.
            Phase::LastRows(_) | Phase::Known { .. } | Phase::HandingOver(_) | Phase::Over => {}
        }
    }

    /// Per page, whether it was in a region.
    fn given(&self) -> Vec<bool> {
        let mut given = vec![true; self.layout.page_count() as usize];
        for page in self.smooth.unseen().flatten() {
            given[page as usize] = false;
        }
        given
    }
}
