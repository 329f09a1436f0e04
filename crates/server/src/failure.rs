//! What a client is told when its statement fails: SQLSTATE, message and severity.
//!
//! Drivers act on the SQLSTATE (retry, reconnect, raise the right class), so each DataFusion error
//! gets the code that PostgreSQL would use for the same mistake. Where DataFusion has only text,
//! the text decides; when its wording changes the code becomes the class's general one, never a
//! wrong one.

use std::any::Any;
use std::error::Error;
use std::fmt;

use coscan::StatementError;
use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use pgwire::error::{ErrorInfo, PgWireError};
use pgwire::messages::PgWireBackendMessage;

/// An error as the protocol carries it.
#[derive(Debug)]
pub(crate) struct Failure {
    severity: &'static str,
    code: &'static str,
    message: String,
}

impl Failure {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "ERROR",
            code,
            message: message.into(),
        }
    }

    /// An error after which the server closes the connection.
    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "FATAL",
            code,
            message: message.into(),
        }
    }

    /// The same error, but one after which the connection is closed.
    pub(crate) fn into_fatal(self) -> Self {
        Self {
            severity: "FATAL",
            ..self
        }
    }

    /// The same error with file names but without their folders, which are only for those who may
    /// use the server's files.
    pub(crate) fn without_folders(self) -> Self {
        Self {
            message: coscan::without_folders(&self.message),
            ..self
        }
    }

    /// Whether there was no memory, or no room for what spills.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.severity == "FATAL"
    }

    /// S4: what a panic's payload says, as an internal error.
    pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Self {
        let said = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        Self::new(
            INTERNAL,
            format!("internal error: the query panicked: {said}"),
        )
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

    pub(crate) fn into_message(self) -> PgWireBackendMessage {
        let mut info = ErrorInfo::new(self.severity.to_owned(), self.code.to_owned(), self.message);
        info.severity_nonlocalized = Some(self.severity.to_owned());
        PgWireBackendMessage::ErrorResponse(info.into())
    }
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

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self::new(code(&error), message(&error))
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::new(arrow_code(&error), error.to_string())
    }
}

impl From<PgWireError> for Failure {
    fn from(error: PgWireError) -> Self {
        let error = match error {
            // A failure of ours, passed through a decoder. The bytes that follow cannot be
            // interpreted.
            PgWireError::ApiError(ours) => match ours.downcast::<Self>() {
                Ok(failure) => return failure.into_fatal(),
                Err(other) => PgWireError::ApiError(other),
            },
            other => other,
        };
        let info = ErrorInfo::from(error);
        let severity = if info.is_fatal() { "FATAL" } else { "ERROR" };
        // pgwire's codes are literals, but it hands them out as strings.
        let code = PGWIRE_CODES
            .iter()
            .find(|code| **code == info.code)
            .unwrap_or(&INTERNAL);
        Self {
            severity,
            code,
            message: info.message,
        }
    }
}

/// The innermost reason, in one line, without DataFusion's backtrace.
fn message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::SQL(parser, _) => parser
            .to_string()
            .trim_start_matches("sql parser error: ")
            .to_owned(),
        DataFusionError::Diagnostic(_, inner) => message(inner),
        DataFusionError::Shared(inner) => message(inner),
        DataFusionError::Collection(errors) => {
            errors.iter().map(message).collect::<Vec<_>>().join("; ")
        }
        DataFusionError::External(inner) => with_causes(inner.as_ref()),
        other => other.strip_backtrace(),
    }
}

/// An error and its sources, as far as each says something its parent did not.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(cause) = source else { break };
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

fn code(error: &DataFusionError) -> &'static str {
    match error {
        DataFusionError::SQL(parser, _)
            if matches!(parser.as_ref(), ParserError::RecursionLimitExceeded) =>
        {
            "54001"
        }
        DataFusionError::SQL(..) => "42601",
        DataFusionError::Plan(text) => plan_code(text),
        DataFusionError::SchemaError(schema, _) => match schema.as_ref() {
            SchemaError::FieldNotFound { .. } => "42703",
            SchemaError::AmbiguousReference { .. } => "42702",
            _ => "42701",
        },
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::Configuration(text) => configuration_code(text),
        DataFusionError::ResourcesExhausted(_) => OUT_OF_MEMORY,
        DataFusionError::Execution(text) => execution_code(text),
        DataFusionError::ArrowError(arrow, _) => arrow_code(arrow),
        DataFusionError::ParquetError(_) => "XX001",
        DataFusionError::IoError(_) => "58030",
        DataFusionError::ObjectStore(store) => {
            if store.to_string().contains("not found") {
                "58P01"
            } else {
                "58030"
            }
        }
        DataFusionError::External(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => code(inner),
            None if inner.is::<StatementError>() => inner
                .downcast_ref::<StatementError>()
                .map_or(INTERNAL, statement_code),
            None => match inner.downcast_ref::<coscan::Error>() {
                Some(coscan::Error::IndexWrite { .. }) => "58030",
                Some(coscan::Error::CannotWrite { .. }) => "58P01",
                Some(coscan::Error::Denied { .. }) => "42501",
                _ => "58000",
            },
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => code(inner),
        DataFusionError::Shared(inner) => code(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(INTERNAL, code),
        _ => INTERNAL,
    }
}

fn statement_code(error: &StatementError) -> &'static str {
    match error {
        StatementError::Unended { .. } => "42601",
        // Too complex.
        _ => "54001",
    }
}

fn plan_code(text: &str) -> &'static str {
    let has = |part: &str| text.contains(part);
    if has("table '") && has("not found") {
        "42P01"
    } else if has("does not exist") {
        // The words of our own functions (`catalog/functions/oids.rs`).
        if has("relation ") {
            "42P01"
        } else if has("schema ") {
            "3F000"
        } else if has("function ") {
            "42883"
        } else {
            "42704"
        }
    } else if has("Invalid function") || has("No function matches") {
        "42883"
    } else if has("already exists") {
        "42P07"
    } else if has("Cannot infer common") || has("Cannot coerce") || has("cannot be cast") {
        "42804"
    } else if has("Unsupported") {
        "0A000"
    } else {
        "42000"
    }
}

/// An unknown name is `undefined_object`; a value that does not fit is `invalid_parameter_value`.
pub(crate) fn configuration_code(text: &str) -> &'static str {
    let unknown = ["not found", "Could not find", "unrecognized"];
    if unknown.iter().any(|words| text.contains(words)) {
        "42704"
    } else {
        "22023"
    }
}

fn execution_code(text: &str) -> &'static str {
    let has = |part: &str| text.contains(part);
    if has("already exists") {
        "42P07"
    } else if has("doesn't exist") || has("does not exist") {
        "42P01"
    } else {
        "22000"
    }
}

fn arrow_code(error: &ArrowError) -> &'static str {
    match error {
        ArrowError::DivideByZero => "22012",
        ArrowError::ArithmeticOverflow(_) => "22003",
        ArrowError::CastError(_) | ArrowError::ParseError(_) => "22P02",
        ArrowError::NotYetImplemented(_) => "0A000",
        ArrowError::MemoryError(_) => OUT_OF_MEMORY,
        ArrowError::ParquetError(_) => "XX001",
        ArrowError::IoError(..) => "58030",
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<DataFusionError>() {
            Some(inner) => code(inner),
            None => "58000",
        },
        _ => "22000",
    }
}

/// Out of memory.
pub(crate) const OUT_OF_MEMORY: &str = "53200";
const INTERNAL: &str = "XX000";
const PGWIRE_CODES: &[&str] = &[
    "08P01", "58030", "26000", "XX000", "22023", "22P02", "28P01", "0A000", "28000", "57014",
    "22003", "42601",
];
/// How many causes of an error are looked at; a longer chain says nothing more.
const CAUSES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_errors_keep_their_code() {
        let inner = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        let wrapped = DataFusionError::Context("while it ran".into(), Box::new(inner));
        let external = DataFusionError::External(Box::new(wrapped));
        assert_eq!(Failure::from(external).code, "22012");
    }

    #[test]
    fn a_panic_is_an_internal_error_with_its_words() {
        let failure = Failure::panicked(&"boom");
        assert_eq!(failure.code, "XX000");
        assert!(failure.message.ends_with("boom"));
        assert!(!failure.is_fatal());
    }
}
