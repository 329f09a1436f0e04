//! How is a buffer pool configured?
//!
//! Not here: the settings that set these fields (the engine), the memory limit (`../memory`).

use std::time::Duration;

use coscan_core::{AbmConfig, Policy, StorageModel, TurnLimit};

use super::state::Recorder;

/// Fixed properties of a [`super::BufferPool`].
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// How loads, deliveries and evictions are chosen.
    pub policy: Policy,
    /// What a load brings.
    pub model: StorageModel,
    /// Frames never take more than this, even if the memory budget has room. Bytes.
    pub buffer_bytes_max: Option<u64>,
    /// The most outstanding loads per device.
    pub loads_max: usize,
    /// Whether page reads overtake loads (`segments/reserve.rs`).
    pub page_reserve: bool,
    /// A scan whose consumers are silent this long is stalled: it does not hold up other scans
    /// (I8).
    pub stall_after: Duration,
    /// A consumer that leaves its chunk unread for this long loses its frames and its place in
    /// decode (I8). If it comes back, the rest of the chunk is read for it separately.
    pub lapse_after: Duration,
    /// The waiting time that weighs as much as one needed chunk, per running scan.
    pub wait_unit: Duration,
    /// `relevance`: how many chunks may be in work at once; by default two per core.
    pub turns_max: usize,
    /// `relevance`: a chunk that is still held after this long does not count as in work.
    pub turn_length_max: Duration,
    /// Whether to record every load, page read and chunk job.
    pub record_trace: bool,
    /// Writes every event and action of the core to a log that can be replayed.
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
            // Two loads keep a device busy while the pool handles the end of one; more loads would
            // only fix decisions earlier than necessary.
            loads_max: 2,
            page_reserve: true,
            stall_after: Duration::from_secs(5),
            // Far above what an operator computes between two batches, far below a person's pause
            // at a cursor. If the guess is wrong, the rest of a chunk is decoded from its middle,
            // and its frames are read a second time if they were evicted.
            lapse_after: Duration::from_millis(500),
            wait_unit: Duration::from_millis(100),
            // A chunk that changes hands, or whose first batches are still being decoded, leaves
            // its core free for another one (`docs/decisions/turns.md`).
            turns_max: 2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            // Several times what a chunk takes. The other input of a join waits no longer than
            // this.
            turn_length_max: Duration::from_millis(250),
            record_trace: false,
            recorder: None,
        }
    }
}
