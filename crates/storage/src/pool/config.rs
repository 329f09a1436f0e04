//! How a buffer pool is set up.

use std::time::Duration;

use coscan_core::{AbmConfig, Policy, StorageModel, TurnLimit};

use super::recorder::Recorder;

/// Fixed properties of a [`super::BufferPool`].
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// How loads, deliveries and evictions are chosen.
    pub policy: Policy,
    /// What a load brings.
    pub model: StorageModel,
    /// Frames never take more than this, whatever the memory budget leaves. Bytes.
    pub buffer_bytes_max: Option<u64>,
    /// Loads under way per device.
    pub loads_max: usize,
    /// Whether reads of pages get past loads (`reserve.rs`).
    pub page_reserve: bool,
    /// A scan whose consumers are silent this long no longer holds up other scans (I8).
    pub stall_after: Duration,
    /// A consumer that leaves its chunk unread for this long loses its frames and its place in
    /// decode (I8). If it comes back, the rest of the chunk is read anew.
    pub lapse_after: Duration,
    /// The waiting time that weighs as much as one chunk needed, per running scan.
    pub wait_unit: Duration,
    /// `relevance`: how many chunks may be in work at once; by default two per core.
    pub turns_max: usize,
    /// `relevance`: a chunk that is still held after this long does not count as in work.
    pub turn_length_max: Duration,
    /// Keep a record of every load, of every read of pages by themselves, and of every chunk job.
    pub record_trace: bool,
    /// Writes every event and action of the core to a log, to be replayed.
    pub recorder: Option<Recorder>,
}

impl PoolConfig {
    /// The core's configuration. The core has no memory until the budget is divided.
    pub(crate) fn of_core(&self) -> AbmConfig {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        AbmConfig {
            policy: self.policy,
            model: self.model,
            budget_bytes: 0,
            loads_max: self.loads_max.max(1),
            stall_after_ns: nanos(self.stall_after),
            wait_unit_ns: nanos(self.wait_unit),
            turns: Some(TurnLimit {
                chunks_max: self.turns_max.max(1),
                length_ns_max: nanos(self.turn_length_max),
            }),
        }
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            policy: Policy::Relevance,
            model: StorageModel::Dsm,
            buffer_bytes_max: None,
            // Two loads keep a device busy while one is being settled; more loads would only fix
            // decisions earlier than necessary.
            loads_max: 2,
            page_reserve: true,
            stall_after: Duration::from_secs(5),
            // Far above what an operator computes between two batches, far below what a person at a
            // cursor takes. Where the guess is wrong, the rest of a chunk is decoded from its
            // middle, and its frames are read again if they were evicted.
            lapse_after: Duration::from_millis(500),
            wait_unit: Duration::from_millis(100),
            // A chunk that changes hands, or whose first batches are still being decoded, leaves
            // its core to another one (`docs/decisions/turns.md`).
            turns_max: 2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            // Several times what a chunk costs. The other input of a join waits no longer than
            // this.
            turn_length_max: Duration::from_millis(250),
            record_trace: false,
            recorder: None,
        }
    }
}
