//! READ ONLY and ISOLATION LEVEL: which settings are the modes of a transaction?
//!
//! `transaction_read_only` and `transaction_isolation` are the modes of the current transaction. A
//! new transaction takes them from the settings of the same names with the prefix `default_`. If
//! these change in it, it keeps its modes (`Settings::keep_modes`).
//! DEFERRABLE has no effect: it only lets a transaction wait before it begins, and here none
//! waits.
//! Not here: what a READ ONLY transaction refuses (`coscan::TransactionRules`), when modes may
//! change (`coscan::Transaction`).

use datafusion::sql::sqlparser::ast::{
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};

pub(crate) const READ_ONLY: &str = "transaction_read_only";
pub(crate) const ISOLATION: &str = "transaction_isolation";

/// The setting from which a new transaction takes this mode.
pub(crate) fn default_of(name: &str) -> Option<&'static str> {
    match name {
        READ_ONLY => Some("default_transaction_read_only"),
        ISOLATION => Some("default_transaction_isolation"),
        _ => None,
    }
}

/// The setting that each mode changes, and its value.
pub(crate) fn settings(
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

/// All isolation levels.
pub(crate) const LEVELS: &[&str] = &[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
];
