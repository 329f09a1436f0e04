//! READ ONLY and ISOLATION LEVEL: what are a transaction's modes, which settings are they, and when
//! may they change?
//!
//! `transaction_read_only` and `transaction_isolation` are the modes of the current transaction. A
//! new transaction takes them from the settings of the same names with the prefix `default_`. If
//! these change in it, it keeps its modes (`keep_modes`).
//! DEFERRABLE has no effect: it only lets a transaction wait before it begins, and here none
//! waits.
//! Not here: what a READ ONLY transaction refuses (`session_names/statements/read_only.rs`).

use coscan_pg::PgError;
use datafusion::sql::sqlparser::ast::{
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};

pub(super) const READ_ONLY: &str = "transaction_read_only";
pub(super) const ISOLATION: &str = "transaction_isolation";

/// All isolation levels.
pub(super) const LEVELS: &[&str] = &[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
];

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
    pub(crate) fn is_snapshot(&self) -> bool {
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
    pub(crate) fn check(&self, after: &Self, queried: bool, nested: bool) -> Result<(), PgError> {
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

/// The setting from which a new transaction takes this mode.
pub(super) fn default_of(name: &str) -> Option<&'static str> {
    match name {
        READ_ONLY => Some("default_transaction_read_only"),
        ISOLATION => Some("default_transaction_isolation"),
        _ => None,
    }
}

/// The setting that each mode changes, and its value.
pub(super) fn settings(
    modes: &[TransactionMode],
) -> impl Iterator<Item = (&'static str, &'static str)> {
    modes.iter().map(|mode| match mode {
        TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => (READ_ONLY, "on"),
        TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => (READ_ONLY, "off"),
        TransactionMode::IsolationLevel(level) => {
            let level = match level {
                TransactionIsolationLevel::ReadUncommitted => "read uncommitted",
                TransactionIsolationLevel::ReadCommitted => "read committed",
                TransactionIsolationLevel::RepeatableRead => "repeatable read",
                TransactionIsolationLevel::Serializable => "serializable",
                TransactionIsolationLevel::Snapshot => "snapshot",
            };
            (ISOLATION, level)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_a_transaction_are_settings() {
        for isolation in LEVELS {
            let modes = TransactionModes {
                read_only: true,
                isolation: (*isolation).to_owned(),
            };
            let written = modes.written();
            let found: Vec<_> = settings(&written).collect();
            assert_eq!(found, [(ISOLATION, *isolation), (READ_ONLY, "on")]);
        }
    }
}
