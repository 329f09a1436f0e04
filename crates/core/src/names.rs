//! How are storage models and access paths named in settings, plans, traces, logs and on command
//! lines?
//!
//! Not here: the names of policies (`policy/mod.rs`).

use std::fmt;
use std::str::FromStr;

use crate::StorageModel;
use crate::smooth::{AccessPath, SmoothPolicy, SmoothTrigger};

/// A name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}'; it is one of {known}")]
pub struct UnknownName {
    name: String,
    known: String,
}

impl StorageModel {
    /// Both storage models.
    pub const ALL: [Self; 2] = [Self::Nsm, Self::Dsm];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nsm => "nsm",
            Self::Dsm => "dsm",
        }
    }
}

impl AccessPath {
    /// Every access path.
    pub const ALL: [Self; 5] = [
        Self::Full,
        Self::Index,
        Self::Sort,
        Self::Switch,
        Self::Smooth,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Index => "index",
            Self::Sort => "sort",
            Self::Switch => "switch",
            Self::Smooth => "smooth",
        }
    }
}

impl SmoothPolicy {
    /// Every policy of a smooth scan.
    pub const ALL: [Self; 3] = [Self::Greedy, Self::SelectivityIncrease, Self::Elastic];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Greedy => "greedy",
            Self::SelectivityIncrease => "selectivity_increase",
            Self::Elastic => "elastic",
        }
    }
}

impl SmoothTrigger {
    /// Every trigger.
    pub const ALL: [Self; 3] = [Self::Eager, Self::Optimizer, Self::Sla];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Optimizer => "optimizer",
            Self::Sla => "sla",
        }
    }
}

impl fmt::Display for StorageModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StorageModel {
    type Err = UnknownName;

    /// Accepts upper and lower case.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_name(text, &Self::ALL, Self::name)
    }
}

impl FromStr for AccessPath {
    type Err = UnknownName;

    /// Accepts upper and lower case.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_name(text, &Self::ALL, Self::name)
    }
}

impl FromStr for SmoothPolicy {
    type Err = UnknownName;

    /// Accepts upper and lower case.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_name(text, &Self::ALL, Self::name)
    }
}

impl FromStr for SmoothTrigger {
    type Err = UnknownName;

    /// Accepts upper and lower case.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_name(text, &Self::ALL, Self::name)
    }
}

/// The member of `all` with this name, in upper or lower case.
pub(crate) fn parse_name<T: Copy>(
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    let found = all
        .iter()
        .find(|&&one| name(one).eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| UnknownName {
        name: text.to_owned(),
        known: all
            .iter()
            .map(|&one| name(one))
            .collect::<Vec<_>>()
            .join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for model in StorageModel::ALL {
            assert_eq!(model.name().to_uppercase().parse(), Ok(model));
        }
    }
}
