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
    /// A scan whose consumers are silent this long holds nobody up any more (I8).
    pub stall_after: Duration,
    /// A consumer that does not come back to its chunk for so long has to read what is left of it
    /// anew: it holds neither frames nor a place in decode any more (I8).
    pub lapse_after: Duration,
    /// The waiting time that weighs as much as one chunk needed, per running scan.
    pub wait_unit: Duration,
    /// `relevance`: how many chunks may be in work at once; as many as cores, or a few more.
    pub turns_max: usize,
    /// `relevance`: a chunk that is still held after so long does not count as in work.
    pub turn_length_max: Duration,
    /// Keep a record of every load, of every read of pages by themselves, and of every chunk job.
    pub record_trace: bool,
    /// Writes every event and action of the core to a log, to be replayed.
    pub recorder: Option<Recorder>,
}

impl PoolConfig {
    /// How its core is set up. It has no memory until the budget is divided.
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
            // Two keep a device busy while one is being settled; more would only commit to
            // decisions earlier than need be.
            loads_max: 2,
            page_reserve: true,
            stall_after: Duration::from_secs(5),
            // Far above what an operator computes between two batches, far below what a person at a
            // cursor takes. Where it is wrong, the rest of a chunk is decoded from its middle, and
            // read again if it was evicted.
            lapse_after: Duration::from_millis(500),
            wait_unit: Duration::from_millis(100),
            // Decode runs beside its readers, and others join, so that no core is idle while a
            // chunk changes hands. More chunks at once mean fewer scans that share one: `coscan sim
            // run beyond-mixes`.
            turns_max: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            // Several times what a chunk costs; a join's other input waits no longer than this.
            turn_length_max: Duration::from_millis(250),
            record_trace: false,
            recorder: None,
        }
    }
}
