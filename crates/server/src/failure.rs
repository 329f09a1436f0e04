//! What does a client learn when its statement fails? SQLSTATE, message, severity and the
//! place in its text. Notices have the same fields.
//!
//! Not here: PostgreSQL's codes and texts for DataFusion's errors (`coscan_pg::translate`), and
//! which place that is (`coscan_pg::position`).

use std::error::Error;
use std::fmt;
use std::ops::Range;

use coscan::parts::ShortNode;
use coscan::{Notice, Severity, StatementError};
use coscan_pg::PgError;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use pgwire::error::{ErrorInfo, PgWireError};
use pgwire::messages::PgWireBackendMessage;

/// An error as the protocol carries it.
#[derive(Debug)]
pub(crate) struct Failure {
    severity: &'static str,
    code: &'static str,
    message: String,
    /// The character of the client's text, from 1, to which it points.
    position: Option<usize>,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "ERROR",
            code,
            message: message.into(),
            position: None,
        }
    }

    /// An error after which the server closes the connection.
    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "FATAL",
            code,
            message: message.into(),
            position: None,
        }
    }

    /// Turns the error into one after which the server closes the connection.
    pub(crate) fn into_fatal(self) -> Self {
        Self {
            severity: "FATAL",
            ..self
        }
    }

    /// Removes the folders from file names: only clients that may use the server's files see them.
    pub(crate) fn without_folders(self) -> Self {
        Self {
            message: coscan::without_folders(&self.message),
            ..self
        }
    }

    /// With the place to which it points in the client's text, of which `statement` has failed.
    pub(crate) fn placed(self, text: &str, statement: Range<usize>) -> Self {
        let found = || coscan_pg::position(text, statement, self.code, &self.message);
        Self {
            position: self.position.or_else(found),
            ..self
        }
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.severity == "FATAL"
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new("42601", message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new("08P01", message)
    }

    /// The PostgreSQL function that reports this error, where clients act on it: asyncpg and JDBC
    /// then prepare their statement once more.
    fn routine(&self) -> Option<&'static str> {
        let is_outdated = self.code == "0A000" && self.message.starts_with(OUTDATED_PLAN);
        is_outdated.then_some("RevalidateCachedQuery")
    }

    pub(crate) fn into_message(self) -> PgWireBackendMessage {
        let routine = self.routine().map(str::to_owned);
        let violated = Violated::of(self.code, &self.message);
        let [table, column, constraint] = [violated.table, violated.column, violated.constraint]
            .map(|name| name.map(str::to_owned));
        let mut info = ErrorInfo::new(self.severity.to_owned(), self.code.to_owned(), self.message);
        info.severity_nonlocalized = Some(self.severity.to_owned());
        info.position = self.position.map(|position| position.to_string());
        info.routine = routine;
        info.table = table;
        info.column = column;
        info.constraint = constraint;
        PgWireBackendMessage::ErrorResponse(info.into())
    }
}

/// The names in the message of a violated constraint, which PostgreSQL also sends as fields of
/// their own. Programs choose what they tell their users by the constraint's name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Violated<'a> {
    table: Option<&'a str>,
    column: Option<&'a str>,
    constraint: Option<&'a str>,
}

impl<'a> Violated<'a> {
    fn of(code: &str, message: &'a str) -> Self {
        let found = match code {
            "23502" => Self::not_null(message),
            "23505" => Self::unique(message),
            "23514" => Self::check(message),
            _ => None,
        };
        found.unwrap_or_default()
    }

    fn not_null(message: &'a str) -> Option<Self> {
        let (column, table) = between(
            message,
            "null value in column \"",
            "\" violates not-null constraint",
        )
        .or_else(|| between(message, "column \"", "\" contains null values"))?
        .split_once("\" of relation \"")?;
        Some(Self {
            table: Some(table),
            column: Some(column),
            constraint: None,
        })
    }

    /// The message does not name the table.
    fn unique(message: &'a str) -> Option<Self> {
        let duplicate = "duplicate key value violates unique constraint \"";
        let constraint = between(message, duplicate, "\"")
            .or_else(|| between(message, "could not create unique index \"", "\""))?;
        Some(Self {
            constraint: Some(constraint),
            ..Self::default()
        })
    }

    fn check(message: &'a str) -> Option<Self> {
        let new_row = || {
            let names = between(message, "new row for relation \"", "\"")?;
            names.split_once("\" violates check constraint \"")
        };
        let old_row = || {
            let some_row = "\" is violated by some row";
            let names = between(message, "check constraint \"", some_row)?;
            let (constraint, table) = names.split_once("\" of relation \"")?;
            Some((table, constraint))
        };
        let (table, constraint) = new_row().or_else(old_row)?;
        Some(Self {
            table: Some(table),
            column: None,
            constraint: Some(constraint),
        })
    }
}

/// What a text has between its beginning and its end.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(begin)?.strip_suffix(end)
}

/// A notice as the protocol carries it.
pub(crate) fn noticed(notice: Notice) -> PgWireBackendMessage {
    let severity = match notice.severity {
        Severity::Notice => "NOTICE",
        Severity::Warning => "WARNING",
    };
    let (code, message) = (notice.code.to_owned(), notice.message);
    let mut info = ErrorInfo::new(severity.to_owned(), code, message);
    info.severity_nonlocalized = Some(severity.to_owned());
    info.detail = notice.detail;
    PgWireBackendMessage::NoticeResponse(info.into())
}

/// The error that a connection is sent when the server stops.
pub(crate) fn stopping() -> Failure {
    Failure::fatal(
        "57P01",
        "terminating connection due to administrator command",
    )
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)
    }
}

impl Error for Failure {}

impl From<StatementError> for Failure {
    fn from(error: StatementError) -> Self {
        Self::new(statement_code(&error), error.to_string())
    }
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        if coscan::is_stopped(&error) {
            return stopping();
        }
        let translated = coscan_pg::translate(&error, &foreign);
        Self::new(translated.code(), translated.message())
    }
}

/// For failures in the middle of a plan.
impl From<Failure> for DataFusionError {
    fn from(failure: Failure) -> Self {
        PgError::new(failure.code, failure.message).into()
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::from(DataFusionError::from(error))
    }
}

impl From<PgWireError> for Failure {
    fn from(error: PgWireError) -> Self {
        let error = match error {
            // An error of ours that passed through a decoder. The bytes that follow cannot be
            // interpreted.
            PgWireError::ApiError(ours) => match ours.downcast::<Self>() {
                Ok(failure) => return failure.into_fatal(),
                Err(other) => PgWireError::ApiError(other),
            },
            other => other,
        };
        let info = ErrorInfo::from(error);
        let severity = if info.is_fatal() { "FATAL" } else { "ERROR" };
        // pgwire's codes are literals, but the API returns strings.
        let code = PGWIRE_CODES
            .iter()
            .find(|code| **code == info.code)
            .unwrap_or(&INTERNAL);
        Self {
            severity,
            code,
            message: info.message,
            position: None,
        }
    }
}

/// The SQLSTATE of an error of the engine.
fn foreign(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<StatementError>() {
        return Some(statement_code(error));
    }
    if error.is::<ShortNode>() {
        return Some(OUT_OF_MEMORY);
    }
    match error.downcast_ref::<coscan::Error>()? {
        coscan::Error::IndexWrite { .. } => Some("58030"),
        coscan::Error::CannotWrite { .. } => Some("58P01"),
        coscan::Error::Denied { .. } => Some("42501"),
        coscan::Error::OtherColumns { .. } => Some("0A000"),
        coscan::Error::Ended { .. } => Some(OUT_OF_MEMORY),
        coscan::Error::Panicked { .. } | coscan::Error::RowsLost => Some(INTERNAL),
        _ => Some("58000"),
    }
}

fn statement_code(error: &StatementError) -> &'static str {
    match error {
        StatementError::Unended { .. } => "42601",
        // statement_too_complex.
        _ => "54001",
    }
}

/// Out of memory.
pub(crate) const OUT_OF_MEMORY: &str = "53200";
const INTERNAL: &str = "XX000";
const OUTDATED_PLAN: &str = "cached plan must not change result type";
const PGWIRE_CODES: &[&str] = &[
    "08P01", "58030", "26000", "XX000", "22023", "22P02", "28P01", "0A000", "28000", "57014",
    "22003", "42601",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wrapped_errors_keep_their_code() {
        let inner = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        let wrapped = DataFusionError::Context("while it ran".into(), Box::new(inner));
        let external = DataFusionError::External(Box::new(wrapped));
        assert_eq!(Failure::from(external).code, "22012");
    }

    #[test]
    fn failures_in_plans_keep_code_and_message() {
        let failure = DataFusionError::from(Failure::new("42703", "no such column"));
        let failure = Failure::from(failure);
        assert_eq!(failure.to_string(), "ERROR 42703: no such column");
    }

    #[test]
    fn a_node_that_refuses_memory_is_out_of_it() {
        let said = "no memory there".to_owned();
        let failure = Failure::from(DataFusionError::from(ShortNode { needed: 1, said }));
        assert_eq!(failure.to_string(), "ERROR 53200: no memory there");
    }

    #[test]
    fn the_names_of_a_violated_constraint_are_fields() {
        for (code, message, expected) in [
            (
                "23505",
                "duplicate key value violates unique constraint \"t_a_key\"",
                vec![(b'n', "t_a_key")],
            ),
            (
                "23502",
                "null value in column \"a\" of relation \"t\" violates not-null constraint",
                vec![(b't', "t"), (b'c', "a")],
            ),
            (
                "23502",
                "column \"a b\" of relation \"t\" contains null values",
                vec![(b't', "t"), (b'c', "a b")],
            ),
            (
                "23514",
                "new row for relation \"t\" violates check constraint \"t_a_check\"",
                vec![(b't', "t"), (b'n', "t_a_check")],
            ),
            (
                "23514",
                "check constraint \"c\" of relation \"t\" is violated by some row",
                vec![(b't', "t"), (b'n', "c")],
            ),
            ("42703", "column \"a\" does not exist", vec![]),
        ] {
            let sent = Failure::new(code, message).into_message();
            let PgWireBackendMessage::ErrorResponse(sent) = sent else {
                panic!("{message}: not an error");
            };
            let names = sent
                .fields
                .iter()
                .filter(|(field, _)| b"tcn".contains(field));
            let names = names.map(|(field, name)| (*field, name.as_str()));
            let names: Vec<(u8, &str)> = names.collect();
            assert_eq!(names, expected, "{message}");
        }
    }

    fn of(error: coscan::Error) -> String {
        Failure::from(DataFusionError::External(Box::new(error))).to_string()
    }

    #[test]
    fn what_ends_a_query_keeps_its_words() {
        let unread = Some(Duration::from_millis(2_300));
        let said = "boom".to_owned();
        for (error, told) in [
            (
                coscan::Error::Panicked { said },
                "ERROR XX000: internal error: the query panicked: boom",
            ),
            (
                coscan::Error::Ended { unread: None },
                "ERROR 53200: the query was ended: coscan.memory is less than what queries have",
            ),
            (
                coscan::Error::Ended { unread },
                "ERROR 53200: the query was ended: its rows had not been read for 2 s, and others \
                 needed its memory",
            ),
            (
                coscan::Error::Stopped,
                "FATAL 57P01: terminating connection due to administrator command",
            ),
        ] {
            assert_eq!(of(error), told);
        }
    }
}
