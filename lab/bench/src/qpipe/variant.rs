//! What is shared?

use crate::running::arena::Sharing;

/// A way of sharing, by its name in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    policy: &'static str,
    fragments: bool,
    operators: bool,
    /// Whether each client has tables of its own (`own_tables.rs`).
    pub(crate) own_tables: bool,
}

/// Scans, fragments and operators: the engine's defaults.
pub(crate) const SHARED: Variant = Variant {
    name: "shared",
    policy: "relevance",
    fragments: true,
    operators: true,
    own_tables: false,
};

/// As [`SHARED`], but no two clients read the same table: the baseline that differs in nothing but
/// sharing. It has no chunks of other clients in its buffer either, which [`ISOLATED`] has.
pub(crate) const APART: Variant = Variant {
    name: "apart",
    own_tables: true,
    ..SHARED
};

/// As [`SHARED`], with `coscan.share_operators` off.
pub(crate) const NO_OPERATORS: Variant = Variant {
    name: "operators off",
    operators: false,
    ..SHARED
};

/// Scans alone, as with the paper's circular scans.
pub(crate) const SCANS_ALONE: Variant = Variant {
    name: "scans",
    fragments: false,
    ..NO_OPERATORS
};

/// Nothing but what is left in the buffer: the paper's baseline. It differs from [`SHARED`] in more
/// than sharing, even for one client: scans read in order and one load ahead, and find less in the
/// buffer; aggregates run without fragments, whose arithmetic is cheaper.
pub(crate) const ISOLATED: Variant = Variant {
    name: "isolated",
    policy: "normal",
    ..SCANS_ALONE
};

impl Variant {
    pub(crate) fn sharing(self) -> Sharing {
        Sharing {
            policy: self.policy.to_owned(),
            fragments: self.fragments,
            operators: self.operators,
        }
    }
}
