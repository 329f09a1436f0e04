//! Which event does an operation stand for in this world?
//!
//! Idea: indices select among the events that are possible now, so every event is valid;
//! impossible operations are skipped.
//! Not here: events that a driver must not send (`tests/refused.rs`).

use std::collections::BTreeSet;

use coscan_core::{
    ChunkId, ChunkSet, ColumnId, ColumnSet, Event, PageRequestId, Part, ScanId, ScanSpec, TableId,
};

use super::shapes::{Op, ScanShape, chunk_layouts, shared_extents};
use super::{PageState, Scan, World};

/// The most scans and tables at a time: more of them only make the oracle slow.
const SCANS_MAX: usize = 7;
const TABLES_MAX: usize = 4;

impl World {
    fn held(&self) -> impl Iterator<Item = (ScanId, ChunkId)> + '_ {
        let scans = self.scans.iter();
        scans.flat_map(|(&scan, q)| q.held.iter().map(move |&chunk| (scan, chunk)))
    }

    fn in_hands(&self) -> impl Iterator<Item = (ScanId, ChunkId)> + '_ {
        let scans = self.scans.iter();
        let lapsed = scans.flat_map(|(&scan, q)| q.lapsed.iter().map(move |&chunk| (scan, chunk)));
        self.held().chain(lapsed)
    }

    /// The event, or `None` if no event of the kind is possible now.
    pub(crate) fn resolve(&self, op: &Op) -> Option<Event> {
        match op {
            Op::Table(shape) => (self.tables.len() < TABLES_MAX).then(|| Event::TableRegistered {
                table: TableId(self.tables_registered),
                layout: shape.layout(),
            }),
            Op::Append(at, growth) => {
                let table = pick(self.tables.keys().copied(), *at)?;
                let columns = self.tables[&table].columns;
                Some(Event::ChunksAppended {
                    table,
                    chunks: chunk_layouts(&growth.chunks, columns, 2),
                    shared: shared_extents(
                        &growth.shared,
                        columns,
                        self.chunk_count(table),
                        growth.chunks.len(),
                    ),
                })
            }
            Op::DropTable(at) => {
                let droppable = self
                    .tables
                    .keys()
                    .copied()
                    .filter(|&table| self.is_droppable(table));
                Some(Event::TableDropped {
                    table: pick(droppable, *at)?,
                })
            }
            Op::Scan(shape) => {
                let table = pick(self.tables.keys().copied(), shape.table)?;
                (self.scans.len() < SCANS_MAX).then(|| Event::ScanRegistered {
                    scan: ScanId(self.scans_registered),
                    spec: self.spec(table, shape),
                })
            }
            Op::Request(at) => {
                let scan = pick(self.scans_where(Scan::may_request), *at)?;
                Some(Event::ChunkRequested { scan })
            }
            Op::WithdrawRequest(at) => {
                let scan = pick(self.scans_where(|q| q.waiting > 0), *at)?;
                Some(Event::RequestWithdrawn { scan })
            }
            Op::Degree(at, devices_max) => {
                let (scan, devices_max) = (pick(self.scans.keys().copied(), *at)?, *devices_max);
                Some(Event::DegreeChanged { scan, devices_max })
            }
            Op::Progress(at) => {
                let (scan, chunk) = pick(self.held(), *at)?;
                Some(Event::ChunkProgressed { scan, chunk })
            }
            Op::Lapse(at) => {
                let (scan, chunk) = pick(self.held(), *at)?;
                Some(Event::ChunkLapsed { scan, chunk })
            }
            Op::Release(at) => {
                let (scan, chunk) = pick(self.in_hands(), *at)?;
                Some(Event::ChunkReleased { scan, chunk })
            }
            Op::WithdrawChunks(at, start, len) => {
                let scan = pick(self.scans_where(|_| true), *at)?;
                let count = self.chunk_count(self.scans[&scan].spec.table);
                let start = start.checked_rem(count)?;
                let chunks = ChunkSet::from_range(start..(start + len).min(count));
                Some(Event::ChunksWithdrawn { scan, chunks })
            }
            Op::BeginJob(..) | Op::EndJob(..) => self.resolve_job(op),
            Op::End(at) => {
                let scan = pick(self.scans_where(|_| true), *at)?;
                Some(Event::ScanEnded { scan })
            }
            Op::Complete(..) | Op::Fail(..) => self.resolve_load(op),
            Op::Resize(at, bytes) => {
                let (table, chunk, column) = pick(self.resident.keys().copied(), *at)?;
                Some(Event::SegmentResized {
                    table,
                    chunk,
                    column,
                    bytes: *bytes,
                })
            }
            Op::Page(..) | Op::CompletePage(_) | Op::ReleasePage(_) => self.resolve_page(op),
            Op::Budget(bytes) => Some(Event::BudgetChanged { bytes: *bytes }),
            Op::Pass => Some(Event::TimePassed),
        }
    }

    fn resolve_job(&self, op: &Op) -> Option<Event> {
        match op {
            Op::BeginJob(at, bits) => {
                let free = self.held().filter(|held| {
                    !self.jobs.contains_key(held) && !self.scans[&held.0].spec.ordered
                });
                let (scan, chunk) = pick(free, *at)?;
                let table = self.scans[&scan].spec.table;
                let joins = |&(&id, q): &(&ScanId, &Scan)| {
                    let leads = id == scan || self.jobs.contains_key(&(id, chunk));
                    let wants =
                        q.needed.contains(chunk) || q.held.contains(&chunk) && !leads && !q.failed;
                    q.spec.table == table && !q.spec.ordered && wants
                };
                let joining = self.scans.iter().filter(joins).map(|(&id, _)| id);
                Some(Event::ChunkJobBegun {
                    scan,
                    chunk,
                    members: of_bits(joining, *bits),
                })
            }
            Op::EndJob(at, bits) => {
                let (scan, chunk) = pick(self.jobs.keys().copied(), *at)?;
                Some(Event::ChunkJobEnded {
                    scan,
                    chunk,
                    given_back: of_bits(self.servable(scan, chunk).into_iter(), *bits),
                })
            }
            _ => None,
        }
    }

    /// The scans that a job's chunk may be given back to. A scan that failed needs nothing.
    fn servable(&self, leader: ScanId, chunk: ChunkId) -> Vec<ScanId> {
        let mut scans: Vec<ScanId> = self.jobs[&(leader, chunk)]
            .members
            .iter()
            .copied()
            .collect();
        let leading = self.scans.get(&leader).filter(|q| !q.failed);
        let in_hands = leading.is_some_and(|q| q.held.union(&q.lapsed).any(|held| *held == chunk));
        scans.extend(in_hands.then_some(leader));
        scans
    }

    /// Several loads of one chunk may be answered at once.
    fn resolve_load(&self, op: &Op) -> Option<Event> {
        let chunks: BTreeSet<(TableId, ChunkId)> = self
            .loads
            .iter()
            .map(|load| (load.table, load.chunk))
            .collect();
        match op {
            Op::Complete(at, bits) => {
                let completable = chunks
                    .into_iter()
                    .filter(|&(table, chunk)| !self.completable(table, chunk).is_empty());
                let (table, chunk) = pick(completable, *at)?;
                let columns = some_of(&self.completable(table, chunk), *bits);
                Some(Event::LoadCompleted {
                    table,
                    chunk,
                    columns,
                })
            }
            Op::Fail(at, bits) => {
                let (table, chunk) = pick(chunks.into_iter(), *at)?;
                let columns = some_of(&self.loading(table, chunk), *bits);
                Some(Event::LoadFailed {
                    table,
                    chunk,
                    columns,
                })
            }
            other => unreachable!("{other:?} is not about loads"),
        }
    }

    fn resolve_page(&self, op: &Op) -> Option<Event> {
        let pages_where = |wanted: &'static [PageState]| {
            let found = self
                .pages
                .iter()
                .filter(|(_, page)| wanted.contains(&page.state));
            found.map(|(&request, _)| request)
        };
        match op {
            Op::Page(at, chunk, bits) => {
                let table = pick(self.tables.keys().copied(), *at)?;
                Some(Event::PageRequested {
                    request: PageRequestId(self.pages_requested),
                    table,
                    chunk: ChunkId(chunk.checked_rem(self.chunk_count(table))?),
                    columns: columns_of(self.tables[&table].columns, *bits),
                })
            }
            // A driver may have begun to read a page before it learned that a load brings it.
            Op::CompletePage(at) => Some(Event::PageCompleted {
                request: pick(pages_where(&[PageState::Queued, PageState::Dropped]), *at)?,
            }),
            Op::ReleasePage(at) => Some(Event::PageReleased {
                request: pick(pages_where(&[PageState::Served]), *at)?,
            }),
            other => unreachable!("{other:?} is not about pages"),
        }
    }

    fn spec(&self, table: TableId, shape: &ScanShape) -> ScanSpec {
        let count = self.chunk_count(table);
        let mut free = ChunkSet::from_range(0..count);
        let mut parts: Vec<Part> = Vec::new();
        for &(start, len, bits) in &shape.ranges {
            let start = start.checked_rem(count).unwrap_or(0);
            let end = start.saturating_add(len).min(count);
            let chunks = free.intersection(&ChunkSet::from_range(start..end));
            free.remove_range(start..end);
            if chunks.is_empty() {
                continue;
            }
            let columns = columns_of(self.tables[&table].columns, bits);
            match parts.iter_mut().find(|part| part.columns == columns) {
                Some(part) => chunks.runs().for_each(|run| part.chunks.insert_range(run)),
                None => parts.push(Part { chunks, columns }),
            }
        }
        ScanSpec {
            table,
            parts,
            consumers: shape.consumers,
            ordered: shape.ordered,
            devices_max: shape.devices_max,
        }
    }

    fn is_droppable(&self, table: TableId) -> bool {
        self.scans.values().all(|q| q.spec.table != table)
            && self.loads.iter().all(|load| load.table != table)
            && self.pages.values().all(|page| page.table != table)
            && self.jobs.values().all(|job| job.table != table)
    }

    fn scans_where(&self, holds: impl Fn(&Scan) -> bool) -> impl Iterator<Item = ScanId> {
        self.scans
            .iter()
            .filter(move |(_, q)| holds(q))
            .map(|(&scan, _)| scan)
    }
}

fn pick<T>(from: impl Iterator<Item = T>, at: usize) -> Option<T> {
    let mut all: Vec<T> = from.collect();
    (!all.is_empty()).then(|| {
        let at = at % all.len();
        all.swap_remove(at)
    })
}

/// The scans whose bit is set.
fn of_bits(scans: impl Iterator<Item = ScanId>, bits: u16) -> Vec<ScanId> {
    let numbered = scans.enumerate();
    let chosen = numbered.filter(|(at, _)| bits >> (at % 16) & 1 == 1);
    chosen.map(|(_, scan)| scan).collect()
}

/// The columns whose bit is set; the first if no bit is.
fn some_of(columns: &[ColumnId], bits: u16) -> Vec<ColumnId> {
    let chosen: Vec<ColumnId> = columns
        .iter()
        .copied()
        .filter(|column| bits >> column.0 & 1 == 1)
        .collect();
    if chosen.is_empty() {
        columns[..1].to_vec()
    } else {
        chosen
    }
}

fn columns_of(count: u16, bits: u16) -> ColumnSet {
    let all: Vec<ColumnId> = ColumnSet::all(count).iter().collect();
    some_of(&all, bits).into_iter().collect()
}
