//! `pbm`: evicts first the segment that will be needed last, as estimated from the scans'
//! positions and paces.
//!
//! Idea: scans read their chunks in order, each at its own pace, so the time until a segment is
//! needed next can be estimated. The victim is the segment with the longest time; among segments
//! that no scan wants, the least recently used. We differ: estimates are computed when space is
//! needed. The paper keeps pages in buckets by estimated time, because its units are many and
//! small; ours are chunks.
//! Bounds: linear in the idle segments and the scans that want them.
//! Source: [PBM12 §3].

use std::cmp::Reverse;

use crate::policy::Rules;
use crate::policy::in_order::{TakenBefore, time_to};
use crate::policy::victims::Victim;
use crate::state::{LoadChoice, State};
use crate::table::Table;
use crate::{ChunkId, ColumnId, TableId};

/// `pbm`.
#[derive(Debug)]
pub(in crate::policy) struct Pbm;

/// An idle segment.
pub(in crate::policy) type Idle = (TableId, ChunkId, ColumnId);

impl Rules for Pbm {
    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        let all = state.tables.values().flat_map(|table| {
            let idle = table.victims.iter();
            idle.map(|&(_, chunk, column)| (table.id, chunk, column))
        });
        needed_last(state, load, all)
    }
}

/// The idle segment that is needed last, except segments of the chunk to be loaded and of the
/// chunks that the load's scan takes before it.
pub(super) fn needed_last(
    state: &State,
    load: Option<&LoadChoice>,
    among: impl Iterator<Item = Idle>,
) -> Option<Victim> {
    let spared = load.map(|load| TakenBefore::of(state, load));
    let free = |&(table, chunk, _): &Idle| {
        let spared = spared.as_ref();
        spared.is_none_or(|spared| !spared.contains(table, chunk))
    };
    let last = last_of(state, among.filter(free));
    last.map(|(table, chunk, column)| Victim::segment(table, chunk, column))
}

fn last_of(state: &State, segments: impl Iterator<Item = Idle>) -> Option<Idle> {
    segments.max_by_key(|&(table, chunk, column)| {
        let entry = state.table(table);
        let last_use = entry.last_use_of_segment(chunk, column);
        let next_use = next_use(state, entry, chunk, column);
        (next_use, Reverse((last_use, table, chunk, column)))
    })
}

/// The estimated nanoseconds until the segment is needed; `u64::MAX` if no scan that is not stalled
/// wants it.
fn next_use(state: &State, table: &Table, chunk: ChunkId, column: ColumnId) -> u64 {
    let wanted = table.interest(chunk).difference(&table.stalled);
    let slots = wanted.iter().map(|slot| table.slot(slot));
    let scans = slots.filter(|slot| slot.columns.contains(column));
    let times = scans.map(|slot| time_to(state, state.scan(slot.scan), chunk));
    times.min().unwrap_or(u64::MAX)
}
