//! Has the core kept its promises to scans and page requests?
//!
//! Idea: every event is recorded before the core handles it, every action when the core returns it;
//! a forbidden or missing action fails an assertion.
//! Not here: memory (`memory.rs`), the liveness promises ABM-I6 and ABM-I8 (`liveness.rs`).
//! ABM-I4 every load has a scan that wants it. ABM-I5 a scan is handed each of its chunks exactly
//! once, except withdrawn chunks. ABM-I7 a failed load fails exactly the scans that need it.

use std::collections::BTreeMap;

use coscan_core::{
    Action, ChunkId, ColumnId, Event, PageRequestId, Policy, ScanId, ScanSpec, TableId,
};

use super::memory::{Load, Mask, Memory, Place, Table, has, mask};

/// The state of a chunk for a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Apart,
    Needed,
    Held,
    /// Handed out; its consumer has not come back.
    Lapsed,
    /// A chunk job of another scan works on it.
    Joined,
    Done,
    Withdrawn,
}

/// A registered scan.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) table: TableId,
    pub(super) consumers: u32,
    ordered: bool,
    /// For each chunk the wanted columns and its state.
    chunks: Vec<(Mask, Part)>,
    pub(super) needed: usize,
    pub(super) held: Vec<ChunkId>,
    /// The number of its lapsed chunks.
    pub(super) lapsed: usize,
    /// The number of its chunks joined to other scans' jobs.
    pub(super) joined: usize,
    pub(super) waiting: u32,
    pub(super) failed: bool,
}

/// A page request.
#[derive(Debug)]
pub(super) struct Page {
    place: Place,
    columns: Mask,
    pub(super) state: PageState,
}

/// A chunk job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) table: TableId,
    pub(super) members: Vec<ScanId>,
    /// The columns that it pins; none once its chunk has lapsed.
    pinned: Mask,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageState {
    /// The driver reads the page by itself.
    Queued,
    /// A load brings the page.
    Dropped,
    Served,
}

/// The driver's whole state.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) memory: Memory,
    pub(super) scans: BTreeMap<ScanId, Scan>,
    pub(super) pages: BTreeMap<PageRequestId, Page>,
    /// By leader and chunk.
    pub(super) jobs: BTreeMap<(ScanId, ChunkId), Job>,
    /// Scans that must fail because of the last event, and have not failed yet.
    to_fail: Vec<ScanId>,
}

impl Scan {
    fn new(spec: &ScanSpec, chunks: u32) -> Self {
        let mut all = vec![(0, Part::Apart); chunks as usize];
        let mut needed = 0;
        for part in &spec.parts {
            for chunk in part.chunks.iter() {
                all[chunk.0 as usize] = (mask(part.columns.iter()), Part::Needed);
                needed += 1;
            }
        }
        Self {
            table: spec.table,
            consumers: spec.consumers,
            ordered: spec.ordered,
            chunks: all,
            needed,
            held: Vec::new(),
            lapsed: 0,
            joined: 0,
            waiting: 0,
            failed: false,
        }
    }

    /// The wanted columns of a chunk that the scan still needs. Chunks appended after the
    /// registration do not belong to the scan.
    fn wants(&self, chunk: ChunkId) -> Mask {
        match self.chunks.get(chunk.0 as usize) {
            Some((columns, Part::Needed)) => *columns,
            _ => 0,
        }
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.ordered
    }

    pub(super) fn needs(&self, chunk: ChunkId) -> bool {
        let part = self.chunks.get(chunk.0 as usize);
        part.is_some_and(|(_, part)| *part == Part::Needed)
    }

    pub(super) fn has_lapsed(&self, chunk: ChunkId) -> bool {
        let part = self.chunks.get(chunk.0 as usize);
        part.is_some_and(|(_, part)| *part == Part::Lapsed)
    }

    fn needed(&self) -> impl Iterator<Item = (ChunkId, Mask)> + '_ {
        let chunks = (0..).map(ChunkId).zip(&self.chunks);
        chunks.filter_map(|(id, &(columns, part))| (part == Part::Needed).then_some((id, columns)))
    }

    fn joined_chunks(&self) -> Vec<ChunkId> {
        let chunks = (0..).map(ChunkId).zip(&self.chunks);
        let joined = chunks.filter(|(_, (_, part))| *part == Part::Joined);
        joined.map(|(id, _)| id).collect()
    }

    fn turn(&mut self, chunk: ChunkId, to: Part) -> Mask {
        let (columns, part) = &mut self.chunks[chunk.0 as usize];
        assert_ne!(*part, Part::Done, "ABM-I5: chunk {chunk} is done with");
        self.needed -= usize::from(*part == Part::Needed);
        self.needed += usize::from(to == Part::Needed);
        self.joined -= usize::from(*part == Part::Joined);
        self.joined += usize::from(to == Part::Joined);
        *part = to;
        *columns
    }
}

impl Books {
    fn scan(&mut self, scan: ScanId) -> &mut Scan {
        self.scans.get_mut(&scan).expect("a registered scan")
    }

    /// The scan does not hold the chunk from now on.
    fn let_go(&mut self, scan: ScanId, chunk: ChunkId, to: Part) {
        let entry = self.scan(scan);
        entry.held.retain(|held| *held != chunk);
        entry.lapsed += usize::from(to == Part::Lapsed);
        let (table, columns) = (entry.table, entry.turn(chunk, to));
        self.memory.unpin((table, chunk), columns);
    }

    /// Records the driver's part of an event, before the core handles it. `load` is the load that
    /// completed or failed, if the event is about one.
    pub(super) fn enter(&mut self, event: &Event, load: Option<u64>) {
        match event {
            Event::TableRegistered { table, layout } => {
                let entry = Table::new(layout.clone());
                self.memory.tables.insert(*table, entry);
            }
            Event::ScanRegistered { scan, spec } => {
                let chunks = self.memory.table(spec.table).len();
                self.scans.insert(*scan, Scan::new(spec, chunks));
            }
            Event::ChunkRequested { scan } => self.scan(*scan).waiting += 1,
            Event::RequestWithdrawn { scan } => {
                let entry = self.scan(*scan);
                assert!(entry.waiting > 0, "D1: no consumer of {scan} waits");
                entry.waiting -= 1;
            }
            Event::ChunkLapsed { scan, chunk } => {
                self.let_go(*scan, *chunk, Part::Lapsed);
                self.lapse_job(*scan, *chunk);
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
            Event::ChunkReleased { scan, chunk } => {
                let entry = self.scan(*scan);
                if entry.has_lapsed(*chunk) {
                    entry.lapsed -= 1;
                    entry.turn(*chunk, Part::Done);
                } else {
                    self.let_go(*scan, *chunk, Part::Done);
                }
            }
            Event::ChunksWithdrawn { scan, chunks } => {
                let entry = self.scan(*scan);
                for chunk in chunks.iter() {
                    if entry.wants(chunk) != 0 {
                        entry.turn(chunk, Part::Withdrawn);
                    }
                }
            }
            Event::ScanEnded { scan } => {
                let entry = self.scans.remove(scan).expect("a registered scan");
                self.leave_jobs(*scan);
                for chunk in entry.held {
                    let (columns, _) = entry.chunks[chunk.0 as usize];
                    self.memory.unpin((entry.table, chunk), columns);
                }
            }
            Event::LoadCompleted { columns, .. } => {
                self.memory.complete(load.expect("of a load"), columns);
            }
            Event::LoadFailed {
                table,
                chunk,
                columns,
            } => {
                self.memory.fail(load.expect("of a load"), columns);
                let lost = mask(columns.iter().copied());
                let scans = self.scans.iter();
                let hit = scans.filter(|(_, s)| s.table == *table && s.wants(*chunk) & lost != 0);
                self.to_fail = hit.map(|(&id, _)| id).collect();
            }
            Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            } => {
                let page = Page {
                    place: (*table, *chunk),
                    columns: mask(columns.iter()),
                    state: PageState::Queued,
                };
                self.pages.insert(*request, page);
            }
            Event::PageCompleted { request } => self.finish_read(*request),
            Event::PageReleased { request } => {
                let page = self.pages.remove(request).expect("an open request");
                self.memory.unpin(page.place, page.columns);
            }
            Event::BudgetChanged { bytes } => self.memory.budget = *bytes,
            _ => {}
        }
    }

    /// The driver read a page by itself. Ignored if a load brings the page.
    fn finish_read(&mut self, request: PageRequestId) {
        let page = self.pages.get(&request);
        if page.is_some_and(|page| page.state == PageState::Queued) {
            self.pages.remove(&request);
        }
    }

    /// Records an action; returns the number of the load that it starts, if any.
    ///
    /// # Panics
    /// The action breaks a promise.
    pub(super) fn carry_out(&mut self, action: &Action) -> Option<u64> {
        match action {
            Action::Load {
                table,
                chunk,
                columns,
                extents,
                bytes,
                scan,
            } => {
                self.check_wanted((*table, *chunk), columns, *scan);
                let place = (*table, *chunk);
                return Some(self.memory.start_load(place, columns, extents, *bytes));
            }
            Action::Evict {
                table,
                chunk,
                column,
            } => self.memory.evict((*table, *chunk), *column),
            Action::EvictExtent { table, extent } => self.memory.evict_extent(*table, *extent),
            Action::Deliver { scan, chunk, .. } => self.hand_out(*scan, *chunk),
            Action::Exhausted { scan } => {
                let entry = self.scan(*scan);
                assert!(entry.waiting > 0, "no consumer of {scan} waits for the end");
                assert_eq!(
                    entry.needed, 0,
                    "ABM-I5: {scan} is exhausted before it has its chunks"
                );
                assert_eq!(
                    entry.joined, 0,
                    "ABM-I5: {scan} is exhausted before its jobs end"
                );
                entry.waiting -= 1;
            }
            Action::Fail { scan, .. } => {
                let due = self.to_fail.iter().position(|s| s == scan);
                assert!(due.is_some(), "ABM-I7: {scan} fails for nothing");
                due.map(|at| self.to_fail.remove(at));
                let entry = self.scan(*scan);
                let needed: Vec<ChunkId> = entry.needed().map(|(chunk, _)| chunk).collect();
                for chunk in needed.into_iter().chain(entry.joined_chunks()) {
                    entry.turn(chunk, Part::Withdrawn);
                }
                entry.waiting = 0;
                entry.failed = true;
                self.leave_jobs(*scan);
            }
            Action::ServePage { request } => {
                let page = self.pages.get_mut(request).expect("an open request");
                assert_ne!(
                    page.state,
                    PageState::Served,
                    "page {request} is served twice"
                );
                page.state = PageState::Served;
                let (place, columns) = (page.place, page.columns);
                self.memory.pin(place, columns);
            }
            Action::DropPageRequest { request } => {
                let page = self.pages.get_mut(request).expect("an open request");
                assert_eq!(
                    page.state,
                    PageState::Queued,
                    "page {request} is dropped twice"
                );
                page.state = PageState::Dropped;
                let (table, chunk) = page.place;
                let coming = self.memory.table(table).coming(chunk);
                assert_eq!(page.columns & !coming, 0, "no load brings page {request}");
            }
            Action::FailPage { request } => {
                let page = self.pages.remove(request).expect("an open request");
                assert_eq!(page.state, PageState::Dropped, "page {request} fails");
            }
            other => unreachable!("the driver does not know {other:?}"),
        }
        None
    }

    /// ABM-I4.
    fn check_wanted(&self, (table, chunk): Place, columns: &[ColumnId], scan: ScanId) {
        let of_table = self.scans.values().filter(|scan| scan.table == table);
        let wanted = of_table.fold(0, |all, scan| all | scan.wants(chunk));
        for &column in columns {
            assert!(
                has(wanted, column),
                "ABM-I4: no scan wants {table}.{chunk}.{column}"
            );
        }
        let trigger = self.scans.get(&scan).filter(|scan| scan.table == table);
        let trigger =
            trigger.is_some_and(|scan| scan.wants(chunk) & mask(columns.iter().copied()) != 0);
        assert!(
            trigger,
            "ABM-I4: {table}.{chunk} is loaded for {scan}, which needs nothing of it"
        );
    }

    fn begin_job(&mut self, leader: ScanId, chunk: ChunkId, members: &[ScanId]) {
        let table = self.scan(leader).table;
        let (mut columns, _) = self.scan(leader).chunks[chunk.0 as usize];
        for &id in members {
            let member = self.scan(id);
            let may_join = member.needs(chunk) || member.held.contains(&chunk);
            assert!(may_join, "D1: {id} does not need {chunk}");
            columns |= member.chunks[chunk.0 as usize].0;
        }
        let pinned = columns & self.memory.table(table).resident(chunk);
        self.memory.pin((table, chunk), pinned);
        for &id in members {
            if self.scan(id).needs(chunk) {
                self.scan(id).turn(chunk, Part::Joined);
            } else {
                self.let_go(id, chunk, Part::Joined);
            }
        }
        let job = Job {
            table,
            members: members.to_vec(),
            pinned,
        };
        self.jobs.insert((leader, chunk), job);
    }

    fn end_job(&mut self, leader: ScanId, chunk: ChunkId, given_back: &[ScanId]) {
        let job = self.jobs.remove(&(leader, chunk)).expect("D1: a job");
        self.memory.unpin((job.table, chunk), job.pinned);
        for id in job.members {
            let back = given_back.contains(&id);
            let to = if back { Part::Needed } else { Part::Done };
            self.scan(id).turn(chunk, to);
        }
        if given_back.contains(&leader) {
            if self.scan(leader).has_lapsed(chunk) {
                self.scan(leader).lapsed -= 1;
                self.scan(leader).turn(chunk, Part::Needed);
            } else {
                self.let_go(leader, chunk, Part::Needed);
            }
        }
    }

    /// A lapsed chunk is not pinned by its job either.
    fn lapse_job(&mut self, leader: ScanId, chunk: ChunkId) {
        if let Some(job) = self.jobs.get_mut(&(leader, chunk)) {
            let pinned = std::mem::take(&mut job.pinned);
            self.memory.unpin((job.table, chunk), pinned);
        }
    }

    fn leave_jobs(&mut self, scan: ScanId) {
        for job in self.jobs.values_mut() {
            job.members.retain(|member| *member != scan);
        }
    }

    fn hand_out(&mut self, id: ScanId, chunk: ChunkId) {
        let scan = self.scan(id);
        assert!(scan.waiting > 0, "no consumer of {id} waits for {chunk}");
        assert_ne!(scan.wants(chunk), 0, "ABM-I5: {id} is handed {chunk}");
        assert!(
            !scan.ordered
                || scan
                    .needed()
                    .next()
                    .is_some_and(|(first, _)| first == chunk),
            "{id} is handed {chunk} out of order"
        );
        scan.waiting -= 1;
        scan.held.push(chunk);
        let (table, columns) = (scan.table, scan.turn(chunk, Part::Held));
        self.memory.pin((table, chunk), columns);
    }

    /// Checks the state after all actions of an event. If `served`, ready chunks must have been
    /// handed out by now.
    ///
    /// # Panics
    /// A promise is broken.
    pub(super) fn check_after(&mut self, event: &Event, policy: Policy, served: bool) {
        assert!(
            self.to_fail.is_empty(),
            "ABM-I7: {:?} do not fail",
            self.to_fail
        );
        if let Event::TableDropped { table } = event {
            self.memory.drop_table(*table);
        }
        self.memory.check_shrunk();
        for (request, page) in &self.pages {
            let table = self.memory.table(page.place.0);
            let there = match page.state {
                PageState::Queued => table.coming(page.place.1),
                PageState::Dropped => table.resident(page.place.1),
                PageState::Served => continue,
            };
            assert_ne!(page.columns & !there, 0, "page {request} is not answered");
        }
        if served {
            self.check_served(event, policy);
        }
    }

    /// Checks that no scan waits for a chunk that is ready.
    fn check_served(&self, event: &Event, policy: Policy) {
        let unordered = !policy.is_sequential();
        for (id, scan) in self.scans.iter().filter(|(_, scan)| scan.waiting > 0) {
            let left = scan.needed + scan.joined;
            assert!(left > 0, "{id} waits although it is exhausted");
            let table = self.memory.table(scan.table);
            let ready = |&(chunk, columns): &(ChunkId, Mask)| columns & !table.resident(chunk) == 0;
            let ready = match event {
                // The only chunk that may have become ready.
                Event::LoadCompleted { table, chunk, .. } if unordered && !scan.ordered => {
                    let wanted = scan.wants(*chunk);
                    let some = *table == scan.table && wanted != 0;
                    some.then_some((*chunk, wanted)).filter(ready)
                }
                _ if scan.ordered => scan.needed().next().filter(ready),
                // (Under `attach` only the core knows the start chunk.)
                _ if !unordered && policy != Policy::Attach => scan.needed().next().filter(ready),
                _ if unordered => scan.needed().find(ready),
                _ => None,
            };
            assert!(ready.is_none(), "{id} waits for {ready:?}, which is there");
        }
    }

    /// Whether the table has no scan, load, page request or job.
    pub(super) fn is_unused(&self, table: TableId) -> bool {
        self.memory.table(table).loads == 0
            && self.scans.values().all(|scan| scan.table != table)
            && self.pages.values().all(|page| page.place.0 != table)
            && self.jobs.values().all(|job| job.table != table)
    }

    pub(super) fn load(&self, number: u64) -> Option<&Load> {
        self.memory.loads.get(&number)
    }
}
