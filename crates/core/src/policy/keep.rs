//! keepRelevance: which chunk is least worth keeping?
//!
//! Idea: a chunk is kept for the scans that would starve without it, then for the number of scans
//! that can take it at any time. An ordered scan takes a chunk when it reaches it, so the number
//! of such scans matters little; the time until the first of them arrives decides.
//! Bounds: a search with bounds among the resident chunks; where ties are broken by the needs of
//! ordered scans, linear in the chunks that tie.
//! Source: [CoopScans07 §4 Figure 3, §6.2 Figure 11]; [PBM12 §3] for ordered scans; we differ as
//! `docs/design/abm.md` says.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::policy::in_order::{first_missing, time_to};
use crate::policy::ratio::Ratio;
use crate::policy::victims::{Protection, Victim, protected};
use crate::state::{LoadChoice, State};
use crate::table::Table;
use crate::table::best_chunk::Among;
use crate::table::groups::Group;
use crate::table::interest::Member;
use crate::table::scan::Scan;
use crate::{ChunkId, StorageModel, TableId};

/// (E / Pe or the number of almost starved scans, number of interested scans that are not in
/// order, time until a scan in order reaches it): the chunk with the smallest is evicted first.
type KeepRelevance = (Ratio, u32, Reverse<u64>);

/// The chunk with the smallest keepRelevance that no starved scan can use and `trigger` does not
/// need (tier 1). Tier 2 passes no `trigger`: the triggering scan is starved itself, so the chunks
/// that it can use are spared anyway.
pub(super) fn least_relevant(
    state: &State,
    load: Option<&LoadChoice>,
    trigger: Option<&Scan>,
) -> Option<Victim> {
    least_kept(state, load, |table, group| {
        let ready = table.covered_by(&group.state.resident);
        let mut spared = protected(state, table, &ready.intersection(&table.starved));
        if let Some(scan) = trigger.filter(|scan| scan.table == table.id) {
            spared.slots.union_with(&scan.slots_where(|_| true));
        }
        spared
    })
}

/// The chunk with the smallest keepRelevance of those that `protection` does not spare.
pub(super) fn least_kept(
    state: &State,
    load: Option<&LoadChoice>,
    protection: impl Fn(&Table, &Group) -> Protection,
) -> Option<Victim> {
    let mut best: Option<(Reverse<KeepRelevance>, TableId, ChunkId)> = None;
    for table in state.tables.values() {
        let loaded = load.filter(|load| load.table == table.id);
        let loaded = loaded.map(|load| load.chunk);
        let keeping = Keeping::of(state, table);
        let among = if table.sequential.is_empty() {
            Among::All
        } else {
            Among::Each
        };
        // Ties go to the lowest table, so a later table has to score better.
        let mut of_table = None;
        for group in table.groups.iter().filter(|group| group.is_evictable()) {
            let spared = protection(table, group);
            let most = table.weight(&group.state.resident);
            // Scans without overlap do not count in Pe; without overlapping scans E / Pe is 0.
            let overlapping = table.overlapping(&group.state.resident);
            let kept_for = overlapping.intersection(&keeping.almost);
            group.members.search(
                &mut of_table,
                ChunkId(0),
                table.interests(),
                among,
                |node| {
                    let some = !node.all.intersects(&spared.slots);
                    let almost = ratio(state, node.at_least(&kept_for), || most);
                    some.then(|| Reverse((almost, keeping.at_least(node.least), Reverse(u64::MAX))))
                },
                |member, best| {
                    let zero = Ratio { num: 0, den: 1 };
                    let at_most = (zero, keeping.at_least(member.count), Reverse(u64::MAX));
                    let counts = best.is_none_or(|best| Reverse(at_most) >= best)
                        && Some(member.chunk) != loaded
                        && !spared.covers(member.chunk, member.slots);
                    counts.then(|| Reverse(keeping.relevance(group, member)))
                },
            );
        }
        if let Some((score, chunk)) = of_table
            && best.is_none_or(|(least, ..)| score > least)
        {
            best = Some((score, table.id, chunk));
        }
    }
    best.map(|(_, table, chunk)| Victim::whole(state, table, chunk))
}

/// The scans that the chunks of a table are kept for.
struct Keeping<'a> {
    state: &'a State,
    table: &'a Table,
    /// Slots of almost starved scans that can take any chunk.
    almost: Bits,
    /// Slots of almost starved scans in order, each with the first chunk that it misses. Such a
    /// scan can use the chunks before that one.
    frontiers: SmallVec<[(usize, ChunkId); 4]>,
}

impl<'a> Keeping<'a> {
    fn of(state: &'a State, table: &'a Table) -> Self {
        let in_order = table.almost.intersection(&table.sequential);
        let frontier = |slot| {
            let scan = state.scan(table.slot(slot).scan);
            (slot, first_missing(state, scan))
        };
        Self {
            state,
            table,
            almost: table.almost.difference(&table.sequential),
            frontiers: in_order.iter().map(frontier).collect(),
        }
    }

    /// A lower bound on how many of `interested` scans can take any chunk.
    fn at_least(&self, interested: u32) -> u32 {
        interested.saturating_sub(self.table.sequential.len())
    }

    fn relevance(&self, group: &Group, member: Member<'_>) -> KeepRelevance {
        let (state, table, chunk) = (self.state, self.table, member.chunk);
        let in_order = member.slots.intersection(&table.sequential);
        let mut kept_for = member.slots.intersection(&self.almost);
        for &(slot, missing) in &self.frontiers {
            if chunk < missing && in_order.contains(slot) {
                kept_for.insert(slot);
            }
        }
        let bytes = || {
            let columns = table.columns_of_both(member.slots, &kept_for);
            table.weight(&columns.intersection(&group.state.resident))
        };
        let coming = in_order.difference(&table.stalled);
        let times = coming.iter().map(|slot| {
            let scan = state.scan(table.slot(slot).scan);
            time_to(state, scan, chunk)
        });
        let next = times.min().unwrap_or(0);
        let any_time = member.count - in_order.len();
        let almost = ratio(state, kept_for.len(), bytes);
        (almost, any_time, Reverse(next))
    }
}

/// NSM: E; DSM: `E / Pe`.
fn ratio(state: &State, almost: u32, bytes: impl Fn() -> u64) -> Ratio {
    let den = match state.model {
        StorageModel::Dsm if almost > 0 => bytes(),
        _ => 1,
    };
    let num = if den == 0 { 0 } else { almost.into() };
    Ratio {
        num,
        den: den.max(1),
    }
}
