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
//! | `resident.rs` | which segments are in memory, as frames or arrays |
//! | `page_requests.rs` | which pages are on their way |
//! | `degrees.rs` | when a scan's parallelism is reconsidered |
//! | `epoch.rs`, `restart.rs` | what happens if the core panics |
//! | `recorder.rs` | how the core's events and actions are written to a log |
//! | `snapshot.rs` | what the pool is doing at this moment |

mod core_table;
mod degrees;
mod epoch;
mod page_requests;
mod recorder;
mod resident;
mod restart;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

use super::limits::DOUBLINGS_MAX;
use crate::{Result, StorageError};

pub(crate) use core_table::{ChunkSource, CoreTable, TableKey};
pub(crate) use epoch::Epoch;
pub(crate) use page_requests::{PageRequests, PageSlot};
pub use recorder::Recorder;
pub(super) use recorder::Recording;
pub(crate) use resident::{DecodedKey, Frame, Incomplete, TableState};
pub(super) use restart::OnPanic;
pub use snapshot::{ChunkRow, PoolMetrics, PoolSnapshot, ScanRow};

/// The answer to a consumer that asked for a chunk.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Chunk(Handed),
    Exhausted,
}

/// A chunk that a consumer may take.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    pub(crate) chunk: ChunkId,
    pub(crate) origin: LoadOrigin,
    /// False for a chunk without bytes: the core does not know of it.
    pub(crate) known: bool,
    /// Whether the chunk stayed untaken for so long that its memory was taken back.
    pub(crate) lapsed: bool,
    pub(crate) since: Instant,
}

impl Handed {
    pub(crate) fn new(chunk: ChunkId, origin: LoadOrigin, known: bool) -> Self {
        Self {
            chunk,
            origin,
            known,
            lapsed: false,
            since: Instant::now(),
        }
    }
}

/// One running scan.
#[derive(Default)]
pub(crate) struct ScanState {
    pub(crate) label: Arc<str>,
    pub(crate) answers: VecDeque<Answer>,
    /// Chunks of which the scan needs no bytes; the pool hands them out without the core.
    pub(crate) without_bytes: VecDeque<ChunkId>,
    /// Consumers that wait in `next_chunk`.
    pub(crate) claims: usize,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) failure: Option<StorageError>,
    /// The scan's largest chunk; `None` if no chunk has bytes.
    pub(crate) largest: Option<LargestLoad>,
    pub(crate) metrics: ScanMetrics,
    /// For a scan of the rest of a lapsed chunk: the scan that the chunk came from, and how often
    /// in a row the consumer came back too late.
    pub(crate) again: Option<(ScanId, u32)>,
}

/// The chunk of which a scan needs the most bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargestLoad {
    pub(crate) bytes: u64,
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
}

/// Counters of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanMetrics {
    /// Chunks that the scan requested.
    pub chunks_wanted: u64,
    /// Chunks that the scan withdrew before they were handed out.
    pub chunks_withdrawn: u64,
    /// Chunks that other scans' jobs worked on for this scan.
    pub chunks_joined: u64,
    /// Chunks handed out that were in memory when the scan began.
    pub chunks_from_buffer: u64,
    /// Chunks handed out that were loaded for this scan.
    pub chunks_loaded_for_me: u64,
    /// Chunks handed out that were loaded for other scans while this scan ran.
    pub chunks_loaded_for_others: u64,
    /// Chunks handed out of which the scan needed no bytes.
    pub chunks_without_bytes: u64,
    /// Loads chosen for this scan.
    pub loads: u64,
    /// Bytes of those loads.
    pub load_bytes: u64,
    /// Chunks whose memory was taken back because the consumer was silent for long.
    pub chunks_lapsed: u64,
    /// Segments whose decode this scan shared with another scan or found finished.
    pub decode_shared: u64,
    /// Segments whose decode this scan began.
    pub decode_begun: u64,
    /// Rows that were picked from columns for this scan, because no other scan needed the columns.
    pub rows_picked: u64,
    /// Time that consumers waited for a chunk, summed over consumers. Nanoseconds.
    pub waited_ns: u64,
}

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

/// A segment or a shared extent of a load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    Segment(ColumnId),
    Extent(ExtentId),
}

/// An outstanding load: the targets that the core still expects from it. A failure may cancel
/// targets of other loads (`../segments/load.rs`).
pub(crate) struct Outstanding {
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    pub(crate) targets: BTreeSet<Target>,
    /// The scan that the load was chosen for, and the device that it reads from.
    pub(crate) scan: ScanId,
    pub(crate) device: DeviceId,
}

/// A read to start.
pub(crate) struct LoadJob {
    /// Its key in [`State::loads`].
    pub(crate) id: u64,
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    /// The device that the chunk is on.
    pub(crate) device: DeviceId,
    /// In reading order.
    pub(crate) columns: Vec<ColumnId>,
    pub(crate) extents: Vec<ExtentId>,
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
    pub(crate) origin: Instant,
    pub(crate) tables: BTreeMap<TableId, TableState>,
    pub(crate) by_key: BTreeMap<TableKey, TableId>,
    pub(crate) next_table: u32,
    /// The number of requests for a table so far; it serves as a clock.
    pub(crate) uses: u64,
    /// Retired tables: no query gets a new view of them (`../tables/versions.rs`). A retired
    /// table is dropped when its last user has ended.
    pub(crate) retired: BTreeSet<TableId>,
    pub(crate) scans: BTreeMap<ScanId, ScanState>,
    pub(crate) next_scan: u64,
    /// The largest load that a running scan needs.
    pub(crate) largest_load_bytes: u64,
    /// Bytes of frames that only stalled scans need, at the last count.
    pub(crate) stalled: u64,
    pub(crate) stalled_counted_at: Instant,
    pub(crate) loads: BTreeMap<u64, Outstanding>,
    pub(crate) next_load: u64,
    /// Page requests that the core knows of.
    pub(crate) pages: PageRequests,
    /// Chunks that the core delivered to scans that then failed before a consumer took them. They
    /// go back to the core with the next event.
    pub(crate) untaken: Vec<(ScanId, ChunkId)>,
    /// The error for the `Fail` actions that follow a failed load.
    pub(crate) load_error: Option<StorageError>,
    pub(crate) trace: Option<Traces>,
    /// The log of the core, if it is recorded.
    pub(crate) recording: Option<Recording>,
    /// Time spent in the core. Nanoseconds.
    pub(crate) sched_ns: u64,
    pub(crate) decisions: u64,
    pub(crate) shut_down: bool,
    /// Tells events for this core from events for a core that panicked (`restart.rs`).
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
        let now = begun.duration_since(self.origin);
        let now = Time(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        if let Some(recording) = &mut self.recording {
            recording.event(now, &event);
        }
        let ended = match &event {
            Event::ScanEnded { scan } => Some(*scan),
            _ => None,
        };
        let outcome = self.abm.handle(now, event);
        self.sched_ns += u64::try_from(begun.elapsed().as_nanos()).unwrap_or(0);
        self.decisions += 1;
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
        while let Some((scan, chunk)) = self.untaken.pop() {
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
                if let Some(state) = self.scans.get_mut(&scan) {
                    state.answers.push_back(Answer::Exhausted);
                    effects.wakers.append(&mut state.wakers);
                }
            }
            Action::Fail { scan, .. } => {
                let error = self.why_load_failed();
                self.fail_scan(scan, error, effects);
            }
            Action::ServePage { request } => effects.wakers.extend(self.pages.served(request)),
            Action::DropPageRequest { request } => self.pages.awaited(request),
            Action::FailPage { request } => {
                let error = self.why_load_failed();
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
        let Some(state) = self.scans.get_mut(&scan) else {
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
        let id = self.next_load;
        self.next_load += 1;
        let segments = columns.iter().copied().map(Target::Segment);
        let shared = extents.iter().copied().map(Target::Extent);
        let source = self.tables.get(&table);
        let source = source.and_then(|table| table.core.chunks.get(chunk.0 as usize));
        let device = source.map_or(DeviceId(0), |source| source.file.device_id());
        let outstanding = Outstanding {
            table,
            chunk,
            targets: segments.chain(shared).collect(),
            scan,
            device,
        };
        self.loads.insert(id, outstanding);
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
        let Some(state) = self.scans.get_mut(&scan) else {
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

    fn why_load_failed(&self) -> StorageError {
        let unknown = || StorageError::Internal("a load failed without a cause".into());
        self.load_error.clone().unwrap_or_else(unknown)
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
        let mut lapsed = Vec::new();
        for (&id, scan) in &mut self.scans {
            let tries = scan.again.map_or(0, |(_, tries)| tries);
            let patience = after * (1 << tries.min(DOUBLINGS_MAX));
            for answer in &mut scan.answers {
                if let Answer::Chunk(handed) = answer
                    && !handed.lapsed
                    && handed.since.elapsed() >= patience
                {
                    handed.lapsed = true;
                    lapsed.extend(handed.known.then_some((id, handed.chunk)));
                }
            }
        }
        for (scan, chunk) in lapsed {
            self.lapse(scan, chunk, effects);
        }
    }

    /// Takes back the memory of a chunk that was handed out.
    pub(crate) fn lapse(&mut self, scan: ScanId, chunk: ChunkId, effects: &mut Effects) {
        if !self.abm.holds(scan, chunk) {
            return;
        }
        if let Some(state) = self.scans.get_mut(&scan) {
            state.metrics.chunks_lapsed += 1;
        }
        Inner::log(self.handle(Event::ChunkLapsed { scan, chunk }, effects));
    }

    /// Fails the scan: its consumers get the error. Chunks that were delivered to it and not taken
    /// would stay pinned as long as the scan has an owner, and other scans might wait for that
    /// memory forever, so the next event gives them back.
    pub(crate) fn fail_scan(&mut self, id: ScanId, error: StorageError, effects: &mut Effects) {
        let Some(scan) = self.scans.get_mut(&id) else {
            return;
        };
        scan.failure = Some(error);
        effects.wakers.append(&mut scan.wakers);
        for answer in scan.answers.drain(..) {
            if let Answer::Chunk(handed) = answer {
                self.untaken.push((id, handed.chunk));
            }
        }
    }

    /// Cancels this target in all outstanding loads and drops what has arrived of it.
    pub(crate) fn forget(&mut self, id: TableId, chunk: Option<ChunkId>, target: Target) {
        for load in self.loads.values_mut().filter(|load| load.table == id) {
            if chunk.is_none_or(|chunk| load.chunk == chunk) {
                load.targets.remove(&target);
            }
        }
        if let Some(table) = self.tables.get_mut(&id)
            && let Target::Extent(extent) = target
        {
            table.extents.remove(&extent);
        }
    }
}
