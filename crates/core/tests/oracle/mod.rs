//! What would the Active Buffer Manager decide if it cached nothing?
//!
//! Idea: `docs/design/abm.md` written out as plain loops over scans x chunks x columns, with the
//! function names of the paper's Figures 3 and 11. The state holds only what events change
//! (resident, loading, held, needed, ...); every derived quantity is recomputed at each use, so no
//! update can be forgotten. `tests/oracle.rs` compares its actions with those of
//! `coscan_core::Abm`, which keeps counts and indexes instead.
//! Not here: the definitions (`definitions.rs`), the choice of deliveries and loads (`choose.rs`),
//! the choice of victims (`eviction.rs`).
//! Bounds: none that matter; an event costs scans² x chunks² and more. Only small worlds are
//! tested.
//! Source: [CoopScans07 Figure 3, Figure 11] as `docs/design/abm.md` makes them exact.

mod choose;
mod definitions;
mod eviction;
mod jobs;

use std::collections::{BTreeMap, VecDeque};

use coscan_core::{
    AbmConfig, Action, ChunkId, ChunkSet, ColumnId, ColumnSet, DeviceId, Event, LoadOrigin,
    PageRequestId, Policy, ScanId, ScanSpec, TableId, TableLayout, Time,
};

/// The naive Active Buffer Manager. Cloned to try evictions.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    config: AbmConfig,
    now: Time,
    budget: u64,
    /// The last sequence number given out: registrations, load starts and uses share one counter.
    sequence: u64,
    tables: BTreeMap<TableId, Table>,
    scans: BTreeMap<ScanId, Scan>,
    pages: BTreeMap<PageRequestId, Page>,
    loads: Vec<OutstandingLoad>,
    /// By leader and chunk.
    jobs: BTreeMap<(ScanId, ChunkId), jobs::Job>,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug)]
struct Table {
    layout: TableLayout,
    chunks: Vec<Chunk>,
    extents: Vec<ExtentState>,
    /// The elevator's cursor.
    cursor: ChunkId,
    /// Sequence number of the last load start.
    last_load: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    resident: ColumnSet,
    loading: ColumnSet,
    last_use: BTreeMap<ColumnId, u64>,
    /// Bytes in memory of resident columns that the driver has resized.
    resized: BTreeMap<ColumnId, u64>,
    /// The scan and the start of the newest load of this chunk.
    newest_load: Option<(ScanId, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExtentState {
    Absent,
    /// An outstanding load of this chunk brings the extent (by ABM-I1 exactly one load).
    Loading(ChunkId),
    Resident,
}

#[derive(Clone, Debug)]
struct Scan {
    spec: ScanSpec,
    /// The limit on devices at registration.
    devices_at_first: Option<u32>,
    needed: ChunkSet,
    /// With the times of the hand-out and of the last progress.
    held: BTreeMap<ChunkId, (Time, Time)>,
    /// Held chunks whose job has ended, with the number of scans that it served.
    served: BTreeMap<ChunkId, u64>,
    lapsed: ChunkSet,
    /// Chunks that other scans' jobs work on.
    joined: ChunkSet,
    start: ChunkId,
    waiting: u32,
    wait_since: Time,
    last_event: Time,
    stalled: bool,
    registered: u64,
    registered_at: Time,
    /// Over the consumed chunks: time in work, and their number.
    worked_ns: u64,
    chunks_worked: u64,
    /// Sequence number of the last load start for the scan; before the first, of its registration.
    last_load: u64,
}

#[derive(Clone, Debug)]
struct Page {
    table: TableId,
    chunk: ChunkId,
    columns: ColumnSet,
    state: PageState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageState {
    Queued,
    Waiting,
    Served,
}

/// Occupies a place on its device until its last column has completed or failed.
#[derive(Clone, Debug)]
struct OutstandingLoad {
    table: TableId,
    chunk: ChunkId,
    columns: ColumnSet,
    device: DeviceId,
}

impl Oracle {
    /// An oracle without tables and scans.
    pub(crate) fn new(config: AbmConfig) -> Self {
        Self {
            budget: config.budget_bytes,
            config,
            now: Time(0),
            sequence: 0,
            tables: BTreeMap::new(),
            scans: BTreeMap::new(),
            pages: BTreeMap::new(),
            loads: Vec::new(),
            jobs: BTreeMap::new(),
            actions: VecDeque::new(),
        }
    }

    /// "One event": stalls, state, delivery, budget, loads.
    pub(crate) fn handle(&mut self, now: Time, event: Event) {
        self.now = now;
        self.stall();
        self.apply(event);
        self.deliver();
        self.shrink();
        self.load();
    }

    /// The oldest action not yet taken.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Each scan's nanoseconds and chunks of work.
    pub(crate) fn work(&self) -> Vec<(ScanId, u64, u64)> {
        let scans = self.scans.iter();
        scans
            .map(|(&id, q)| (id, q.worked_ns, q.chunks_worked))
            .collect()
    }

    /// The earliest time at which a scan becomes stalled, or a turn ends, if no event comes.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let may_stall = self.scans.values().filter(|q| !q.stalled && q.waiting == 0);
        may_stall
            .map(|q| Time(q.last_event.0.saturating_add(self.config.stall_after_ns)))
            .chain(self.ends_of_turns())
            .min()
    }

    /// Step 1.
    fn stall(&mut self) {
        for q in self.scans.values_mut() {
            if q.waiting == 0 && self.now.0 - q.last_event.0 >= self.config.stall_after_ns {
                q.stalled = true;
            }
        }
    }

    /// Step 2.
    #[allow(clippy::too_many_lines)] // One arm per event.
    fn apply(&mut self, event: Event) {
        match event {
            Event::TableRegistered { table, layout } => {
                let chunks = vec![Chunk::default(); layout.chunks.len()];
                let extents = vec![ExtentState::Absent; layout.shared.len()];
                self.tables.insert(
                    table,
                    Table {
                        layout,
                        chunks,
                        extents,
                        cursor: ChunkId(0),
                        last_load: None,
                    },
                );
            }
            Event::ChunksAppended {
                table,
                chunks,
                shared,
            } => {
                let t = self.table_mut(table);
                t.chunks
                    .resize(t.chunks.len() + chunks.len(), Chunk::default());
                t.extents
                    .resize(t.extents.len() + shared.len(), ExtentState::Absent);
                t.layout.chunks.extend(chunks);
                t.layout.shared.extend(shared);
            }
            Event::TableDropped { table } => self.drop_table(table),
            Event::ScanRegistered { scan, spec } => self.register(scan, spec),
            Event::ChunkRequested { scan } => {
                let q = self.consumer_event(scan);
                if q.waiting == 0 {
                    q.wait_since = q.last_event;
                }
                q.waiting += 1;
            }
            Event::DegreeChanged { scan, devices_max } => {
                self.scans.get_mut(&scan).expect("valid").spec.devices_max = devices_max;
            }
            Event::RequestWithdrawn { scan } => {
                let q = self.consumer_event(scan);
                q.waiting = q.waiting.saturating_sub(1);
            }
            Event::ChunkProgressed { scan, chunk } => {
                let now = self.now;
                let turn = self.consumer_event(scan).held.get_mut(&chunk);
                turn.expect("a held chunk").1 = now;
            }
            Event::ChunkLapsed { scan, chunk } => {
                self.release(scan, chunk);
                self.lapse_with_job(scan, chunk);
                let q = self.scan_mut(scan);
                q.lapsed.insert(chunk);
                q.stalled |= q.waiting == 0 && q.held.is_empty();
            }
            Event::ChunkReleased { scan, chunk } => {
                let q = self.consumer_event(scan);
                if q.lapsed.contains(chunk) {
                    q.lapsed.remove(chunk);
                } else {
                    self.release(scan, chunk);
                }
            }
            Event::ChunksWithdrawn { scan, chunks } => {
                let q = self.scans.get_mut(&scan).expect("a registered scan");
                chunks.runs().for_each(|run| q.needed.remove_range(run));
            }
            Event::ChunkJobBegun {
                scan,
                chunk,
                members,
            } => self.begin_job(scan, chunk, members),
            Event::ChunkJobEnded {
                scan,
                chunk,
                given_back,
            } => self.end_job(scan, chunk, &given_back),
            Event::ScanEnded { scan } => {
                self.pass_jobs(scan);
                self.leave_jobs(scan);
                self.scans.remove(&scan);
            }
            Event::LoadCompleted {
                table,
                chunk,
                columns,
            } => self.complete(table, chunk, &columns),
            Event::LoadFailed {
                table,
                chunk,
                columns,
            } => self.fail(table, chunk, &columns),
            Event::SegmentResized {
                table,
                chunk,
                column,
                bytes,
            } => {
                assert!(self.resident(table, chunk).contains(column));
                let resized = &mut self.chunk_mut(table, chunk).resized;
                resized.insert(column, bytes);
            }
            Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            } => self.request_page(request, table, chunk, columns),
            Event::PageCompleted { request } => {
                if self
                    .pages
                    .get(&request)
                    .is_some_and(|p| p.state == PageState::Queued)
                {
                    self.pages.remove(&request);
                }
            }
            Event::PageReleased { request } => {
                let page = self.pages.remove(&request).expect("a served page");
                assert_eq!(page.state, PageState::Served);
                self.touch(page.table, page.chunk, &page.columns);
            }
            Event::BudgetChanged { bytes } => self.budget = bytes,
            Event::TimePassed => {}
            other => panic!("the oracle does not know {other:?}"),
        }
    }

    fn drop_table(&mut self, table: TableId) {
        assert!(self.scans.values().all(|q| q.spec.table != table));
        assert!(self.loads.iter().all(|l| l.table != table));
        assert!(self.pages.values().all(|p| p.table != table));
        assert!(self.jobs.values().all(|job| job.table != table));
        for chunk in self.chunks(table) {
            for column in self.resident(table, chunk).iter() {
                self.chunk_mut(table, chunk).resident.remove(column);
                self.actions.push_back(Action::Evict {
                    table,
                    chunk,
                    column,
                });
            }
        }
        for extent in self.extents(table) {
            if self.extent(table, extent) == ExtentState::Resident {
                self.evict_extent(table, extent);
            }
        }
        self.tables.remove(&table);
    }

    fn register(&mut self, scan: ScanId, spec: ScanSpec) {
        let needed = spec
            .parts
            .iter()
            .flat_map(|part| part.chunks.runs())
            .collect();
        let registered = self.next_sequence();
        self.scans.insert(
            scan,
            Scan {
                devices_at_first: spec.devices_max,
                spec,
                needed,
                held: BTreeMap::new(),
                served: BTreeMap::new(),
                lapsed: ChunkSet::new(),
                joined: ChunkSet::new(),
                start: ChunkId(0),
                waiting: 0,
                wait_since: self.now,
                last_event: self.now,
                stalled: false,
                registered,
                registered_at: self.now,
                worked_ns: 0,
                chunks_worked: 0,
                last_load: registered,
            },
        );
        if self.config.policy == Policy::Attach && !self.scans[&scan].spec.ordered {
            let start = self
                .choose_scan_to_attach_to(scan)
                .and_then(|q| self.order(q).first().copied());
            self.scan_mut(scan).start = start.unwrap_or(ChunkId(0));
        }
    }

    /// A request, withdrawal or release: activity of the scan's consumers.
    fn consumer_event(&mut self, scan: ScanId) -> &mut Scan {
        let now = self.now;
        let q = self.scan_mut(scan);
        q.last_event = now;
        q.stalled = false;
        q
    }

    fn release(&mut self, scan: ScanId, chunk: ChunkId) {
        let now = self.now;
        let q = self.scan_mut(scan);
        let (begun, last) = q.held.remove(&chunk).expect("a held chunk");
        let worked = self.worked((begun, last), now);
        if !self.pass_job(scan, chunk, (begun, last)) {
            let q = self.scan_mut(scan);
            q.worked_ns += worked / q.served.remove(&chunk).unwrap_or(1);
            q.chunks_worked += 1;
        }
        self.touch(self.scans[&scan].spec.table, chunk, &self.cols(scan, chunk));
    }

    /// A use of these columns, all with the same sequence number.
    fn touch(&mut self, table: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let sequence = self.next_sequence();
        for column in columns.iter() {
            self.chunk_mut(table, chunk)
                .last_use
                .insert(column, sequence);
        }
    }

    /// The driver reports a column when all its bytes are in memory, including extents that
    /// another chunk's load brings; these are then resident for every segment.
    fn complete(&mut self, table: TableId, chunk: ChunkId, columns: &[ColumnId]) {
        for &column in columns {
            self.take_from_load(table, chunk, column);
            for extent in self.extents_of(table, chunk, column) {
                let state = &mut self.table_mut(table).extents[extent.0 as usize];
                assert_ne!(
                    *state,
                    ExtentState::Absent,
                    "a complete column has its extents"
                );
                *state = ExtentState::Resident;
            }
            self.chunk_mut(table, chunk).resident.insert(column);
        }
        self.touch(table, chunk, &columns.iter().copied().collect());
        let resident = self.resident(table, chunk);
        for (&id, page) in &mut self.pages {
            if page.state == PageState::Waiting
                && (page.table, page.chunk) == (table, chunk)
                && page.columns.is_subset(&resident)
            {
                page.state = PageState::Served;
                self.actions.push_back(Action::ServePage { request: id });
            }
        }
    }

    fn fail(&mut self, table: TableId, chunk: ChunkId, columns: &[ColumnId]) {
        for &column in columns {
            self.take_from_load(table, chunk, column);
            for extent in self.extents_of(table, chunk, column) {
                let state = &mut self.table_mut(table).extents[extent.0 as usize];
                if *state == ExtentState::Loading(chunk) {
                    *state = ExtentState::Absent;
                }
            }
        }
        let failed: ColumnSet = columns.iter().copied().collect();
        for scan in self.interested(table, chunk) {
            if self.cols(scan, chunk).intersects(&failed) {
                self.scan_mut(scan).needed = ChunkSet::new();
                self.leave_jobs(scan);
                self.scan_mut(scan).waiting = 0;
                self.consumer_event(scan);
                self.actions.push_back(Action::Fail { scan, chunk });
            }
        }
        for (id, page) in self.pages.clone() {
            if page.state == PageState::Waiting
                && (page.table, page.chunk) == (table, chunk)
                && page.columns.intersects(&failed)
            {
                self.pages.remove(&id);
                self.actions.push_back(Action::FailPage { request: id });
            }
        }
    }

    fn take_from_load(&mut self, table: TableId, chunk: ChunkId, column: ColumnId) {
        let load = self
            .loads
            .iter_mut()
            .find(|l| (l.table, l.chunk) == (table, chunk) && l.columns.contains(column))
            .expect("a column of an outstanding load");
        load.columns.remove(column);
        self.loads.retain(|l| !l.columns.is_empty());
        self.chunk_mut(table, chunk).loading.remove(column);
    }

    fn request_page(
        &mut self,
        request: PageRequestId,
        table: TableId,
        chunk: ChunkId,
        columns: ColumnSet,
    ) {
        self.next_sequence();
        let state = if columns.is_subset(&self.resident(table, chunk)) {
            self.actions.push_back(Action::ServePage { request });
            PageState::Served
        } else if columns.is_subset(&self.resident_or_loading(table, chunk)) {
            self.actions.push_back(Action::DropPageRequest { request });
            PageState::Waiting
        } else {
            PageState::Queued
        };
        self.pages.insert(
            request,
            Page {
                table,
                chunk,
                columns,
                state,
            },
        );
    }

    fn answer_exhausted(&mut self, scan: ScanId) {
        while self.scans[&scan].waiting > 0 && self.scans[&scan].is_exhausted() {
            self.consumer_event(scan).waiting -= 1;
            self.actions.push_back(Action::Exhausted { scan });
        }
    }

    /// Waiting scans of high rank join a turn that has just begun.
    fn join(&mut self, table: TableId, chunk: ChunkId, leader_price: u64) {
        let before = self.scans_in_work().len();
        let mut ready: Vec<(u64, ScanId)> = Vec::new();
        for q in self.interested(table, chunk) {
            if self.scans[&q].waiting > 0 && !self.is_sequential(q) && self.ready(q, chunk) {
                ready.push((self.rank(q), q));
            }
        }
        ready.sort_unstable();
        for (at, &(_, q)) in ready.iter().enumerate() {
            let (earlier, later) = (before + at, ready.len() - at);
            let price = self.price(q);
            let decode = price.min(leader_price) / 2;
            if decode * later as u64 >= (price - decode) * earlier as u64 {
                self.hand_out(q, chunk);
                self.answer_exhausted(q);
            }
        }
    }

    /// Step 3, with turns.
    fn deliver_in_turn(&mut self, chunks_max: usize) {
        loop {
            for scan in self.scan_ids() {
                if self.is_sequential(scan) {
                    self.deliver_at_once(scan);
                } else {
                    self.answer_exhausted(scan);
                }
            }
            if self.chunks_in_work().len() >= chunks_max {
                return;
            }
            let mut next: Option<(u64, ScanId, ChunkId)> = None;
            for scan in self.scan_ids() {
                let rank = self.rank(scan);
                if self.scans[&scan].waiting > 0
                    && next.is_none_or(|(least, ..)| rank < least)
                    && let Some(chunk) = self.choose_available_chunk(scan)
                {
                    next = Some((rank, scan, chunk));
                }
            }
            let Some((_, scan, chunk)) = next else { return };
            let price = self.price(scan);
            self.hand_out(scan, chunk);
            self.answer_exhausted(scan);
            self.join(self.scans[&scan].spec.table, chunk, price);
        }
    }

    /// Step 3: selectChunk of every waiting query.
    fn deliver(&mut self) {
        if let Some(limit) = self.turns() {
            return self.deliver_in_turn(limit.chunks_max);
        }
        for scan in self.scan_ids() {
            self.deliver_at_once(scan);
        }
    }

    fn deliver_at_once(&mut self, scan: ScanId) {
        while self.scans[&scan].waiting > 0 {
            if let Some(chunk) = self.choose_available_chunk(scan) {
                self.hand_out(scan, chunk);
            } else if self.scans[&scan].is_exhausted() {
                self.consumer_event(scan).waiting -= 1;
                self.actions.push_back(Action::Exhausted { scan });
            } else {
                break;
            }
        }
    }

    fn hand_out(&mut self, scan: ScanId, chunk: ChunkId) {
        let table = self.scans[&scan].spec.table;
        let origin = match self.chunk(table, chunk).newest_load {
            Some((by, _)) if by == scan => LoadOrigin::LoadedForMe,
            Some((_, at)) if at > self.scans[&scan].registered => LoadOrigin::LoadedForOthers,
            _ => LoadOrigin::FromBuffer,
        };
        self.touch(table, chunk, &self.cols(scan, chunk));
        let now = self.now;
        let q = self.scan_mut(scan);
        q.needed.remove(chunk);
        q.held.insert(chunk, (now, now));
        q.waiting -= 1;
        q.last_event = now;
        self.actions.push_back(Action::Deliver {
            scan,
            chunk,
            origin,
        });
    }

    /// Step 5: the ABM's main loop.
    fn load(&mut self) {
        while self
            .devices()
            .into_iter()
            .any(|device| self.has_free_place(device))
        {
            let Some(choice) = self.choose_load() else {
                return;
            };
            if self.find_free_slot(&choice) {
                self.load_chunk(&choice);
            } else if !self.give_up_grown(&choice) {
                return;
            }
        }
    }

    fn load_chunk(&mut self, choice: &choose::Choice) {
        let &choose::Choice {
            scan, table, chunk, ..
        } = choice;
        let extents = self.absent_extents(table, chunk, &choice.columns);
        let bytes = self.bytes_to_load(table, chunk, &choice.columns);
        assert!(
            self.used() + bytes <= self.budget,
            "ABM-I3: the load fits the budget"
        );

        let sequence = self.next_sequence();
        self.scan_mut(scan).last_load = sequence;
        let t = self.table_mut(table);
        t.last_load = Some(sequence);
        for extent in &extents {
            t.extents[extent.0 as usize] = ExtentState::Loading(chunk);
        }
        let c = self.chunk_mut(table, chunk);
        assert!(
            !choice.columns.intersects(&c.loading),
            "ABM-I1: loading at most once"
        );
        c.loading = c.loading.union(&choice.columns);
        c.newest_load = Some((scan, sequence));
        self.loads.push(OutstandingLoad {
            table,
            chunk,
            columns: choice.columns.clone(),
            device: self.device(table, chunk),
        });
        if self.config.policy == Policy::Elevator {
            let after =
                (chunk.0 + 1) % u32::try_from(self.chunks(table).len()).expect("few chunks");
            self.table_mut(table).cursor = ChunkId(after);
        }

        let mut columns: Vec<ColumnId> = choice.columns.iter().collect();
        columns.sort_by_key(|&column| (self.own(table, chunk, column), column));
        self.actions.push_back(Action::Load {
            table,
            chunk,
            columns,
            extents,
            bytes,
            scan,
        });
        self.drop_page_requests(table, chunk);
    }

    /// Queued page requests that a new load covers wait for that load.
    fn drop_page_requests(&mut self, table: TableId, chunk: ChunkId) {
        let covered = self.resident_or_loading(table, chunk);
        for (&id, page) in &mut self.pages {
            if page.state == PageState::Queued
                && (page.table, page.chunk) == (table, chunk)
                && page.columns.is_subset(&covered)
            {
                page.state = PageState::Waiting;
                self.actions
                    .push_back(Action::DropPageRequest { request: id });
            }
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn scan_mut(&mut self, scan: ScanId) -> &mut Scan {
        self.scans.get_mut(&scan).expect("a registered scan")
    }

    fn table_mut(&mut self, table: TableId) -> &mut Table {
        self.tables.get_mut(&table).expect("a registered table")
    }

    fn chunk_mut(&mut self, table: TableId, chunk: ChunkId) -> &mut Chunk {
        &mut self.table_mut(table).chunks[chunk.0 as usize]
    }
}
