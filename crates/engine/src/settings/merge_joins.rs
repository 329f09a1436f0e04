//! When are joins computed chunk by chunk, in the order of their tables?

use super::values::{AUTO, switch};

/// Which joins of tables that are sorted by the join's key are clustered merge joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeJoins {
    /// Those for which a hash join would partition both of its inputs, because its hash table
    /// would be large or of unknown size.
    Auto,
    /// All.
    On,
    /// None.
    Off,
}

impl MergeJoins {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Auto, Self::On, Self::Off];

    /// The name of the choice.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// The choice that a setting's value names.
    pub(super) fn of(value: &str) -> Result<Self, String> {
        if value.trim().eq_ignore_ascii_case(AUTO) {
            return Ok(Self::Auto);
        }
        let refused = |_| format!("'{value}'; it is auto, on or off");
        let is_on = switch(value).map_err(refused)?;
        Ok(if is_on { Self::On } else { Self::Off })
    }
}
