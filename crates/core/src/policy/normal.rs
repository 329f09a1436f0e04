//! `normal`: every scan reads its chunks in order, as if it were alone, and the buffer is LRU.
//!
//! Source: [CoopScans07 §3].

use crate::ChunkId;
use crate::policy::victims::{Victim, least_recently_used};
use crate::policy::{Rules, in_order};
use crate::state::{LoadChoice, State};
use crate::table::scan::Scan;

/// `normal`.
#[derive(Debug)]
pub(super) struct Normal;

impl Rules for Normal {
    fn is_sequential(&self) -> bool {
        true
    }

    fn next_load(&self, state: &State) -> Option<LoadChoice> {
        in_order::next_load(state)
    }

    fn delivery(&self, state: &State, scan: &Scan) -> Option<ChunkId> {
        in_order::next_in_order(state, scan)
    }

    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        least_recently_used(state, load)
    }
}
