//! `elevator`: one cursor per table moves over the chunks in order and reads what any scan needs of
//! each.
//!
//! Chunks stay until every scan that needs them has had them, so the cursor waits for the slowest
//! scan (`eviction.rs`: only garbage is evicted). Scans that are stalled do not count.
//! Source: [CoopScans07 §3, §6.2].

use crate::abm::{Abm, LoadChoice};
use crate::bits::Bits;
use crate::table::Table;
use crate::table::best_chunk::Among;
use crate::table::groups::Group;
use crate::table::scan::Scan;
use crate::{ChunkId, ColumnSet};

impl Abm {
    /// The first ready chunk at or after the cursor, cyclically: the one that was read longest ago.
    pub(crate) fn oldest_behind_cursor(&self, scan: &Scan) -> Option<ChunkId> {
        let table = self.table(scan.table);
        first_from_cursor(table, |group| {
            scan.slots_where(|part| part.columns.is_subset(&group.state.resident))
        })
    }

    pub(crate) fn choose_elevator_load(&self) -> Option<LoadChoice> {
        let mut tables: Vec<&Table> = self.tables.values().collect();
        tables.sort_by_key(|table| (table.last_load_seq, table.id));
        tables.into_iter().find_map(|table| {
            let (chunk, columns) = next_needed(table)?;
            if !self.device_free(table.device(chunk)) {
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
}

/// The first chunk at or after the cursor of which a scan that is not stalled misses columns, and
/// those columns.
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

/// The first chunk at or after the cursor, cyclically, that interests one of the slots that `slots`
/// names for its group.
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
