//! `elevator`: one cursor per table moves over the chunks in order and reads what any scan needs of each.
//!
//! Chunks stay until every scan that needs them has had them, so the cursor waits for the slowest scan (`room.rs`: only garbage is
//! evicted). Scans that are stalled do not count.
//! Source: [CoopScans07 §3, §6.2].

use crate::abm::{Abm, LoadChoice};
use crate::scan::Scan;
use crate::table::Table;
use crate::{ChunkId, ColumnSet};

impl Abm {
    /// The first ready chunk at or after the cursor, cyclically: the one that was read longest ago.
    pub(crate) fn oldest_behind_cursor(&self, scan: &Scan) -> Option<ChunkId> {
        let table = self.table(scan.table);
        let ready = scan.parts.iter().flat_map(|part| {
            let classes = table.classes.warm_ascending();
            classes.filter(|class| {
                class.key.interest.contains(part.slot)
                    && part.columns.is_subset(&class.key.resident)
            })
        });
        let candidates = ready.filter_map(|class| class.members.first_cyclic(table.cursor));
        candidates.min_by_key(|&chunk| distance(table, chunk))
    }

    pub(crate) fn choose_elevator_load(&self) -> Option<LoadChoice> {
        let mut tables: Vec<&Table> = self.tables.values().collect();
        tables.sort_by_key(|table| (table.last_load_seq, table.id));
        tables.into_iter().find_map(|table| {
            let (chunk, columns) = next_needed(table)?;
            if !self.device_free(table.device(chunk)) {
                return None;
            }
            let interest = table.class(chunk).key.interest.difference(&table.stalled);
            let scan = interest.iter().map(|slot| table.slot(slot).scan).min()?;
            Some(LoadChoice {
                table: table.id,
                chunk,
                columns,
                scan,
            })
        })
    }
}

/// The first chunk at or after the cursor of which a scan that is not stalled misses columns, and those columns.
fn next_needed(table: &Table) -> Option<(ChunkId, ColumnSet)> {
    let candidates = table.classes.iter().filter_map(|class| {
        if class.interested == 0 {
            return None;
        }
        let missing = table
            .wanted_now(&class.key.interest)
            .difference(&class.coming);
        if missing.is_empty() {
            return None;
        }
        Some((class.members.first_cyclic(table.cursor)?, missing))
    });
    candidates.min_by_key(|&(chunk, _)| distance(table, chunk))
}

/// How far the cursor has to move to reach the chunk.
fn distance(table: &Table, chunk: ChunkId) -> u32 {
    if chunk >= table.cursor {
        chunk.0 - table.cursor.0
    } else {
        table.chunk_count() - table.cursor.0 + chunk.0
    }
}
