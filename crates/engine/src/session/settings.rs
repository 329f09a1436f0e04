//! The settings `coscan.*`: what a session may change with SET, and how a bad value is refused.
//!
//! | setting | values | default | applies to |
//! |---|---|---|---|
//! | `coscan.policy` | `normal`, `attach`, `pbm`, `pbm-sampling`, `elevator`, `relevance`, `relevance-2007` | `relevance` | the session's next queries |
//! | `coscan.storage_model` | `nsm`, `dsm` | `dsm` | the session's next queries |
//! | `coscan.memory` | a size, a share of the machine's memory; at least 1 MiB | 70 %, but 320 MiB are left | the whole engine, at once |
//! | `coscan.chunk_bytes` | a size | 16 MiB | the session's next queries |
//! | `coscan.small_table_bytes` | a size | 8 MiB | the session's next queries |
//! | `coscan.cooperative` | `on`, `off` | `on` | the session's next queries |
//! | `coscan.access_path` | `full`, `index`, `sort`, `switch`, `smooth` | `smooth` | the session's next queries, where an index serves one |
//! | `coscan.smooth_policy` | `greedy`, `selectivity_increase`, `elastic` | `elastic` | smooth scans |
//! | `coscan.smooth_trigger` | `eager`, `optimizer`, `sla` | `eager` | smooth scans |
//! | `coscan.smooth_estimate` | rows | 32000 | the trigger `optimizer`, and the access path `switch` |
//! | `coscan.smooth_sla` | a time | 10s | the trigger `sla` |
//! | `coscan.smooth_region_max` | a size | 16 MiB | smooth scans |
//! | `coscan.smooth_cache` | a size, `unlimited` | `unlimited` | smooth scans that give rows in the index's order |
//! | `coscan.share_fragments` | `on`, `off` | `on` | the session's next queries |
//! | `coscan.state_cache` | a size; 0 is none | 1/16 of the memory, at most 64 MiB | the session's next queries |
//! | `coscan.index_folder` | a folder or a URL | empty: beside the table | where the session's next indexes are made, and looked for |
//! | `coscan.label` | any text | empty | the session's next queries; shown in traces and `coscan.scans` |
//!
//! Queries share reads only with queries of the same policy, storage model and chunk size. A lower
//! `coscan.memory` takes nothing from operators that run: chunks in the buffer go first, operators
//! get no more until they fit again, and scans of which a chunk cannot fit at all fail.
//! Not here: what an engine is built with (`config.rs`).

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use coscan_core::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};
use coscan_core::{Policy, StorageModel, UnknownName};
use coscan_storage::pool::MemoryBudget;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

use super::config::EngineConfig;
use super::memory_limit;
use super::size::{self, Size};
use crate::index::NamedFolder;
use crate::rights::{Right, Rights};

/// A session's `coscan.*` settings; an extension of DataFusion's `ConfigOptions`.
#[derive(Clone)]
pub struct Settings {
    /// Which policy schedules loads and evictions of this session's scans.
    pub policy: Policy,
    /// Whether a load brings all columns of a chunk or those that scans need.
    pub storage_model: StorageModel,
    /// Target size of a chunk in bytes on disk.
    pub chunk_bytes: u64,
    /// Scans that need at most so many bytes of their table are left to DataFusion's own reader.
    pub small_table_bytes: u64,
    /// Whether scans are cooperative at all.
    pub cooperative: bool,
    /// How rows are found where an index serves the predicate.
    pub access_path: AccessPath,
    /// What makes a smooth scan's region grow and shrink.
    pub smooth_policy: SmoothPolicy,
    /// When a smooth scan begins to morph.
    pub smooth_trigger: SmoothTrigger,
    /// How many rows are estimated: until then the trigger `optimizer` and the path `switch` fetch
    /// rows one by one.
    pub smooth_estimate: u64,
    /// The time that the trigger `sla` keeps, in milliseconds.
    pub smooth_sla_ms: u64,
    /// Bytes on disk of a smooth scan's largest region.
    pub smooth_region_max: u64,
    /// Bytes of rows that a smooth scan keeps until their turn, beyond which some go to disk;
    /// `None`: as many as the budget gives.
    pub smooth_cache: Option<u64>,
    /// Whether work above scans is shared with other queries.
    pub(crate) share_fragments: bool,
    /// Bytes of states of chunks that are kept. `None`: a part of the memory budget.
    state_cache: Option<u64>,
    /// Where indexes are kept. `None`: beside their tables.
    pub(crate) index_folder: Option<NamedFolder>,
    /// Names this session's scans in traces and in `coscan.scans`.
    pub label: String,
    /// The engine's one budget, which `coscan.memory` shows and changes.
    budget: Arc<MemoryBudget>,
    /// The limit that the engine was made with: what RESET goes back to.
    memory_default: u64,
    /// The folder for indexes that the engine was made with.
    folder_default: Option<String>,
    /// What the session may change of what is not its own.
    rights: Rights,
}

/// Chunks of 16 MiB: at 200 MB/s a load takes 80 ms, far longer than a request's latency (so the
/// device runs at full speed), and a buffer of a gigabyte still holds 64 of them to choose from.
pub const CHUNK_BYTES_DEFAULT: u64 = 16 << 20;

/// Below half a chunk there is nothing to schedule: the scan is one short read, which the page
/// cache keeps anyway, and DataFusion's reader starts it without asking anybody.
pub const SMALL_TABLE_BYTES_DEFAULT: u64 = 8 << 20;

/// The paper's estimate for its switch scan [SmoothScan18 §7.7].
const SMOOTH_ESTIMATE_DEFAULT: u64 = 32_000;

/// What people at a dashboard wait for before they leave it.
const SMOOTH_SLA_MS_DEFAULT: u64 = 10_000;

/// Regions above 16 MiB gained nothing in the paper (Figure 17), and it is the size of a chunk.
const SMOOTH_REGION_MAX_DEFAULT: u64 = 16 << 20;

/// States of all chunks of a thousand queries over a table of 300 chunks take some 60 MB.
const STATE_CACHE_DEFAULT_MAX: u64 = 64 << 20;

/// The part of the memory budget that states may take by default, as a divisor.
const STATE_CACHE_PART: u64 = 16;

/// The value that undoes a SET of `coscan.memory`.
pub(crate) const DEFAULT: &str = "default";

/// No bound but the memory budget.
const UNLIMITED: &str = "unlimited";

/// A chunk smaller than a page of a disk's request makes no sense; it is allowed down to here for
/// tests.
const CHUNK_BYTES_MIN: u64 = 4 << 10;
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// Longer labels are a mistake and would be copied into every trace event.
const LABEL_CHARS_MAX: usize = 200;

impl Settings {
    /// What sessions of an engine start with.
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
            cooperative: config.cooperative,
            access_path: config.access_path,
            smooth_policy: SmoothPolicy::Elastic,
            smooth_trigger: SmoothTrigger::Eager,
            smooth_estimate: SMOOTH_ESTIMATE_DEFAULT,
            smooth_sla_ms: SMOOTH_SLA_MS_DEFAULT,
            smooth_region_max: SMOOTH_REGION_MAX_DEFAULT,
            smooth_cache: None,
            share_fragments: config.share_fragments,
            state_cache: None,
            index_folder,
            label: String::new(),
            memory_default: config.memory_bytes.unwrap_or_else(|| budget.limit()),
            folder_default: config.index_folder.clone(),
            budget,
            rights: Rights::ALL,
        }
    }

    /// Bytes of states that the session lets the engine keep.
    pub(crate) fn state_cache_bytes(&self) -> u64 {
        self.state_cache
            .unwrap_or_else(|| self.state_cache_default())
    }

    fn state_cache_default(&self) -> u64 {
        (self.budget.limit() / STATE_CACHE_PART).min(STATE_CACHE_DEFAULT_MAX)
    }

    /// From now on `coscan.memory` and `coscan.index_folder` are for those who have the right.
    pub(crate) fn hold_to(&mut self, rights: Rights) {
        self.rights = rights;
    }

    /// The folder that the engine was made with, and none, are everyone's; a local folder that is
    /// not there would be made.
    fn check_folder(&self, value: &str) -> Result<()> {
        if value.is_empty() || self.folder_default.as_deref() == Some(value) {
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

    /// Every setting with its value and its description, in a fixed order.
    fn list(&self) -> [(&'static str, String, &'static str); 17] {
        [
            (
                "policy",
                self.policy.name().to_owned(),
                "Which scan is served, which chunk is loaded and which is evicted: normal (each scan by itself, LRU), attach (a new scan joins a running one), elevator (one sequential cursor for all) or relevance",
            ),
            (
                "storage_model",
                self.storage_model.name().to_owned(),
                "What one load brings: nsm (all columns of a chunk) or dsm (the columns that scans need)",
            ),
            (
                "memory",
                self.budget.limit().to_string(),
                "Bytes that buffered chunks, decoded columns and operators may use together, as a size (2GB, 512MiB) or a share of the machine's memory (70%). Changes the whole engine, not only this session",
            ),
            (
                "chunk_bytes",
                self.chunk_bytes.to_string(),
                "Target size of a chunk, the unit of scheduling, in bytes on disk. Queries share reads only with queries of the same chunk size",
            ),
            (
                "small_table_bytes",
                self.small_table_bytes.to_string(),
                "Scans that need at most so many bytes are left to DataFusion's own reader",
            ),
            (
                "cooperative",
                if self.cooperative { "on" } else { "off" }.to_owned(),
                "Whether scans of Parquet tables are scheduled together with other queries' scans (on), or run by themselves with DataFusion's own reader (off)",
            ),
            (
                "access_path",
                self.access_path.name().to_owned(),
                "How rows are found where an index serves the predicate: full (the table is scanned), index (row by row), sort (pages in the table's order), switch (index, then full) or smooth (morphs between them)",
            ),
            (
                "smooth_policy",
                self.smooth_policy.name().to_owned(),
                "What makes a smooth scan read more or less around a row: greedy, selectivity_increase or elastic",
            ),
            (
                "smooth_trigger",
                self.smooth_trigger.name().to_owned(),
                "When a smooth scan begins to morph: eager (at once), optimizer (after coscan.smooth_estimate rows) or sla (when coscan.smooth_sla would be in danger)",
            ),
            (
                "smooth_estimate",
                self.smooth_estimate.to_string(),
                "Rows that the trigger optimizer and the access path switch fetch one by one first",
            ),
            (
                "smooth_sla",
                format!("{}ms", self.smooth_sla_ms),
                "The time that the trigger sla keeps: 500ms, 10s",
            ),
            (
                "smooth_region_max",
                self.smooth_region_max.to_string(),
                "Bytes on disk that a smooth scan reads around a row at most",
            ),
            (
                "smooth_cache",
                self.smooth_cache
                    .map_or_else(|| UNLIMITED.to_owned(), |bytes| bytes.to_string()),
                "Bytes of rows that a smooth scan in the index's order keeps in memory until their turn, as a size; unlimited: as many as coscan.memory allows. The others wait on disk",
            ),
            (
                "share_fragments",
                if self.share_fragments { "on" } else { "off" }.to_owned(),
                "Whether aggregates that stand on a cooperative scan work on a chunk once for all queries that want it (on), or each query for itself (off)",
            ),
            (
                "state_cache",
                self.state_cache_bytes().to_string(),
                "Bytes of partial aggregates of chunks that are kept for queries to come, as a size; 0: this session neither uses nor fills them",
            ),
            (
                "index_folder",
                self.index_folder
                    .as_ref()
                    .map_or_else(String::new, |folder| folder.name.clone()),
                "Where indexes are made and looked for: a folder or a URL; empty for the folder _coscan beside each table's files",
            ),
            (
                "label",
                self.label.clone(),
                "A name for this session's scans in traces and in coscan.scans",
            ),
        ]
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
        match key {
            "policy" => self.policy = named(key, value)?,
            "storage_model" => self.storage_model = named(key, value)?,
            "memory" => {
                self.rights.check_setting("coscan.memory", Some(value))?;
                let bytes = match value.trim() {
                    DEFAULT => self.memory_default,
                    value => parse_memory(value)?,
                };
                self.budget.set_limit(bytes);
            }
            "chunk_bytes" => {
                let bytes = bytes(key, value)?;
                if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes) {
                    return refused(
                        key,
                        &format!("{bytes} bytes; it must be between 4KiB and 1GiB"),
                    );
                }
                self.chunk_bytes = bytes;
            }
            "small_table_bytes" => self.small_table_bytes = bytes(key, value)?,
            "access_path" => self.access_path = named(key, value)?,
            "smooth_policy" => self.smooth_policy = named(key, value)?,
            "smooth_trigger" => self.smooth_trigger = named(key, value)?,
            "smooth_estimate" => {
                self.smooth_estimate = value
                    .parse()
                    .or_else(|_| refused(key, &format!("'{value}'; it is a number of rows")))?;
            }
            "smooth_sla" => self.smooth_sla_ms = milliseconds(key, value)?,
            "smooth_region_max" => self.smooth_region_max = bytes(key, value)?,
            "smooth_cache" => {
                self.smooth_cache = match value.trim() {
                    UNLIMITED => None,
                    size => Some(bytes(key, size)?),
                }
            }
            "index_folder" => {
                self.check_folder(value)?;
                self.index_folder = (!value.is_empty())
                    .then(|| NamedFolder::new(value))
                    .transpose()?;
            }
            "cooperative" => self.cooperative = switch(key, value)?,
            "share_fragments" => self.share_fragments = switch(key, value)?,
            "state_cache" => {
                let bytes = bytes(key, value)?;
                if bytes > self.state_cache_default() {
                    self.rights.require(&[Right::EngineSettings], || {
                        "coscan.state_cache above its default takes memory that all sessions share"
                            .to_owned()
                    })?;
                }
                self.state_cache = Some(bytes);
            }
            "label" => {
                if value.chars().count() > LABEL_CHARS_MAX {
                    return refused(
                        key,
                        &format!("a text of more than {LABEL_CHARS_MAX} characters"),
                    );
                }
                value.clone_into(&mut self.label);
            }
            _ => {
                let known: Vec<_> = self
                    .list()
                    .iter()
                    .map(|(name, ..)| format!("coscan.{name}"))
                    .collect();
                return Err(DataFusionError::Configuration(format!(
                    "there is no setting coscan.{key}; there are {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        self.list()
            .into_iter()
            .map(|(name, value, description)| ConfigEntry {
                key: format!("{}.{name}", Self::PREFIX),
                value: Some(value),
                description,
            })
            .collect()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value, _) in self.list() {
            map.entry(&name, &value);
        }
        map.finish()
    }
}

/// A memory budget: a size, or a share of what the process may use.
///
/// # Errors
/// `Configuration` for anything else, for less than a megabyte, and for more than the machine or
/// control group has.
pub fn parse_memory(text: &str) -> Result<u64> {
    let available = memory_limit::available_bytes();
    let bytes = match size::parse(text) {
        Ok(Size::Bytes(bytes)) => bytes,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A share of a u64.
        Ok(Size::Share(share)) => (available as f64 * share) as u64,
        Err(message) => return refused("memory", &message),
    };
    if bytes < MEMORY_BYTES_MIN {
        return refused("memory", &format!("{bytes} bytes; at least 1MiB is needed"));
    }
    if bytes > available {
        return refused(
            "memory",
            &format!(
                "{bytes} bytes; this process may use {available} at most (the smaller of the machine's memory and the control group's)"
            ),
        );
    }
    Ok(bytes)
}

/// Less cannot hold one page of each column of any real table.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

fn bytes(key: &str, value: &str) -> Result<u64> {
    size::parse_bytes(value).or_else(|message| refused(key, &message))
}

fn switch(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => refused(key, &format!("'{value}'; it is on or off")),
    }
}

/// A time as `500ms`, `10s` or `2min`.
fn milliseconds(key: &str, value: &str) -> Result<u64> {
    let text = value.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim() {
        "ms" => Some(1),
        "s" => Some(1_000),
        "min" => Some(60_000),
        _ => None,
    };
    let number = digits.trim().parse::<u64>().ok();
    match number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit)) {
        Some(milliseconds) => Ok(milliseconds),
        None => refused(
            key,
            &format!("'{value}'; it is a time such as 500ms or 10s"),
        ),
    }
}

fn named<T: FromStr<Err = UnknownName>>(key: &str, value: &str) -> Result<T> {
    value
        .parse()
        .or_else(|error: UnknownName| refused(key, &error.to_string()))
}

fn refused<T>(key: &str, why: &str) -> Result<T> {
    Err(DataFusionError::Configuration(format!(
        "coscan.{key} cannot be {why}"
    )))
}
