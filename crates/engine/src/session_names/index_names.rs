//! Which indexes has a session given to tables of its own?
//!
//! Idea: an index changes no answer, so CREATE INDEX on a table in memory makes none. Its name is
//! kept for DROP INDEX, with which migrations go back.
//! Not here: indexes of files (`index/`), which DROP INDEX looks for first.
//! Bounds: `NAMES_MAX` names of `NAME_BYTES_MAX` bytes. DROP INDEX does not find what is beyond.
//! A name stays until the session ends, also after DROP INDEX, DROP TABLE or ROLLBACK: a DROP INDEX
//! too many then does nothing, where PostgreSQL answers 42704.

use std::collections::BTreeSet;

use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

/// The most names that a session keeps: migrations of large programs make some hundreds.
const NAMES_MAX: usize = 1024;
/// The longest name that is kept. PostgreSQL's are shorter.
const NAME_BYTES_MAX: usize = 256;

/// The names of the indexes on a session's own tables, an extension of its configuration.
#[derive(Debug, Default)]
pub(crate) struct IndexNames(Mutex<BTreeSet<String>>);

impl IndexNames {
    /// Keeps a name, if the session has tables of its own.
    pub(crate) fn keep(config: &SessionConfig, name: &str) {
        if let Some(names) = config.get_extension::<Self>() {
            names.add(name);
        }
    }

    /// Whether the session has given an index this name.
    pub(crate) fn has(config: &SessionConfig, name: &str) -> bool {
        let names = config.get_extension::<Self>();
        names.is_some_and(|names| names.0.lock().contains(name))
    }

    fn add(&self, name: &str) {
        let mut names = self.0.lock();
        if names.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX {
            names.insert(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let names = IndexNames::default();
        names.add(&"x".repeat(NAME_BYTES_MAX + 1));
        for number in 0..=NAMES_MAX {
            names.add(&number.to_string());
        }
        assert_eq!(names.0.lock().len(), NAMES_MAX);
        assert!(!names.0.lock().contains(&NAMES_MAX.to_string()));
    }
}
