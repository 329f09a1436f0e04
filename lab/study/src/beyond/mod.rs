//! Experiments of our own: what the papers' policies do not do, and what no policy can.

use coscan_core::TurnLimit;

pub(crate) mod bounds;
mod clients;
pub(crate) mod fragments;
pub(crate) mod mixes;

/// As in the engine on two cores: as many chunks in work. A query always works on what it was
/// handed, so no turn ends by itself.
const TURNS: TurnLimit = TurnLimit {
    chunks_max: 2,
    length_ns_max: 3_600_000_000_000,
};

/// As in the engine: one read under way, one queued behind it.
const LOADS_MAX: usize = 2;
