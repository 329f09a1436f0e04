//! What do all queries of an engine share, whatever their plans?
//!
//! Memory, devices, buffer pools, the catalogue of indexes and the coordinator of shared
//! operators. Plans, scans and index builds hold these; an [`Engine`](crate::Engine) and its
//! sessions are built on them. A buffer pool is created when a query first needs it, one for each
//! policy and storage model in use. The pools share one memory budget, the devices and the
//! threads. Two queries share reads if they use the same pool and the same chunk size. Not here:
//! what plans share (`fragment/`), sessions (`session/`), settings (`settings/`).

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coscan_core::{Policy, StorageModel};
use coscan_storage::device::{DeviceOptions, Devices, Throttle};
use coscan_storage::pool::{BufferPool, FileCache, MemoryBudget, PoolConfig, PoolShared, Recorder};
use datafusion::execution::cache::cache_manager::DEFAULT_FILE_STATISTICS_MEMORY_LIMIT;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::error::{Error, Result, external};
use crate::index_catalog::{Indexes, NamedFolder};
use crate::memory::{SharedMemory, SpillFolder, batch_rows_max, bound_merges};
use crate::object_stores::StoreRegistry;
use crate::operators::Coordinator;
use crate::settings::{EngineConfig, Settings};

/// The part of the initial memory limit, as a divisor, that DataFusion's cache of file statistics
/// may take. The budget does not count these bytes.
const STATISTICS_KEPT: u64 = 16;

/// The shared resources of an engine; see the file's header.
pub(crate) struct Resources {
    config: EngineConfig,
    shared: Arc<PoolShared>,
    pools: Mutex<HashMap<PoolKey, BufferPool>>,
    recorder: Option<Recorder>,
    runtime: Arc<RuntimeEnv>,
    indexes: Arc<Indexes>,
    operators: Arc<Coordinator>,
    /// The index folder that new sessions start with.
    index_folder: Option<NamedFolder>,
    /// Pages that index scans have read from a device or found in memory.
    pages_read: AtomicU64,
    /// Has room for one query that nodes of a cluster keep memory for.
    turn_on_nodes: Arc<Semaphore>,
}

/// Two queries share reads only if their keys are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PoolKey {
    policy: Policy,
    model: StorageModel,
}

impl Resources {
    /// Creates devices and threads; nothing is in memory yet.
    ///
    /// # Errors
    /// As [`Engine::new`](crate::Engine::new).
    pub(crate) fn new(mut config: EngineConfig, budget: &Arc<MemoryBudget>) -> Result<Self> {
        config.batch_rows = config.batch_rows.min(batch_rows_max(budget.limit()));
        let throttled = config.bandwidth.is_some() || !config.latency.is_zero();
        let throttle = throttled.then(|| Throttle {
            bytes_per_second: config.bandwidth.unwrap_or(u64::MAX),
            latency: config.latency,
        });
        let devices = Arc::new(Devices::new(DeviceOptions {
            throttle,
            named: config.devices.clone(),
            ..DeviceOptions::default()
        }));
        if let Some(path) = &config.record {
            // The log is created here rather than with the first pool, so that the caller hears of
            // a failure at once.
            File::create(path).map_err(|reason| Error::Record {
                path: path.display().to_string(),
                reason,
            })?;
        }
        let operators = Coordinator::new(budget, config.record_trace);
        let recorder = config.record.as_ref().map(Recorder::to_file);
        let threads = config.decode_threads.unwrap_or_else(cores);
        let files = FileCache::new(Arc::clone(&devices));
        let shared = PoolShared::new(files, Arc::clone(budget), threads)?;
        let spill = SpillFolder::create(config.spill_folder.as_deref())?;
        let spill_to = spill.as_ref().map(|folder| folder.path().to_owned());
        let disk = match spill_to {
            Some(path) => DiskManagerMode::Directories(vec![path]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let stores = Arc::new(StoreRegistry::new(devices, spill));
        let limit = budget.limit();
        let part = |of: u64| usize::try_from(limit / of).unwrap_or(usize::MAX);
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(disk))
            .with_memory_pool(SharedMemory::new(budget))
            .with_object_store_registry(stores)
            // Every query lists its files itself, so it sees files that were added or replaced
            // since the previous query.
            .with_object_list_cache_limit(0)
            .with_file_statistics_cache_limit(
                part(STATISTICS_KEPT).min(DEFAULT_FILE_STATISTICS_MEMORY_LIMIT),
            )
            .build_arc()?;
        bound_merges(&runtime.disk_manager, budget);
        let index_folder = config.index_folder.as_deref();
        let index_folder = index_folder.map(NamedFolder::new).transpose()?;
        Ok(Self {
            config,
            shared,
            pools: Mutex::default(),
            recorder,
            runtime,
            indexes: Arc::default(),
            operators,
            index_folder,
            pages_read: AtomicU64::new(0),
            turn_on_nodes: Arc::new(Semaphore::new(1)),
        })
    }

    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The settings that new sessions start with.
    pub(crate) fn settings(&self) -> Settings {
        let index_folder = self.index_folder.clone();
        Settings::new(&self.config, Arc::clone(self.memory()), index_folder)
    }

    /// The coordinator of operators that queries share.
    pub(crate) fn operators(&self) -> &Arc<Coordinator> {
        &self.operators
    }

    /// One query at a time has this turn (`running/rerun.rs`).
    pub(crate) fn turn_on_nodes(&self) -> &Arc<Semaphore> {
        &self.turn_on_nodes
    }

    /// The catalogue of indexes.
    pub(crate) fn indexes(&self) -> &Arc<Indexes> {
        &self.indexes
    }

    /// The cache of footers.
    pub(crate) fn files(&self) -> &Arc<FileCache> {
        self.shared.files()
    }

    pub(crate) fn devices(&self) -> &Devices {
        self.files().devices()
    }

    /// The memory budget of the whole engine.
    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        self.shared.memory()
    }

    /// The DataFusion runtime: memory, spill files, object stores, caches of metadata.
    pub(crate) fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// The pools in use.
    pub(crate) fn pools(&self) -> Vec<BufferPool> {
        self.pools.lock().values().cloned().collect()
    }

    /// The pool for these settings; it is created on first use.
    pub(crate) fn pool(&self, settings: &Settings) -> BufferPool {
        let key = PoolKey {
            policy: settings.policy,
            model: settings.storage_model,
        };
        let mut pools = self.pools.lock();
        let pool = pools.entry(key).or_insert_with(|| {
            let config = &self.config;
            let config = PoolConfig {
                policy: key.policy,
                model: key.model,
                buffer_bytes_max: config.buffer_bytes_max,
                loads_max: config.loads_max,
                page_reserve: config.page_reserve,
                record_trace: config.record_trace,
                recorder: self.recorder.clone(),
                ..PoolConfig::default()
            };
            BufferPool::new(config, Arc::clone(&self.shared))
        });
        pool.clone()
    }

    /// Makes files of the store at `url` readable: a store that a foreign runtime registered
    /// becomes a device here.
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

    /// Counts pages that index scans have read from a device or found in memory.
    pub(crate) fn add_pages_read(&self, pages: u64) {
        self.pages_read.fetch_add(pages, Ordering::Relaxed);
    }

    /// Pages that index scans have read from a device or found in memory.
    pub(crate) fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// Bytes of arrays decoded so far.
    pub(crate) fn decoded_bytes_total(&self) -> u64 {
        self.shared.decoded_bytes_total()
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resources")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
