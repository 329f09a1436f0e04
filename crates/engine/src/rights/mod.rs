//! What may a session do to others?
//!
//! Every session may read the tables that all share, and make names of its own (`own/`). Three
//! rights add to that. A session that a server makes for a client has the rights that the server
//! was started with; a session of the user's own process has no limits and no names of its own.
//! Rights never change during a session, so what was checked when a statement was prepared still
//! holds when it runs.
//! Not here: what rights there are (`right.rs`), which statement needs which right
//! (`own/check.rs`), which setting does (`settings.rs`), what is told of the server's files
//! (`places.rs`, R3). `docs/design/rights.md` has the table for people, which a test checks row by
//! row.
//! R1: a statement is checked with everything in it: subqueries, and the statements that EXPLAIN,
//! PREPARE and CREATE … AS contain.
//! R2: what writes is also checked when it is planned, because it may be hidden in a view.

pub(crate) mod places;
mod settings;

use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;

use crate::error::Error;
use crate::right::{Right, Rights};

pub use places::without_folders;

impl Rights {
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

    /// Whether a session with these rights may SET a setting to a value, or RESET it if there is no
    /// value.
    ///
    /// # Errors
    /// [`Error::Denied`], which names the right that is missing.
    pub fn check_setting(self, name: &str, value: Option<&str>) -> Result<()> {
        settings::check(self, name, value)
    }
}

/// A refusal. Without missing rights it is a refusal that no right lifts.
pub(crate) fn denied(what: String, missing: Vec<Right>) -> DataFusionError {
    DataFusionError::External(Box::new(Error::Denied { what, missing }))
}

/// Fails if a session is held to rights and lacks one of these.
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
