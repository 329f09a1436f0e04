//! The Active Buffer Manager: one event in, the actions that follow out.
//!
//! This file is the skeleton of `handle`: state changes, then delivery, budget, loads. What is chosen stands elsewhere:
//! `relevance.rs`, `elevator.rs`, `sequential.rs` (loads, deliveries), `room.rs` (victims).
//!
//! Bounds: at most `loads_max` outstanding loads per device; actions queue until polled.
//! I1 a segment is loading at most once. I2 a pinned segment is never a victim. I3 bytes resident or loading stay in budget.
//! I4 every load has a scan that wants it. I5 each scan is handed each of its chunks once.
//! Source: [CoopScans07 §4, Figure 3]; contract: `docs/design/abm.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::EventError;
use crate::pages::Pages;
use crate::scan::{PartState, Scan};
use crate::table::{LastLoad, Pinner, Table};
use crate::{
    AbmConfig, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event,
    LoadOrigin, Policy, ScanId, ScanSpec, SharedExtent, StorageModel, TableId, TableLayout, Time,
};

/// The scheduler of all scans over all tables of one buffer pool.
///
/// ```
/// use coscan_core::*;
/// let config = AbmConfig {
///     policy: Policy::Relevance,
///     model: StorageModel::Dsm,
///     budget_bytes: 1 << 20,
///     loads_max: 1,
///     stall_after_ns: 5_000_000_000,
///     wait_unit_ns: 1_000_000_000,
/// };
/// let mut abm = Abm::new(config);
/// let chunk = ChunkLayout { device: DeviceId(0), bytes: vec![4096, 8192].into() };
/// let layout = TableLayout { columns: 2, chunks: vec![chunk], shared: vec![] };
/// abm.handle(Time(0), Event::TableRegistered { table: TableId(0), layout })?;
/// let part = Part { chunks: ChunkSet::from_range(0..1), columns: ColumnSet::all(2) };
/// let spec = ScanSpec { table: TableId(0), parts: vec![part], consumers: 1, ordered: false };
/// abm.handle(Time(0), Event::ScanRegistered { scan: ScanId(1), spec })?;
/// assert!(matches!(abm.poll_action(), Some(Action::Load { bytes: 12288, .. })));
/// # Ok::<(), EventError>(())
/// ```
#[derive(Debug)]
pub struct Abm {
    pub(crate) config: AbmConfig,
    pub(crate) now: Time,
    /// Ascends with everything that is ordered by when it happened.
    seq: u64,
    pub(crate) budget: u64,
    /// I3: bytes resident or loading.
    pub(crate) used: u64,
    pub(crate) tables: BTreeMap<TableId, Table>,
    pub(crate) scans: BTreeMap<ScanId, Scan>,
    scan_last: Option<ScanId>,
    /// Scans of which a waiting consumer may be served now.
    serve: BTreeSet<ScanId>,
    /// When each scan that is neither waiting nor stalled becomes stalled.
    stalls: BTreeSet<(Time, ScanId)>,
    /// Outstanding loads: columns still to come.
    loads: BTreeMap<(TableId, ChunkId), Vec<OutstandingLoad>>,
    outstanding: BTreeMap<DeviceId, usize>,
    devices: BTreeSet<DeviceId>,
    pub(crate) pages: Pages,
    pub(crate) actions: VecDeque<Action>,
}

#[derive(Debug)]
struct OutstandingLoad {
    columns: ColumnSet,
    device: DeviceId,
}

/// A load that a policy chose.
#[derive(Debug)]
pub(crate) struct LoadChoice {
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    pub(crate) columns: ColumnSet,
    pub(crate) scan: ScanId,
}

impl Abm {
    /// A buffer manager without tables.
    #[must_use]
    pub fn new(config: AbmConfig) -> Self {
        Self {
            budget: config.budget_bytes,
            config,
            now: Time(0),
            seq: 0,
            used: 0,
            tables: BTreeMap::new(),
            scans: BTreeMap::new(),
            scan_last: None,
            serve: BTreeSet::new(),
            stalls: BTreeSet::new(),
            loads: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            devices: BTreeSet::new(),
            pages: Pages::default(),
            actions: VecDeque::new(),
        }
    }

    /// Takes in what happened and decides what follows; the actions wait in [`Abm::poll_action`].
    ///
    /// # Errors
    /// The event contradicts the state (a bug in the driver). Nothing has changed then.
    pub fn handle(&mut self, now: Time, event: Event) -> Result<(), EventError> {
        self.validate(&event)?;
        self.now = self.now.max(now);
        self.expire_stalls();
        self.apply(event);
        self.deliver();
        self.shrink_to_budget();
        self.start_loads();
        Ok(())
    }

    /// The next action to carry out, oldest first.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `TimePassed` is due: the next moment a scan may turn out to be stalled.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.stalls.first().map(|&(time, _)| time)
    }

    /// Bytes resident or loading (I3).
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used
    }

    /// The budget now.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.budget
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        self.tables
            .get(&id)
            .expect("scans and loads name registered tables")
    }

    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.tables
            .get_mut(&id)
            .expect("scans and loads name registered tables")
    }

    pub(crate) fn scan(&self, id: ScanId) -> &Scan {
        self.scans.get(&id).expect("slots name registered scans")
    }

    fn scan_mut(&mut self, id: ScanId) -> &mut Scan {
        self.scans
            .get_mut(&id)
            .expect("slots name registered scans")
    }

    /// Whether another load may start on the device.
    pub(crate) fn device_free(&self, device: DeviceId) -> bool {
        self.outstanding.get(&device).copied().unwrap_or(0) < self.config.loads_max
    }

    // ---- 2. state ----

    fn apply(&mut self, event: Event) {
        match event {
            Event::TableRegistered { table, layout } => self.add_table(table, layout),
            Event::ChunksAppended {
                table,
                chunks,
                shared,
            } => {
                self.append_chunks(table, chunks, shared);
            }
            Event::TableDropped { table } => self.drop_table(table),
            Event::ScanRegistered { scan, spec } => self.register(scan, spec),
            Event::ChunkRequested { scan } => self.request(scan),
            Event::RequestWithdrawn { scan } => self.withdraw_request(scan),
            Event::ChunkReleased { scan, chunk } => self.release(scan, chunk),
            Event::ChunksWithdrawn { scan, chunks } => self.withdraw_chunks(scan, &chunks),
            Event::ScanEnded { scan } => self.end(scan),
            Event::LoadCompleted {
                table,
                chunk,
                columns,
            } => {
                self.complete_load(table, chunk, &columns.into_iter().collect());
            }
            Event::LoadFailed {
                table,
                chunk,
                columns,
            } => {
                self.fail_load(table, chunk, &columns.into_iter().collect());
            }
            Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            } => {
                self.request_page(request, table, chunk, columns);
            }
            Event::PageCompleted { request } => self.complete_page(request),
            Event::PageReleased { request } => self.release_page(request),
            Event::BudgetChanged { bytes } => self.budget = bytes,
            Event::TimePassed => {}
        }
    }

    fn add_table(&mut self, id: TableId, layout: TableLayout) {
        self.devices
            .extend(layout.chunks.iter().map(|chunk| chunk.device));
        self.tables
            .insert(id, Table::new(id, self.config.policy, layout));
    }

    fn append_chunks(&mut self, id: TableId, chunks: Vec<ChunkLayout>, shared: Vec<SharedExtent>) {
        self.devices.extend(chunks.iter().map(|chunk| chunk.device));
        self.table_mut(id).append(chunks, shared);
    }

    fn drop_table(&mut self, id: TableId) {
        let Some(mut table) = self.tables.remove(&id) else {
            return;
        };
        let (segments, extents) = table.resident();
        for (chunk, column) in segments {
            self.used -= table.own_bytes(chunk, column);
            self.actions.push_back(Action::Evict {
                table: id,
                chunk,
                column,
            });
        }
        for extent in extents {
            self.used -= table.evict_extent(extent);
            self.actions
                .push_back(Action::EvictExtent { table: id, extent });
        }
    }

    fn register(&mut self, id: ScanId, spec: ScanSpec) {
        let registered_seq = self.next_seq();
        let ScanSpec {
            table: table_id,
            parts,
            consumers,
            ordered,
        } = spec;
        let sequential = ordered || matches!(self.config.policy, Policy::Normal | Policy::Attach);
        let start = if self.config.policy == Policy::Attach && !ordered {
            self.attach_point(table_id, &parts)
        } else {
            ChunkId(0)
        };
        let table = self.table_mut(table_id);
        table.scans.insert(id);
        let parts: Vec<PartState> = parts
            .into_iter()
            .map(|part| PartState {
                slot: table.add_slot(id, &part.chunks, &part.columns, sequential),
                columns: part.columns,
                needed: part.chunks,
            })
            .collect();
        let coming = parts
            .iter()
            .map(|part| table.count_coming(&part.needed, &part.columns))
            .sum();
        let needed = parts.iter().flat_map(|part| part.needed.runs()).collect();
        let now = self.now;
        let scan = Scan {
            id,
            table: table_id,
            parts,
            needed,
            held: BTreeSet::new(),
            coming,
            consumers,
            sequential,
            ordered,
            start,
            waiting: 0,
            wait_since: now,
            last_activity: now,
            stalled: false,
            starved: false,
            registered_seq,
            last_load_seq: registered_seq,
        };
        self.scans.insert(id, scan);
        self.scan_last = Some(id);
        self.active(id);
        self.refresh(id);
    }

    fn request(&mut self, id: ScanId) {
        let now = self.now;
        let scan = self.scan_mut(id);
        if scan.waiting == 0 {
            scan.wait_since = now;
        }
        scan.waiting += 1;
        self.active(id);
        self.serve.insert(id);
    }

    fn withdraw_request(&mut self, id: ScanId) {
        let scan = self.scan_mut(id);
        scan.waiting = scan.waiting.saturating_sub(1);
        self.active(id);
    }

    fn release(&mut self, id: ScanId, chunk: ChunkId) {
        let seq = self.next_seq();
        let scan = self.scan_mut(id);
        scan.held.remove(&chunk);
        let table_id = scan.table;
        let table = self.table_mut(table_id);
        let columns = table.unpin(chunk, Pinner::Scan(id));
        table.touch(chunk, &columns, seq);
        self.active(id);
        self.refresh(id);
    }

    fn withdraw_chunks(&mut self, id: ScanId, chunks: &ChunkSet) {
        let scan = self.scans.get_mut(&id).expect("validated");
        let table = self
            .tables
            .get_mut(&scan.table)
            .expect("scans name registered tables");
        for part in &mut scan.parts {
            let gone = part.needed.intersection(chunks);
            if gone.is_empty() {
                continue;
            }
            scan.coming -= table.count_coming(&gone, &part.columns);
            table.set_interest(part.slot, &gone, false);
            for run in gone.runs() {
                part.needed.remove_range(run.clone());
                scan.needed.remove_range(run);
            }
        }
        self.serve.insert(id);
        self.refresh(id);
    }

    fn end(&mut self, id: ScanId) {
        let Some(scan) = self.scans.remove(&id) else {
            return;
        };
        self.serve.remove(&id);
        self.stalls.remove(&(self.stall_time(&scan), id));
        let table = self.table_mut(scan.table);
        table.scans.remove(&id);
        for chunk in scan.held {
            table.unpin(chunk, Pinner::Scan(id));
        }
        for part in scan.parts {
            table.drop_slot(part.slot, &part.needed);
        }
    }

    fn complete_load(&mut self, id: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let seq = self.next_seq();
        self.settle_load(id, chunk, columns);
        // What is coming does not change: loading becomes resident.
        let table = self.table_mut(id);
        table.complete_load(chunk, columns, seq);
        let resident = &table.group(chunk).state.resident;
        let ready: Vec<ScanId> = table
            .interest(chunk)
            .iter()
            .map(|slot| table.slot(slot))
            .filter(|slot| slot.columns.is_subset(resident))
            .map(|slot| slot.scan)
            .collect();
        self.serve.extend(ready);
        self.serve_pages(id, chunk);
    }

    fn fail_load(&mut self, id: TableId, chunk: ChunkId, columns: &ColumnSet) {
        self.settle_load(id, chunk, columns);
        let mut freed = 0;
        self.change_coming(id, chunk, |table| freed = table.fail_load(chunk, columns));
        self.used -= freed;
        let table = self.table(id);
        let mut failed: Vec<ScanId> = table
            .interest(chunk)
            .iter()
            .map(|slot| table.slot(slot))
            .filter(|slot| slot.columns.intersects(columns))
            .map(|slot| slot.scan)
            .collect();
        failed.sort_unstable();
        for scan in failed {
            self.fail_scan(scan, chunk);
        }
        self.fail_pages(id, chunk, columns);
    }

    /// I7: a failed load fails the scans that need it, and nothing else.
    fn fail_scan(&mut self, id: ScanId, chunk: ChunkId) {
        let needed = self.scan(id).needed.clone();
        self.withdraw_chunks(id, &needed);
        self.scan_mut(id).waiting = 0;
        self.active(id);
        self.actions.push_back(Action::Fail { scan: id, chunk });
    }

    /// Takes arrived or failed columns off their outstanding loads.
    fn settle_load(&mut self, table: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let Some(loads) = self.loads.get_mut(&(table, chunk)) else {
            return;
        };
        for load in loads.iter_mut() {
            load.columns = load.columns.difference(columns);
            if load.columns.is_empty() {
                *self.outstanding.entry(load.device).or_default() -= 1;
            }
        }
        loads.retain(|load| !load.columns.is_empty());
        if loads.is_empty() {
            self.loads.remove(&(table, chunk));
        }
    }

    // ---- 1. stalls ----

    fn stall_time(&self, scan: &Scan) -> Time {
        Time(
            scan.last_activity
                .0
                .saturating_add(self.config.stall_after_ns),
        )
    }

    /// A consumer of the scan did something, or was handed a chunk.
    fn active(&mut self, id: ScanId) {
        let now = self.now;
        let old = self.stall_time(self.scan(id));
        self.stalls.remove(&(old, id));
        let scan = self.scan_mut(id);
        scan.last_activity = now;
        let (waiting, stalled) = (scan.waiting > 0, scan.stalled);
        if !waiting {
            let due = self.stall_time(self.scan(id));
            self.stalls.insert((due, id));
        }
        if stalled {
            self.set_stalled(id, false);
        }
    }

    fn expire_stalls(&mut self) {
        while let Some(&(due, id)) = self.stalls.first()
            && due <= self.now
        {
            self.stalls.remove(&(due, id));
            self.set_stalled(id, true);
        }
    }

    fn set_stalled(&mut self, id: ScanId, on: bool) {
        let scan = self.scan_mut(id);
        scan.stalled = on;
        let (table, slots) = (scan.table, scan.slots());
        self.table_mut(table).set_stalled(&slots, on);
        self.refresh(id);
    }

    // ---- starvation ----

    /// available(q), cut off where it no longer matters.
    fn available(&self, scan: &Scan) -> usize {
        if !scan.sequential {
            return scan.held.len() + scan.coming;
        }
        let table = self.table(scan.table);
        let prefix = scan
            .order()
            .take(scan.lookahead() + 1)
            .take_while(|&chunk| {
                let part = scan.part_of(chunk);
                part.is_some_and(|p| scan.parts[p].columns.is_subset(&table.group(chunk).coming))
            });
        scan.held.len() + prefix.count()
    }

    /// Works out anew whether a scan is starved or almost starved.
    fn refresh(&mut self, id: ScanId) {
        let scan = self.scan(id);
        let available = self.available(scan);
        let starved = !scan.stalled && available < scan.lookahead();
        let almost = !scan.stalled && available <= scan.lookahead();
        let (table, slots) = (scan.table, scan.slots());
        self.scan_mut(id).starved = starved;
        let table = self.table_mut(table);
        for slot in slots {
            table.starved.set(slot, starved);
            table.almost.set(slot, almost);
        }
    }

    /// Makes a change to a chunk's resident or loading columns, and tells the interested scans what is coming now.
    pub(crate) fn change_coming(
        &mut self,
        id: TableId,
        chunk: ChunkId,
        change: impl FnOnce(&mut Table),
    ) {
        let table = self.table_mut(id);
        let before = table.group(chunk).coming.clone();
        change(table);
        let coming = &table.group(chunk).coming;
        if *coming == before {
            return;
        }
        let affected: Vec<(ScanId, bool, bool)> = table
            .interest(chunk)
            .iter()
            .map(|slot| table.slot(slot))
            .map(|s| {
                (
                    s.scan,
                    s.columns.is_subset(&before),
                    s.columns.is_subset(coming),
                )
            })
            .filter(|(_, was, is)| was != is)
            .collect();
        for (id, _, is) in affected {
            let scan = self.scan_mut(id);
            if is {
                scan.coming += 1;
            } else {
                scan.coming -= 1;
            }
            self.refresh(id);
        }
    }

    // ---- 3. delivery ----

    fn deliver(&mut self) {
        while let Some(id) = self.serve.pop_first() {
            while self.scans.get(&id).is_some_and(|scan| scan.waiting > 0) {
                if let Some(chunk) = self.choose_available(id) {
                    self.hand_out(id, chunk);
                } else if self.scan(id).needed.is_empty() {
                    self.scan_mut(id).waiting -= 1;
                    self.active(id);
                    self.actions.push_back(Action::Exhausted { scan: id });
                } else {
                    break;
                }
            }
        }
    }

    fn choose_available(&self, id: ScanId) -> Option<ChunkId> {
        let scan = self.scan(id);
        match self.config.policy {
            _ if scan.sequential => self.next_in_order(scan),
            Policy::Elevator => self.oldest_behind_cursor(scan),
            _ => self.most_useful(scan),
        }
    }

    fn hand_out(&mut self, id: ScanId, chunk: ChunkId) {
        let seq = self.next_seq();
        let scan = self.scans.get_mut(&id).expect("deliver named it");
        let part = scan.take(chunk).expect("I5: only needed chunks are chosen");
        scan.coming -= 1;
        scan.held.insert(chunk);
        scan.waiting -= 1;
        let registered = scan.registered_seq;
        let PartState {
            slot, ref columns, ..
        } = scan.parts[part];
        let table = self
            .tables
            .get_mut(&scan.table)
            .expect("scans name registered tables");
        table.drop_interest(chunk, slot);
        table.pin(chunk, Pinner::Scan(id), columns.clone());
        table.touch(chunk, columns, seq);
        let origin = match table.chunks[chunk.0 as usize].last_load {
            Some(LastLoad { scan, .. }) if scan == id => LoadOrigin::LoadedForMe,
            Some(LastLoad { seq, .. }) if seq > registered => LoadOrigin::LoadedForOthers,
            _ => LoadOrigin::FromBuffer,
        };
        self.active(id);
        self.refresh(id);
        self.actions.push_back(Action::Deliver {
            scan: id,
            chunk,
            origin,
        });
    }

    // ---- 5. loads ----

    fn start_loads(&mut self) {
        while self.devices.iter().any(|&device| self.device_free(device)) {
            let choice = match self.config.policy {
                Policy::Normal | Policy::Attach => self.choose_sequential_load(),
                Policy::Elevator => self.choose_elevator_load(),
                Policy::Relevance => self.choose_relevant_load(),
            };
            let Some(mut choice) = choice else { return };
            self.cut_to_budget(&mut choice);
            if !self.make_room(&choice) {
                return;
            }
            self.start_load(choice);
        }
    }

    /// What several scans want together may never fit; what one of them wants may.
    fn cut_to_budget(&self, choice: &mut LoadChoice) {
        if self.load_bytes(choice.table, choice.chunk, &choice.columns) <= self.budget {
            return;
        }
        let table = self.table(choice.table);
        let misses = |id: ScanId| {
            let scan = self.scan(id);
            let part = &scan.parts[scan.part_of(choice.chunk)?];
            let missing = part.columns.difference(&table.group(choice.chunk).coming);
            (!missing.is_empty()).then_some((id, missing))
        };
        let only = match self.config.policy {
            Policy::Elevator => {
                let active = table.interest(choice.chunk).difference(&table.stalled);
                let mut scans: Vec<ScanId> = active.iter().map(|s| table.slot(s).scan).collect();
                scans.sort_unstable();
                scans.into_iter().find_map(misses)
            }
            _ => misses(choice.scan),
        };
        if let Some((scan, columns)) = only {
            choice.scan = scan;
            choice.columns = columns;
        }
    }

    fn start_load(&mut self, choice: LoadChoice) {
        let LoadChoice {
            table: id,
            chunk,
            columns,
            scan,
        } = choice;
        let seq = self.next_seq();
        let table = self.table(id);
        let device = table.device(chunk);
        let extents = table.absent_extents(chunk, &columns);
        let bytes = self.load_bytes(id, chunk, &columns);
        let mut ordered: Vec<ColumnId> = columns.iter().collect();
        ordered.sort_by_key(|&column| (table.own_bytes(chunk, column), column));
        if self.config.policy == Policy::Elevator {
            let next = ChunkId((chunk.0 + 1) % table.chunk_count());
            self.table_mut(id).cursor = next;
        }
        self.change_coming(id, chunk, |table| {
            table.start_load(chunk, &columns, &extents, LastLoad { scan, seq });
        });
        self.used += bytes;
        self.scan_mut(scan).last_load_seq = seq;
        *self.outstanding.entry(device).or_default() += 1;
        self.loads
            .entry((id, chunk))
            .or_default()
            .push(OutstandingLoad { columns, device });
        self.actions.push_back(Action::Load {
            table: id,
            chunk,
            columns: ordered,
            extents,
            bytes,
            scan,
        });
        self.drop_page_requests(id, chunk);
    }

    /// Bytes that a load brings.
    pub(crate) fn load_bytes(&self, id: TableId, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        let table = self.table(id);
        let own: u64 = columns.iter().map(|c| table.own_bytes(chunk, c)).sum();
        let shared = table.absent_extents(chunk, columns);
        own + shared
            .into_iter()
            .map(|e| table.extent_bytes(e))
            .sum::<u64>()
    }

    // ---- what the driver got wrong ----

    fn validate(&self, event: &Event) -> Result<(), EventError> {
        let scan = |id: &ScanId| self.scans.get(id).ok_or(EventError::UnknownScan(*id));
        let chunk = |table: &TableId, chunk: &ChunkId| {
            let entry = self
                .tables
                .get(table)
                .ok_or(EventError::UnknownTable(*table))?;
            if chunk.0 < entry.chunk_count() {
                Ok(entry)
            } else {
                Err(EventError::UnknownChunk(*table, *chunk))
            }
        };
        match event {
            Event::TableRegistered { table, layout } => {
                if self.tables.contains_key(table) {
                    return Err(EventError::TableExists(*table));
                }
                if self.config.model == StorageModel::Nsm && layout.columns != 1 {
                    return Err(EventError::BadLayout(*table));
                }
                check_layout(*table, layout.columns, 0, 0, &layout.chunks, &layout.shared)
            }
            Event::ChunksAppended {
                table,
                chunks,
                shared,
            } => {
                let entry = self
                    .tables
                    .get(table)
                    .ok_or(EventError::UnknownTable(*table))?;
                let (first, extents) = (entry.chunk_count(), entry.extent_count());
                check_layout(*table, entry.column_count(), first, extents, chunks, shared)
            }
            Event::TableDropped { table } => {
                let entry = self
                    .tables
                    .get(table)
                    .ok_or(EventError::UnknownTable(*table))?;
                let loading = self.loads.keys().any(|(t, _)| t == table);
                if entry.scans.is_empty() && !loading && !self.pages.any_of(*table) {
                    Ok(())
                } else {
                    Err(EventError::TableInUse(*table))
                }
            }
            Event::ScanRegistered { scan, spec } => self.validate_scan(*scan, spec),
            Event::ChunkRequested { scan: id }
            | Event::RequestWithdrawn { scan: id }
            | Event::ChunksWithdrawn { scan: id, .. }
            | Event::ScanEnded { scan: id } => scan(id).map(drop),
            Event::ChunkReleased { scan: id, chunk } => {
                let held = scan(id)?.held.contains(chunk);
                if held {
                    Ok(())
                } else {
                    Err(EventError::NotHeld(*id, *chunk))
                }
            }
            Event::LoadCompleted {
                table,
                chunk: c,
                columns,
            } => {
                let entry = chunk(table, c)?;
                check_loading(entry, *c, columns)?;
                match columns
                    .iter()
                    .find(|column| !entry.extents_come(*c, **column))
                {
                    Some(column) => Err(EventError::ExtentAbsent(*table, *c, *column)),
                    None => Ok(()),
                }
            }
            Event::LoadFailed {
                table,
                chunk: c,
                columns,
            } => check_loading(chunk(table, c)?, *c, columns),
            Event::PageRequested {
                request,
                table,
                chunk: c,
                columns,
            } => {
                let entry = chunk(table, c)?;
                let known = columns.iter().all(|column| column.0 < entry.column_count());
                if !known || columns.is_empty() {
                    return Err(EventError::UnknownChunk(*table, *c));
                }
                self.pages.validate_new(*request)
            }
            Event::PageCompleted { .. }
            | Event::PageReleased { .. }
            | Event::BudgetChanged { .. }
            | Event::TimePassed => Ok(()),
        }
    }

    fn validate_scan(&self, id: ScanId, spec: &ScanSpec) -> Result<(), EventError> {
        if self.scan_last.is_some_and(|last| id <= last) {
            return Err(EventError::ScanIdReused(id));
        }
        let table = self
            .tables
            .get(&spec.table)
            .ok_or(EventError::UnknownTable(spec.table))?;
        let mut seen = ChunkSet::new();
        for part in &spec.parts {
            let end = part.chunks.runs().last().map_or(0, |run| run.end);
            let known = part.columns.iter().all(|c| c.0 < table.column_count());
            let overlap = seen.intersection_len(&part.chunks) > 0;
            let empty = part.chunks.is_empty() || part.columns.is_empty();
            if end > table.chunk_count() || !known || overlap || empty {
                return Err(EventError::BadPart(id));
            }
            for run in part.chunks.runs() {
                seen.insert_range(run);
            }
        }
        if spec.consumers == 0 {
            Err(EventError::BadPart(id))
        } else {
            Ok(())
        }
    }

    /// Every invariant, in O(state). For tests and simulation.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let used: u64 = self.tables.values().map(Table::check).sum();
        assert_eq!(used, self.used, "I3: bytes are accounted for");
        for scan in self.scans.values() {
            self.check_scan(scan);
        }
        for (device, &loads) in &self.outstanding {
            let counted = self
                .loads
                .values()
                .flatten()
                .filter(|load| load.device == *device)
                .count();
            assert_eq!(loads, counted);
            assert!(
                loads <= self.config.loads_max,
                "a device has at most loads_max loads"
            );
        }
    }

    fn check_scan(&self, scan: &Scan) {
        let table = self.table(scan.table);
        let mut coming = 0;
        let mut needed = 0;
        for part in &scan.parts {
            assert_eq!(table.slot(part.slot).scan, scan.id);
            needed += part.needed.len();
            for chunk in part.needed.iter() {
                assert!(table.interest(chunk).contains(part.slot));
                assert!(scan.needed.contains(chunk));
                coming += usize::from(part.columns.is_subset(&table.group(chunk).coming));
            }
            assert_eq!(table.starved.contains(part.slot), scan.starved);
            assert_eq!(table.stalled.contains(part.slot), scan.stalled);
        }
        assert_eq!(needed, scan.needed.len(), "parts are disjoint");
        assert_eq!(coming, scan.coming, "available chunks are counted right");
        let starved = !scan.stalled && self.available(scan) < scan.lookahead();
        assert_eq!(starved, scan.starved, "starvation is known");
        let timed = self.stalls.contains(&(self.stall_time(scan), scan.id));
        assert_eq!(
            timed,
            scan.waiting == 0 && !scan.stalled,
            "a silent scan has a deadline"
        );
        assert!(
            scan.held.iter().all(|chunk| !scan.needed.contains(*chunk)),
            "I5"
        );
    }
}

fn check_loading(table: &Table, chunk: ChunkId, columns: &[ColumnId]) -> Result<(), EventError> {
    let loading = &table.group(chunk).state.loading;
    match columns.iter().find(|column| !loading.contains(**column)) {
        Some(column) => Err(EventError::NotLoading(table.id, chunk, *column)),
        None => Ok(()),
    }
}

fn check_layout(
    table: TableId,
    columns: u16,
    first_chunk: u32,
    first_extent: usize,
    chunks: &[ChunkLayout],
    shared: &[SharedExtent],
) -> Result<(), EventError> {
    let count = u32::try_from(chunks.len())
        .ok()
        .and_then(|n| n.checked_add(first_chunk));
    let extents = u32::try_from(first_extent + shared.len());
    let fits = |extent: &SharedExtent| {
        extent.column.0 < columns
            && extent.first <= extent.last
            && extent.first.0 >= first_chunk
            && count.is_some_and(|count| extent.last.0 < count)
    };
    let even = chunks
        .iter()
        .all(|chunk| chunk.bytes.len() == usize::from(columns));
    if count.is_some() && extents.is_ok() && even && shared.iter().all(fits) {
        Ok(())
    } else {
        Err(EventError::BadLayout(table))
    }
}
