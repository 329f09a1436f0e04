//! How a buffer pool is set up.

use std::time::Duration;

use coscan_core::{Policy, StorageModel};

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
    /// A scan whose consumers are silent this long holds nobody up any more (I8).
    pub stall_after: Duration,
    /// The waiting time that weighs as much as one chunk needed, per running scan.
    pub wait_unit: Duration,
    /// Keep a record of every load.
    pub record_trace: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            policy: Policy::Relevance,
            model: StorageModel::Dsm,
            buffer_bytes_max: None,
            // Two keep a device busy while one is being settled; more would only commit to decisions earlier than need be.
            loads_max: 2,
            stall_after: Duration::from_secs(5),
            wait_unit: Duration::from_millis(100),
            record_trace: false,
        }
    }
}
