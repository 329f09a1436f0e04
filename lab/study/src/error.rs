//! Errors before or after an experiment.

use std::path::PathBuf;

/// Why `coscan sim` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// There is no such experiment.
    #[error("there is no experiment {name:?}; `coscan sim list` names them: {known}")]
    UnknownExperiment {
        /// The requested name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// An experiment needs at least one seed.
    #[error("--seeds must be at least 1")]
    NoSeeds,
    /// The experiment has no figure.
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
        /// The reason.
        source: std::io::Error,
    },
    /// A count differs from the committed one.
    #[error("{}: counts differ; COSCAN_WRITE_COUNTS=1 accepts the new ones\n{table}", path.display())]
    Counts {
        /// The committed counts.
        path: PathBuf,
        /// The differences.
        table: String,
    },
    /// A plot could not be drawn.
    #[error("the plot cannot be drawn: {reason}")]
    Draw {
        /// The error of the plotting library.
        reason: String,
    },
    /// A promise of the core was broken in a random world.
    #[error("seed {seed}: {message}")]
    Broken {
        /// The world's seed.
        seed: u64,
        /// The broken promise.
        message: String,
    },
    /// A log cannot be replayed, or the core makes another decision.
    #[error("{}: {source}", path.display())]
    Replay {
        /// The log.
        path: PathBuf,
        /// The reason, and its place.
        source: coscan_sim::ReplayError,
    },
}
