//! What may a front end keep for statements to come?
//!
//! Idea: what it can do without counts in the engine's memory, is refused where there is none, and
//! is taken back before an operator is refused.
//! Not here: what queries leave for others. Chunk states and runs of operators use the budget
//! itself.

use std::fmt;
use std::sync::{Arc, Weak};

use coscan_core::memory::HolderId;
use coscan_storage::pool::{MemoryBudget, Reclaim};
use datafusion::config::ConfigOptions;

use crate::settings::Settings;

/// An account in an engine's memory for what a front end keeps.
pub struct Retained {
    memory: Arc<MemoryBudget>,
    holder: HolderId,
}

impl Retained {
    /// An account in the memory of the session's engine; `None` if the session has none. `from`
    /// gives bytes back when they are needed.
    #[must_use]
    pub fn new(session: &ConfigOptions, from: Weak<dyn Reclaim>) -> Option<Self> {
        let memory = Arc::clone(session.extensions.get::<Settings>()?.memory());
        let holder = memory.retains_statements(from);
        Some(Self { memory, holder })
    }

    /// Takes memory for something that is kept; false if there is no room. The caller holds no
    /// lock that it needs to give bytes back.
    #[must_use]
    pub fn try_keep(&self, bytes: usize) -> bool {
        self.memory.try_keep(self.holder, bytes as u64)
    }

    /// Returns memory. The caller holds no lock that it needs to give bytes back.
    pub fn give_back(&self, bytes: usize) {
        self.memory.give_back(self.holder, bytes as u64);
    }
}

impl fmt::Debug for Retained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retained")
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}
