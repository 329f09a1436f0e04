//! What is a pool doing at this moment? For system tables, metrics and traces.
//!
//! Bounds: a snapshot holds the pool's lock while it visits all scans and all chunks in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use coscan_core::{ColumnSet, DeviceId, ScanId, StorageModel};

use super::{JobTrace, LoadTrace, PageTrace, ScanMetrics};
use crate::pool::BufferPool;

/// A running scan: a row of `coscan.scans`.
#[derive(Clone, Debug)]
pub struct ScanRow {
    /// The scan's id in its pool.
    pub scan: u64,
    /// The table's id in its pool.
    pub table: u32,
    /// The label of its session.
    pub label: String,
    /// Chunks that have not been handed out.
    pub chunks_left: u64,
    /// Chunks in its consumers' hands.
    pub chunks_held: u64,
    /// Chunks whose memory was taken back because their consumers were silent for long.
    pub chunks_lapsed: u64,
    /// Chunks that other scans' jobs work on for this scan.
    pub chunks_in_jobs: u64,
    /// Chunks not handed out that are in memory or loading.
    pub chunks_coming: u64,
    /// Consumers that wait for a chunk.
    pub waiting: u32,
    /// Whether it lacks chunks to work on.
    pub starved: bool,
    /// Whether its consumers have been silent for long.
    pub stalled: bool,
    /// The scan's counters.
    pub metrics: ScanMetrics,
}

/// A chunk with columns in memory or loading: a row of `coscan.chunks`.
#[derive(Clone, Debug)]
pub struct ChunkRow {
    /// The table's id in its pool.
    pub table: u32,
    /// The chunk's id in its table.
    pub chunk: u32,
    /// The chunk's file.
    pub file: String,
    /// Columns in memory.
    pub resident: Vec<String>,
    /// Columns that are loading.
    pub loading: Vec<String>,
    /// Columns pinned by consumers.
    pub pinned: Vec<String>,
    /// Scans that need the chunk.
    pub interested: Vec<u64>,
}

/// A pool at one moment.
#[derive(Clone, Debug)]
pub struct PoolSnapshot {
    /// Running scans.
    pub scans: Vec<ScanRow>,
    /// Chunks with columns in memory or loading.
    pub chunks: Vec<ChunkRow>,
    /// The number of tables, including those of replaced files while they are in use.
    pub tables: usize,
    /// Bytes of frames, outstanding loads included.
    pub used_bytes: u64,
    /// The pool's memory budget in bytes.
    pub budget_bytes: u64,
}

/// Counters of a pool since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMetrics {
    /// Time spent in the scheduling core. Nanoseconds.
    pub sched_ns: u64,
    /// Events the core handled.
    pub events: u64,
    /// The longest time that the pool's lock was held, during which all queries wait. Nanoseconds.
    pub lock_ns_max: u64,
}

impl BufferPool {
    /// The running scans and the chunks in memory.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        let state = self.inner.state.lock();
        let scans = state.abm.scans().filter_map(|scan| {
            let known = state.scans.get(scan.scan)?;
            Some(ScanRow {
                scan: scan.scan.0,
                table: scan.table.0,
                label: known.label.to_string(),
                chunks_left: (scan.chunks_needed + known.without_bytes.len()) as u64,
                chunks_held: scan.chunks_held as u64,
                chunks_lapsed: scan.chunks_lapsed as u64,
                chunks_in_jobs: scan.chunks_in_jobs as u64,
                chunks_coming: scan.chunks_coming as u64,
                waiting: scan.waiting,
                starved: scan.starved,
                stalled: scan.stalled,
                metrics: known.metrics,
            })
        });
        let chunks = state.abm.chunks().filter_map(|chunk| {
            let core = &state.tables.get(&chunk.table)?.core;
            let names = |columns: &ColumnSet| match self.inner.config.model {
                StorageModel::Nsm if columns.is_empty() => Vec::new(),
                StorageModel::Nsm => core.columns.names().to_vec(),
                StorageModel::Dsm => columns
                    .iter()
                    .filter_map(|c| core.columns.names().get(usize::from(c.0)).cloned())
                    .collect(),
            };
            Some(ChunkRow {
                table: chunk.table.0,
                chunk: chunk.chunk.0,
                file: core
                    .chunks
                    .get(chunk.chunk.0 as usize)?
                    .file
                    .name()
                    .to_owned(),
                resident: names(&chunk.resident),
                loading: names(&chunk.loading),
                pinned: names(&chunk.pinned),
                interested: chunk.interested.iter().map(|scan| scan.0).collect(),
            })
        });
        PoolSnapshot {
            scans: scans.collect(),
            chunks: chunks.collect(),
            tables: state.tables.len(),
            used_bytes: state.abm.used_bytes(),
            budget_bytes: state.abm.budget_bytes(),
        }
    }

    /// For each device, the number of scans that it is reading a chunk for.
    #[must_use]
    pub fn workers(&self) -> BTreeMap<DeviceId, usize> {
        let state = self.inner.state.lock();
        let mut scans: BTreeMap<DeviceId, BTreeSet<ScanId>> = BTreeMap::new();
        for load in state.loads.all() {
            scans.entry(load.device).or_default().insert(load.scan);
        }
        let counts = scans
            .into_iter()
            .map(|(device, scans)| (device, scans.len()));
        counts.collect()
    }

    /// The pool's counters.
    #[must_use]
    pub fn metrics(&self) -> PoolMetrics {
        let state = self.inner.state.lock();
        PoolMetrics {
            sched_ns: state.time.spent_ns(),
            events: state.time.events(),
            lock_ns_max: self.inner.locked_ns_max.load(Ordering::Relaxed),
        }
    }

    /// All loads so far, if the pool records them.
    #[must_use]
    pub fn trace(&self) -> Vec<LoadTrace> {
        let state = self.inner.state.lock();
        let trace = state.trace.as_ref();
        trace.map_or_else(Vec::new, |trace| trace.loads.clone())
    }

    /// All chunk jobs that have ended, if the pool records them.
    #[must_use]
    pub fn job_trace(&self) -> Vec<JobTrace> {
        let state = self.inner.state.lock();
        let trace = state.trace.as_ref();
        trace.map_or_else(Vec::new, |trace| trace.jobs.clone())
    }

    /// The page reads so far, in the order of their reads, if the pool records them.
    #[must_use]
    pub fn page_trace(&self) -> Vec<PageTrace> {
        let state = self.inner.state.lock();
        let trace = state.trace.as_ref();
        trace.map_or_else(Vec::new, |trace| trace.pages.clone())
    }
}
