//! Which named statements has a connection prepared, and where do they come from?
//!
//! Queries of `pg_prepared_statements` read this, on other threads.
//! Not here: the statements themselves (`statements/portal.rs`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The origins of one connection's statements, by name.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<BTreeMap<String, Origin>>);

/// Where a prepared statement comes from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The statement's text; for SQL's PREPARE, the text of the PREPARE.
    pub(crate) text: String,
    /// The SQL names of its parameters' types.
    pub(crate) types: Vec<String>,
    /// In microseconds since 1970.
    pub(crate) prepared_us: i64,
    /// Whether SQL's PREPARE made it rather than a Parse message.
    pub(crate) from_sql: bool,
}

impl Origins {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Origin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, name: &str, origin: Origin) {
        self.lock().insert(name.to_owned(), origin);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Reads a statement's text, if there is one of this name.
    pub(crate) fn read(&self, name: &str, read: impl FnOnce(&str)) {
        if let Some(origin) = self.lock().get(name) {
            read(&origin.text);
        }
    }

    /// All origins, ordered by name.
    pub(crate) fn all(&self) -> Vec<(String, Origin)> {
        let all = self.lock();
        let all = all.iter();
        all.map(|(name, origin)| (name.clone(), origin.clone()))
            .collect()
    }
}
