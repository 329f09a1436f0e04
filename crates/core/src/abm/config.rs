//! What is fixed when a buffer manager is made.

use crate::{Policy, StorageModel, TurnLimit};

/// Fixed properties of one Active Buffer Manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbmConfig {
    /// How it decides.
    pub policy: Policy,
    /// What a load brings, and so which relevance functions apply.
    pub model: StorageModel,
    /// Bytes it may hold, loads in flight included (ABM-I3).
    pub budget_bytes: u64,
    /// Outstanding loads per device, at least 1.
    pub loads_max: usize,
    /// A scan whose consumers have been silent this long, though a chunk is there for them, is
    /// stalled. Nanoseconds.
    pub stall_after_ns: u64,
    /// The waiting time that weighs as much as one chunk needed, per running scan, in
    /// queryRelevance. Nanoseconds, at least 1.
    pub wait_unit_ns: u64,
    /// `Relevance`: how many chunks may be in work at once. None: as many as there are consumers.
    pub turns: Option<TurnLimit>,
}
