//! What can go wrong before or after an experiment.

use std::path::PathBuf;

/// Why `coscan sim` gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// There is no such experiment.
    #[error("there is no experiment {name:?}; `coscan sim list` names them: {known}")]
    UnknownExperiment {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// An experiment over no seed says nothing.
    #[error("--seeds must be at least 1")]
    NoSeeds,
    /// The experiment draws nothing.
    #[error("experiment {name:?} has no plot")]
    NoPlot {
        /// The experiment.
        name: String,
    },
    /// A file could not be written.
    #[error("{} cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something is done more or less often than is committed.
    #[error("{}: other counts; COSCAN_WRITE_COUNTS=1 writes those that are meant\n{table}", path.display())]
    Counts {
        /// The committed counts.
        path: PathBuf,
        /// What differs.
        table: String,
    },
    /// A plot could not be drawn.
    #[error("the plot cannot be drawn: {reason}")]
    Draw {
        /// What the plotting library said.
        reason: String,
    },
    /// A promise of the core was broken in a random world.
    #[error("seed {seed}: {message}")]
    Broken {
        /// The world's seed.
        seed: u64,
        /// What broke.
        message: String,
    },
    /// A log cannot be replayed, or the core does something else.
    #[error("{}: {source}", path.display())]
    Replay {
        /// The log.
        path: PathBuf,
        /// Why, and where.
        source: coscan_sim::ReplayError,
    },
}
