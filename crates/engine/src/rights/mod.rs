//! Which effects on others may a session have?
//!
//! Every session may read the shared tables and create its own names (`session_names/`). Three
//! rights allow more. A session that a server creates for a client has the rights that the server
//! was started with; a session in the user's own process is unrestricted, and all sessions of its
//! engine see the names that it creates. A session's rights never change, so a check at the time a
//! statement is prepared still holds when it runs.
//! Not here: the rights themselves (`right.rs`), which statement needs which right
//! (`session_names/statements/check.rs`), which setting does (`settings.rs`), what a session
//! learns of the server's files (`places.rs`, R3). `docs/design/rights.md` has the table for
//! users; a test checks each of its rows.
//! R1: the check of a statement covers everything in it: subqueries, and the statements inside
//! EXPLAIN, PREPARE and CREATE … AS.
//! R2: a write is also checked when it is planned, because a view may hide it.

pub(crate) mod places;
mod settings;

use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::right::{Right, Rights};

pub use places::without_folders;

impl Rights {
    /// Checks that a session with these rights has all that are needed.
    ///
    /// # Errors
    /// [`Error::Denied`], if one of them is missing.
    pub(crate) fn require(self, needed: &[Right], what: impl FnOnce() -> String) -> Result<()> {
        let missing: Vec<Right> = needed
            .iter()
            .copied()
            .filter(|right| !self.has(*right))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(denied(what(), missing))
    }

    /// Checks whether a session with these rights may SET a setting to a value, or RESET it if
    /// there is no value.
    ///
    /// # Errors
    /// [`Error::Denied`], which names the missing right.
    pub fn check_setting(self, name: &str, value: Option<&str>) -> Result<()> {
        settings::check(self, name, value)
    }
}

/// A refusal. If `missing` is empty, no right lifts it.
pub(crate) fn denied(what: String, missing: Vec<Right>) -> DataFusionError {
    DataFusionError::External(Box::new(Error::Denied { what, missing }))
}

/// Checks that a session is unrestricted or has all of these rights.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn require(
    config: &SessionConfig,
    needed: &[Right],
    what: impl FnOnce() -> String,
) -> Result<()> {
    Rights::of(config).map_or(Ok(()), |rights| rights.require(needed, what))
}
