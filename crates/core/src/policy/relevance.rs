//! `relevance`: like `relevance-2007`, but scans take turns on the cores, and a scan is fed by as
//! many loads as may be outstanding at once. Segments that only stalled scans need are garbage, so
//! a cursor whose client is idle keeps no frames from scans that make progress.
//!
//! The turns are in `turns.rs`.

use crate::ChunkId;
use crate::policy::Rules;
use crate::policy::relevance_2007::Relevance2007;
use crate::policy::victims::Victim;
use crate::state::{LoadChoice, State};
use crate::table::Upkeep;
use crate::table::scan::Scan;

/// `relevance`.
#[derive(Debug)]
pub(super) struct Relevance;

impl Rules for Relevance {
    fn is_sequential(&self) -> bool {
        false
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn loads_ahead(&self, loads_max: usize) -> usize {
        loads_max
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep {
            wanted_segments_may_go: false,
            stalled_scans_want: false,
            idle_counts: false,
        }
    }

    fn next_load(&self, state: &State) -> Option<LoadChoice> {
        Relevance2007.next_load(state)
    }

    fn delivery(&self, state: &State, scan: &Scan) -> Option<ChunkId> {
        Relevance2007.delivery(state, scan)
    }

    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        Relevance2007.victim(state, load)
    }

    fn last_resort(&self, state: &State) -> Option<Victim> {
        Relevance2007.last_resort(state)
    }
}
