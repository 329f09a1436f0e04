//! How the evaluation of a path ends early.

use crate::PgError;

/// Why an evaluation ended.
pub(super) enum Stop {
    /// An error that conditions take for unknown, and that is not told if so wished.
    Soft(PgError),
    Hard(PgError),
}

/// How PostgreSQL's errors say it.
pub(super) fn soft<T>(code: &'static str, message: impl Into<String>) -> Outcome<T> {
    Err(Stop::Soft(PgError::new(code, message)))
}

pub(super) type Outcome<T> = Result<T, Stop>;
