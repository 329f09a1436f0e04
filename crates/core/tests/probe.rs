//! Promised: by every access path, over any layout, with jobs completed in any order and an index
//! that fails anywhere, each row of the answer is returned exactly once; and each path reads the
//! pages that it should and no others. The model is the answer itself: the rows that the index
//! names and that satisfy the rest of the query.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use coscan_core::Time;
use coscan_core::smooth::{
    AccessPath, Event, Examined, HandOver, Job, JobId, PageBytes, PageCosts, PageLayout, PageRun,
    Pricing, Probe, ProbeOptions, ReadAhead, Sample, SmoothOptions, SmoothPolicy,
};
use proptest::prelude::*;

mod draw;

use draw::Draw;

/// Pages with some rows each, with gaps between some of them.
#[derive(Clone, Debug)]
struct Table {
    pages: Vec<Range<u64>>,
    chunk_pages: usize,
}

impl Table {
    fn new(pages: u32, chunk_pages: usize, draw: &mut Draw) -> Self {
        let mut at = 0;
        let page = |_| {
            if draw.one_in(10) {
                at += 5;
            }
            let rows = at..at + 1 + draw.below(6);
            at = rows.end;
            rows
        };
        Self {
            pages: (0..pages).map(page).collect(),
            chunk_pages,
        }
    }
}

impl PageLayout for &Table {
    fn page_count(&self) -> u32 {
        u32::try_from(self.pages.len()).expect("few pages")
    }

    fn page_of(&self, position: u64) -> Option<u32> {
        let page = self.pages.partition_point(|rows| rows.end <= position);
        let rows = self.pages.get(page)?;
        rows.contains(&position).then_some(())?;
        u32::try_from(page).ok()
    }

    fn positions_of(&self, page: u32) -> Range<u64> {
        self.pages[page as usize].clone()
    }

    fn chunk_of(&self, page: u32) -> usize {
        page as usize / self.chunk_pages
    }
}

/// The entries of the index, and the rows of the answer.
struct Index {
    /// Positions in the order of their keys; some lie in no page.
    entries: Vec<u64>,
    /// The rows of the answer.
    wanted: BTreeSet<u64>,
    /// The entries per leaf.
    leaf: usize,
    /// The number of the request to the index that fails.
    fails_at: Option<usize>,
}

impl Index {
    fn new(
        table: &Table,
        share: u64,
        leaf: usize,
        fails_at: Option<usize>,
        draw: &mut Draw,
    ) -> Self {
        let end = table.pages.last().map_or(0, |rows| rows.end) + 10;
        let mut entries: Vec<u64> = (0..end).filter(|_| draw.below(100) < share).collect();
        for at in (1..entries.len()).rev() {
            // The order of the keys follows the rows in part.
            let reach = if draw.one_in(2) { at } else { at.min(4) };
            let other = at as u64 - draw.below(reach as u64);
            entries.swap(at, usize::try_from(other).expect("an index"));
        }
        let rows = entries
            .iter()
            .filter(|row| table.pages.iter().any(|page| page.contains(row)));
        let wanted = rows.copied().filter(|_| !draw.one_in(3)).collect();
        Self {
            entries,
            wanted,
            leaf,
            fails_at,
        }
    }
}

/// The outstanding jobs of a driver.
enum Coming {
    Rows(Vec<u64>),
    Regions(JobId, Vec<Vec<PageRun>>),
    Pages(Vec<PageRun>),
}

impl Coming {
    fn pages(&self) -> Vec<u32> {
        let runs: Vec<&PageRun> = match self {
            Self::Rows(_) => Vec::new(),
            Self::Regions(_, regions) => regions.iter().flatten().collect(),
            Self::Pages(runs) => runs.iter().collect(),
        };
        runs.into_iter().flat_map(|run| run.pages.clone()).collect()
    }
}

/// The result of running a probe.
#[derive(Default)]
struct Outcome {
    /// How often each row was returned.
    given: BTreeMap<u64, u32>,
    /// Rows of jobs of rows, in their order within each job.
    fetched: Vec<Vec<u64>>,
    /// Pages of regions.
    regions: Vec<u32>,
    /// Known pages.
    known: Vec<u32>,
    handed_over: Option<HandOver>,
    failed: bool,
}

/// Runs a probe to its end.
struct Driver<'a> {
    table: &'a Table,
    index: &'a Index,
    probe: Probe<&'a Table>,
    at: usize,
    questions: usize,
    /// The number of entries before the bound; ascends to the last.
    bounds: Vec<usize>,
    coming: Vec<Coming>,
    now: u64,
    outcome: Outcome,
}

impl Driver<'_> {
    fn tell(&mut self, event: Event<'_>) {
        self.now += 1_000;
        self.probe.handle(Time(self.now), event);
        self.probe.check();
    }

    fn fails(&mut self) -> bool {
        let fails = self.index.fails_at == Some(self.questions);
        self.questions += 1;
        if fails {
            self.outcome.failed = true;
            self.tell(Event::IndexFailed);
        }
        fails
    }

    fn bound(&self) -> usize {
        self.bounds.first().copied().unwrap_or(usize::MAX)
    }

    fn read_entries(&mut self) {
        if self.fails() {
            return;
        }
        let end = (self.at + self.index.leaf).min(self.index.entries.len());
        if self.at == end {
            return self.tell(Event::EntriesEnded);
        }
        let before = self.bound().clamp(self.at, end) - self.at;
        let positions = &self.index.entries[self.at..end];
        self.at = end;
        self.tell(Event::EntriesRead { positions, before });
    }

    fn sample(&mut self, draw: &mut Draw) {
        if self.fails() {
            return;
        }
        let rest = &self.index.entries[self.at..];
        let sample = Sample {
            positions: &rest[..rest.len().min(5)],
            scale: 1.0 + draw.below(10) as f64,
            took_ns: draw.below(2_000) as f64,
        };
        let sample = (!draw.one_in(4)).then_some(sample);
        self.tell(Event::EntriesSampled(sample));
    }

    fn give(&mut self, rows: impl Iterator<Item = u64>) {
        for row in rows.filter(|row| self.index.wanted.contains(row)) {
            *self.outcome.given.entry(row).or_default() += 1;
        }
    }

    /// The rows of a page, without rows that were fetched alone.
    fn rows_of(&self, page: u32) -> Vec<u64> {
        let fetched = self.probe.fetched();
        let rows = self.table.positions_of(page);
        rows.filter(|row| !fetched.contains(*row)).collect()
    }

    fn finish(&mut self, at: usize, draw: &mut Draw) {
        let done = self.coming.remove(at);
        for page in done.pages() {
            self.give(self.rows_of(page).into_iter());
        }
        match done {
            Coming::Rows(rows) => self.give(rows.into_iter()),
            Coming::Regions(job, regions) => {
                let examine = |region: &Vec<PageRun>| {
                    let mut examined = Examined::default();
                    for page in region.iter().flat_map(|run| run.pages.clone()) {
                        let mut rows = self.table.positions_of(page);
                        let holds = rows.any(|row| self.index.wanted.contains(&row));
                        // Statistics rule out some of the pages without results.
                        if holds || !draw.one_in(3) {
                            examined.pages += 1;
                            examined.with_results += u32::from(holds);
                        } else {
                            examined.pruned += 1;
                        }
                    }
                    examined
                };
                let regions: Vec<Examined> = regions.iter().map(examine).collect();
                self.tell(Event::Examined {
                    job,
                    regions: &regions,
                });
            }
            Coming::Pages(_) => {}
        }
    }

    /// SMOOTH-I4: each row of the answer among the first `entries` entries is returned or in a job.
    fn complete_to(&self, entries: usize) -> bool {
        let mut pages = BTreeSet::new();
        let mut rows = BTreeSet::new();
        for coming in &self.coming {
            pages.extend(coming.pages());
            if let Coming::Rows(positions) = coming {
                rows.extend(positions.iter().copied());
            }
        }
        let is_there = |row: &&u64| {
            let page = self.table.page_of(**row);
            self.outcome.given.contains_key(row)
                || rows.contains(row)
                || page.is_some_and(|page| pages.contains(&page))
        };
        let before = &self.index.entries[..entries.min(self.at)];
        let mut wanted = before.iter().filter(|row| self.index.wanted.contains(row));
        wanted.all(|row| is_there(&row))
    }

    fn run(mut self, on_their_way: usize, draw: &mut Draw) -> Outcome {
        loop {
            if !self.coming.is_empty() && (self.coming.len() >= on_their_way || draw.one_in(3)) {
                let at = usize::try_from(draw.below(self.coming.len() as u64)).expect("an index");
                self.finish(at, draw);
                continue;
            }
            assert!(self.probe.jobs_max() >= 1);
            let job = self.probe.poll_job();
            self.probe.check();
            match job {
                Job::ReadEntries => self.read_entries(),
                Job::SampleEntries { leaves } => {
                    assert!(leaves > 0);
                    self.sample(draw);
                }
                Job::Rows(rows) => {
                    assert!(rows.iter().all(|(page, rows)| {
                        rows.iter()
                            .all(|row| self.table.positions_of(*page).contains(row))
                    }));
                    assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
                    let rows: Vec<u64> = rows.into_iter().flat_map(|(_, rows)| rows).collect();
                    assert!(!rows.is_empty());
                    self.outcome.fetched.push(rows.clone());
                    self.coming.push(Coming::Rows(rows));
                }
                Job::Regions { id, regions } => {
                    assert!(regions.iter().all(|runs| !runs.is_empty()));
                    let coming = Coming::Regions(id, regions);
                    self.outcome.regions.extend(coming.pages());
                    self.coming.push(coming);
                }
                Job::Pages(runs) => {
                    assert!(runs.iter().all(|run| run.chunk == runs[0].chunk));
                    let coming = Coming::Pages(runs);
                    self.outcome.known.extend(coming.pages());
                    self.coming.push(coming);
                }
                Job::Bound => {
                    let bound = self.bound();
                    assert!(bound < self.at && self.complete_to(bound), "SMOOTH-I4");
                    self.bounds.remove(0);
                    // The index of the entry among those that were read last.
                    let last = self.at - (self.at - 1) % self.index.leaf - 1;
                    let before = self.bound().clamp(last, self.at) - last;
                    self.tell(Event::BoundMoved { before });
                }
                Job::HandOver(left) => {
                    for page in 0..self.table.page_count() {
                        if !left.done[page as usize] {
                            let rows = self.table.positions_of(page);
                            self.give(rows.filter(|row| !left.fetched.contains(*row)));
                        }
                    }
                    assert!(
                        self.outcome.handed_over.replace(left).is_none(),
                        "SMOOTH-I7"
                    );
                }
                Job::End => {
                    assert!(self.outcome.handed_over.is_some() || self.complete_to(usize::MAX));
                    break;
                }
            }
        }
        while !self.coming.is_empty() {
            self.finish(0, draw);
            assert!(matches!(self.probe.poll_job(), Job::End), "SMOOTH-I7");
        }
        self.outcome
    }
}

fn path() -> impl Strategy<Value = AccessPath> {
    prop::sample::select(AccessPath::ALL.to_vec())
}

fn policy() -> impl Strategy<Value = SmoothPolicy> {
    prop::sample::select(SmoothPolicy::ALL.to_vec())
}

fn pricing() -> impl Strategy<Value = Pricing> {
    let costs = (1u64..300, 1u64..5).prop_map(|(random, sequential)| PageCosts {
        random: random.max(sequential) * 100,
        sequential: sequential * 100,
    });
    prop_oneof![
        Just(Pricing::Unknown),
        costs.clone().prop_map(Pricing::Known),
        costs.prop_map(Pricing::Measured),
    ]
}

fn options() -> impl Strategy<Value = ProbeOptions> {
    let of_smooth = (policy(), 1u32..200, prop_oneof![2u32..20, Just(u32::MAX)]);
    let rows_first = prop_oneof![Just(0), 1u64..60];
    let entries_at_most = prop::option::of(0u64..300);
    let memory = (prop_oneof![Just(0), 100u64..100_000], any::<bool>());
    (
        path(),
        of_smooth,
        rows_first,
        pricing(),
        entries_at_most,
        memory,
    )
        .prop_map(
            |(
                path,
                (policy, region_pages_max, take_over_pages),
                rows_first,
                pricing,
                entries_at_most,
                (memory, rows_share_pages),
            )| {
                let page_bytes = PageBytes {
                    together: 10,
                    alone: 20,
                };
                let read_ahead = ReadAhead::new(page_bytes, memory);
                ProbeOptions {
                    path,
                    smooth: SmoothOptions {
                        policy,
                        region_pages_max,
                    },
                    rows_first,
                    pricing,
                    take_over_pages,
                    entries_at_most,
                    read_ahead: if rows_share_pages {
                        read_ahead.with_shared_pages()
                    } else {
                        read_ahead
                    },
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn each_row_of_the_answer_is_returned_once(
        pages in 1u32..200,
        chunk_pages in 1usize..60,
        share in prop_oneof![Just(100u64), 0u64..100],
        leaf in 1usize..50,
        options in options(),
        fails_at in prop::option::of(0usize..30),
        bounds in prop::collection::btree_set(0usize..600, 0..4),
        on_their_way in 1usize..8,
        seed in any::<u64>(),
    ) {
        let mut draw = Draw(seed);
        let table = Table::new(pages, chunk_pages, &mut draw);
        let index = Index::new(&table, share, leaf, fails_at, &mut draw);
        let driver = Driver {
            table: &table,
            index: &index,
            probe: Probe::new(Time(0), &table, options),
            at: 0,
            questions: 0,
            bounds: bounds.into_iter().collect(),
            coming: Vec::new(),
            now: 0,
            outcome: Outcome::default(),
        };
        let outcome = driver.run(on_their_way, &mut draw);
        let expected: BTreeMap<u64, u32> = index.wanted.iter().map(|row| (*row, 1)).collect();
        prop_assert_eq!(&outcome.given, &expected, "SMOOTH-I3");
        let in_table = |row: &u64| (&table).page_of(*row).is_some();
        let named: Vec<u64> = index.entries.iter().copied().filter(in_table).collect();
        check_path(&table, &named, options, &outcome)?;
    }
}

/// The pages that a path reads, and those that it leaves to a scan.
fn check_path(
    table: &Table,
    named: &[u64],
    options: ProbeOptions,
    outcome: &Outcome,
) -> Result<(), TestCaseError> {
    let fetched: Vec<u64> = outcome.fetched.iter().flatten().copied().collect();
    let pages = |rows: &[u64]| -> BTreeSet<u32> {
        rows.iter().filter_map(|row| table.page_of(*row)).collect()
    };
    let left: BTreeSet<u32> = match &outcome.handed_over {
        Some(left) => (0..table.page_count())
            .filter(|page| !left.done[*page as usize])
            .collect(),
        None => BTreeSet::new(),
    };
    let all: BTreeSet<u32> = (0..table.page_count()).collect();
    let regions: BTreeSet<u32> = outcome.regions.iter().copied().collect();
    prop_assert_eq!(regions.len(), outcome.regions.len(), "SMOOTH-I1");
    let known: BTreeSet<u32> = outcome.known.iter().copied().collect();
    prop_assert!(outcome.known.is_sorted_by(|a, b| a < b));
    prop_assert!(
        regions.is_disjoint(&known) && left.is_disjoint(&regions) && left.is_disjoint(&known),
        "SMOOTH-I3"
    );
    if outcome.failed {
        let unread: BTreeSet<u32> = all.difference(&regions).copied().collect();
        prop_assert_eq!(&left, &unread, "SMOOTH-I5");
        prop_assert!(known.is_empty());
    }
    // Rows come in the order of the index; within each job by page.
    let mut at = 0;
    for job in &outcome.fetched {
        let expected: BTreeSet<u64> = named[at..at + job.len()].iter().copied().collect();
        prop_assert_eq!(&expected, &job.iter().copied().collect());
        prop_assert!(job.len() <= options.read_ahead.rows());
        prop_assert!(pages(job).len() <= options.read_ahead.pages_apart());
        at += job.len();
    }
    match options.path {
        AccessPath::Index if !outcome.failed => {
            prop_assert_eq!(fetched.len(), named.len());
            prop_assert!(regions.is_empty() && known.is_empty() && outcome.handed_over.is_none());
        }
        AccessPath::Sort if !outcome.failed => {
            prop_assert!(fetched.is_empty() && regions.is_empty() && outcome.handed_over.is_none());
            prop_assert_eq!(&known, &pages(named));
        }
        AccessPath::Switch if !outcome.failed => {
            prop_assert!(regions.is_empty() && known.is_empty());
            let enough = named.len() as u64 >= options.rows_first;
            prop_assert_eq!(
                fetched.len() as u64,
                options.rows_first.min(named.len() as u64)
            );
            prop_assert_eq!(&left, if enough { &all } else { &BTreeSet::new() });
        }
        AccessPath::Smooth | AccessPath::Full if !outcome.failed => {
            prop_assert_eq!(
                fetched.len() as u64,
                options.rows_first.min(named.len() as u64)
            );
            let read = &(&regions | &known) | &left;
            prop_assert!(pages(&named[at..]).is_subset(&read), "SMOOTH-I2");
            if options.take_over_pages == u32::MAX && options.entries_at_most.is_none() {
                prop_assert!(outcome.handed_over.is_none() && known.is_empty());
            }
        }
        _ => prop_assert!(outcome.handed_over.is_some()),
    }
    Ok(())
}

/// A table whose every page has ten rows.
struct Plain(u32);

impl PageLayout for Plain {
    fn page_count(&self) -> u32 {
        self.0
    }

    fn page_of(&self, position: u64) -> Option<u32> {
        u32::try_from(position / 10)
            .ok()
            .filter(|page| *page < self.0)
    }

    fn positions_of(&self, page: u32) -> Range<u64> {
        u64::from(page) * 10..u64::from(page + 1) * 10
    }

    fn chunk_of(&self, page: u32) -> usize {
        page as usize / 100
    }
}

const DISK: PageCosts = PageCosts {
    random: 10,
    sequential: 1,
};

fn smooth(take_over_pages: u32) -> ProbeOptions {
    ProbeOptions {
        path: AccessPath::Smooth,
        smooth: SmoothOptions {
            policy: SmoothPolicy::Elastic,
            region_pages_max: 64,
        },
        rows_first: 0,
        pricing: Pricing::Known(DISK),
        take_over_pages,
        entries_at_most: None,
        read_ahead: ReadAhead::new(
            PageBytes {
                together: 1,
                alone: 1,
            },
            u64::MAX,
        ),
    }
}

fn entries(probe: &mut Probe<Plain>, positions: &[u64]) {
    assert!(matches!(probe.poll_job(), Job::ReadEntries));
    probe.handle(
        Time(0),
        Event::EntriesRead {
            positions,
            before: positions.len(),
        },
    );
}

/// An index names the ten rows of each page together. Jobs of rows that share pages have as many
/// pages as others, and each page is in one of them.
#[test]
fn rows_that_share_pages_are_asked_for_ahead_by_pages() {
    let rows: Vec<u64> = (0..1_000).collect();
    let jobs = |read_ahead: ReadAhead| {
        let options = ProbeOptions {
            path: AccessPath::Index,
            read_ahead,
            ..smooth(u32::MAX)
        };
        let mut probe = Probe::new(Time(0), Plain(100), options);
        entries(&mut probe, &rows);
        let mut jobs: Vec<Vec<u32>> = Vec::new();
        loop {
            match probe.poll_job() {
                Job::Rows(pages) => jobs.push(pages.iter().map(|(page, _)| *page).collect()),
                Job::ReadEntries => probe.handle(Time(1), Event::EntriesEnded),
                Job::End => return jobs,
                job => panic!("{job:?}"),
            }
        }
    };
    let alone = smooth(u32::MAX).read_ahead;
    let (apart, shared) = (jobs(alone), jobs(alone.with_shared_pages()));
    assert_eq!((apart[0].len(), apart.iter().flatten().count()), (2, 150));
    assert_eq!(shared[0].len(), 16);
    // A job ends with the first row of its last page, so that the next job has that page too.
    assert_eq!(shared.iter().flatten().count(), 106);
}

/// Reports a job of regions in which all pages hold results; returns its pages.
fn examine(probe: &mut Probe<Plain>) -> Vec<u32> {
    let Job::Regions { id, regions } = probe.poll_job() else {
        panic!("regions are expected");
    };
    let size = |runs: &Vec<PageRun>| runs.iter().map(PageRun::len).sum();
    let examined = |pages| Examined {
        pages,
        with_results: pages,
        pruned: 0,
    };
    let told: Vec<Examined> = regions.iter().map(size).map(examined).collect();
    probe.handle(
        Time(0),
        Event::Examined {
            job: id,
            regions: &told,
        },
    );
    regions
        .iter()
        .flatten()
        .flat_map(|run| run.pages.clone())
        .collect()
}

#[test]
fn entries_are_handled_in_table_order_after_the_first() {
    let options = ProbeOptions {
        pricing: Pricing::Unknown,
        ..smooth(u32::MAX)
    };
    let mut probe = Probe::new(Time(0), Plain(1_000), options);
    entries(&mut probe, &[5_000, 900, 30, 5_001, 2_000]);
    assert_eq!(examine(&mut probe), [500]);
    // A job has the regions of one chunk.
    assert_eq!(examine(&mut probe), [2, 3, 90, 91]);
    assert_eq!(examine(&mut probe), (200..208).collect::<Vec<u32>>());
    assert!(matches!(probe.poll_job(), Job::ReadEntries));
    assert_eq!(probe.entries_seen(), 1);
}

/// A probe whose regions are large enough for a scan to take over, with pages 0, 2 and 3 read.
fn large() -> Probe<Plain> {
    let mut options = smooth(4);
    options.smooth.policy = SmoothPolicy::Greedy;
    let mut probe = Probe::new(Time(0), Plain(1_000), options);
    entries(&mut probe, &[0, 20]);
    assert_eq!(examine(&mut probe), [0]);
    assert_eq!(examine(&mut probe), [2, 3]);
    assert!(matches!(probe.poll_job(), Job::SampleEntries { .. }));
    // Repeated until it is answered.
    assert!(matches!(probe.poll_job(), Job::SampleEntries { .. }));
    probe
}

#[test]
fn a_scan_takes_over_where_reading_the_rest_of_the_index_does_not_pay_off() {
    let mut probe = large();
    // 1,000 pages in ten chunks: at most 1,090 can be saved.
    let sample = Sample {
        positions: &[5_000],
        scale: 2.0,
        took_ns: 600.0,
    };
    probe.handle(Time(0), Event::EntriesSampled(Some(sample)));
    let Job::HandOver(left) = probe.poll_job() else {
        panic!("a scan takes over");
    };
    assert_eq!(left.pages(), 997);
    assert!(matches!(probe.poll_job(), Job::End));
}

#[test]
fn otherwise_the_named_pages_are_read_in_the_cheapest_way() {
    let mut probe = large();
    let sample = Sample {
        positions: &[5_000],
        scale: 2.0,
        took_ns: 400.0,
    };
    probe.handle(Time(0), Event::EntriesSampled(Some(sample)));
    // A page of chunk 5, a page that has been read, all of chunk 7.
    entries(&mut probe, &[5_000, 21]);
    let dense: Vec<u64> = (7_000..8_000).collect();
    entries(&mut probe, &dense);
    assert!(matches!(probe.poll_job(), Job::ReadEntries));
    probe.handle(Time(0), Event::EntriesEnded);
    let Job::Pages(runs) = probe.poll_job() else {
        panic!("known pages");
    };
    assert_eq!(
        runs,
        [PageRun {
            chunk: 5,
            pages: 500..501
        }]
    );
    let Job::HandOver(left) = probe.poll_job() else {
        panic!("a scan takes over");
    };
    let pages = (0..1_000).filter(|page| !left.done[*page as usize]);
    assert_eq!(
        pages.collect::<Vec<u32>>(),
        (700..800).collect::<Vec<u32>>()
    );
}

#[test]
fn an_index_of_more_entries_than_pages_is_sampled_first() {
    let first = |entries_at_most, rows_first| {
        let options = ProbeOptions {
            entries_at_most,
            rows_first,
            ..smooth(4)
        };
        matches!(
            Probe::new(Time(0), Plain(1_000), options).poll_job(),
            Job::SampleEntries { .. }
        )
    };
    assert!(first(Some(1_000), 0));
    assert!(!first(Some(999), 0) && !first(None, 0) && !first(Some(1_000), 1));
}

#[test]
#[should_panic(expected = "SMOOTH-I6")]
fn a_job_is_examined_once() {
    let mut probe = Probe::new(Time(0), Plain(10), smooth(u32::MAX));
    entries(&mut probe, &[5]);
    examine(&mut probe);
    let examined = Examined {
        pages: 1,
        with_results: 1,
        pruned: 0,
    };
    probe.handle(
        Time(0),
        Event::Examined {
            job: JobId(0),
            regions: &[examined],
        },
    );
}
