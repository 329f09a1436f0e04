//! The buffer pool: the scheduling core, driven by real devices.
//!
//! | where | what it answers |
//! |---|---|
//! | `state/` | the pool's state, as the core's actions change it: tables, frames, waiting consumers |
//! | `files/` | which files make a table, with which columns |
//! | `tables/` | which chunks and pages queries see of a table |
//! | `segments/` | how a segment is read, in which form it is kept, and when its memory is given back |
//! | `decode/` | how a segment is decoded once for all its readers |
//! | `scans/` | how a scan gets its chunks, and what its consumer holds meanwhile |
//! | `limits/` | how many devices, chunks and consumers are busy at a time |
//! | `config.rs` | how a pool is configured |
//!
//! Contract: `docs/design/storage.md`. Not here: planning, predicates, SQL (the engine).

mod config;
mod decode;
mod files;
mod limits;
mod scans;
mod segments;
#[cfg(test)]
mod small_world;
mod state;
mod tables;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use coscan_core::{Abm, Event};
use parking_lot::Mutex;

pub use crate::memory::{Admitted, METADATA_FREE, MemoryBudget, Reclaim, Refused};
pub use config::PoolConfig;
pub use decode::ColumnRequest;
pub use files::{FileCache, FileKey, FileSchema, TableFile};
pub use limits::{Lapses, Watch};
pub use scans::{ChunkJob, ChunkLease, Scan, ScanPart, ScanRequest};
pub use state::{
    ChunkRow, JobTrace, LoadTrace, PageTrace, PoolMetrics, PoolSnapshot, Recorder, ScanMetrics,
    ScanRow,
};
pub use tables::{
    ChunkInfo, PageBytes, PageMap, PagePiece, PageRequest, TablePage, TableView, bytes_of_rows,
};

use crate::memory::Lender;
use crate::panics::panicked;
use crate::{Result, StorageError};
use decode::DecodePool;
use limits::{Degrees, Gate, Meters, Watched};
use segments::{IoThreads, Reserve};
use state::{
    CoreTime, Effects, Epoch, Loads, OnPanic, PageRequests, Scans, Stalled, State, TableIds, Traces,
};

/// How often the pool tells the core that time has passed; the core finds stalled scans by it.
const TICK: Duration = Duration::from_millis(250);
const TICK_MIN: Duration = Duration::from_millis(1);

/// What the pools of a process have in common: files, memory, threads.
#[derive(Debug)]
pub struct PoolShared {
    files: Arc<FileCache>,
    memory: Arc<MemoryBudget>,
    decode: Arc<DecodePool>,
    io: IoThreads,
    decoded_bytes: Arc<AtomicU64>,
    gate: Arc<Gate>,
    watched: Arc<Watched>,
    reserve: Reserve,
    pools: AtomicUsize,
}

impl PoolShared {
    /// Creates the threads for I/O and decode. The pools use the given budget and file cache.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(
        files: Arc<FileCache>,
        memory: Arc<MemoryBudget>,
        decode_threads: usize,
    ) -> Result<Arc<Self>> {
        let failed = |error: std::io::Error| StorageError::Internal(format!("threads: {error}"));
        files.count_in(&memory);
        let watched = Arc::<Watched>::default();
        let gate = Gate::new(Arc::clone(&memory), Arc::clone(&watched));
        Ok(Arc::new(Self {
            gate,
            watched,
            reserve: Reserve::default(),
            pools: AtomicUsize::new(0),
            files,
            memory,
            decode: Arc::new(DecodePool::new(decode_threads).map_err(failed)?),
            io: IoThreads::new().map_err(failed)?,
            decoded_bytes: Arc::default(),
        }))
    }

    /// The cache of opened files.
    #[must_use]
    pub fn files(&self) -> &Arc<FileCache> {
        &self.files
    }

    /// The memory budget.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// Chunks that consumers are decoding or may decode.
    #[must_use]
    pub fn chunks_in_decode(&self) -> usize {
        self.gate.open_chunks()
    }

    /// Bytes of arrays that decode has produced since the start.
    #[must_use]
    pub fn decoded_bytes_total(&self) -> u64 {
        self.decoded_bytes.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for DecodePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DecodePool")
    }
}

pub(crate) struct Inner {
    pub(crate) state: Mutex<State>,
    pub(crate) shared: Arc<PoolShared>,
    pub(crate) config: PoolConfig,
    /// Bytes that the core counts, whether any scan runs, and the bytes of the largest load that
    /// one needs: copies that are read without the lock.
    held: AtomicU64,
    /// About how many of these bytes only stalled scans need.
    stalled: AtomicU64,
    active: AtomicBool,
    largest_load_bytes: AtomicU64,
    /// The longest that the lock was held. Nanoseconds.
    locked_ns_max: AtomicU64,
    /// The pool's number among the pools of the process.
    pub(crate) number: usize,
}

/// Shares reads, memory and decode among all scans of a process that use one policy and one storage
/// model.
///
/// Cheap to clone; the pool lives until the last clone, scan and lease is gone.
#[derive(Clone)]
pub struct BufferPool {
    inner: Arc<Inner>,
}

impl BufferPool {
    /// The pool's number among the pools of the process.
    #[must_use]
    pub fn number(&self) -> usize {
        self.inner.number
    }

    /// An empty pool.
    #[must_use]
    pub fn new(config: PoolConfig, shared: Arc<PoolShared>) -> Self {
        let abm = config.of_core();
        let recorder = config.recorder.as_ref();
        let state = State {
            recording: recorder.and_then(|recorder| recorder.begin(&abm)),
            abm: Abm::new(abm),
            time: CoreTime::begin(),
            tables: BTreeMap::new(),
            ids: TableIds::default(),
            scans: Scans::default(),
            stalled: Stalled::none(),
            loads: Loads::default(),
            pages: PageRequests::default(),
            trace: config.record_trace.then(Traces::default),
            epoch: Epoch::default(),
            degrees: Degrees::new(shared.memory.limit()),
        };
        let number = shared.pools.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(Inner {
            number,
            state: Mutex::new(state),
            shared,
            config,
            held: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            active: AtomicBool::new(false),
            largest_load_bytes: AtomicU64::new(0),
            locked_ns_max: AtomicU64::new(0),
        });
        let lender: Weak<dyn Lender> = Arc::downgrade(&inner) as Weak<dyn Lender>;
        inner.shared.memory.join(lender);
        inner.shared.io.spawn(tick(Arc::downgrade(&inner)));
        Self { inner }
    }

    /// Closes the log that [`PoolConfig::recorder`] asked for and waits until it is written; later
    /// events are not recorded. (Dropping the pool closes the log too, but does not wait.) Blocks.
    /// Does nothing if the pool does not record.
    pub fn finish_recording(&self) {
        let recording = self.inner.state.lock().recording.take();
        if let Some(writer) = recording.and_then(state::Recording::finish) {
            // The writer panics only if the sink does; then the log is cut off, and its reader
            // reports that.
            let _ = writer.join();
        }
    }

    /// The pool's configuration.
    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.inner.config
    }

    /// What the pool shares with the other pools of the process.
    #[must_use]
    pub fn shared(&self) -> &Arc<PoolShared> {
        &self.inner.shared
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferPool")
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

/// Tells the core that time passes, until the pool is gone.
async fn tick(pool: Weak<Inner>) {
    let mut meters = Meters::default();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    loop {
        let Some(inner) = pool.upgrade() else { return };
        let (lapse_after, watched) = (inner.config.lapse_after, Arc::clone(&inner.shared.watched));
        drop(inner);
        tokio::time::sleep(TICK.min(lapse_after / 2).max(TICK_MIN)).await;
        watched.lapse_silent(None);
        let Some(inner) = pool.upgrade() else { return };
        let (deciding, active) = {
            let state = inner.state.lock();
            (state.degrees.is_active(), !state.scans.is_empty())
        };
        let used = active.then(|| {
            let devices = inner.shared.files.devices().snapshots();
            meters.look(&devices, limits::utilisation::processor_time(), processors)
        });
        if let Some(used) = &used {
            limits::balance::weigh(used, &inner.shared.memory);
        }
        inner.shared.memory.tell();
        inner.with_state(|state, effects| {
            if let Some(used) = used.as_ref().filter(|_| deciding) {
                state.measure_degrees(used, effects);
            }
            state.lapse_untaken(lapse_after, effects);
            state.drop_retired(effects);
            let now = state.time.now();
            if state.abm.next_deadline().is_some_and(|due| due <= now) {
                Inner::log(state.handle(Event::TimePassed, effects));
            }
            if let Some(recording) = &mut state.recording {
                recording.hand_over();
            }
        });
    }
}

impl Inner {
    /// Runs `work` on the state, then carries out the effects that it has collected.
    ///
    /// If `work` panics, the pool restarts with a new core (`state/restart/`), and the result
    /// says so.
    pub(crate) fn with_state<T: OnPanic>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut State, &mut Effects) -> T,
    ) -> T {
        let mut effects = Effects::default();
        let (result, changed) = {
            let mut state = self.state.lock();
            let begun = Instant::now();
            let worked = catch_unwind(AssertUnwindSafe(|| work(&mut state, &mut effects)));
            let panic = worked.as_ref().err();
            let panic = panic.map(|panic| panicked("the buffer manager".to_owned(), &**panic));
            let result = worked.unwrap_or_else(|_| {
                let error = panic.clone().unwrap_or(StorageError::ShutDown);
                T::panicked(error)
            });
            if let Some(error) = &panic {
                state.restart(Abm::new(self.config.of_core()), error, &mut effects);
            }
            self.held.store(state.abm.used_bytes(), Ordering::Relaxed);
            state.recount_stalled();
            self.stalled.store(state.stalled.bytes(), Ordering::Relaxed);
            let active = !state.scans.is_empty();
            let woke = self.active.swap(active, Ordering::Relaxed) != active;
            let largest = state.scans.largest_load_bytes();
            let wants = self.largest_load_bytes.swap(largest, Ordering::Relaxed) != largest;
            if panic.is_some() {
                // The new core has no memory yet. The memory is not divided here, because this
                // call may come from the division; the next tick divides it.
                self.shared.memory.forget_told();
            }
            let locked = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.locked_ns_max.fetch_max(locked, Ordering::Relaxed);
            (result, woke || wants)
        };
        // First, so that a load that the core has decided on is carried out whatever happens
        // below.
        let loads = !effects.loads.is_empty();
        for job in effects.loads {
            let device = job.device;
            self.shared.io.spawn_on(device, Arc::clone(self).load(job));
        }
        if changed {
            self.shared.memory.divide();
        }
        if loads {
            self.shared.memory.weigh_arrays();
        }
        for waker in effects.wakers {
            waker.wake();
        }
        result
    }

    /// A refused event is a bug in this crate. The scan that it concerns continues, or fails
    /// alone.
    pub(crate) fn log(outcome: Result<()>) {
        if let Err(error) = outcome {
            log::error!("buffer pool: {error}");
            debug_assert!(false, "buffer pool: {error}");
        }
    }
}
