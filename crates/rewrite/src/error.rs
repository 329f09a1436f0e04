//! What can go wrong while Parquet is rewritten.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;

/// Result of an operation of this crate.
pub type Result<T, E = RewriteError> = std::result::Result<T, E>;

/// An error of [`rewrite`](crate::rewrite()) and [`write_pages`](crate::write_pages).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The engine cannot read the source, or has no memory for its sort.
    #[error(transparent)]
    Engine(#[from] coscan::Error),
    /// A number of the layout is out of its range.
    #[error("{name} cannot be {value}; it is a number from {min} to {max}")]
    Layout {
        /// The number's name in [`PageLayout`](crate::PageLayout).
        name: &'static str,
        /// What it was.
        value: u64,
        /// The least that it may be.
        min: u64,
        /// The most that it may be.
        max: u64,
    },
    /// The source cannot be read as Parquet.
    #[error("{path}: {reason}")]
    Source {
        /// The source.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The source has no such column to sort by.
    #[error("{path}: there is no column '{column}' to sort by; there are {known}")]
    NoColumn {
        /// The source.
        path: String,
        /// The name that was given.
        column: String,
        /// The names that there are.
        known: String,
    },
    /// Rows have no order by this column that a Parquet footer could state.
    #[error("{path}: rows cannot be sorted by '{column}', which is a {kind}")]
    Unordered {
        /// The source.
        path: String,
        /// The column.
        column: String,
        /// Its type.
        kind: DataType,
    },
    /// The target is there already.
    #[error("{path} exists already")]
    Exists {
        /// The target.
        path: String,
    },
    /// The target is no name for a file.
    #[error("{path} is a folder; name a file")]
    Folder {
        /// The target.
        path: String,
    },
    /// The target would be one of the source's own files, beside the others.
    #[error("{path} would be one of the files of {source_path}, which then had all its rows twice")]
    InsideSource {
        /// The target.
        path: String,
        /// The source.
        source_path: String,
    },
    /// A table is to be spread to something that is no folder.
    #[error("{path} is no folder")]
    NoFolder {
        /// What was named.
        path: String,
    },
    /// A table is to be spread to the same folder twice.
    #[error("{path} is named twice: a table is spread over different folders")]
    FolderTwice {
        /// The folder.
        path: String,
    },
    /// The source's files do not say how many rows they have, so that ranges cannot be cut.
    #[error("{path}: its files do not say how many rows they have; spread it by round-robin")]
    Uncounted {
        /// The source.
        path: String,
    },
    /// An interrupted spread cannot be finished.
    #[error("{journal}: an interrupted spread cannot be finished: {reason}")]
    Unfinished {
        /// Its journal.
        journal: String,
        /// Why not.
        reason: String,
    },
    /// The target cannot be written: the disk is full, the folder is not there, the store refuses.
    #[error("{path}: {source}")]
    Write {
        /// The target.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Rows cannot be put into Parquet: a type that it does not have, a page of more than 2 GiB.
    #[error("{path}: {column}: {source}")]
    Encode {
        /// The target.
        path: String,
        /// The column, or `schema`.
        column: String,
        /// Why not.
        source: ParquetError,
    },
    /// A page does not begin where it must. Nothing that a user does leads here: the encoder cuts
    /// pages in a way that we don't know of.
    #[error(
        "internal error: {path}: {column}: a page does not begin at a multiple of {page_rows} rows"
    )]
    Misaligned {
        /// The target.
        path: String,
        /// The column.
        column: String,
        /// The rows of a page.
        page_rows: usize,
    },
}

impl From<DataFusionError> for RewriteError {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(error.into())
    }
}
