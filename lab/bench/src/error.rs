//! What can fail while a workload is made, run or reported.

use std::path::PathBuf;

/// An error of the bench crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// There is no such table.
    #[error("`{text}` is not a table of TPC-H")]
    NoTable {
        /// The name given.
        text: String,
    },
    /// A mix such as `FS-M` could not be read.
    #[error("`{text}` is not a mix: {reason}; write SPEED-SIZE as in FS-M, FFS-L or F-1,10,50,100")]
    Mix {
        /// The mix given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More queries need dates of their own than there are dates.
    #[error("{taken} dates are taken: fewer queries can all have dates of their own")]
    Dates {
        /// How many dates queries already have.
        taken: usize,
    },
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A Parquet file could not be read or written.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// The table is not one that the workload can run on.
    #[error("{}: {reason}", path.display())]
    Table {
        /// The file or folder.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The engine failed to start, to plan or to run.
    #[error("{doing}: {source}")]
    Engine {
        /// What was being done, for instance the query's name.
        doing: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The same query gave different rows in two runs.
    #[error("{query} under {policy} differs from {reference}: {difference}\n{sql}")]
    Mismatch {
        /// The query's name.
        query: String,
        /// The policy under which it gave the other result.
        policy: String,
        /// What it was compared with.
        reference: String,
        /// The first line that differs.
        difference: String,
        /// The query.
        sql: String,
    },
    /// No number of terms gave SLOW the wanted ratio.
    #[error(
        "SLOW takes {ratio:.2} times FAST's time with {slow_arithmetic} terms of arithmetic; {wanted:.2} was asked for"
    )]
    Calibration {
        /// The last number of terms tried.
        slow_arithmetic: u32,
        /// The ratio measured with it.
        ratio: f64,
        /// The ratio wanted.
        wanted: f64,
    },
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
    /// A worker thread or task ended without a result.
    #[error("internal error: a worker of {0} ended without a result")]
    WorkerLost(&'static str),
}

/// Result of an operation of the bench crate.
pub type Result<T, E = BenchError> = std::result::Result<T, E>;

impl BenchError {
    /// Wraps an engine's error with what was being done.
    pub fn engine(
        doing: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Engine {
            doing: doing.into(),
            source: source.into(),
        }
    }

    /// Wraps an I/O error with the path it is about.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io {
            path: path.into(),
            source,
        }
    }

    /// Wraps a Parquet error with the file it is about.
    pub fn parquet(path: impl Into<PathBuf>, source: parquet::errors::ParquetError) -> Self {
        Self::Parquet {
            path: path.into(),
            source,
        }
    }
}
