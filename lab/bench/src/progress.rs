//! What is a run doing?

use std::sync::Arc;

/// What a run is doing, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A phase of this many steps begins. The preceding phase has ended.
    Begun {
        /// The phase's name: `standalone`, `plain DataFusion`, or a policy.
        phase: String,
        /// The number of queries that it runs.
        steps: u64,
    },
    /// One query of the phase has been answered.
    Advanced,
}

impl Progress {
    pub(crate) fn begun(phase: &str, steps: usize) -> Self {
        Self::Begun {
            phase: phase.to_owned(),
            steps: steps as u64,
        }
    }
}

/// Called with a run's progress, from several threads.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;
