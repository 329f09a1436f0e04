//! Experiments beyond the papers: effects that the papers' policies do not have, and limits of all
//! policies.

use coscan_core::TurnLimit;

pub(crate) mod bounds;
mod clients;
pub(crate) mod fragments;
pub(crate) mod mixes;

/// As in the engine on two cores: as many chunks are in work. A query always works on its chunk, so
/// no turn ends by its length.
const TURNS: TurnLimit = TurnLimit {
    chunks_max: 2,
    length_ns_max: 3_600_000_000_000,
};

/// As in the engine: one read under way, one queued behind it.
const LOADS_MAX: usize = 2;
