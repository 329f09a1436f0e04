//! READ ONLY and ISOLATION LEVEL: what are a transaction's modes, and when may they change?
//!
//! Not here: the settings by which a server's client names them.

use coscan_pg::PgError;
use datafusion::sql::sqlparser::ast::{
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};

/// The modes of a transaction: READ ONLY and ISOLATION LEVEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionModes {
    /// READ ONLY: its statements change nothing.
    pub read_only: bool,
    /// ISOLATION LEVEL, in lower case.
    pub isolation: String,
}

impl Default for TransactionModes {
    /// READ WRITE, and READ COMMITTED.
    fn default() -> Self {
        Self {
            read_only: false,
            isolation: "read committed".to_owned(),
        }
    }
}

impl TransactionModes {
    /// Whether all statements see what the first one saw.
    pub(super) fn is_snapshot(&self) -> bool {
        matches!(self.isolation.as_str(), "repeatable read" | "serializable")
    }

    /// The modes as clauses of BEGIN.
    #[must_use]
    pub fn written(&self) -> [TransactionMode; 2] {
        let level = match self.isolation.as_str() {
            "serializable" => TransactionIsolationLevel::Serializable,
            "repeatable read" => TransactionIsolationLevel::RepeatableRead,
            "read uncommitted" => TransactionIsolationLevel::ReadUncommitted,
            _ => TransactionIsolationLevel::ReadCommitted,
        };
        let access = if self.read_only {
            TransactionAccessMode::ReadOnly
        } else {
            TransactionAccessMode::ReadWrite
        };
        [
            TransactionMode::IsolationLevel(level),
            TransactionMode::AccessMode(access),
        ]
    }

    /// Whether the modes may become `after` in a transaction that has already `queried`, or inside
    /// a savepoint (`nested`).
    ///
    /// # Errors
    /// 25001.
    pub(super) fn check(&self, after: &Self, queried: bool, nested: bool) -> Result<(), PgError> {
        let text = match (queried, nested) {
            _ if self.isolation == after.isolation => None,
            (true, _) => Some("SET TRANSACTION ISOLATION LEVEL must be called before any query"),
            (_, true) => {
                Some("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
            }
            _ => None,
        };
        let text = text.or(match (queried, nested) {
            _ if !self.read_only || after.read_only => None,
            (_, true) => {
                Some("cannot set transaction read-write mode inside a read-only transaction")
            }
            (true, _) => Some("transaction read-write mode must be set before any query"),
            _ => None,
        });
        match text {
            Some(text) => Err(PgError::new("25001", text)),
            None => Ok(()),
        }
    }
}
