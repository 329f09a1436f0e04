//! What does a panic cost?
//!
//! Idea: a panic is a bug, and a bug costs the query that met it and nothing else. So each place
//! that others wait for catches what panics there and gives those who wait a typed error; threads
//! that serve everybody go on.
//! Not here: the pool's lock (`pool/restart.rs`), Parquet's reader, whose panics mean damaged bytes
//! (`parquet/decode.rs`).
//! X1: whoever waits for work that panicked is answered.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Result, StorageError};

/// Carries out work; a panic becomes [`StorageError::Panicked`] at `place`.
///
/// The caller must not look at what the work has half changed.
pub(crate) fn caught<T>(
    place: impl FnOnce() -> String,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(place(), &*panic)))
}

/// The error that a panic becomes. It is a bug, so it is also in the log.
pub(crate) fn panicked(place: String, panic: &(dyn Any + Send)) -> StorageError {
    let reason = text(panic);
    log::error!("{place}: Coscan panicked: {reason}");
    StorageError::Panicked { place, reason }
}

/// What the panic said.
pub(crate) fn text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    said.unwrap_or("no message").to_owned()
}
