//! The fixed properties of a buffer manager: the interface of its constructor.

use crate::{Policy, StorageModel, TurnLimit};

/// Fixed properties of one Active Buffer Manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbmConfig {
    /// The scheduling policy.
    pub policy: Policy,
    /// The storage model: what a load brings, and so which relevance functions apply.
    pub model: StorageModel,
    /// The memory budget in bytes, outstanding loads included (ABM-I3).
    pub budget_bytes: u64,
    /// The most outstanding loads per device, at least 1.
    pub loads_max: usize,
    /// A scan is stalled when none of its consumers waits and nothing has happened between it and
    /// its consumers for this long. Nanoseconds.
    pub stall_after_ns: u64,
    /// In queryRelevance, per running scan: the waiting time that weighs as much as one needed
    /// chunk. Nanoseconds, at least 1.
    pub wait_unit_ns: u64,
    /// `Relevance`: how many chunks may be in work at once. `None`: no limit.
    pub turns: Option<TurnLimit>,
}
