//! Which rules does the buffer manager decide by? One file per policy.
//!
//! Idea: a policy reads the state and chooses; it changes nothing. Rules that several policies
//! share are in `in_order.rs` (scans that take their chunks in a fixed order), `victims.rs`,
//! `keep.rs` and `turns.rs`.
//! To add a policy: a file with a unit struct that implements [`Rules`], and an entry in the list
//! below. Settings, logs, help, chaos and the tests over all policies use that list.
//! Not here: what follows from a choice (`abm/handle/`).
//! Contract: `docs/design/abm.md`, which defines exactly what each policy chooses.

mod compared;
pub(crate) mod in_order;
mod keep;
mod ratio;
mod relevance;
mod relevance_2007;
pub(crate) mod turns;
pub(crate) mod victims;

use std::fmt;
use std::str::FromStr;

use crate::names::{UnknownName, parse_name};
use crate::state::{LoadChoice, State};
use crate::table::scan::Scan;
use crate::table::{Table, Upkeep};
use crate::{ChunkId, Part, TableId};

use victims::Victim;

/// The decisions of a policy. By default every scan takes its chunks in an order fixed at
/// registration, as under `normal`.
pub(crate) trait Rules: fmt::Debug + Sync {
    /// Whether every scan takes its chunks in an order fixed at registration. A policy that returns
    /// false also defines `next_load` and `delivery`.
    fn is_sequential(&self) -> bool {
        true
    }

    /// The next load, on a device that may start one.
    fn next_load(&self, state: &State) -> Option<LoadChoice> {
        in_order::next_load(state)
    }

    /// The ready chunk that a scan gets next. Not called for scans that take their chunks in a
    /// fixed order.
    fn delivery(&self, state: &State, scan: &Scan) -> Option<ChunkId> {
        in_order::next_in_order(state, scan)
    }

    /// The next victim, for a load or because the budget shrank. It contains no pinned segment,
    /// and no segment of a chunk with an outstanding load (ABM-I2).
    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim>;

    /// The victim when the budget shrank and `victim` finds none.
    fn last_resort(&self, _state: &State) -> Option<Victim> {
        None
    }

    /// How many loads ahead of its consumers keep a scan fed. The default is one, even if more
    /// loads may be outstanding: under LRU a scan that runs further ahead than its share of the
    /// buffer evicts chunks that it has not used yet.
    fn loads_ahead(&self, _loads_max: usize) -> usize {
        1
    }

    /// The start chunk of a new scan that takes its chunks in a fixed order.
    fn first_chunk(&self, _state: &State, _table: TableId, _parts: &[Part]) -> ChunkId {
        ChunkId(0)
    }

    /// Whether scans take turns on the cores (`turns.rs`).
    fn takes_turns(&self) -> bool {
        false
    }

    /// What each table keeps up to date for the policy.
    fn upkeep(&self) -> Upkeep {
        Upkeep {
            wanted_segments_may_go: self.is_sequential(),
            stalled_scans_want: true,
            idle_counts: false,
        }
    }

    /// Called when a load of the chunk begins.
    fn load_begins(&self, _table: &mut Table, _chunk: ChunkId) {}
}

macro_rules! policies {
    ($($(#[$doc:meta])* $policy:ident = $name:literal: $rules:expr,)*) => {
        /// The rule that picks the scan to serve, the chunk to load, the chunk to deliver and the
        /// victim to evict.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Policy {
            $($(#[$doc])* $policy,)*
        }

        impl Policy {
            /// Every policy.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$policy),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$policy => $name,)*
                }
            }

            pub(crate) fn rules(self) -> &'static dyn Rules {
                match self {
                    $(Self::$policy => &$rules,)*
                }
            }
        }
    };
}

policies! {
    /// Every scan reads its chunks in order, the buffer is LRU. [CoopScans07 §3]
    Normal = "normal": compared::Normal,
    /// As `Normal`, but a new scan starts at the position of the running scan with the largest
    /// remaining overlap. [CoopScans07 §3]
    Attach = "attach": compared::Attach,
    /// Every scan reads its chunks in order; the victim is the segment that is needed last,
    /// estimated from the scans' positions and paces. [PBM12 §3]
    Pbm = "pbm": compared::Pbm,
    /// As `Pbm`, but the victim is chosen among a few segments drawn at random (Vanderkooy 2023).
    PbmSampling = "pbm-sampling": compared::PbmSampling,
    /// One strictly sequential cursor loads what any scan needs. [CoopScans07 §3]
    Elevator = "elevator": compared::Elevator,
    /// Relevance functions pick scan, chunk and victim, and scans take turns on the cores.
    Relevance = "relevance": relevance::Relevance,
    /// As `Relevance`, but whatever is available is handed out at once. [CoopScans07 §4, §6.2]
    Relevance2007 = "relevance-2007": relevance_2007::Relevance2007,
}

impl Policy {
    /// Whether every scan takes its chunks in an order fixed at registration.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        self.rules().is_sequential()
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownName;

    /// Accepts upper and lower case.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        parse_name(text, &Self::ALL, Self::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "lru".parse::<Policy>().expect_err("there is none");
        let text = "'lru'; it is one of normal, attach, pbm, pbm-sampling, elevator, relevance, relevance-2007";
        assert_eq!(error.to_string(), text);
    }
}
