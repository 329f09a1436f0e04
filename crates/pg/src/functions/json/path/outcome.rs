//! Errors that end the evaluation of a path.

use crate::PgError;

/// Why an evaluation ended.
pub(super) enum Stop {
    /// An error that makes conditions unknown, and that can be suppressed.
    Soft(PgError),
    Hard(PgError),
}

/// An error with PostgreSQL's code and message.
pub(super) fn soft<T>(code: &'static str, message: impl Into<String>) -> Outcome<T> {
    Err(Stop::Soft(PgError::new(code, message)))
}

pub(super) type Outcome<T> = Result<T, Stop>;
