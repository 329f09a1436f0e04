//! Which pages are read next?
//!
//! One for all streams of an execution: it goes through the entries of the index and says what to
//! read, as a [`Job`]; streams carry jobs out, several at once, and tell what they found. The state
//! machine (`coscan_core::smooth`) decides for the access path `smooth`; the other paths are a few
//! lines each.
//! Once a smooth scan's region is a quarter of a chunk, or the index fails, a cooperative scan
//! takes over what is left (`takeover.rs`); an elastic one thinks about that at the beginning too,
//! if the index may name most pages. First a few leaves of the rest of the index are looked at. If
//! knowing all of it promises to save more than going through it takes, the whole rest is gone
//! through, and only what it names is read (`rest.rs`).
//! Not here: reading (`execution.rs`), rows (`rows.rs`).
//! P1: each page is in one region, or left to the takeover, or holds no row that the index names.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::make_comparator;
use arrow::array::{Array, ArrayRef};
use arrow::compute::SortOptions;
use coscan_core::smooth::{
    AccessPath, CostModel, DeviceCosts, Mode, PageCosts, Probe, SeenRows, SmoothOptions,
    SmoothScan, SmoothTrigger,
};
use coscan_storage::{PageMap, PageRun, TablePage};
use datafusion::error::Result;

use super::execution::Prices;
use super::fetched_rows::FetchedRows;
use super::metrics::SmoothMetrics;
use super::plan::SmoothPlan;
use super::read_ahead::ReadAhead;
use super::rest::{Named, Rest, named_runs, saving};
use crate::index::{Cursor, Entries};
use crate::session::Settings;

/// Something to read.
pub(crate) enum Job {
    /// All rows of these pages: regions, each of runs of pages.
    Regions(Vec<Vec<PageRun>>),
    /// The rows at these positions of these pages, and no others.
    Rows(Vec<(u32, Vec<u64>)>),
    /// Nothing more with keys before the bound.
    Bound,
    /// Nothing more by the index: a scan takes over all but these pages and rows.
    TakeOver(Left),
    /// Nothing more at all.
    End,
}

/// What a region brought.
#[derive(Clone, Copy, Default)]
pub(crate) struct Examined {
    /// Pages that were looked at.
    pub(crate) pages: u32,
    /// Those of them that held results.
    pub(crate) with_results: u32,
    /// Pages that statistics ruled out.
    pub(crate) pruned: u32,
}

/// What a cooperative scan that takes over must not read again.
pub(crate) struct Left {
    /// Per page: it was read, or the index names no row of it.
    pub(crate) done: Vec<bool>,
    /// Rows that were fetched one by one.
    pub(crate) fetched: Arc<FetchedRows>,
}

/// Goes through the index.
pub(crate) struct Probing {
    path: AccessPath,
    /// None once it has ended or failed.
    cursor: Option<Cursor>,
    /// The entries at hand, and how many of them are done.
    entries: Option<(Entries, usize)>,
    smooth: SmoothScan,
    /// The rows of the pages that `smooth` gave out.
    seen_rows: SeenRows,
    costs: DeviceCosts,
    last_done: Instant,
    /// Regions of so many pages leave the rest to a cooperative scan; at least 2.
    take_over_pages: u32,
    /// Rows that `switch` still fetches one by one.
    switch_rows_left: u64,
    /// The rows fetched one by one (Tuple ID cache).
    fetched: Arc<FetchedRows>,
    /// Rows taken from the index to be fetched, by page, that are in no job yet: a call that is
    /// dropped loses none of them.
    gathered: BTreeMap<u32, Vec<u64>>,
    /// How many.
    gathered_rows: usize,
    /// Once all pages are known that the index names: those that are still to be read by
    /// themselves, ascending.
    sorted: Option<VecDeque<PageRun>>,
    /// Until then, while the rest of the index is gone through.
    named: Option<Named>,
    /// Per page: the scan that follows `sorted` has nothing to do with it.
    left_to_scan: Option<Vec<bool>>,
    over: bool,
    /// Whether the index is asked before the first region how many pages it names.
    looks_first: bool,
    /// Entries from this key on wait: the bounds, and which of them.
    bound: Option<(ArrayRef, usize)>,
    /// How many of the entries at hand are before the bound.
    before: usize,
    /// Positions taken from the entries at hand, descending.
    ahead: Vec<u64>,
    /// Regions of one job: more with every job that was looked at, so that there is evidence before
    /// much is on its way.
    regions_max: usize,
    read_ahead: ReadAhead,
    /// In which order entries come.
    order: SortOptions,
    metrics: SmoothMetrics,
}

/// A scan takes over from regions of this part of a chunk on, as a divisor. It reads whole chunks,
/// so what regions have read of them is read again: 10 % of a full scan of 58 chunks when regions
/// had to be as large as a chunk, on a disk held to 200 MB/s.
const TAKE_OVER_PART: u64 = 4;
/// Leaves that are looked at before a scan takes over: 32,768 entries, which miss few chunks that
/// hold a share of the results worth mentioning.
pub(super) const SAMPLED_LEAVES: usize = 8;

impl Probing {
    /// Nothing read yet.
    pub(crate) fn new(
        plan: &SmoothPlan,
        cursor: Cursor,
        map: &PageMap,
        chunks: usize,
        prices: Prices,
        metrics: SmoothMetrics,
    ) -> Self {
        let Prices {
            page_bytes,
            believed,
            ..
        } = prices;
        let pages = u64::from(map.len()).max(1);
        let settings = &plan.covered.settings;
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
        let options = SmoothOptions {
            policy: settings.smooth_policy,
            index_rows: index_rows(settings, map, page_bytes, believed),
            region_pages_max: narrow(settings.smooth_region_max / page_bytes),
        };
        let region_pages_max = options.region_pages_max;
        let mut smooth = SmoothScan::new(map.len(), options);
        smooth.set_costs(believed);
        metrics.index_leaves.add(cursor.leaves());
        // More entries than pages may name most of them, and there is no need to find that out by
        // reading.
        let looks_first = plan.may_look_first() && cursor.entries_at_most() >= pages;
        Self {
            path: plan.path,
            cursor: Some(cursor),
            entries: None,
            smooth,
            seen_rows: SeenRows::new(map.pages().iter().map(TablePage::positions)),
            costs: DeviceCosts::new(believed.random, believed.sequential),
            last_done: Instant::now(),
            take_over_pages: narrow(pages / (chunks as u64).max(1) / TAKE_OVER_PART)
                .min(region_pages_max)
                .max(2),
            switch_rows_left: settings.smooth_estimate,
            fetched: Arc::default(),
            gathered: BTreeMap::new(),
            gathered_rows: 0,
            sorted: None,
            named: None,
            left_to_scan: None,
            over: false,
            looks_first,
            bound: None,
            before: 0,
            ahead: Vec::new(),
            regions_max: 1,
            read_ahead: ReadAhead::new(prices, plan.covered.engine.memory().limit()),
            order: plan.key_order(),
            metrics,
        }
    }

    /// What to read next. Cancel safe.
    ///
    /// # Errors
    /// Index errors are not returned: the take-over scan reads the remaining pages.
    pub(crate) async fn next_job(&mut self, map: &PageMap) -> Job {
        match self.try_next_job(map).await {
            Ok(job) => job,
            Err(error) => {
                if let Some(cursor) = &self.cursor {
                    cursor.index().set_broken(&error.strip_backtrace());
                }
                // They were not fetched, so the scan gives them.
                self.gathered.clear();
                self.gathered_rows = 0;
                self.take_over(self.read())
            }
        }
    }

    async fn try_next_job(&mut self, map: &PageMap) -> Result<Job> {
        if self.over {
            return Ok(Job::End);
        }
        match self.path {
            AccessPath::Sort => self.next_sorted(map).await,
            AccessPath::Index => self.next_rows(map, u64::MAX).await,
            AccessPath::Switch if self.switch_rows_left == 0 => Ok(self.take_over(self.read())),
            AccessPath::Switch => self.next_rows(map, self.switch_rows_left).await,
            AccessPath::Full | AccessPath::Smooth if self.sorted.is_some() => {
                Ok(self.next_of_rest(map))
            }
            AccessPath::Full | AccessPath::Smooth => self.next_smooth(map).await,
        }
    }

    async fn next_smooth(&mut self, map: &PageMap) -> Result<Job> {
        if self.smooth.mode() == Mode::Index {
            return self.next_smooth_rows(map).await;
        }
        if !self.gathered.is_empty() {
            return Ok(self.rows());
        }
        if std::mem::take(&mut self.looks_first) || self.named.is_some() {
            return self.look_ahead_and_take_over(map).await;
        }
        let mut regions: Vec<Vec<PageRun>> = Vec::new();
        let (mut pages, pages_max) = (0, self.read_ahead.pages_apart());
        loop {
            if self.smooth.region_pages_unbounded() >= self.take_over_pages {
                // What was begun is done first; then this is asked again.
                if regions.is_empty() {
                    return self.look_ahead_and_take_over(map).await;
                }
                return Ok(Job::Regions(regions));
            }
            let Some(next) = self.peek_position(map, regions.last()).await? else {
                break;
            };
            let Some(page) = map.page_of(next) else {
                continue;
            };
            match self.smooth.probe(page) {
                Probe::Seen => self.metrics.entries_seen.add(1),
                Probe::Region(runs) => {
                    for page in runs.iter().cloned().flatten() {
                        self.seen_rows.take(&map.page(page).positions());
                    }
                    let runs: Vec<PageRun> =
                        runs.into_iter().flat_map(|run| map.runs(run)).collect();
                    let size: u32 = runs.iter().map(|run| run.pages.end - run.pages.start).sum();
                    self.metrics.region_sizes.add(size);
                    pages += size as usize;
                    regions.push(runs);
                }
                // The state machine asks for none after the first region; if it did, the row is
                // given by itself.
                Probe::Row => self.gather(page, next),
            }
            if regions.len() >= self.regions_max || pages >= pages_max {
                break;
            }
        }
        if regions.is_empty() {
            return Ok(self.rows());
        }
        Ok(Job::Regions(regions))
    }

    async fn next_smooth_rows(&mut self, map: &PageMap) -> Result<Job> {
        while self.gathered_rows < self.read_ahead.pages_apart()
            && self.smooth.mode() == Mode::Index
        {
            let Some(position) = self.next_position().await? else {
                break;
            };
            let Some(page) = map.page_of(position) else {
                continue;
            };
            if self.smooth.probe(page) == Probe::Row {
                self.gather(page, position);
            }
        }
        Ok(self.rows())
    }

    /// The next position, in the table's order as far as entries are at hand; none if it is not in
    /// the chunk in which these pages begin.
    async fn peek_position(
        &mut self,
        map: &PageMap,
        together_with: Option<&Vec<PageRun>>,
    ) -> Result<Option<u64>> {
        self.sort_ahead(map);
        if let Some(runs) = together_with
            && let Some(next) = self.ahead.last()
            && let Some(page) = map.page_of(*next)
            && runs
                .first()
                .is_some_and(|run| run.chunk != map.page(page).chunk)
        {
            return Ok(None);
        }
        if together_with.is_some() && self.ahead.is_empty() {
            return Ok(None);
        }
        if let Some(next) = self.ahead.pop() {
            return Ok(Some(next));
        }
        let next = self.next_position().await?;
        // What else came with it is put in order at the next call.
        Ok(next)
    }

    /// Takes the entries at hand, as far as they are before the bound, to be gone through in the
    /// table's order: pages that lie close are read together. Entries of pages that were read are
    /// left out at once; a page that is read meanwhile is found by its probe.
    fn sort_ahead(&mut self, map: &PageMap) {
        if !self.ahead.is_empty() {
            return;
        }
        if let Some((entries, done)) = &mut self.entries
            && *done < self.before
        {
            let rest = *done..self.before;
            *done = self.before;
            let positions = &entries.positions.values()[rest];
            let timer = self.metrics.page_checks.timer();
            let is_new = |position: &u64| {
                let page = || map.page_of(*position);
                !self.seen_rows.contains(*position)
                    && page().is_some_and(|page| !self.smooth.has_seen(page))
            };
            self.ahead.extend(positions.iter().copied().filter(is_new));
            drop(timer);
            let seen = positions.len() - self.ahead.len();
            self.metrics.entries_seen.add(seen);
            self.ahead.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    async fn next_rows(&mut self, map: &PageMap, at_most: u64) -> Result<Job> {
        let at_most = usize::try_from(at_most)
            .unwrap_or(usize::MAX)
            .min(self.read_ahead.pages_apart());
        while self.gathered_rows < at_most
            && let Some(position) = self.next_position().await?
        {
            if let Some(page) = map.page_of(position) {
                self.gather(page, position);
            }
        }
        let rows = self.gathered_rows as u64;
        self.switch_rows_left = self.switch_rows_left.saturating_sub(rows);
        Ok(self.rows())
    }

    fn gather(&mut self, page: u32, position: u64) {
        self.gathered.entry(page).or_default().push(position);
        self.gathered_rows += 1;
    }

    /// The rows gathered, as a job.
    fn rows(&mut self) -> Job {
        let rows = std::mem::take(&mut self.gathered);
        self.gathered_rows = 0;
        if rows.is_empty() {
            if self.at_bound() {
                return Job::Bound;
            }
            self.over = true;
            return Job::End;
        }
        let fetched = Arc::make_mut(&mut self.fetched);
        for position in rows.values().flatten() {
            fetched.insert(*position);
            self.metrics.rows_fetched.add(1);
        }
        Job::Rows(rows.into_iter().collect())
    }

    async fn next_sorted(&mut self, map: &PageMap) -> Result<Job> {
        if self.sorted.is_none() {
            let named = self.named(map).await?;
            let runs = named_runs(map, |page| named[page as usize]);
            self.sorted = Some(runs.into());
        }
        Ok(self.next_run().unwrap_or_else(|| {
            self.over = true;
            Job::End
        }))
    }

    /// Pages of the next runs of one chunk.
    fn next_run(&mut self) -> Option<Job> {
        let runs = self.sorted.as_mut()?;
        let mut job: Vec<PageRun> = Vec::new();
        let mut room = self.read_ahead.sorted_pages();
        while room > 0
            && let Some(next) = runs.front_mut()
            && job.last().is_none_or(|last| last.chunk == next.chunk)
        {
            let part = next.take_first(room);
            room -= part.pages.end - part.pages.start;
            job.push(part);
            if next.pages.is_empty() {
                runs.pop_front();
            }
        }
        (!job.is_empty()).then(|| Job::Regions(vec![job]))
    }

    /// First keys of ranges of entries, in the order of the scan: of the first leaves one each,
    /// then of twice as many, up to a number that divides the index into about [`RANGES`]. `None`
    /// if the index does not tell.
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

    /// From now on only entries with keys before this bound are gone through; all if there is none.
    pub(crate) fn go_on_to(&mut self, bound: Option<(ArrayRef, usize)>) -> Result<()> {
        self.bound = bound;
        self.measure_before()
    }

    fn measure_before(&mut self) -> Result<()> {
        let Some((entries, _)) = &self.entries else {
            return Ok(());
        };
        self.before = match &self.bound {
            Some((bounds, at)) => {
                let compare = make_comparator(&entries.keys, bounds, self.order)?;
                let keys: Vec<usize> = (0..entries.keys.len()).collect();
                keys.partition_point(|key| compare(*key, *at) == Ordering::Less)
            }
            None => entries.positions.len(),
        };
        Ok(())
    }

    /// Whether entries are left, but none before the bound.
    fn at_bound(&self) -> bool {
        self.entries.as_ref().is_some_and(|(entries, done)| {
            *done >= self.before && self.before < entries.positions.len()
        })
    }

    /// Regions of one job were looked at.
    pub(crate) fn examined(&mut self, regions: &[Examined]) {
        let took = self.last_done.elapsed();
        self.last_done = Instant::now();
        self.regions_max = (self.regions_max * 2).min(self.read_ahead.pages_apart());
        let read = regions.iter().filter(|region| region.pages > 0).count();
        let each = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / read.max(1) as u64;
        for region in regions {
            self.smooth.pruned(region.pruned);
            if region.pages > 0 {
                self.costs.measured(region.pages, each);
                self.smooth.set_costs(self.costs.costs());
            }
            self.smooth.examined(region.pages, region.with_results);
        }
        self.metrics
            .region_pages_max
            .set_max(self.smooth.region_pages() as usize);
    }

    /// The rows that were given one by one.
    pub(crate) fn fetched(&self) -> Arc<FetchedRows> {
        Arc::clone(&self.fetched)
    }

    /// How many jobs are on their way at once, over all streams.
    pub(crate) fn jobs_max(&self) -> usize {
        match self.sorted {
            Some(_) => self.read_ahead.sorted_jobs(),
            None => self.read_ahead.region_jobs(self.smooth.region_pages()),
        }
    }

    /// Before a scan takes over: would it read much that the index does not name? A few leaves,
    /// spread over what is left of the index, tell whether it is worth while to go through all of
    /// it.
    async fn look_ahead_and_take_over(&mut self, map: &PageMap) -> Result<Job> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(self.take_over(self.read()));
        };
        let costs = self.costs.costs();
        if self.named.is_none()
            && let Some(sample) = cursor.sample(SAMPLED_LEAVES).await?
        {
            let took = sample.took.as_nanos() as f64;
            let is_read = |page| self.smooth.has_seen(page);
            let saved = saving(map, is_read, sample.positions(), sample.scale, costs);
            if saved < took * sample.scale {
                return Ok(self.take_over(self.read()));
            }
        }
        let named = self.named(map).await?;
        let mut done = self.read();
        for (done, named) in done.iter_mut().zip(named) {
            *done |= !named;
        }
        let Rest { runs, done } = Rest::new(map, done, costs);
        self.sorted = Some(runs.into());
        self.left_to_scan = Some(done);
        Ok(self.next_of_rest(map))
    }

    /// The next pages that are read by themselves; after them the scan takes over, if anything is
    /// left to it.
    fn next_of_rest(&mut self, map: &PageMap) -> Job {
        if let Some(job) = self.next_run() {
            return job;
        }
        let done = self
            .left_to_scan
            .take()
            .unwrap_or_else(|| vec![true; map.len() as usize]);
        self.take_over(done)
    }

    /// Per page, whether it was read.
    fn read(&self) -> Vec<bool> {
        let pages = 0..self.smooth.pages();
        pages.map(|page| self.smooth.has_seen(page)).collect()
    }

    /// Everything but these pages.
    fn take_over(&mut self, done: Vec<bool>) -> Job {
        self.over = true;
        self.cursor = None;
        let left = done.iter().filter(|done| !**done).count();
        self.metrics.pages_taken_over.add(left);
        Job::TakeOver(Left {
            done,
            fetched: self.fetched(),
        })
    }

    /// Per page, whether the entries that are left name a row of it. Cancel safe: another call goes
    /// on where this was.
    async fn named(&mut self, map: &PageMap) -> Result<Vec<bool>> {
        self.go_on_to(None)?;
        loop {
            let named = self.named.get_or_insert_with(|| Named::new(map));
            named.add(map, &self.ahead);
            self.ahead.clear();
            if let Some((entries, done)) = self.entries.take() {
                named.add(map, &entries.positions.values()[done..]);
            }
            if !self.next_entries().await? {
                let named = self.named.take();
                return Ok(named.map(Named::into_pages).unwrap_or_default());
            }
        }
    }

    async fn next_position(&mut self) -> Result<Option<u64>> {
        if let Some(position) = self.ahead.pop() {
            return Ok(Some(position));
        }
        loop {
            if let Some((entries, done)) = &mut self.entries {
                if *done < self.before {
                    let position = entries.positions.value(*done);
                    *done += 1;
                    return Ok(Some(position));
                }
                if self.at_bound() {
                    return Ok(None);
                }
                self.entries = None;
            }
            if !self.next_entries().await? {
                return Ok(None);
            }
        }
    }

    /// Has the next entries at hand; false if there are no more.
    async fn next_entries(&mut self) -> Result<bool> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(false);
        };
        match cursor.next().await? {
            Some(entries) => {
                self.metrics.index_entries.add(entries.positions.len());
                self.entries = Some((entries, 0));
                self.measure_before()?;
            }
            None => self.cursor = None,
        }
        Ok(self.cursor.is_some())
    }
}

/// How many rows are fetched one by one before a smooth scan morphs.
fn index_rows(settings: &Settings, map: &PageMap, page_bytes: u64, believed: PageCosts) -> u64 {
    match settings.smooth_trigger {
        SmoothTrigger::Eager => 0,
        SmoothTrigger::Optimizer => settings.smooth_estimate,
        SmoothTrigger::Sla => {
            let pages = u64::from(map.len()).max(1);
            let rows: u64 = (0..map.len()).map(|page| map.page(page).rows()).sum();
            let model = CostModel {
                rows,
                row_bytes: (page_bytes * pages / rows.max(1)).max(1),
                page_bytes,
                key_bytes: KEY_BYTES,
                random: believed.random as f64,
                sequential: believed.sequential as f64,
                cpu: 0.0,
            };
            model.rows_within(settings.smooth_sla_ms as f64 * 1e6)
        }
    }
}

/// Ranges of keys in which an ordered scan gives its rows, about: few enough that rows go to them
/// in long runs, many enough that one is small beside what memory there is.
const RANGES: usize = 64;
/// Leaves of a range, but for the first ranges: below 32,768 rows a range is not worth its
/// overhead.
const RANGE_LEAVES_MIN: usize = 8;
/// Of an entry of the index, about: the model wants to know, and it hardly matters.
const KEY_BYTES: u64 = 8;
