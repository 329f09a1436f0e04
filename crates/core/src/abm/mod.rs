//! The Active Buffer Manager: one event in, the actions that follow out.
//!
//! This file is the skeleton of `handle`: stalls (`starvation.rs`), state changes and delivery
//! (`scans.rs`, `turns.rs`, `loading.rs`, `pages.rs`, `jobs.rs`), budget (`eviction.rs`), loads
//! (`loading.rs`). What is chosen stands in `relevance.rs`, `elevator.rs`, `in_order.rs`.
//!
//! Bounds: at most `loads_max` outstanding loads per device; actions queue until polled.
//! I1 a segment is loading at most once. I2 a pinned segment is never a victim. I3 bytes resident
//! or loading stay in budget. I4 every load has a scan that wants it. I5 each chunk is done with
//! once for each scan that announced it, whoever does it.
//! Source: [CoopScans07 §4, Figure 3]; contract: `docs/design/abm.md`.

#[cfg(feature = "canary")]
mod canary;
mod check;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod handle;
pub mod log;
pub(crate) mod snapshot;
mod validate;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::abm::error::EventError;
use crate::abm::handle::jobs::Jobs;
use crate::abm::handle::loading::OutstandingLoad;
use crate::abm::handle::pages::Pages;
use crate::abm::handle::turns::Turns;
use crate::table::Table;
use crate::table::scan::Scan;
use crate::{
    AbmConfig, Action, ChunkId, ChunkLayout, ColumnSet, DeviceId, Event, ScanId, SharedExtent,
    TableId, TableLayout, Time,
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
///     turns: None,
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
    /// Ascending by id, for ids ascend as scans come. A load looks up every scan that wants it, so
    /// finding one has to be cheap.
    pub(crate) scans: IndexMap<ScanId, Scan, FxBuildHasher>,
    pub(crate) scan_last: Option<ScanId>,
    /// Scans of which a waiting consumer may be served now.
    pub(crate) serve: BTreeSet<ScanId>,
    /// Scans that are starved: those that loads are chosen for.
    pub(crate) hungry: BTreeSet<ScanId>,
    /// When each scan that is neither waiting nor stalled becomes stalled.
    pub(crate) stalls: BTreeSet<(Time, ScanId)>,
    pub(crate) turns: Turns,
    /// Chunk jobs under way.
    pub(crate) jobs: Jobs,
    /// Outstanding loads: columns still to come.
    pub(crate) loads: BTreeMap<(TableId, ChunkId), Vec<OutstandingLoad>>,
    pub(crate) outstanding: BTreeMap<DeviceId, usize>,
    pub(crate) devices: BTreeSet<DeviceId>,
    pub(crate) pages: Pages,
    pub(crate) actions: VecDeque<Action>,
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
            scans: IndexMap::default(),
            scan_last: None,
            serve: BTreeSet::new(),
            hungry: BTreeSet::new(),
            stalls: BTreeSet::new(),
            turns: Turns::default(),
            jobs: Jobs::default(),
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
        self.expire_turns();
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

    /// When `TimePassed` is due: the next moment a scan may turn out to be stalled, or a turn ends
    /// by itself.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let stall = self.stalls.first().map(|&(time, _)| time);
        stall.into_iter().chain(self.turn_deadline()).min()
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

    /// The sequence number of what happened last.
    pub(crate) fn peek_seq(&self) -> u64 {
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

    pub(crate) fn scan_mut(&mut self, id: ScanId) -> &mut Scan {
        self.scans
            .get_mut(&id)
            .expect("slots name registered scans")
    }

    /// Whether another load may start on the device.
    pub(crate) fn device_free(&self, device: DeviceId) -> bool {
        self.outstanding.get(&device).copied().unwrap_or(0) < self.config.loads_max
    }

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
            Event::ChunkProgressed { scan, chunk } => self.progress(scan, chunk),
            Event::ChunkLapsed { scan, chunk } => self.lapse(scan, chunk),
            Event::ChunkReleased { scan, chunk } => self.release(scan, chunk),
            Event::ChunksWithdrawn { scan, chunks } => self.withdraw_chunks(scan, &chunks),
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
}
