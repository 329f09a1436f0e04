//! `normal`: every scan reads its chunks in order, as if it ran alone, and the buffer is LRU.
//!
//! Source: [CoopScans07 §3].

use crate::policy::Rules;
use crate::policy::victims::{Victim, least_recently_used};
use crate::state::{LoadChoice, State};

/// `normal`.
#[derive(Debug)]
pub(in crate::policy) struct Normal;

impl Rules for Normal {
    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        least_recently_used(state, load)
    }
}
