//! What may a session change with SET coscan.*, and how is a bad value refused?
//!
//! `table.rs` declares the settings, `values.rs` parses their values, and `docs/settings.md` is
//! generated from the table. `config.rs` declares what an engine is built with, including the
//! defaults of its sessions; `cluster_width.rs`, `merge_joins.rs` and `nested.rs` declare the
//! choices of a setting.
//! Queries share reads only with queries of the same policy, storage model and chunk size.

mod cluster_width;
mod config;
mod merge_joins;
mod nested;
mod table;
mod values;

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use coscan_core::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};
use coscan_core::{Policy, StorageModel};
use coscan_storage::pool::MemoryBudget;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

pub use cluster_width::ClusterWidth;
pub use config::EngineConfig;
pub use merge_joins::MergeJoins;
pub use nested::Nested;
pub use table::{SETTINGS, Setting, Values};

use crate::index_catalog::NamedFolder;
use crate::right::{Right, Rights};

/// A session's `coscan.*` settings; an extension of DataFusion's `ConfigOptions`.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools)] // Each is a switch of its own.
pub struct Settings {
    /// The policy that schedules loads and evictions for this session's scans.
    pub policy: Policy,
    /// Whether a load brings all columns of a chunk, or those that scans need.
    pub storage_model: StorageModel,
    /// Target size of a chunk in bytes on disk.
    pub chunk_bytes: u64,
    /// Scans that need at most this many bytes of their table, on disk and as arrays, are left to
    /// DataFusion's own reader.
    pub small_table_bytes: u64,
    /// Plans whose scans together need at most this many bytes have one partition; 0: none has.
    pub small_plan_bytes: u64,
    /// The number of partitions that the engine gave the session by the machine's cores. A session
    /// with another number, or with `None`, was told how many, and its small plans are divided too.
    pub(crate) partitions_by_cores: Option<usize>,
    /// Whether scans are cooperative at all.
    pub cooperative: bool,
    /// The number of devices from which a scan reads at a time. `None`: the parallelism controller
    /// chooses it.
    pub parallelism: Option<u32>,
    /// By what the number of nodes is chosen that a query of a cluster runs on.
    pub cluster_width: ClusterWidth,
    /// How rows are found where an index serves the predicate.
    pub access_path: AccessPath,
    /// What makes a smooth scan's region grow and shrink.
    pub smooth_policy: SmoothPolicy,
    /// When a smooth scan begins to morph.
    pub smooth_trigger: SmoothTrigger,
    /// The estimated number of rows. The trigger `optimizer` and the path `switch` fetch up to
    /// this many rows one by one.
    pub smooth_estimate: u64,
    /// The time that the trigger `sla` keeps, in milliseconds.
    pub smooth_sla_ms: u64,
    /// The largest region of a smooth scan, in bytes on disk.
    pub smooth_region_max: u64,
    /// Bytes of rows that a smooth scan keeps in memory until their turn; further rows go to disk.
    /// `None`: as many as the budget allows.
    pub smooth_cache: Option<u64>,
    /// Bytes of decoded pages that a scan keeps while it fetches rows one by one.
    index_cache: u64,
    /// Whether fragments, the work directly above scans, are shared with other queries.
    pub(crate) share_fragments: bool,
    pub(crate) ordered_aggregates: bool,
    pub(crate) merge_joins: MergeJoins,
    /// Whether the operators above fragments are shared with other queries.
    pub(crate) share_operators: bool,
    /// The most bytes of chunk states that are kept. `None`: a part of the memory budget.
    state_cache: Option<u64>,
    /// The folder for indexes. `None`: beside their tables.
    pub(crate) index_folder: Option<NamedFolder>,
    /// Whether new tables treat columns of bytes as text even if no writer marked them as text.
    pub(crate) binary_as_string: bool,
    /// The form of structs and maps in results.
    pub(crate) nested: Nested,
    /// Names this session's scans in traces and in `coscan.scans`.
    pub label: String,
    /// The engine's memory budget, which `coscan.memory` shows and changes.
    budget: Arc<MemoryBudget>,
    /// The limit that the engine was configured with, which RESET restores.
    memory_default: u64,
    /// Whether the engine was configured to verify checksums.
    checksums_default: bool,
    /// The index folder that the engine was configured with.
    folder_default: Option<String>,
    /// The session's rights to change settings that others depend on.
    rights: Rights,
}

/// The paper's estimate for its switch scan [SmoothScan18 §7.7].
const SMOOTH_ESTIMATE_DEFAULT: u64 = 32_000;

/// The time that people wait at a dashboard before they leave it.
const SMOOTH_SLA_MS_DEFAULT: u64 = 10_000;

/// In the paper, regions above 16 MiB gained nothing (Figure 17); 16 MiB is also the size of a
/// chunk.
const SMOOTH_REGION_MAX_DEFAULT: u64 = 16 << 20;

/// None: a smooth scan needs them only before its trigger, and other queries cannot reclaim them.
const INDEX_CACHE_DEFAULT: u64 = 0;

/// The part of the memory budget that decoded pages of one scan may take, as a divisor: the pages
/// that it reads ahead may take an eighth as well, and other operators need the rest.
const INDEX_CACHE_PART: u64 = 4;

/// The states of all chunks for a thousand queries over a table of 300 chunks take some 60 MB.
const STATE_CACHE_DEFAULT_MAX: u64 = 64 << 20;

/// The value of `coscan.index_folder` that stands for the engine's configured folder.
const DEFAULT_FOLDER: &str = "default";

/// The part of the memory budget that states may take by default, as a divisor.
const STATE_CACHE_PART: u64 = 16;

impl Settings {
    /// The settings that sessions of an engine start with.
    pub(crate) fn new(
        config: &EngineConfig,
        budget: Arc<MemoryBudget>,
        index_folder: Option<NamedFolder>,
    ) -> Self {
        Self {
            policy: config.policy,
            storage_model: config.model,
            chunk_bytes: config.chunk_bytes,
            small_table_bytes: config.small_table_bytes,
            small_plan_bytes: config.small_plan_bytes,
            partitions_by_cores: None,
            cooperative: config.cooperative,
            parallelism: config.parallelism,
            cluster_width: ClusterWidth::Size,
            access_path: config.access_path,
            smooth_policy: SmoothPolicy::Elastic,
            smooth_trigger: SmoothTrigger::Eager,
            smooth_estimate: SMOOTH_ESTIMATE_DEFAULT,
            smooth_sla_ms: SMOOTH_SLA_MS_DEFAULT,
            smooth_region_max: SMOOTH_REGION_MAX_DEFAULT,
            smooth_cache: None,
            index_cache: INDEX_CACHE_DEFAULT,
            share_fragments: config.share_fragments,
            ordered_aggregates: config.ordered_aggregates,
            merge_joins: config.merge_joins,
            share_operators: config.share_operators,
            state_cache: None,
            index_folder,
            binary_as_string: config.binary_as_string,
            nested: config.nested,
            label: String::new(),
            memory_default: config.memory_bytes.unwrap_or_else(|| budget.limit()),
            checksums_default: config.checksums,
            folder_default: config.index_folder.clone(),
            budget,
            rights: Rights::ALL,
        }
    }

    /// The memory of the session's engine.
    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// The bytes of states that this session lets the engine keep.
    pub(crate) fn state_cache_bytes(&self) -> u64 {
        self.state_cache
            .unwrap_or_else(|| self.state_cache_default())
    }

    /// The bytes of decoded pages that a scan may keep while it fetches rows one by one.
    pub(crate) fn index_cache_bytes(&self) -> u64 {
        self.index_cache.min(self.budget.limit() / INDEX_CACHE_PART)
    }

    fn state_cache_default(&self) -> u64 {
        (self.budget.limit() / STATE_CACHE_PART).min(STATE_CACHE_DEFAULT_MAX)
    }

    /// From now on, this session needs these rights to change `coscan.memory` and
    /// `coscan.index_folder`.
    pub(crate) fn hold_to(&mut self, rights: Rights) {
        self.rights = rights;
    }

    /// The folder that a value of `coscan.index_folder` names, if the session may use it.
    fn folder_named<'a>(&'a self, value: &'a str) -> Result<&'a str> {
        if value == DEFAULT_FOLDER {
            return Ok(self.folder_default.as_deref().unwrap_or_default());
        }
        self.check_folder(value)?;
        Ok(value)
    }

    /// R3: a session without the right to files uses the engine's folder or none, and does not see
    /// the folder's path. The value that is shown can be SET.
    fn folder_shown(&self) -> String {
        match &self.index_folder {
            None => String::new(),
            Some(folder) if self.rights.has(Right::Files) => folder.name.clone(),
            Some(_) => DEFAULT_FOLDER.to_owned(),
        }
    }

    /// Any session may have no folder, and may have the engine's folder under the word `default`,
    /// but not by its path: the answer would tell whether a guessed path is right. A local folder
    /// that does not exist would be created, which needs the right to write.
    fn check_folder(&self, value: &str) -> Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        self.rights.require(&[Right::Files], || {
            "coscan.index_folder names files of the server".to_owned()
        })?;
        if value.contains("://") || Path::new(value).is_dir() {
            return Ok(());
        }
        self.rights.require(&[Right::Writes], || {
            "coscan.index_folder names a folder that is not there and would be made".to_owned()
        })
    }
}

impl ConfigExtension for Settings {
    const PREFIX: &'static str = "coscan";
}

impl ExtensionOptions for Settings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let setting = setting(key)?;
        (setting.set)(self, value).map_err(|refusal| refusal.of(key))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |setting: &Setting| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, setting.name),
            value: Some((setting.show)(self)),
            description: setting.help,
        };
        SETTINGS.iter().map(entry).collect()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for setting in SETTINGS {
            map.entry(&setting.name, &(setting.show)(self));
        }
        map.finish()
    }
}

impl EngineConfig {
    /// Changes the value that sessions start with, as SET does for one session: `set("policy",
    /// "elevator")`.
    ///
    /// # Errors
    /// `Configuration`, if an engine has no such setting, or for a value that the setting cannot
    /// have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(configure) = setting(name)?.configure else {
            return Err(DataFusionError::Configuration(format!(
                "coscan.{name} is set for a session, not for an engine"
            )));
        };
        configure(self, value).map_err(|refusal| refusal.of(name))
    }

    /// Refuses values that an engine cannot have.
    pub(crate) fn check(&self) -> Result<()> {
        let checked = values::check_chunk_bytes(self.chunk_bytes);
        checked.map_err(|why| Refusal::Value(why).of("chunk_bytes"))?;
        Ok(())
    }
}

/// Why a setting was not set.
#[derive(Debug)]
enum Refusal {
    /// The setting cannot have this value. The text ends a sentence that begins with "cannot be".
    Value(String),
    /// The session lacks a right, or something failed.
    Other(DataFusionError),
}

impl Refusal {
    fn of(self, name: &str) -> DataFusionError {
        match self {
            Self::Value(why) => {
                DataFusionError::Configuration(format!("coscan.{name} cannot be {why}"))
            }
            Self::Other(error) => error,
        }
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Value(why)
    }
}

impl From<DataFusionError> for Refusal {
    fn from(error: DataFusionError) -> Self {
        Self::Other(error)
    }
}

fn setting(name: &str) -> Result<&'static Setting> {
    let found = SETTINGS.iter().find(|setting| setting.name == name);
    found.ok_or_else(|| {
        let known = SETTINGS
            .iter()
            .map(|setting| format!("coscan.{}", setting.name));
        let known = known.collect::<Vec<_>>().join(", ");
        DataFusionError::Configuration(format!(
            "there is no setting coscan.{name}; there are {known}"
        ))
    })
}
