//! What may a session do to others?
//!
//! Everyone may read the tables that all share and make names of his own (`own/`). Three rights add
//! to that; a session that a server makes for a client has the rights that the server was started
//! with, one of the user's own process has no limits and no names of its own. Rights never change
//! during a session, so what was checked when a statement was prepared still holds when it runs.
//! Not here: which statement needs which right (`plan.rs`), which setting (`settings.rs`). The
//! table for people, which a test checks row by row, is `docs/design/rights.md`.
//! R1: a statement is checked with everything in it: subqueries, what EXPLAIN, PREPARE and CREATE …
//! AS are about.
//! R2: what writes checks itself when it is planned, too, for it may be hidden in a view.

mod confined;
mod plan;
mod settings;

use std::fmt;

use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;

use crate::Error;

pub use confined::Confinement;
pub use plan::check;
pub(crate) use plan::{Whose, replaces_shared};

/// What a session may do beyond reading and making names of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// To change data, indexes, and the names that all sessions see.
    pub writes: bool,
    /// To name files and URLs that the server reaches.
    pub files: bool,
    /// To change what concerns the whole engine: `coscan.memory`, and options of `datafusion.*`
    /// beyond harmless values.
    pub engine_settings: bool,
}

/// One of the [`Rights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Right {
    /// [`Rights::writes`].
    Writes,
    /// [`Rights::files`].
    Files,
    /// [`Rights::engine_settings`].
    EngineSettings,
}

impl Rights {
    /// Reading, and names of its own.
    pub const NONE: Self = Self {
        writes: false,
        files: false,
        engine_settings: false,
    };

    /// Everything that there is a right for.
    pub const ALL: Self = Self {
        writes: true,
        files: true,
        engine_settings: true,
    };

    /// The rights of a session that is held to some.
    pub(crate) fn of(config: &SessionConfig) -> Option<Self> {
        config.get_extension::<Self>().map(|rights| *rights)
    }

    fn has(self, right: Right) -> bool {
        match right {
            Right::Writes => self.writes,
            Right::Files => self.files,
            Right::EngineSettings => self.engine_settings,
        }
    }

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

    /// Whether a session with these rights may SET a setting to a value, or RESET it, for which
    /// there is no value.
    ///
    /// # Errors
    /// [`Error::Denied`], which names the right that is missing.
    pub fn check_setting(self, name: &str, value: Option<&str>) -> Result<()> {
        settings::check(self, name, value)
    }
}

impl Right {
    /// The option of `coscan serve` that gives it.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Writes => "--allow-writes",
            Self::Files => "--allow-files",
            Self::EngineSettings => "--allow-engine-settings",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.flag())
    }
}

/// A refusal; without missing rights, one that no right lifts.
fn denied(what: String, missing: Vec<Right>) -> DataFusionError {
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
