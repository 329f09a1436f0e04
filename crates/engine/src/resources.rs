//! What do the queries of an engine share below their plans?
//!
//! Memory, devices, buffers, the known indexes and the shared operators. Plans, scans and builds of
//! indexes hold these, and an [`Engine`](crate::Engine) with its sessions stands on them. Buffers
//! are made when a query first needs them: one pool for each policy and storage model in use. The
//! pools share one memory budget, the devices and the threads; queries share reads with queries of
//! the same pool and chunk size.
//! Not here: what plans share (`fragment/`), sessions (`session/`), settings (`settings/`).

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

use crate::error::{Error, Result, external};
use crate::index_catalog::{Indexes, NamedFolder};
use crate::memory::{SharedMemory, SpillFolder};
use crate::object_stores::StoreRegistry;
use crate::operators::Coordinator;
use crate::settings::{EngineConfig, Settings};

/// The part of the memory limit that an engine starts with, as a divisor, that the statistics of
/// files may take which DataFusion plans with. They are not counted in the budget.
const STATISTICS_KEPT: u64 = 16;

/// See the file's header.
pub(crate) struct Resources {
    config: EngineConfig,
    shared: Arc<PoolShared>,
    pools: Mutex<HashMap<PoolKey, BufferPool>>,
    recorder: Option<Recorder>,
    runtime: Arc<RuntimeEnv>,
    indexes: Arc<Indexes>,
    operators: Arc<Coordinator>,
    /// The folder for indexes that sessions start with.
    index_folder: Option<NamedFolder>,
    /// Pages that scans by an index have read or found in memory.
    pages_read: AtomicU64,
}

/// What decides whether two queries share reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PoolKey {
    policy: Policy,
    model: StorageModel,
}

impl Resources {
    /// Devices and threads, with nothing in memory yet.
    ///
    /// # Errors
    /// As [`Engine::new`](crate::Engine::new).
    pub(crate) fn new(config: EngineConfig, budget: &Arc<MemoryBudget>) -> Result<Self> {
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
            // Created here rather than with the first pool: whoever asked for a log must hear at
            // once that there will be none.
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
            // Files are listed anew for every query: a replaced or added file is seen by the next
            // one.
            .with_object_list_cache_limit(0)
            .with_file_statistics_cache_limit(
                part(STATISTICS_KEPT).min(DEFAULT_FILE_STATISTICS_MEMORY_LIMIT),
            )
            .build_arc()?;
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

    /// Operators that queries share.
    pub(crate) fn operators(&self) -> &Arc<Coordinator> {
        &self.operators
    }

    /// The known indexes.
    pub(crate) fn indexes(&self) -> &Arc<Indexes> {
        &self.indexes
    }

    /// The files whose footers are known.
    pub(crate) fn files(&self) -> &Arc<FileCache> {
        self.shared.files()
    }

    /// The devices in use.
    pub(crate) fn devices(&self) -> &Devices {
        self.files().devices()
    }

    /// The memory budget that everything shares.
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

    /// The pool for these settings; the first call makes it.
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

    /// Counts pages that scans by an index have read or found in memory.
    pub(crate) fn add_pages_read(&self, pages: u64) {
        self.pages_read.fetch_add(pages, Ordering::Relaxed);
    }

    /// Pages that scans by an index have read or found in memory.
    pub(crate) fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// Bytes of arrays that were decoded.
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
