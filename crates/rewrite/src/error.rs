//! Errors while Parquet is rewritten.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use parquet::errors::ParquetError;

/// The result of an operation of this crate.
pub type Result<T, E = RewriteError> = std::result::Result<T, E>;

/// An error of [`rewrite`](crate::rewrite()) and [`write_pages`](crate::write_pages).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The engine cannot read the source, or has no memory for the sort.
    #[error(transparent)]
    Engine(#[from] coscan::Error),
    /// A number of the layout is out of its range.
    #[error("{name} cannot be {value}; it is a number from {min} to {max}")]
    Layout {
        /// The number's name in [`PageLayout`](crate::PageLayout).
        name: &'static str,
        /// The given value.
        value: u64,
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// The source cannot be read as Parquet.
    #[error("{path}: {reason}")]
    Source {
        /// The source.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The source has no such column to sort by.
    #[error("{path}: there is no column '{column}' to sort by; there are {known}")]
    NoColumn {
        /// The source.
        path: String,
        /// The given name.
        column: String,
        /// The existing names.
        known: String,
    },
    /// The column's type has no order that a Parquet footer could declare.
    #[error("{path}: rows cannot be sorted by '{column}', which is a {kind}")]
    Unordered {
        /// The source.
        path: String,
        /// The column.
        column: String,
        /// Its type.
        kind: DataType,
    },
    /// The target exists already.
    #[error("{path} exists already")]
    Exists {
        /// The target.
        path: String,
    },
    /// The target is a folder, not a file name.
    #[error("{path} is a folder; name a file")]
    Folder {
        /// The target.
        path: String,
    },
    /// The target would be one of several files of the source.
    #[error(
        "{path} would be one of the files of {source_path}, which would then have all its rows twice"
    )]
    InsideSource {
        /// The target.
        path: String,
        /// The source.
        source_path: String,
    },
    /// A target of a spread is not a folder.
    #[error("{path} is not a folder")]
    NoFolder {
        /// The given path.
        path: String,
    },
    /// A target folder of a spread is given twice.
    #[error("{path} is named twice: a table is spread over different folders")]
    FolderTwice {
        /// The folder.
        path: String,
    },
    /// The source's files do not contain their number of rows, so ranges cannot be cut.
    #[error("{path}: its files do not contain their number of rows; spread it by round-robin")]
    Uncounted {
        /// The source.
        path: String,
    },
    /// An interrupted spread cannot be finished.
    #[error("{journal}: an interrupted spread cannot be finished: {reason}")]
    Unfinished {
        /// The journal of the spread.
        journal: String,
        /// The reason.
        reason: String,
    },
    /// The target cannot be written: the disk is full, the folder does not exist, or the store
    /// refuses.
    #[error("{path}: {source}")]
    Write {
        /// The target.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// Rows cannot be encoded as Parquet: an unsupported type, or a page of more than 2 GiB.
    #[error("{path}: {column}: {source}")]
    Encode {
        /// The target.
        path: String,
        /// The column, or `schema`.
        column: String,
        /// The reason.
        source: ParquetError,
    },
    /// A page does not begin where it must: the encoder cut pages in an unexpected way. No user
    /// action causes this.
    #[error(
        "internal error: {path}: {column}: a page does not begin at a multiple of {page_rows} rows"
    )]
    Misaligned {
        /// The target.
        path: String,
        /// The column.
        column: String,
        /// The rows per page.
        page_rows: usize,
    },
}

impl From<DataFusionError> for RewriteError {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(error.into())
    }
}
