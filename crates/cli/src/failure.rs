//! How does an unsuccessful command end?

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use datafusion::error::DataFusionError;

/// Why a command was not successful.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error to show to the user.
    Message(String),
    /// The options are inconsistent.
    Usage(String),
    /// The user interrupted; nothing is shown.
    Interrupted,
    /// The reader of the output has closed it (`coscan sql … | head`).
    OutputClosed,
}

impl Failure {
    pub(crate) fn new(message: impl Display) -> Self {
        Self::Message(message.to_string())
    }

    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Message(message) | Self::Usage(message) => Some(message),
            Self::Interrupted => Some("interrupted"),
            Self::OutputClosed => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Message(_) => ExitCode::FAILURE,
            // The same code as for options that cannot be parsed.
            Self::Usage(_) => ExitCode::from(2),
            // 128 + SIGINT, as in shells.
            Self::Interrupted => ExitCode::from(130),
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<coscan_bench::BenchError> for Failure {
    fn from(error: coscan_bench::BenchError) -> Self {
        Self::new(error)
    }
}

impl From<coscan_study::StudyError> for Failure {
    fn from(error: coscan_study::StudyError) -> Self {
        use coscan_study::StudyError;
        let because = std::error::Error::source(&error).map(|source| format!(": {source}"));
        match &error {
            StudyError::UnknownExperiment { .. }
            | StudyError::NoSeeds
            | StudyError::NoPlot { .. } => Self::Usage(error.to_string()),
            StudyError::Write { .. } => {
                Self::Message(format!("{error}{}", because.unwrap_or_default()))
            }
            _ => Self::new(error),
        }
    }
}

impl From<coscan::Error> for Failure {
    fn from(error: coscan::Error) -> Self {
        match error {
            coscan::Error::Query(error) => error.into(),
            error => Self::new(error),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            // The engine's own errors are complete sentences; DataFusion would only add that they
            // are external.
            DataFusionError::External(ours)
                if ours.is::<coscan::Error>() || ours.is::<coscan_cluster::Error>() =>
            {
                Self::new(ours)
            }
            _ => Self::new(coscan_pg::translate(&error, &|_| None).message()),
        }
    }
}

impl From<arrow::error::ArrowError> for Failure {
    fn from(error: arrow::error::ArrowError) -> Self {
        match error {
            arrow::error::ArrowError::IoError(_, error) => error.into(),
            // The CSV writer turns a closed pipe into text.
            arrow::error::ArrowError::CsvError(text) if text.contains("Broken pipe") => {
                Self::OutputClosed
            }
            error => Self::new(error),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::new(error),
        }
    }
}
