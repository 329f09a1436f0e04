//! Which rights may a session have?
//!
//! Not here: what needs which right, and which sessions are refused (`rights/`).

use std::fmt;

use datafusion::prelude::SessionConfig;

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
    /// Reading, and making names of its own.
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

    /// The rights to which a session is restricted; `None` if it is not restricted.
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
    /// The option of `coscan serve` that gives the right.
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
