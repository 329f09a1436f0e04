//! The configuration of an engine. Every field has a default that works.

use std::path::PathBuf;
use std::time::Duration;

use coscan_core::smooth::AccessPath;
use coscan_core::{Policy, StorageModel};
use coscan_storage::device::NamedDevice;

use super::{MergeJoins, Nested};

/// How an [`Engine`](crate::Engine) is set up. The settings among the fields (`policy` to
/// `access_path`, `index_folder` to `nested`) are what new sessions start with; a session changes
/// its own values with SET.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct EngineConfig {
    /// Memory in bytes for chunks, decoded columns and operators together. `None`: 80 % of the
    /// smaller of the machine's memory and the control group's limit, or less, so that at least
    /// 320 MiB are left for unaccounted memory.
    pub memory_bytes: Option<u64>,
    /// The largest part of it that chunks may take, in bytes. `None`: all that operators leave.
    pub buffer_bytes_max: Option<u64>,
    /// Whether the checksums of pages are verified, where files have them.
    pub checksums: bool,
    /// The policy that sessions start with.
    pub policy: Policy,
    /// The storage model that sessions start with.
    pub model: StorageModel,
    /// The chunk size that sessions start with, in bytes on disk.
    pub chunk_bytes: u64,
    /// The threshold for small tables that sessions start with, in bytes.
    pub small_table_bytes: u64,
    /// The most bytes of a plan that is planned for one partition with which sessions start; 0:
    /// none is. `target_partitions` counts for all plans if it is set.
    pub small_plan_bytes: u64,
    /// Whether sessions start with cooperative scans.
    pub cooperative: bool,
    /// Whether sessions start with shared fragments: aggregates that work on a chunk once for all
    /// queries that want it.
    pub share_fragments: bool,
    /// Whether an aggregate that groups by a table's sort column is computed in the table's order.
    pub ordered_aggregates: bool,
    /// Which joins of tables that are sorted by the join's keys are computed chunk by chunk.
    pub merge_joins: MergeJoins,
    /// Whether sessions start with shared operators, which do work that queries have in common
    /// once.
    pub share_operators: bool,
    /// The access path that sessions start with, for predicates that an index serves.
    pub access_path: AccessPath,
    /// Limits every device to this many bytes per second, for experiments. `None`: no limit.
    pub bandwidth: Option<u64>,
    /// Adds this time to every request, for experiments.
    pub latency: Duration,
    /// Names of devices, each with a path to files on it. The system's device numbers identify all
    /// other devices.
    pub devices: Vec<NamedDevice>,
    /// The number of devices from which a scan reads at a time. `None`: the parallelism controller
    /// chooses it.
    pub parallelism: Option<u32>,
    /// Whether the pages that a query waits for may overtake loads. Off only in experiments.
    pub page_reserve: bool,
    /// Loads outstanding per device; at least 1.
    pub loads_max: usize,
    /// Threads that decode. `None`: as many as the machine has cores.
    pub decode_threads: Option<usize>,
    /// Keeps a record of every load for [`Engine::trace`](crate::Engine::trace), of every read of
    /// pages by themselves for [`Engine::page_trace`](crate::Engine::page_trace), of every
    /// chunk job for [`Engine::job_trace`](crate::Engine::job_trace), and of every run of a shared
    /// operator for [`Engine::operator_trace`](crate::Engine::operator_trace).
    pub record_trace: bool,
    /// Writes the scheduler's events and decisions to this file, for `coscan sim replay`. There is
    /// a buffer pool for each policy and storage model in use: the second pool writes to the file
    /// with `.1` added, and so on. [`Engine::finish_recording`](crate::Engine::finish_recording)
    /// waits for the files.
    pub record: Option<PathBuf>,
    /// The index folder that sessions start with: a folder or a URL. `None`: the folder `_coscan`
    /// beside the table's files.
    pub index_folder: Option<String>,
    /// Whether columns of bytes are text even if no writer marked them as text.
    pub binary_as_string: bool,
    /// The form of structs and maps in results with which sessions start.
    pub nested: Nested,
    /// The folder in which the engine creates its folder for spill files. `None`: the system's
    /// folder for temporary files.
    pub spill_folder: Option<PathBuf>,
    /// Partitions per scan and operator. `None`: as many as the machine has cores, and one for
    /// small plans (`small_plan_bytes`).
    pub target_partitions: Option<usize>,
    /// Rows per record batch, at most: below 512 MiB of memory they are fewer in proportion
    /// (`memory/batches.rs`).
    pub batch_rows: usize,
}

/// Chunks of 16 MiB: at 200 MB/s a load takes 80 ms, far longer than a request's latency, so the
/// device runs at full speed, and a buffer of a gigabyte still holds 64 of them to choose from.
const CHUNK_BYTES_DEFAULT: u64 = 16 << 20;

/// Below half a chunk there is nothing to schedule: the scan is one short read, which the page
/// cache keeps anyway, and DataFusion's reader starts it without waiting for the scheduler.
const SMALL_TABLE_BYTES_DEFAULT: u64 = 8 << 20;

/// As arrays, what one core decodes, filters and groups in some milliseconds. More partitions save
/// a part of these; each thread that they wake costs as much, beside a program that computes. Below
/// the threshold for small tables, so that plans with cooperative scans stay divided.
const SMALL_PLAN_BYTES_DEFAULT: u64 = 4 << 20;

/// Outstanding loads per device. With two, the disk reads the second while the first is turned
/// into frames; with more, the scheduler would commit to decisions that it can make better later.
const LOADS_MAX_DEFAULT: usize = 2;

/// DataFusion's own default.
const BATCH_ROWS_DEFAULT: usize = 8192;

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            buffer_bytes_max: None,
            checksums: true,
            policy: Policy::Relevance,
            model: StorageModel::Dsm,
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            small_table_bytes: SMALL_TABLE_BYTES_DEFAULT,
            small_plan_bytes: SMALL_PLAN_BYTES_DEFAULT,
            cooperative: true,
            share_fragments: true,
            ordered_aggregates: true,
            merge_joins: MergeJoins::Auto,
            share_operators: true,
            access_path: AccessPath::Smooth,
            bandwidth: None,
            latency: Duration::ZERO,
            devices: Vec::new(),
            parallelism: None,
            page_reserve: true,
            loads_max: LOADS_MAX_DEFAULT,
            decode_threads: None,
            record_trace: false,
            record: None,
            index_folder: None,
            binary_as_string: false,
            nested: Nested::Rows,
            spill_folder: None,
            target_partitions: None,
            batch_rows: BATCH_ROWS_DEFAULT,
        }
    }
}
