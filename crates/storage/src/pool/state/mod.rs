//! The pool's state under its one lock: the core, the frames of resident segments, the waiting
//! consumers.
//!
//! Every change goes through [`State::handle`]: it passes an event to the core and carries out
//! those of the core's actions that change this state. Reads to start and wakers to wake are
//! returned as [`Effects`], for after the lock is released.
//! S1: a frame exists exactly for what the core calls resident. S2: a lease holds its frames by
//! reference, so a frame that the core evicts early (because its scan ended while the consumer
//! still decodes) lives until that consumer is done.
//!
//! | file | what it answers |
//! |---|---|
//! | `core_table.rs` | which files and chunks are one table of the core |
//! | `table_ids.rs` | which table of the core new queries get |
//! | `running_scans.rs` | which scans run, and what their consumers get |
//! | `outstanding.rs` | which loads are outstanding |
//! | `resident.rs` | which segments are in memory, as frames or arrays |
//! | `page_requests.rs` | which pages are on their way |
//! | `degrees.rs` | when a scan's parallelism is reconsidered |
//! | `restart/` | what happens if the core panics |
//! | `core_time.rs` | what time it is for the core |
//! | `recorder.rs` | how the core's events and actions are written to a log |
//! | `snapshot.rs` | what the pool is doing at this moment |

mod core_table;
mod core_time;
mod degrees;
mod outstanding;
mod page_requests;
mod recorder;
mod resident;
mod restart;
mod running_scans;
mod snapshot;
mod table_ids;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use coscan_core::{
    Abm, Action, ChunkId, ColumnId, DeviceId, Event, ExtentId, LoadOrigin, ScanId, TableId, Time,
};

use super::Inner;
use super::decode::DecodedSegment;
use super::limits::Degrees;
use crate::{Result, StorageError};

pub(crate) use core_table::{ChunkSource, CoreTable, TableKey};
pub(crate) use core_time::CoreTime;
pub(crate) use outstanding::{LoadJob, Loads, Outstanding, Target};
pub(crate) use page_requests::{PageRequests, PageSlot};
pub use recorder::Recorder;
pub(super) use recorder::Recording;
pub(crate) use resident::{DecodedKey, Frame, Incomplete, TableState};
pub(crate) use restart::Epoch;
pub(super) use restart::OnPanic;
pub use running_scans::ScanMetrics;
pub(crate) use running_scans::{Answer, Handed, LargestLoad, ScanState, Scans, Stalled};
pub use snapshot::{ChunkRow, PoolMetrics, PoolSnapshot, ScanRow};
pub(crate) use table_ids::TableIds;

/// One load, for traces.
#[derive(Clone, Debug)]
pub struct LoadTrace {
    /// When the core chose it, since the pool's creation. Nanoseconds.
    pub time_ns: u64,
    /// The table's id in the core.
    pub table: u32,
    /// The chunk.
    pub chunk: u32,
    /// The label of the scan that the load was chosen for.
    pub label: Arc<str>,
    /// Bytes.
    pub bytes: u64,
    /// The chunk's rows, counted from its file's first.
    pub rows: Range<u64>,
}

/// Pages that an index scan read alone, for traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTrace {
    /// When the read completed, since the pool's creation. (Many pages are requested at once, and
    /// the device reads one after another.) Nanoseconds.
    pub time_ns: u64,
    /// The table's id in the core.
    pub table: u32,
    /// The chunk of the pages.
    pub chunk: u32,
    /// Their rows, without a gap, counted from their file's first.
    pub rows: Range<u64>,
}

/// One chunk job, for traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTrace {
    /// When it began, since the pool's creation. Nanoseconds.
    pub begun_ns: u64,
    /// When it ended, on the same clock.
    pub ended_ns: u64,
    /// The table's id in the core.
    pub table: u32,
    /// The chunk.
    pub chunk: u32,
    /// The label of the scan that began it.
    pub label: Arc<str>,
    /// The labels of the other scans that it served, except scans that had ended.
    pub served: Vec<Arc<str>>,
}

/// The trace of a pool that keeps one: its loads, page reads and chunk jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    pub(crate) jobs: Vec<JobTrace>,
    pub(crate) loads: Vec<LoadTrace>,
    pub(crate) pages: Vec<PageTrace>,
}

/// Work for after the lock is released.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) loads: Vec<LoadJob>,
    pub(crate) wakers: Vec<Waker>,
    /// Decoded arrays to drop; dropping megabytes takes time.
    pub(crate) dropped: Vec<Arc<DecodedSegment>>,
    /// Dropped tables, for the same reason.
    pub(crate) dropped_tables: Vec<TableState>,
}

/// Everything that the pool's lock protects.
pub(crate) struct State {
    pub(crate) abm: Abm,
    pub(crate) time: CoreTime,
    pub(crate) tables: BTreeMap<TableId, TableState>,
    pub(crate) ids: TableIds,
    pub(crate) scans: Scans,
    pub(crate) stalled: Stalled,
    pub(crate) loads: Loads,
    /// Page requests that the core knows of.
    pub(crate) pages: PageRequests,
    pub(crate) trace: Option<Traces>,
    /// The log of the core, if it is recorded.
    pub(crate) recording: Option<Recording>,
    /// Tells events for this core from events for a core that panicked (`restart/`).
    pub(crate) epoch: Epoch,
    pub(crate) degrees: Degrees,
}

impl State {
    /// Passes an event to the core and carries out the actions that follow.
    pub(crate) fn handle(&mut self, event: Event, effects: &mut Effects) -> Result<()> {
        if self.epoch.is_before(&event) {
            return Ok(());
        }
        let begun = Instant::now();
        let now = self.time.at(begun);
        if let Some(recording) = &mut self.recording {
            recording.event(now, &event);
        }
        let ended = match &event {
            Event::ScanEnded { scan } => Some(*scan),
            _ => None,
        };
        let outcome = self.abm.handle(now, event);
        self.time.handled(begun);
        if let Err(refused) = outcome {
            if let Some(recording) = &mut self.recording {
                recording.refusal(&refused);
            }
            return Err(StorageError::Internal(refused.to_string()));
        }
        while let Some(action) = self.abm.poll_action() {
            if let Some(recording) = &mut self.recording {
                recording.action(&action);
            }
            self.carry_out(action, now, effects);
        }
        while let Some(request) = self.pages.unwanted.pop() {
            self.handle(Event::PageReleased { request }, effects)?;
        }
        while let Some((scan, chunk)) = self.scans.next_untaken() {
            if self.abm.holds(scan, chunk) {
                self.handle(Event::ChunkReleased { scan, chunk }, effects)?;
            }
        }
        if let Some(scan) = ended {
            self.degree_ends(scan, effects);
        }
        Ok(())
    }

    fn carry_out(&mut self, action: Action, now: Time, effects: &mut Effects) {
        match action {
            Action::Load {
                table,
                chunk,
                columns,
                extents,
                bytes,
                scan,
            } => {
                self.note_load((table, chunk), scan, bytes, now);
                self.begin_load((table, chunk), scan, columns, extents, effects);
            }
            Action::Evict {
                table,
                chunk,
                column,
            } => {
                if let Some(state) = self.tables.get_mut(&table) {
                    effects.dropped.extend(state.evict(chunk, column));
                }
            }
            Action::EvictExtent { table, extent } => {
                if let Some(state) = self.tables.get_mut(&table) {
                    state.extents.remove(&extent);
                }
            }
            Action::Deliver {
                scan,
                chunk,
                origin,
            } => self.deliver(scan, chunk, origin, effects),
            Action::Exhausted { scan } => {
                if let Some(state) = self.scans.get_mut(scan) {
                    state.answers.push_back(Answer::Exhausted);
                    effects.wakers.append(&mut state.wakers);
                }
            }
            Action::Fail { scan, .. } => {
                let error = self.loads.why_failed();
                self.fail_scan(scan, error, effects);
            }
            Action::ServePage { request } => effects.wakers.extend(self.pages.served(request)),
            Action::DropPageRequest { request } => self.pages.awaited(request),
            Action::FailPage { request } => {
                let error = self.loads.why_failed();
                effects.wakers.extend(self.pages.failed(request, error));
            }
            action => {
                log::error!("buffer pool: unknown action of the core: {action:?}");
                debug_assert!(false, "unknown action {action:?}");
            }
        }
    }
}

impl State {
    /// Counts a load for the scan that it was chosen for.
    fn note_load(
        &mut self,
        (table, chunk): (TableId, ChunkId),
        scan: ScanId,
        bytes: u64,
        now: Time,
    ) {
        let Some(state) = self.scans.get_mut(scan) else {
            return;
        };
        state.metrics.loads += 1;
        state.metrics.load_bytes += bytes;
        if let Some(trace) = &mut self.trace {
            let known = self.tables.get(&table);
            let source = known.and_then(|table| table.core.chunks.get(chunk.0 as usize));
            trace.loads.push(LoadTrace {
                time_ns: now.0,
                table: table.0,
                chunk: chunk.0,
                label: Arc::clone(&state.label),
                bytes,
                rows: source.map_or(0..0, ChunkSource::rows),
            });
        }
    }

    /// Notes what a load is to bring, and gives its read to `effects`.
    fn begin_load(
        &mut self,
        (table, chunk): (TableId, ChunkId),
        scan: ScanId,
        columns: Vec<ColumnId>,
        extents: Vec<ExtentId>,
        effects: &mut Effects,
    ) {
        let segments = columns.iter().copied().map(Target::Segment);
        let shared = extents.iter().copied().map(Target::Extent);
        let source = self.tables.get(&table);
        let source = source.and_then(|table| table.core.chunks.get(chunk.0 as usize));
        let device = source.map_or(DeviceId(0), |source| source.file.device_id());
        let id = self.loads.begin(Outstanding {
            table,
            chunk,
            targets: segments.chain(shared).collect(),
            scan,
            device,
        });
        effects.loads.push(LoadJob {
            id,
            table,
            chunk,
            device,
            columns,
            extents,
        });
    }

    /// Hands a chunk to a scan's consumers.
    fn deliver(&mut self, scan: ScanId, chunk: ChunkId, origin: LoadOrigin, effects: &mut Effects) {
        let Some(state) = self.scans.get_mut(scan) else {
            return;
        };
        let metrics = &mut state.metrics;
        match origin {
            LoadOrigin::FromBuffer => metrics.chunks_from_buffer += 1,
            LoadOrigin::LoadedForMe => metrics.chunks_loaded_for_me += 1,
            LoadOrigin::LoadedForOthers => metrics.chunks_loaded_for_others += 1,
        }
        let handed = Handed::new(chunk, origin, true);
        state.answers.push_back(Answer::Chunk(handed));
        effects.wakers.append(&mut state.wakers);
    }

    /// The shared extents of a segment that are not resident in the core's view.
    pub(crate) fn pending_extents(
        &self,
        id: TableId,
        chunk: ChunkId,
        column: ColumnId,
    ) -> Vec<ExtentId> {
        let Some(table) = self.tables.get(&id) else {
            return Vec::new();
        };
        let extents = table.core.extents_of(chunk, column);
        extents
            .filter(|extent| !self.abm.extent_is_resident(id, *extent))
            .collect()
    }

    /// Makes chunks lapse that were delivered and that no consumer has taken for `after`
    /// (`../scans/place.rs`).
    pub(crate) fn lapse_untaken(&mut self, after: Duration, effects: &mut Effects) {
        for (scan, chunk) in self.scans.lapse_untaken(after) {
            self.lapse(scan, chunk, effects);
        }
    }

    /// Takes back the memory of a chunk that was handed out.
    pub(crate) fn lapse(&mut self, scan: ScanId, chunk: ChunkId, effects: &mut Effects) {
        if !self.abm.holds(scan, chunk) {
            return;
        }
        if let Some(state) = self.scans.get_mut(scan) {
            state.metrics.chunks_lapsed += 1;
        }
        Inner::log(self.handle(Event::ChunkLapsed { scan, chunk }, effects));
    }

    /// Fails the scan: its consumers get the error. Chunks that were delivered to it and not taken
    /// would stay pinned as long as the scan has an owner, and other scans might wait for that
    /// memory forever, so the next event gives them back.
    pub(crate) fn fail_scan(&mut self, id: ScanId, error: StorageError, effects: &mut Effects) {
        self.scans.fail(id, error, &mut effects.wakers);
    }

    /// Cancels this target in all outstanding loads and drops what has arrived of it.
    pub(crate) fn forget(&mut self, id: TableId, chunk: Option<ChunkId>, target: Target) {
        self.loads.cancel(id, chunk, target);
        if let Some(table) = self.tables.get_mut(&id)
            && let Target::Extent(extent) = target
        {
            table.extents.remove(&extent);
        }
    }
}
