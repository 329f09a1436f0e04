//! Errors of the engine beyond those of SQL and of storage.

use std::ops::RangeInclusive;
use std::time::Duration;

use arrow::datatypes::DataType;
use coscan_storage::StorageError;
use datafusion::error::DataFusionError;

use crate::right::Right;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Parsing, planning or running a query failed.
    #[error(transparent)]
    Query(#[from] DataFusionError),
    /// A file or device failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A table cannot be registered.
    #[error("table {name}: {path}: {reason}")]
    Table {
        /// The table's name.
        name: String,
        /// The path or URL of its files.
        path: String,
        /// Why it cannot be registered.
        reason: String,
    },
    /// A file is not sorted as declared, or as its statistics say.
    #[error(
        "{file}: {} not in the order of {column} that {}",
        of_groups(row_groups),
        if *declared { "was declared" } else { "its statistics say" }
    )]
    OutOfOrder {
        /// The file.
        file: String,
        /// The row groups that were examined together. One of them is out of order, within itself
        /// or relative to another.
        row_groups: RangeInclusive<usize>,
        /// The column.
        column: String,
        /// Whether the order was declared, by `WITH ORDER` or in the file.
        declared: bool,
    },
    /// The rows of a table are not in the order that its files or its declaration promise.
    #[error("{file} or a file after it: its rows are not in the declared order, {order}")]
    NotInOrder {
        /// The first file of the scan.
        file: String,
        /// The promised order.
        order: String,
    },
    /// A file was replaced by one whose columns do not fit the table as it was planned.
    #[error(
        "cached plan must not change result type: {file}: its column {column:?} is {found}, and \
         the table's is {known}"
    )]
    OtherColumns {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The column's type in the file.
        found: DataType,
        /// The column's type in the table.
        known: DataType,
    },
    /// The scheduler's log cannot be written.
    #[error("{path}: the log cannot be written: {reason}")]
    Record {
        /// The file of the log.
        path: String,
        /// Why not.
        reason: std::io::Error,
    },
    /// The folder that was configured for spilling cannot be used.
    #[error("{path}: cannot be the folder to spill to: {reason}")]
    Spill {
        /// The folder.
        path: String,
        /// Why not.
        reason: std::io::Error,
    },
    /// A URL names no usable object store.
    #[error("{url}: {reason}")]
    Store {
        /// The URL.
        url: String,
        /// Why not.
        reason: String,
    },
    /// An index cannot be written. An existing index of that name is unchanged.
    #[error("index {name} cannot be written in {folder}: {}", innermost(reason.as_ref()))]
    IndexWrite {
        /// The index's name.
        name: String,
        /// The folder of the index.
        folder: String,
        /// The cause.
        reason: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A COPY cannot create its file.
    #[error("could not open file {path:?} for writing: {reason}")]
    CannotWrite {
        /// The file.
        path: String,
        /// The cause, as PostgreSQL words it.
        reason: &'static str,
    },
    /// The session lacks a right.
    #[error("permission denied: {what}{}", needed(missing))]
    Denied {
        /// The statement or setting, and why it is refused.
        what: String,
        /// The rights that the statement needs and the session lacks; empty if no right allows it.
        missing: Vec<Right>,
    },
    /// There is no runtime of Tokio to run a query on.
    #[error("a query needs a runtime of Tokio to run on")]
    NoRuntime,
    /// The runtime on which a query ran was shut down.
    #[error("the query was stopped: its runtime was shut down")]
    Stopped,
    /// A query panicked.
    #[error("internal error: the query panicked: {said}")]
    Panicked {
        /// What the panic said.
        said: String,
    },
    /// A query was ended, because there was too little memory.
    #[error("the query was ended: {}", why_ended(*unread))]
    Ended {
        /// How long its rows had not been read, if others needed its memory; `None` if the limit
        /// was lowered.
        unread: Option<Duration>,
    },
    /// Rows of a query that were written to disk cannot be found there.
    #[error("internal error: rows that were put aside are not on disk")]
    RowsLost,
}

/// The result of an operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn of_groups(groups: &RangeInclusive<usize>) -> String {
    match (groups.start(), groups.end()) {
        (one, last) if one == last => format!("row group {one} is"),
        (first, last) => format!("row groups {first} to {last} are"),
    }
}

fn why_ended(unread: Option<Duration>) -> String {
    match unread {
        None => "coscan.memory is less than what queries have".to_owned(),
        Some(unread) => format!(
            "its rows had not been read for {} s, and others needed its memory",
            unread.as_secs()
        ),
    }
}

fn needed(missing: &[Right]) -> String {
    let flags: Vec<&str> = missing.iter().map(|right| right.flag()).collect();
    match flags.as_slice() {
        [] => String::new(),
        flags => format!("; a server allows it with {}", flags.join(" and ")),
    }
}

/// The innermost cause of an error, such as a full disk. The errors around it only name the layers
/// that passed it on, which does not help a user.
pub(crate) fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a dyn std::error::Error {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Wraps a storage error for its way through a query plan. [`storage_error`] unwraps it.
pub(crate) fn external(error: StorageError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error of ours on its way through DataFusion.
pub(crate) fn engine_error(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error of this type that another one is or wraps, at any depth.
pub(crate) fn wrapped<E: std::error::Error + 'static>(error: &DataFusionError) -> Option<&E> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        at = match error.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
            Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
            _ => error.source(),
        };
    }
    None
}

/// The storage error behind a query's failure, if there is one: it names the file, the row group
/// and the column.
#[must_use]
pub fn storage_error(error: &DataFusionError) -> Option<&StorageError> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<StorageError>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// Whether a query failed because its session lacks a right: [`Error::Denied`].
#[must_use]
pub fn is_denied(error: &DataFusionError) -> bool {
    is_any(error, |error| matches!(error, Error::Denied { .. }))
}

/// Whether a query failed because its runtime was shut down: [`Error::Stopped`].
#[must_use]
pub fn is_stopped(error: &DataFusionError) -> bool {
    is_any(error, |error| matches!(error, Error::Stopped))
}

fn is_any(error: &DataFusionError, is: impl Fn(&Error) -> bool) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.downcast_ref::<Error>().is_some_and(&is) {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use parquet::errors::ParquetError;

    use super::*;

    #[test]
    fn a_failed_write_of_an_index_is_reported_in_one_sentence() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let by_store = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(full),
        };
        let by_writer = ParquetError::External(Box::new(std::io::Error::other(by_store)));
        let error = Error::IndexWrite {
            name: "i".to_owned(),
            folder: "/data/_coscan".to_owned(),
            reason: Box::new(DataFusionError::from(by_writer)),
        };
        assert_eq!(
            error.to_string(),
            "index i cannot be written in /data/_coscan: no storage space"
        );
    }
}
