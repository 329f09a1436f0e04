//! How do the streams of an execution drive the probe that decides what is read next?
//!
//! All streams of an execution share one probe, the state machine `coscan_core::smooth::Probe`.
//! This code reads the index for the probe, compares keys with the bound, takes times, and counts
//! for EXPLAIN ANALYZE. The streams carry out the probe's other jobs, several at once, and report
//! what they found.
//! Not here: the decisions (the core), reading pages (`execution.rs`), rows (`rows.rs`).

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use coscan_core::Time;
use coscan_core::smooth::{
    AccessPath, Event, Examined, FetchedRows, HandOver, Job, JobId, PageBytes, PageLayout, PageRun,
    Pricing, Probe, ProbeOptions, ReadAhead, Sample, SmoothOptions, TableSize, take_over_pages,
};
use coscan_storage::{PageMap, TablePage};
use datafusion::error::Result;
use datafusion::physical_plan::metrics;

use super::metrics::SmoothMetrics;
use super::plan::SmoothPlan;
use super::prices::Prices;
use crate::index::Cursor;

/// Work for a stream.
pub(crate) enum Work {
    /// Examine all rows of these pages: regions, each of runs of pages. If there is a job id,
    /// report what the regions contained.
    Regions(Vec<Vec<PageRun>>, Option<JobId>),
    /// Examine the rows at these positions of these pages, and no others.
    Rows(Vec<(u32, Vec<u64>)>),
    /// No work is left with keys before the bound.
    Bound,
    /// The index has no work left: a scan takes over the rest.
    TakeOver(HandOver),
    /// No work is left.
    End,
}

/// The probe of one execution, and the index that it reads.
pub(crate) struct Probing {
    probe: Probe<TimedMap>,
    /// `None` once the cursor has ended or the index has failed.
    cursor: Option<Cursor>,
    /// The keys of the latest entries.
    keys: Option<ArrayRef>,
    /// Entries from this key on must wait: an array of bounds, and a position in it.
    bound: Option<(ArrayRef, usize)>,
    /// The order in which entries come.
    order: SortOptions,
    /// The origin of the probe's times.
    begun: Instant,
    /// The number of the probe's seen entries that the metrics already contain.
    entries_seen: u64,
    metrics: SmoothMetrics,
}

impl Probing {
    /// A probe that has read nothing yet.
    pub(crate) fn new(
        plan: &SmoothPlan,
        cursor: Cursor,
        map: &Arc<PageMap>,
        chunks: usize,
        prices: Prices,
        metrics: SmoothMetrics,
    ) -> Self {
        let Prices {
            page_bytes,
            page_alone_bytes,
            believed,
        } = prices;
        let settings = &plan.covered.settings;
        let size = TableSize {
            pages: map.len(),
            rows: map.pages().iter().map(TablePage::rows).sum(),
            page_bytes,
        };
        let region_pages_max = settings.smooth_region_max / page_bytes;
        let region_pages_max = u32::try_from(region_pages_max).unwrap_or(u32::MAX).max(1);
        let page_bytes = PageBytes {
            together: page_bytes,
            alone: page_alone_bytes,
        };
        let estimate = settings.smooth_estimate;
        let sla_ns = settings.smooth_sla_ms as f64 * 1e6;
        let trigger = settings.smooth_trigger;
        let options = ProbeOptions {
            path: plan.path,
            smooth: SmoothOptions {
                policy: settings.smooth_policy,
                region_pages_max,
            },
            rows_first: match plan.path {
                AccessPath::Switch => estimate,
                _ => trigger.rows_first(estimate, sla_ns, size, believed),
            },
            pricing: Pricing::Measured(believed),
            take_over_pages: take_over_pages(size.pages, chunks, region_pages_max),
            entries_at_most: plan.may_look_first().then(|| cursor.entries_at_most()),
            read_ahead: read_ahead(plan, page_bytes),
        };
        let layout = TimedMap {
            map: Arc::clone(map),
            checks: metrics.page_checks.clone(),
        };
        metrics.index_leaves.add(cursor.leaves());
        Self {
            probe: Probe::new(Time(0), layout, options),
            cursor: Some(cursor),
            keys: None,
            bound: None,
            order: plan.key_order(),
            begun: Instant::now(),
            entries_seen: 0,
            metrics,
        }
    }

    /// The next work. Cancel safe: the probe repeats a request to the index until it is answered.
    ///
    /// Index errors are not returned: the take-over scan reads the remaining pages.
    pub(crate) async fn next_work(&mut self) -> Work {
        loop {
            let job = self.probe.poll_job();
            self.note_entries_seen();
            let asked = match job {
                Job::ReadEntries => self.read_entries().await,
                Job::SampleEntries { leaves } => self.sample_entries(leaves).await,
                Job::Regions { id, regions } => {
                    for runs in &regions {
                        let size = runs.iter().map(PageRun::len).sum();
                        self.metrics.region_sizes.add(size);
                    }
                    return Work::Regions(regions, Some(id));
                }
                Job::Pages(runs) => return Work::Regions(vec![runs], None),
                Job::Rows(rows) => {
                    let fetched = rows.iter().map(|(_, rows)| rows.len()).sum();
                    self.metrics.rows_fetched.add(fetched);
                    return Work::Rows(rows);
                }
                Job::Bound => return Work::Bound,
                Job::HandOver(left) => {
                    self.cursor = None;
                    self.metrics.pages_taken_over.add(left.pages());
                    return Work::TakeOver(left);
                }
                Job::End => return Work::End,
            };
            if let Err(error) = asked {
                if let Some(cursor) = &self.cursor {
                    cursor.index().set_broken(&error.strip_backtrace());
                }
                self.tell(Event::IndexFailed);
            }
        }
    }

    /// Reads the next entries and passes them to the probe.
    async fn read_entries(&mut self) -> Result<()> {
        let entries = match &mut self.cursor {
            Some(cursor) => cursor.next().await?,
            None => None,
        };
        let Some(entries) = entries else {
            self.cursor = None;
            self.keys = None;
            self.tell(Event::EntriesEnded);
            return Ok(());
        };
        self.metrics.index_entries.add(entries.positions.len());
        let before = self.before_bound(&entries.keys)?;
        self.keys = Some(entries.keys);
        self.tell(Event::EntriesRead {
            positions: entries.positions.values(),
            before,
        });
        Ok(())
    }

    /// Samples a few leaves and passes the positions in them to the probe.
    async fn sample_entries(&mut self, leaves: usize) -> Result<()> {
        let sample = match &mut self.cursor {
            Some(cursor) => cursor.sample(leaves).await?,
            None => None,
        };
        let Some(sample) = sample else {
            self.tell(Event::EntriesSampled(None));
            return Ok(());
        };
        let positions: Vec<u64> = sample.positions().collect();
        self.tell(Event::EntriesSampled(Some(Sample {
            positions: &positions,
            scale: sample.scale,
            took_ns: sample.took.as_nanos() as f64,
        })));
        Ok(())
    }

    /// The first keys of ranges of entries, in the order of the scan. The first two ranges have
    /// one leaf each; each later range has twice as many leaves as the previous one, up to a
    /// number that divides the index into about [`RANGES`]. `None` if these keys are unknown.
    pub(crate) fn bounds(&self) -> Option<ArrayRef> {
        let cursor = self.cursor.as_ref()?;
        let most = cursor.leaves().div_ceil(RANGES).max(RANGE_LEAVES_MIN);
        let (mut firsts, mut at, mut step) = (Vec::new(), 1, 1);
        while at < cursor.leaves() {
            firsts.push(at);
            at += step;
            step = (step * 2).min(most);
        }
        cursor.first_keys(&firsts)
    }

    /// Limits the probe to entries with keys before this bound; `None` is no limit.
    ///
    /// # Errors
    /// If keys cannot be compared: a bug.
    pub(crate) fn go_on_to(&mut self, bound: Option<(ArrayRef, usize)>) -> Result<()> {
        self.bound = bound;
        if let Some(keys) = &self.keys {
            let before = self.before_bound(keys)?;
            self.tell(Event::BoundMoved { before });
        }
        Ok(())
    }

    /// The number of these keys that are before the bound.
    fn before_bound(&self, keys: &ArrayRef) -> Result<usize> {
        let Some((bounds, at)) = &self.bound else {
            return Ok(keys.len());
        };
        let compare = make_comparator(keys, bounds, self.order)?;
        let all: Vec<usize> = (0..keys.len()).collect();
        Ok(all.partition_point(|key| compare(*key, *at) == Ordering::Less))
    }

    /// Reports to the probe what the regions of one job contained.
    pub(crate) fn examined(&mut self, job: JobId, regions: &[Examined]) {
        self.tell(Event::Examined { job, regions });
        let region_pages = self.probe.region_pages() as usize;
        self.metrics.region_pages_max.set_max(region_pages);
    }

    /// The rows that were fetched one by one.
    pub(crate) fn fetched(&self) -> Arc<FetchedRows> {
        self.probe.fetched()
    }

    /// The most concurrent jobs, over all streams.
    pub(crate) fn jobs_max(&self) -> usize {
        self.probe.jobs_max()
    }

    fn tell(&mut self, event: Event<'_>) {
        let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.probe.handle(Time(now), event);
    }

    fn note_entries_seen(&mut self) {
        let seen = self.probe.entries_seen();
        let more = usize::try_from(seen - self.entries_seen).unwrap_or(usize::MAX);
        self.metrics.entries_seen.add(more);
        self.entries_seen = seen;
    }
}

/// How much is outstanding at once. Rows that are fetched one by one share pages that are kept.
fn read_ahead(plan: &SmoothPlan, page_bytes: PageBytes) -> ReadAhead {
    let read_ahead = ReadAhead::new(page_bytes, plan.covered.resources.memory().limit());
    match plan.covered.settings.index_cache_bytes() {
        0 => read_ahead,
        _ => read_ahead.with_shared_pages(),
    }
}

/// The table's pages; `checks` measures the time for finding the pages of entries.
struct TimedMap {
    map: Arc<PageMap>,
    checks: metrics::Time,
}

impl PageLayout for TimedMap {
    fn page_count(&self) -> u32 {
        self.map.len()
    }

    fn page_of(&self, position: u64) -> Option<u32> {
        self.map.page_of(position)
    }

    fn positions_of(&self, page: u32) -> Range<u64> {
        self.map.positions_of(page)
    }

    fn chunk_of(&self, page: u32) -> usize {
        self.map.chunk_of(page)
    }

    fn check_entries<R>(&self, check: impl FnOnce() -> R) -> R {
        let _timer = self.checks.timer();
        check()
    }
}

/// The approximate number of key ranges in which an ordered scan returns its rows: few enough that
/// ranges receive rows in long runs, many enough that a range is small beside the available
/// memory.
const RANGES: usize = 64;
/// The fewest leaves of a range, except for the first ranges: below 32,768 rows the overhead of a
/// range is too large.
const RANGE_LEAVES_MIN: usize = 8;
