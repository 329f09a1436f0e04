//! The engine, of which a process has one. It owns memory, devices, buffer pools and tables; a
//! session adds only its settings.
//!
//! Plans hold the engine's resources (`resources.rs`), not the engine, and may outlive it. Not
//! here: settings (`settings/`), scans (`read/`).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use coscan_storage::device::Devices;
use coscan_storage::pool::{
    BufferPool, JobTrace, LoadTrace, MemoryBudget, PageTrace, PoolSnapshot,
};
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::execution::runtime_env::RuntimeEnv;

use super::open_queries::Sessions;
use crate::error::Result;
use crate::fragment::{Board, StateCache};
use crate::index_catalog::IndexBuild;
use crate::memory::limit;
use crate::operators::OperatorTrace;
use crate::resources::Resources;
use crate::settings::EngineConfig;

/// The engine. Clones share it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// A weak reference to an engine, for the system tables that the engine itself holds.
#[derive(Clone)]
pub(crate) struct WeakEngine {
    inner: Weak<Inner>,
}

struct Inner {
    resources: Arc<Resources>,
    catalogs: Arc<dyn CatalogProviderList>,
    /// The chunk jobs and chunk states that queries share.
    board: Arc<Board>,
    sessions: Sessions,
}

/// Counts of what an engine has done so far, summed over its pools and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EngineMetrics {
    /// Requests sent to devices.
    pub io_requests: u64,
    /// Bytes that devices delivered.
    pub io_bytes: u64,
    /// Bytes of arrays that were decoded.
    pub decode_bytes: u64,
    /// Time spent in scheduling decisions, in nanoseconds.
    pub sched_cpu_ns: u64,
    /// Pages that index scans have read from a device or found in memory.
    pub pages_read: u64,
    /// Bytes of memory that operators hold.
    pub operator_bytes: u64,
    /// Bytes of memory that decoded columns hold.
    pub decoded_bytes: u64,
    /// Bytes of memory that chunks in the buffers hold, outstanding loads included.
    pub frame_bytes: u64,
    /// Chunk jobs that have begun.
    pub fragment_jobs: u64,
    /// States of chunks that jobs gave to queries: each job gives at most one to each query that
    /// wanted its chunk.
    pub fragment_states: u64,
    /// States of chunks that queries found in the state cache.
    pub fragment_states_remembered: u64,
    /// Chunks that jobs had to give back, which each query then worked on alone.
    pub fragment_chunks_given_back: u64,
    /// Bytes of the chunk states in the state cache.
    pub state_cache_bytes: u64,
    /// Shared operators that a query started as the host.
    pub operators_hosted: u64,
    /// Shared operators whose output a satellite took from a running host.
    pub operators_joined: u64,
    /// Shared operators whose output a query took from what a finished run had left behind.
    pub operators_late: u64,
    /// Batches of shared operators that a query other than the host took.
    pub operator_batches_shared: u64,
    /// Batches of shared operators that were written to disk.
    pub operator_batches_to_disk: u64,
    /// Queries that had joined a shared operator and then ran it themselves after all.
    pub operator_reruns: u64,
    /// Cycles of queries waiting for each other that were resolved.
    pub operator_deadlocks: u64,
    /// Runs of shared operators that failed.
    pub operators_failed: u64,
    /// Bytes of memory that shared operators retain for other queries.
    pub operators_retained_bytes: u64,
}

impl Engine {
    /// An engine whose catalog is empty.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub(super) fn bare(config: EngineConfig) -> Result<Self> {
        config.check()?;
        let limit = config
            .memory_bytes
            .unwrap_or_else(limit::default_budget_bytes);
        let config = EngineConfig {
            memory_bytes: Some(limit),
            ..config
        };
        let budget = MemoryBudget::new(limit);
        budget.verify_checksums(config.checksums);
        budget.bound_process(limit::available_bytes(), limit::beside_bytes);
        budget.keep_time();
        // Memory is reclaimed in the order in which its holders are created: states of chunks go
        // before what shared operators retain, because the board is created before the resources.
        let board = Board::new(StateCache::new(&budget));
        let resources = Resources::new(config, &budget)?;
        let inner = Arc::new(Inner {
            resources: Arc::new(resources),
            catalogs: Arc::new(MemoryCatalogProviderList::new()),
            board: Arc::new(board),
            sessions: Sessions::default(),
        });
        Ok(Self { inner })
    }

    /// The shared resources, which plans hold.
    pub(crate) fn resources(&self) -> &Arc<Resources> {
        &self.inner.resources
    }

    pub(super) fn catalogs(&self) -> &Arc<dyn CatalogProviderList> {
        &self.inner.catalogs
    }

    /// The sessions and their open queries.
    pub(super) fn sessions(&self) -> &Sessions {
        &self.inner.sessions
    }

    /// The chunk jobs and chunk states that queries share.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.inner.board
    }

    /// Counts of what the engine has done so far.
    #[must_use]
    pub fn metrics(&self) -> EngineMetrics {
        let mut metrics = EngineMetrics::default();
        let resources = &self.inner.resources;
        for device in self.devices().snapshots() {
            metrics.io_requests += device.meter.requests;
            metrics.io_bytes += device.meter.bytes;
        }
        for pool in resources.pools() {
            metrics.sched_cpu_ns += pool.metrics().sched_ns;
        }
        metrics.pages_read = resources.pages_read();
        let memory = self.memory();
        metrics.decode_bytes = resources.decoded_bytes_total();
        metrics.operator_bytes = memory.operator_bytes();
        metrics.decoded_bytes = memory.decoded_bytes();
        metrics.frame_bytes = memory.frame_bytes();
        let board = &self.inner.board;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        metrics.fragment_jobs = count(&board.totals.jobs);
        metrics.fragment_states = count(&board.totals.states);
        metrics.fragment_states_remembered = count(&board.totals.remembered);
        metrics.fragment_chunks_given_back = count(&board.totals.given_back);
        metrics.state_cache_bytes = board.cache.counts().bytes;
        // The budget counts states, retained batches and keys as operator memory, though they are
        // reclaimed before operators spill.
        let mut given_first = metrics.state_cache_bytes;
        for engine in resources.operators().micro_engines().values() {
            metrics.operators_retained_bytes += engine.retained_bytes;
            given_first += engine.retained_bytes + engine.overhead_bytes;
            metrics.operators_hosted += engine.done.hosted;
            metrics.operators_joined += engine.done.joined;
            metrics.operators_late += engine.done.late;
            metrics.operator_batches_shared += engine.done.batches_shared;
            metrics.operator_batches_to_disk += engine.done.batches_to_disk;
            metrics.operator_reruns += engine.done.reruns;
            metrics.operator_deadlocks += engine.done.deadlocks;
            metrics.operators_failed += engine.done.failed;
        }
        metrics.operator_bytes = metrics.operator_bytes.saturating_sub(given_first);
        metrics
    }

    /// The loads so far, pool by pool, if the engine was configured to record them.
    #[must_use]
    pub fn trace(&self) -> Vec<LoadTrace> {
        let pools = self.inner.resources.pools();
        pools.iter().flat_map(BufferPool::trace).collect()
    }

    /// The chunk jobs that have ended so far, pool by pool, if the engine was configured to record
    /// them.
    #[must_use]
    pub fn job_trace(&self) -> Vec<JobTrace> {
        let pools = self.inner.resources.pools();
        pools.iter().flat_map(BufferPool::job_trace).collect()
    }

    /// The runs of shared operators so far, if the engine was configured to record them.
    #[must_use]
    pub fn operator_trace(&self) -> Vec<OperatorTrace> {
        self.inner.resources.operators().trace()
    }

    /// The pages that index scans have read on their own so far, pool by pool, if the engine was
    /// configured to record them.
    #[must_use]
    pub fn page_trace(&self) -> Vec<PageTrace> {
        let pools = self.inner.resources.pools();
        pools.iter().flat_map(BufferPool::page_trace).collect()
    }

    /// Closes the logs of [`EngineConfig::record`] and waits until they are written. Later events
    /// are not recorded. Blocks.
    pub fn finish_recording(&self) {
        for pool in self.inner.resources.pools() {
            pool.finish_recording();
        }
    }

    /// The running scans and the resident chunks, pool by pool.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PoolSnapshot> {
        let pools = self.inner.resources.pools();
        pools.iter().map(BufferPool::snapshot).collect()
    }

    /// The indexes that are being built, with their progress.
    #[must_use]
    pub fn index_builds(&self) -> Vec<IndexBuild> {
        self.inner.resources.indexes().builds()
    }

    /// The devices in use.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        self.inner.resources.devices()
    }

    /// The memory budget of the whole engine.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        self.inner.resources.memory()
    }

    /// The engine's DataFusion runtime: memory, spill files, object stores, caches of metadata.
    #[must_use]
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        self.inner.resources.runtime()
    }

    pub(super) fn downgrade(&self) -> WeakEngine {
        WeakEngine {
            inner: Arc::downgrade(&self.inner),
        }
    }
}

impl WeakEngine {
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        self.inner.upgrade().map(|inner| Engine { inner })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("config", self.inner.resources.config())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WeakEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakEngine")
    }
}
