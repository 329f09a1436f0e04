//! What may a session do?
//!
//! Not here: which statement needs which right, and where sessions are refused (`rights/`).

use std::fmt;

use datafusion::prelude::SessionConfig;

/// What a session may do beyond reading data and creating names that only it sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// To change data, indexes, and names that all sessions see.
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
    /// Reading, and creating names that only the session sees.
    pub const NONE: Self = Self {
        writes: false,
        files: false,
        engine_settings: false,
    };

    /// Every right.
    pub const ALL: Self = Self {
        writes: true,
        files: true,
        engine_settings: true,
    };

    /// The rights that a session is restricted to; `None` for an unrestricted session.
    pub(crate) fn of(config: &SessionConfig) -> Option<Self> {
        config.get_extension::<Self>().map(|rights| *rights)
    }

    pub(crate) fn has(self, right: Right) -> bool {
        match right {
            Right::Writes => self.writes,
            Right::Files => self.files,
            Right::EngineSettings => self.engine_settings,
        }
    }
}

impl Right {
    /// The option of `coscan serve` that grants the right.
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
