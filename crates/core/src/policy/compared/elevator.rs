//! `elevator`: one cursor per table moves over the chunks in order; for each chunk it loads the
//! columns that any scan needs.
//!
//! A chunk stays until every scan that needs it has taken it, so the cursor waits for the slowest
//! scan. Victims are garbage, and then chunks that no scan can use because columns are missing.
//! Stalled scans do not count.
//! Source: [CoopScans07 §3, §6.2].

use crate::bits::Bits;
use crate::policy::Rules;
use crate::policy::victims::{Protection, Victim, garbage, least_recent_chunk, protected};
use crate::state::{LoadChoice, State};
use crate::table::best_chunk::Among;
use crate::table::groups::Group;
use crate::table::scan::Scan;
use crate::table::{Table, Upkeep};
use crate::{ChunkId, ColumnSet};

/// `elevator`.
#[derive(Debug)]
pub(in crate::policy) struct Elevator;

impl Rules for Elevator {
    fn is_sequential(&self) -> bool {
        false
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
        next_load(state)
    }

    fn load_begins(&self, table: &mut Table, chunk: ChunkId) {
        table.cursor = ChunkId((chunk.0 + 1) % table.chunk_count());
    }

    fn delivery(&self, state: &State, scan: &Scan) -> Option<ChunkId> {
        oldest_behind_cursor(state, scan)
    }

    fn victim(&self, state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
        garbage(state, load).or_else(|| stuck(state, load))
    }

    fn last_resort(&self, state: &State) -> Option<Victim> {
        least_recent_chunk(state, None, |_, _| Protection::default())
    }
}

/// The first ready chunk at or after the cursor, cyclically: of all ready chunks the one that was
/// read longest ago.
fn oldest_behind_cursor(state: &State, scan: &Scan) -> Option<ChunkId> {
    let table = state.table(scan.table);
    first_from_cursor(table, |group| {
        scan.slots_where(|part| part.columns.is_subset(&group.state.resident))
    })
}

fn next_load(state: &State) -> Option<LoadChoice> {
    let mut tables: Vec<&Table> = state.tables.values().collect();
    tables.sort_by_key(|table| (table.last_load_seq, table.id));
    tables.into_iter().find_map(|table| {
        let (chunk, columns) = next_needed(table)?;
        if !state.device_free(table.device(chunk)) {
            return None;
        }
        let coming = &table.group(chunk).coming;
        let interest = table.interest(chunk).difference(&table.stalled);
        let slots = interest.iter().map(|slot| table.slot(slot));
        let missing = slots.filter(|slot| !slot.columns.is_subset(coming));
        let scan = missing.map(|slot| slot.scan).min()?;
        Some(LoadChoice {
            table: table.id,
            chunk,
            columns,
            scan,
        })
    })
}

/// A chunk that no scan can use: it lacks columns that cannot be loaded, because the buffer is
/// full of such chunks.
fn stuck(state: &State, load: Option<&LoadChoice>) -> Option<Victim> {
    least_recent_chunk(state, load, |table, group| {
        let active = table.covered_by(&group.state.resident);
        protected(state, table, &active.difference(&table.stalled))
    })
}

/// The first chunk at or after the cursor, cyclically, that lacks columns of a scan that is not
/// stalled; with these columns.
fn next_needed(table: &Table) -> Option<(ChunkId, ColumnSet)> {
    let chunk = first_from_cursor(table, |group| {
        let mut slots = Bits::default();
        for (family, members) in &table.families {
            if !family.is_subset(&group.coming) {
                slots.union_with(members);
            }
        }
        slots.difference(&table.stalled)
    })?;
    let wanted = table.wanted_now(table.interest(chunk));
    Some((chunk, wanted.difference(&table.group(chunk).coming)))
}

/// The first chunk at or after the cursor, cyclically, that one of the slots needs. `slots` gives
/// the slots for the chunk's group.
fn first_from_cursor(table: &Table, slots: impl Fn(&Group) -> Bits) -> Option<ChunkId> {
    let first_from = |from| {
        let mut first = None;
        for group in table.groups.iter() {
            let slots = slots(group);
            if slots.is_empty() {
                continue;
            }
            group.members.search(
                &mut first,
                from,
                table.interests(),
                Among::Slots(&slots),
                |_| Some(()),
                |_, _| Some(()),
            );
        }
        first.map(|((), chunk)| chunk)
    };
    first_from(table.cursor).or_else(|| first_from(ChunkId(0)))
}
