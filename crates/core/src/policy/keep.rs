//! keepRelevance: which chunk is least worth keeping?
//!
//! Source: [CoopScans07 §4 Figure 3, §6.2 Figure 11]; we differ as `docs/design/abm.md` says.

use std::cmp::Reverse;

use crate::policy::ratio::Ratio;
use crate::policy::victims::{Protection, Victim, protected};
use crate::state::{LoadChoice, State};
use crate::table::Table;
use crate::table::best_chunk::Among;
use crate::table::groups::Group;
use crate::table::interest::Member;
use crate::table::scan::Scan;
use crate::{ChunkId, StorageModel, TableId};

/// (E / Pe or the number of almost starved scans, number of interested scans): the smallest goes
/// first.
type KeepRelevance = (Ratio, u32);

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
        // Ties go to the lowest table, so a later table has to score better.
        let mut of_table = None;
        for group in table.groups.iter().filter(|group| group.is_evictable()) {
            let spared = protection(table, group);
            let most = table.weight(&group.state.resident);
            // Scans without overlap have no part in Pe; without overlapping scans E / Pe is 0.
            let overlapping = table.overlapping(&group.state.resident);
            let kept_for = overlapping.intersection(&table.almost);
            group.members.search(
                &mut of_table,
                ChunkId(0),
                table.interests(),
                Among::All,
                |node| {
                    let some = !node.all.intersects(&spared.slots);
                    let almost = node.at_least(&kept_for);
                    some.then(|| Reverse((ratio(state, almost, || most), node.least)))
                },
                |member, best| {
                    let at_most = Reverse((Ratio { num: 0, den: 1 }, member.count));
                    let counts = best.is_none_or(|best| at_most >= best)
                        && Some(member.chunk) != loaded
                        && !spared.covers(member.chunk, member.slots);
                    counts.then(|| Reverse(keep_relevance(state, table, group, member)))
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

fn keep_relevance(
    state: &State,
    table: &Table,
    group: &Group,
    member: Member<'_>,
) -> KeepRelevance {
    let almost = member.slots.len_and(&table.almost);
    let bytes = || {
        let columns = table.columns_of_both(member.slots, &table.almost);
        table.weight(&columns.intersection(&group.state.resident))
    };
    (ratio(state, almost, bytes), member.count)
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
