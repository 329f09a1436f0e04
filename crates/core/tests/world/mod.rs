//! The driver's books: what can a driver know from events and actions alone?
//!
//! Idea: the other side of the contract. The books say which events are possible (`next.rs`) and
//! whether the actions keep every promise (`promises.rs`).
//! Not here: which of the permitted actions is right (the oracle).

mod next;
mod promises;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{
    ChunkId, ChunkSet, ColumnId, ColumnSet, Event, ExtentId, PageRequestId, ScanId, ScanSpec,
    TableId, TableLayout, Time,
};

pub(crate) use shapes::{Limits, Op, TableShape, op, table_shape};

/// The driver's books.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Time,
    budget: u64,
    tables: BTreeMap<TableId, TableLayout>,
    pub(crate) loads: Vec<Load>,
    /// With their own bytes in memory.
    resident: BTreeMap<(TableId, ChunkId, ColumnId), u64>,
    resident_extents: BTreeSet<(TableId, ExtentId)>,
    pub(crate) scans: BTreeMap<ScanId, Scan>,
    pub(crate) pages: BTreeMap<PageRequestId, Page>,
    /// By leader and chunk.
    pub(crate) jobs: BTreeMap<(ScanId, ChunkId), Job>,
    tables_registered: u32,
    scans_registered: u64,
    pages_requested: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    pub(crate) columns: BTreeSet<ColumnId>,
    pub(crate) extents: BTreeSet<ExtentId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) spec: ScanSpec,
    pub(crate) needed: ChunkSet,
    pub(crate) held: BTreeSet<ChunkId>,
    pub(crate) lapsed: BTreeSet<ChunkId>,
    /// Chunks joined to a job that another scan leads.
    pub(crate) joined: BTreeSet<ChunkId>,
    /// ABM-I5: chunks consumed, by a delivery or through a job.
    pub(crate) done: BTreeSet<ChunkId>,
    pub(crate) waiting: u32,
    pub(crate) failed: bool,
    /// The scan was exhausted.
    pub(crate) exhausted: bool,
}

/// A chunk job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    table: TableId,
    pub(crate) members: BTreeSet<ScanId>,
    /// Empty once the chunk has lapsed.
    pinned: BTreeSet<ColumnId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Page {
    table: TableId,
    chunk: ChunkId,
    columns: ColumnSet,
    pub(crate) state: PageState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageState {
    /// The driver itself has to read the page.
    Queued,
    /// A load will bring the page.
    Dropped,
    Served,
}

impl World {
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            now: Time(0),
            budget,
            tables: BTreeMap::new(),
            loads: Vec::new(),
            resident: BTreeMap::new(),
            resident_extents: BTreeSet::new(),
            scans: BTreeMap::new(),
            pages: BTreeMap::new(),
            jobs: BTreeMap::new(),
            tables_registered: 0,
            scans_registered: 0,
            pages_requested: 0,
        }
    }

    fn chunk_count(&self, table: TableId) -> u32 {
        u32::try_from(self.tables[&table].chunks.len()).expect("few chunks")
    }

    /// The columns of a chunk in its outstanding loads, ascending.
    pub(crate) fn loading(&self, table: TableId, chunk: ChunkId) -> Vec<ColumnId> {
        let of_chunk = self
            .loads
            .iter()
            .filter(|l| (l.table, l.chunk) == (table, chunk));
        let columns: BTreeSet<ColumnId> = of_chunk.flat_map(|load| load.columns.clone()).collect();
        columns.into_iter().collect()
    }

    /// Columns that are loading and whose bytes could all be in memory now.
    pub(crate) fn completable(&self, table: TableId, chunk: ChunkId) -> Vec<ColumnId> {
        let mut columns = self.loading(table, chunk);
        columns.retain(|&column| !self.is_orphan(table, chunk, column));
        columns
    }

    /// Columns that are loading but wait for an extent that no load brings, because the load that
    /// should have brought it failed.
    pub(crate) fn orphans(&self, table: TableId, chunk: ChunkId) -> Vec<ColumnId> {
        let mut columns = self.loading(table, chunk);
        columns.retain(|&column| self.is_orphan(table, chunk, column));
        columns
    }

    fn is_orphan(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> bool {
        let brought = |extent: &ExtentId| {
            let mut of_table = self.loads.iter().filter(|other| other.table == table);
            of_table.any(|other| other.extents.contains(extent))
        };
        let extents = self.extents_of(table, chunk, column);
        !extents
            .iter()
            .all(|e| brought(e) || self.resident_extents.contains(&(table, *e)))
    }

    fn extents_of(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> Vec<ExtentId> {
        let shared = (0u32..).map(ExtentId).zip(&self.tables[&table].shared);
        let serves =
            shared.filter(|(_, e)| e.column == column && (e.first..=e.last).contains(&chunk));
        serves.map(|(extent, _)| extent).collect()
    }

    /// Bytes of the largest possible load: a whole chunk with its extents.
    pub(crate) fn largest_load(&self) -> u64 {
        let bytes = |table: &TableId, chunk: u32| {
            let layout = &self.tables[table];
            let own: u64 = layout.chunks[chunk as usize].bytes.iter().sum();
            let serving = layout
                .shared
                .iter()
                .filter(|e| (e.first.0..=e.last.0).contains(&chunk));
            own + serving.map(|e| e.bytes).sum::<u64>()
        };
        let tables = self.tables.keys();
        tables
            .flat_map(|table| (0..self.chunk_count(*table)).map(move |chunk| bytes(table, chunk)))
            .max()
            .unwrap_or(0)
    }

    /// The number of chunks that have not been delivered, over all scans.
    pub(crate) fn needed(&self) -> usize {
        self.scans.values().map(|q| q.needed.len()).sum()
    }
}

/// Keeps and checks the books.
impl World {
    /// Records the driver's own part of an event, before its actions are known.
    #[allow(clippy::too_many_lines)] // One arm per event.
    pub(crate) fn record(&mut self, event: &Event) {
        match event {
            Event::TableRegistered { table, layout } => {
                self.tables.insert(*table, layout.clone());
                self.tables_registered += 1;
            }
            Event::ChunksAppended {
                table,
                chunks,
                shared,
            } => {
                let layout = self.tables.get_mut(table).expect("a table");
                layout.chunks.extend(chunks.iter().cloned());
                layout.shared.extend(shared);
            }
            Event::ScanRegistered { scan, spec } => {
                self.scans.insert(*scan, Scan::new(spec.clone()));
                self.scans_registered += 1;
            }
            Event::ChunkRequested { scan } => self.scan(*scan).waiting += 1,
            Event::DegreeChanged { .. } => {}
            Event::RequestWithdrawn { scan } => self.scan(*scan).waiting -= 1,
            Event::ChunkProgressed { .. } => {}
            Event::ChunkLapsed { scan, chunk } => {
                let q = self.scan(*scan);
                q.held.remove(chunk);
                q.lapsed.insert(*chunk);
                if let Some(job) = self.jobs.get_mut(&(*scan, *chunk)) {
                    job.pinned.clear();
                }
            }
            Event::ChunkReleased { scan, chunk } => {
                let q = self.scan(*scan);
                q.held.remove(chunk);
                q.lapsed.remove(chunk);
                assert!(
                    q.done.insert(*chunk),
                    "ABM-I5: {scan} is done with {chunk} twice"
                );
            }
            Event::ChunkJobBegun {
                scan,
                chunk,
                members,
            } => self.begin_job(*scan, *chunk, members),
            Event::ChunkJobEnded {
                scan,
                chunk,
                given_back,
            } => self.end_job(*scan, *chunk, given_back),
            Event::ChunksWithdrawn { scan, chunks } => {
                chunks
                    .runs()
                    .for_each(|run| self.scan(*scan).needed.remove_range(run));
            }
            Event::ScanEnded { scan } => {
                self.scans.remove(scan);
                for job in self.jobs.values_mut() {
                    job.members.remove(scan);
                }
            }
            Event::LoadCompleted {
                table,
                chunk,
                columns,
            } => self.finish_load(*table, *chunk, columns, true),
            Event::LoadFailed {
                table,
                chunk,
                columns,
            } => self.finish_load(*table, *chunk, columns, false),
            Event::SegmentResized {
                table,
                chunk,
                column,
                bytes,
            } => {
                let resident = self.resident.insert((*table, *chunk, *column), *bytes);
                assert!(resident.is_some(), "only resident segments are resized");
            }
            Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            } => {
                let page = Page {
                    table: *table,
                    chunk: *chunk,
                    columns: columns.clone(),
                    state: PageState::Queued,
                };
                self.pages.insert(*request, page);
                self.pages_requested += 1;
            }
            Event::PageCompleted { request } if self.pages[request].state == PageState::Queued => {
                self.pages.remove(request);
            }
            Event::PageReleased { request } => {
                self.pages.remove(request);
            }
            Event::BudgetChanged { bytes } => self.budget = *bytes,
            _ => {}
        }
    }

    fn is_covered(&self, page: &Page) -> bool {
        let (table, chunk) = (page.table, page.chunk);
        page.columns.iter().all(|column| {
            self.resident.contains_key(&(table, chunk, column))
                || self.is_loading(table, chunk, column)
        })
    }

    fn is_loading(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> bool {
        let mut of_chunk = self
            .loads
            .iter()
            .filter(|l| (l.table, l.chunk) == (table, chunk));
        of_chunk.any(|load| load.columns.contains(&column))
    }

    fn finish_load(
        &mut self,
        table: TableId,
        chunk: ChunkId,
        columns: &[ColumnId],
        completed: bool,
    ) {
        for &column in columns {
            let extents = self.extents_of(table, chunk, column);
            let load = self
                .loads
                .iter_mut()
                .find(|l| (l.table, l.chunk) == (table, chunk) && l.columns.contains(&column))
                .expect("an outstanding load");
            load.columns.remove(&column);
            load.extents.retain(|extent| !extents.contains(extent));
            if completed {
                // The extents are resident, whichever load should have brought them.
                let of_table = self.loads.iter_mut().filter(|l| l.table == table);
                of_table.for_each(|l| l.extents.retain(|extent| !extents.contains(extent)));
                let bytes = self.own(table, chunk, column);
                self.resident.insert((table, chunk, column), bytes);
                self.resident_extents
                    .extend(extents.into_iter().map(|extent| (table, extent)));
            }
        }
        self.loads.retain(|load| !load.columns.is_empty());
    }

    fn scan(&mut self, scan: ScanId) -> &mut Scan {
        self.scans.get_mut(&scan).expect("a registered scan")
    }

    fn own(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> u64 {
        self.tables[&table].chunks[chunk.0 as usize].bytes[usize::from(column.0)]
    }

    fn used(&self) -> u64 {
        let shared =
            |table: TableId, extent: ExtentId| self.tables[&table].shared[extent.0 as usize].bytes;
        let loading = self.loads.iter().map(|load| {
            let columns = load
                .columns
                .iter()
                .map(|&column| self.own(load.table, load.chunk, column));
            let extents = load
                .extents
                .iter()
                .map(|&extent| shared(load.table, extent));
            columns.sum::<u64>() + extents.sum::<u64>()
        });
        let extents = self
            .resident_extents
            .iter()
            .map(|&(table, extent)| shared(table, extent));
        loading.sum::<u64>() + self.resident.values().sum::<u64>() + extents.sum::<u64>()
    }

    fn is_pinned(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> bool {
        let held = |q: &Scan| {
            q.spec.table == table && q.held.contains(&chunk) && q.columns(chunk).contains(column)
        };
        let served = |p: &Page| {
            (p.table, p.chunk, p.state) == (table, chunk, PageState::Served)
                && p.columns.contains(column)
        };
        let worked = |(&(_, of), job): (&(ScanId, ChunkId), &Job)| {
            (job.table, of) == (table, chunk) && job.pinned.contains(&column)
        };
        self.scans.values().any(held)
            || self.pages.values().any(served)
            || self.jobs.iter().any(worked)
    }

    fn begin_job(&mut self, leader: ScanId, chunk: ChunkId, members: &[ScanId]) {
        let table = self.scans[&leader].spec.table;
        let scans = members.iter().chain([&leader]);
        let columns =
            scans.flat_map(|scan| self.scans[scan].columns(chunk).iter().collect::<Vec<_>>());
        let resident =
            columns.filter(|column| self.resident.contains_key(&(table, chunk, *column)));
        let job = Job {
            table,
            members: members.iter().copied().collect(),
            pinned: resident.collect(),
        };
        for scan in members {
            let q = self.scan(*scan);
            q.needed.remove(chunk);
            q.held.remove(&chunk);
            q.joined.insert(chunk);
        }
        self.jobs.insert((leader, chunk), job);
    }

    fn end_job(&mut self, leader: ScanId, chunk: ChunkId, given_back: &[ScanId]) {
        let job = self.jobs.remove(&(leader, chunk)).expect("a job");
        for scan in job.members {
            let q = self.scan(scan);
            assert!(q.joined.remove(&chunk), "ABM-I5");
            if !given_back.contains(&scan) {
                assert!(
                    q.done.insert(chunk),
                    "ABM-I5: {scan} is done with {chunk} twice"
                );
            }
        }
        for scan in given_back {
            let q = self.scan(*scan);
            q.held.remove(&chunk);
            q.lapsed.remove(&chunk);
            q.needed.insert(chunk);
            q.exhausted = false;
        }
    }
}

impl Scan {
    fn new(spec: ScanSpec) -> Self {
        Self {
            needed: spec
                .parts
                .iter()
                .flat_map(|part| part.chunks.runs())
                .collect(),
            spec,
            held: BTreeSet::new(),
            lapsed: BTreeSet::new(),
            joined: BTreeSet::new(),
            done: BTreeSet::new(),
            waiting: 0,
            failed: false,
            exhausted: false,
        }
    }

    fn columns(&self, chunk: ChunkId) -> ColumnSet {
        let part = self
            .spec
            .parts
            .iter()
            .find(|part| part.chunks.contains(chunk));
        part.map_or_else(ColumnSet::new, |part| part.columns.clone())
    }

    fn wants(&self, table: TableId, chunk: ChunkId, column: ColumnId) -> bool {
        self.spec.table == table
            && self.needed.contains(chunk)
            && self.columns(chunk).contains(column)
    }

    /// Each consumer works on a chunk, waits for one, or has not asked yet.
    pub(crate) fn may_request(&self) -> bool {
        (self.held.len() as u64) + u64::from(self.waiting) < u64::from(self.spec.consumers)
    }
}
