//! What does a panic cost?
//!
//! Idea: a panic is a bug, and it costs only the query that met it. So every task that others wait
//! for catches its own panics and turns them into a typed error for the waiters; threads that
//! serve all queries keep running.
//! Not here: the pool's lock (`pool/state/restart/`), Parquet's reader, whose panics mean
//! damaged bytes (`parquet/decode.rs`).
//! X1: every waiter of a task that panicked gets an answer.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Result, StorageError};

/// Runs `work`; a panic becomes [`StorageError::Panicked`] at `place`.
///
/// After a panic the caller must not use state that `work` may have left half changed.
pub(crate) fn caught<T>(
    place: impl FnOnce() -> String,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(place(), &*panic)))
}

/// The error that a panic becomes. A panic is a bug, so it is logged too.
pub(crate) fn panicked(place: String, panic: &(dyn Any + Send)) -> StorageError {
    let reason = text(panic);
    log::error!("{place}: Coscan panicked: {reason}");
    StorageError::Panicked { place, reason }
}

/// The panic's message.
pub(crate) fn text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    said.unwrap_or("no message").to_owned()
}
