//! Errors with PostgreSQL's SQLSTATE and wording.

mod codes;
mod planning;
mod translate;
mod types;
mod wording;

use datafusion::error::DataFusionError;

use crate::names::without_marks;

pub(crate) use planning::WINDOW_FUNCTIONS;
pub use translate::{Foreign, translate};
pub use wording::configuration as configuration_code;

/// An error with PostgreSQL's SQLSTATE and wording.
///
/// It is passed as [`DataFusionError::External`], where [`PgError::of`] finds it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PgError {
    code: &'static str,
    message: String,
}

impl PgError {
    /// An error with this SQLSTATE.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = without_marks(message.into());
        Self { code, message }
    }

    /// Error 22012.
    #[must_use]
    pub fn division_by_zero() -> Self {
        Self::new("22012", "division by zero")
    }

    /// Error 22003: a value is out of range for its type (`integer`, `bigint`, …).
    #[must_use]
    pub fn out_of_range(pg_type: &str) -> Self {
        Self::new("22003", format!("{pg_type} out of range"))
    }

    /// Error 22P02: a text is not a value of the type.
    #[must_use]
    pub fn invalid_text(pg_type: &str, text: &str) -> Self {
        let message = format!("invalid input syntax for type {pg_type}: \"{text}\"");
        Self::new("22P02", message)
    }

    /// Error 42883: no function or operator of this name takes these types.
    #[must_use]
    pub fn undefined_function(signature: &str) -> Self {
        Self::new("42883", format!("{signature} does not exist"))
    }

    /// Error 42804: a polymorphic function is called with untyped arguments only.
    pub(crate) fn polymorphic() -> Self {
        let message = "could not determine polymorphic type because input has type unknown";
        Self::new("42804", message)
    }

    /// Error 42P01: a column's table is not in FROM.
    pub(crate) fn missing_table(name: &str) -> Self {
        let message = format!("missing FROM-clause entry for table \"{name}\"");
        Self::new("42P01", message)
    }

    /// Error 0A000.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }

    /// The message, without the severity.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The SQLSTATE.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The error as one text, for [`PgError::sent`] on another node.
    #[must_use]
    pub fn to_sent(&self) -> String {
        format!("{} {}", self.code, self.message)
    }

    /// The error that [`PgError::to_sent`] made this text of; `None` if it did not.
    #[must_use]
    pub fn sent(text: &str) -> Option<Self> {
        let (code, message) = text.split_once(' ')?;
        Some(Self::new(codes::known(code)?, message))
    }

    /// The [`PgError`] that a DataFusion error wraps, at any depth.
    #[must_use]
    pub fn of(error: &DataFusionError) -> Option<&Self> {
        let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
        for _ in 0..DEPTH_MAX {
            let error = at?;
            if let Some(found) = error.downcast_ref::<Self>() {
                return Some(found);
            }
            at = match error.downcast_ref::<DataFusionError>() {
                Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
                Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
                Some(DataFusionError::Collection(errors)) => errors.first().map(|error| error as _),
                Some(DataFusionError::ArrowError(inner, _)) => Some(inner.as_ref()),
                Some(
                    DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner),
                ) => Some(inner.as_ref()),
                _ => error.source(),
            };
        }
        None
    }
}

impl From<PgError> for DataFusionError {
    fn from(error: PgError) -> Self {
        Self::External(Box::new(error))
    }
}

/// The maximum number of wrappers that are searched.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_is_found_inside_others() {
        let inner = DataFusionError::from(PgError::division_by_zero());
        let arrow = datafusion::arrow::error::ArrowError::ExternalError(Box::new(inner));
        let shared = DataFusionError::Shared(Arc::new(DataFusionError::from(arrow)));
        let outer = DataFusionError::Context("while it ran".to_owned(), Box::new(shared));
        assert_eq!(PgError::of(&outer).map(PgError::code), Some("22012"));
    }
}
