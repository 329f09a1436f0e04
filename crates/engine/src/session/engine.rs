//! The engine: one per process. It owns memory, devices, buffers and tables; sessions only have
//! settings.
//!
//! Buffers are made when a query first needs one: a pool for each policy and storage model in use.
//! They share one memory budget, the devices and the threads; queries share reads with queries of
//! the same pool and chunk size.
//! Not here: settings (`settings.rs`), scans (`scan/`).

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use coscan_core::{Policy, StorageModel};
use coscan_storage::device::{DeviceOptions, Devices, Throttle};
use coscan_storage::pool::{
    BufferPool, FileCache, LoadTrace, MemoryBudget, PageTrace, PoolConfig, PoolShared,
    PoolSnapshot, Recorder,
};
use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use parking_lot::Mutex;

use super::config::EngineConfig;
use super::memory_limit;
use super::settings::Settings;
use crate::error::{Error, Result, external};
use crate::fragment::{Board, StateCache};
use crate::index::{IndexBuild, Indexes, NamedFolder};
use crate::memory::{SharedPool, SpillFolder};
use crate::operators::Coordinator;
use crate::tables::StoreRegistry;

/// The engine. Clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// An engine as seen by what the engine itself owns: plans, system tables.
#[derive(Clone)]
pub(crate) struct WeakEngine {
    inner: Weak<Inner>,
}

struct Inner {
    config: EngineConfig,
    shared: Arc<PoolShared>,
    pools: Mutex<HashMap<PoolKey, BufferPool>>,
    recorder: Option<Recorder>,
    runtime: Arc<RuntimeEnv>,
    catalogs: Arc<dyn CatalogProviderList>,
    indexes: Arc<Indexes>,
    /// What is shared above scans.
    board: Arc<Board>,
    /// Operators that are shared.
    operators: Arc<Coordinator>,
    /// The folder for indexes that sessions start with.
    index_folder: Option<NamedFolder>,
    /// Pages that index-based access paths have read.
    pages_read: AtomicU64,
}

/// What decides whether two queries share reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PoolKey {
    policy: Policy,
    model: StorageModel,
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What an engine has done so far, summed over its pools and devices.
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
    /// Pages that scans by an index have read or found in memory.
    pub pages_read: u64,
    /// Bytes of memory that operators hold.
    pub operator_bytes: u64,
    /// Bytes of memory that decoded columns hold.
    pub decoded_bytes: u64,
    /// Bytes of memory that chunks in the buffers hold, loads under way included.
    pub frame_bytes: u64,
    /// Chunk jobs that have begun.
    pub fragment_jobs: u64,
    /// States of chunks that jobs gave to queries: at most as many for each job as queries wanted
    /// its chunk.
    pub fragment_states: u64,
    /// States of chunks that queries found remembered.
    pub fragment_states_remembered: u64,
    /// Chunks that jobs could not work on, which queries then worked on alone.
    pub fragment_chunks_given_back: u64,
    /// Bytes that the states of chunks take that are kept.
    pub state_cache_bytes: u64,
    /// Shared operators that a query has begun.
    pub operators_hosted: u64,
    /// Shared operators of which a query took what another's run gave.
    pub operators_joined: u64,
    /// Shared operators of which a query took what was kept of a run that had ended.
    pub operators_late: u64,
    /// Batches of shared operators that were taken by another query than the one that made them.
    pub operator_batches_shared: u64,
    /// Those of them that went to disk.
    pub operator_batches_to_disk: u64,
    /// Queries that had joined a shared operator and ran it by themselves after all.
    pub operator_reruns: u64,
    /// Circles of queries that waited for each other, and were resolved.
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
            .unwrap_or_else(memory_limit::default_budget_bytes);
        let config = EngineConfig {
            memory_bytes: Some(limit),
            ..config
        };
        let budget = MemoryBudget::new(limit);
        let throttled = config.bandwidth.is_some() || !config.latency.is_zero();
        let throttle = throttled.then(|| Throttle {
            bytes_per_second: config.bandwidth.unwrap_or(u64::MAX),
            latency: config.latency,
        });
        let devices = Arc::new(Devices::new(DeviceOptions {
            throttle,
            ..DeviceOptions::default()
        }));
        if let Some(path) = &config.record {
            // Now rather than when the first pool is made: who asked for a log wants to hear that
            // there will be none.
            File::create(path).map_err(|reason| Error::Record {
                path: path.display().to_string(),
                reason,
            })?;
        }
        let board = Arc::new(Board::new(StateCache::new(&budget)));
        let operators = Coordinator::new(&budget);
        let recorder = config.record.as_ref().map(Recorder::to_file);
        let threads = config.decode_threads.unwrap_or_else(cores);
        let files = FileCache::new(Arc::clone(&devices));
        let shared = PoolShared::new(files, Arc::clone(&budget), threads)?;
        let spill = SpillFolder::create(config.spill_folder.as_deref())?;
        let spill_to = spill.as_ref().map(|folder| folder.path().to_owned());
        let disk = match spill_to {
            Some(path) => DiskManagerMode::Directories(vec![path]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let stores = Arc::new(StoreRegistry::new(devices, spill));
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(disk))
            .with_memory_pool(Arc::new(SharedPool::new(budget)))
            .with_object_store_registry(stores)
            // Files are listed anew for every query: a replaced or added file is seen by the next
            // one.
            .with_object_list_cache_limit(0)
            .build_arc()?;
        let catalogs: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
        let index_folder = config.index_folder.as_deref();
        let index_folder = index_folder.map(NamedFolder::new).transpose()?;
        let inner = Arc::new(Inner {
            config,
            shared,
            pools: Mutex::default(),
            recorder,
            runtime,
            catalogs,
            indexes: Arc::default(),
            board,
            operators,
            index_folder,
            pages_read: AtomicU64::new(0),
        });
        Ok(Self { inner })
    }

    pub(super) fn config(&self) -> &EngineConfig {
        &self.inner.config
    }

    pub(super) fn catalogs(&self) -> &Arc<dyn CatalogProviderList> {
        &self.inner.catalogs
    }

    /// The settings that new sessions start with.
    pub(crate) fn settings(&self) -> Settings {
        let index_folder = self.inner.index_folder.clone();
        Settings::new(&self.inner.config, Arc::clone(self.memory()), index_folder)
    }

    /// What is shared above scans.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.inner.board
    }

    /// Operators that queries share.
    pub(crate) fn operators(&self) -> &Arc<Coordinator> {
        &self.inner.operators
    }

    /// The pool for these settings, made if it is the first time.
    pub(crate) fn pool(&self, settings: &Settings) -> BufferPool {
        let key = PoolKey {
            policy: settings.policy,
            model: settings.storage_model,
        };
        let mut pools = self.inner.pools.lock();
        let pool = pools.entry(key).or_insert_with(|| {
            let config = &self.inner.config;
            let config = PoolConfig {
                policy: key.policy,
                model: key.model,
                buffer_bytes_max: config.buffer_bytes_max,
                loads_max: config.loads_max,
                record_trace: config.record_trace,
                recorder: self.inner.recorder.clone(),
                ..PoolConfig::default()
            };
            BufferPool::new(config, Arc::clone(&self.inner.shared))
        });
        pool.clone()
    }

    /// Makes sure that files of the store at `url` can be read: stores of a foreign runtime become
    /// devices here.
    pub(crate) fn ensure_device(
        &self,
        url: &ObjectStoreUrl,
        runtime: &RuntimeEnv,
    ) -> datafusion::error::Result<()> {
        if url.as_str() == ObjectStoreUrl::local_filesystem().as_str()
            || self.devices().is_registered(url.as_str())
        {
            return Ok(());
        }
        let store = runtime.object_store(url)?;
        self.devices()
            .register_store(url.as_str(), store)
            .map_err(external)?;
        Ok(())
    }

    /// What the engine has done so far.
    #[must_use]
    pub fn metrics(&self) -> EngineMetrics {
        let mut metrics = EngineMetrics::default();
        for device in self.devices().snapshots() {
            metrics.io_requests += device.meter.requests;
            metrics.io_bytes += device.meter.bytes;
        }
        for pool in self.pools() {
            metrics.sched_cpu_ns += pool.metrics().sched_ns;
        }
        metrics.pages_read = self.inner.pages_read.load(Ordering::Relaxed);
        let memory = self.memory();
        metrics.decode_bytes = self.inner.shared.decoded_bytes_total();
        metrics.operator_bytes = memory.operator_bytes();
        metrics.decoded_bytes = memory.decoded_bytes();
        metrics.frame_bytes = memory.frame_bytes();
        self.inner.board.add_to(&mut metrics);
        // States are counted with operators, before whom they go.
        let states = metrics.state_cache_bytes;
        for engine in self.operators().micro_engines().values() {
            metrics.operators_retained_bytes += engine.retained_bytes;
            metrics.operators_hosted += engine.done.hosted;
            metrics.operators_joined += engine.done.joined;
            metrics.operators_late += engine.done.late;
            metrics.operator_batches_shared += engine.done.batches_shared;
            metrics.operator_batches_to_disk += engine.done.batches_to_disk;
            metrics.operator_reruns += engine.done.reruns;
            metrics.operator_deadlocks += engine.done.deadlocks;
            metrics.operators_failed += engine.done.failed;
        }
        let given_first = states + metrics.operators_retained_bytes;
        metrics.operator_bytes = metrics.operator_bytes.saturating_sub(given_first);
        metrics
    }

    /// The loads so far, pool by pool, if the engine was configured to record them.
    #[must_use]
    pub fn trace(&self) -> Vec<LoadTrace> {
        self.pools().iter().flat_map(BufferPool::trace).collect()
    }

    /// The pages that scans by an index have read by themselves so far, pool by pool, if the engine
    /// was configured to record them.
    #[must_use]
    pub fn page_trace(&self) -> Vec<PageTrace> {
        let pools = self.pools();
        pools.iter().flat_map(BufferPool::page_trace).collect()
    }

    /// Closes the logs of [`EngineConfig::record`] and waits until they are written. What happens
    /// after is not recorded. Blocks.
    pub fn finish_recording(&self) {
        for pool in self.pools() {
            pool.finish_recording();
        }
    }

    /// What runs now and what is in memory, pool by pool.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PoolSnapshot> {
        self.pools().iter().map(BufferPool::snapshot).collect()
    }

    /// The indexes that are being built, and how far they are.
    #[must_use]
    pub fn index_builds(&self) -> Vec<IndexBuild> {
        self.indexes().builds()
    }

    /// The devices in use.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        self.inner.shared.files().devices()
    }

    /// The memory budget that everything shares.
    #[must_use]
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        self.inner.shared.memory()
    }

    /// The engine's DataFusion runtime: memory, spill files, object stores, caches of metadata.
    #[must_use]
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.inner.runtime
    }

    /// The indexes it knows.
    pub(crate) fn indexes(&self) -> &Arc<Indexes> {
        &self.inner.indexes
    }

    /// Notes that scans by an index have read pages.
    pub(crate) fn add_pages_read(&self, pages: u64) {
        self.inner.pages_read.fetch_add(pages, Ordering::Relaxed);
    }

    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine {
            inner: Arc::downgrade(&self.inner),
        }
    }

    pub(crate) fn pools(&self) -> Vec<BufferPool> {
        self.inner.pools.lock().values().cloned().collect()
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
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WeakEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakEngine")
    }
}
