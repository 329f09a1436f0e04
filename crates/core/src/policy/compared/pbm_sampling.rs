//! `pbm-sampling`: like `pbm`, but examines a few idle segments drawn at random instead of all.
//!
//! Bounds: examines `SAMPLE` segments, and all segments only if none of these may be evicted.
//! Source: [Vanderkooy23].

use super::pbm::{Idle, Pbm, needed_last};
use crate::policy::Rules;
use crate::policy::victims::Victim;
use crate::state::{LoadChoice, State};
use crate::table::{Table, Upkeep};

/// Segments examined for an eviction. With ten, the best of them is in the best fifth in nine cases
/// of ten.
const SAMPLE: usize = 10;

/// `pbm-sampling`.
#[derive(Debug)]
pub(in crate::policy) struct PbmSampling;

impl Rules for PbmSampling {
    fn upkeep(&self) -> Upkeep {
        Upkeep {
            idle_counts: true,
            ..Pbm.upkeep()
        }
    }

    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        let last = needed_last(state, load, sample(state).into_iter());
        last.or_else(|| Pbm.victim(state, load))
    }
}

/// Idle segments drawn evenly, with repetition. The draw depends only on the state that the
/// contract names, which the eviction that follows changes.
fn sample(state: &State) -> Vec<Idle> {
    let total: usize = state.tables.values().map(Table::idle_count).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut random = state.peek_seq() ^ state.used.rotate_left(32);
    let mut drawn = || {
        random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let place = (u128::from(mix(random)) * total as u128) >> 64;
        let mut place = usize::try_from(place).unwrap_or(0);
        state.tables.values().find_map(|table| {
            let found = table.idle_segment(place);
            place = place.saturating_sub(table.idle_count());
            found.map(|(chunk, column)| (table.id, chunk, column))
        })
    };
    (0..SAMPLE).filter_map(|_| drawn()).collect()
}

/// The output function of splitmix64 [Steele14].
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
