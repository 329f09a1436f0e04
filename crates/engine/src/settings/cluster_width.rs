//! How is the number of nodes of a cluster chosen that a query runs on?

/// By what a query's degree on a cluster is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterWidth {
    /// By what the query reads alone.
    Size,
    /// By what the query reads, and by how busy the nodes are.
    Load,
    /// Always so many, at least 1; or all nodes, if there are fewer.
    Fixed(u32),
}

pub(super) const SIZE: &str = "size";
const LOAD: &str = "load";

impl ClusterWidth {
    /// The value of the setting.
    pub(super) fn shown(self) -> String {
        match self {
            Self::Size => SIZE.to_owned(),
            Self::Load => LOAD.to_owned(),
            Self::Fixed(nodes) => nodes.to_string(),
        }
    }

    /// The choice that a setting's value names.
    pub(super) fn of(value: &str) -> Result<Self, String> {
        let value = value.trim();
        if value.eq_ignore_ascii_case(SIZE) {
            return Ok(Self::Size);
        }
        if value.eq_ignore_ascii_case(LOAD) {
            return Ok(Self::Load);
        }
        match value.parse() {
            Ok(0) | Err(_) => Err(format!("'{value}'; it is size, load or a number from 1")),
            Ok(nodes) => Ok(Self::Fixed(nodes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_is_shown_as_it_is_set() {
        for (value, width) in [
            ("size", ClusterWidth::Size),
            ("load", ClusterWidth::Load),
            ("4", ClusterWidth::Fixed(4)),
        ] {
            assert_eq!(ClusterWidth::of(value).unwrap(), width);
            assert_eq!(width.shown(), value);
        }
        for value in ["", "0", "-1", "all"] {
            let refused = ClusterWidth::of(value).unwrap_err();
            assert!(refused.contains("a number from 1"), "{refused}");
        }
    }
}
