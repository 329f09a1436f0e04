//! When are the tables of replaced files dropped?
//!
//! A core table grows and never shrinks, so a replaced file's old chunks stay in it. When they
//! reach half of it, the table is *retired*: later queries get a new table with the current files,
//! and the old table is dropped, with everything of it in memory, when its last scan has ended. So
//! old versions never take more memory than current ones, and a folder of many files of which one
//! changes now and then keeps its buffer. The pool cannot tell a deleted file from a file that
//! queries do not read, so metadata of both stays as long as there is room
//! (`MemoryBudget::metadata_bytes_max`). Beyond that, unused tables are dropped, least recently
//! used first. A used table of which half has not been requested lately is then retired like a
//! table of replaced files; otherwise a folder whose files always get new names would keep the
//! deleted ones, because its table is always in use.
//! Not here: footers (`../files/file_cache.rs`).
//! V1: a view or scan of a table keeps the table. V2: a retired table gets no new views.

use std::sync::Arc;

use coscan_core::{Event, TableId};

use crate::pool::TableFile;
use crate::pool::state::{Effects, State, TableKey, TableState};

impl State {
    /// The table for new queries over these files; it may not exist yet.
    pub(crate) fn current_table(
        &mut self,
        key: TableKey,
        files: &[Arc<TableFile>],
        crowded: bool,
        effects: &mut Effects,
    ) -> TableId {
        self.ids.requested();
        self.drop_retired(effects);
        let known = self.ids.current(&key);
        let outdated = known
            .and_then(|id| self.tables.get(&id))
            .is_some_and(|table| {
                table.core.would_be_outdated(files) || crowded && table.core.is_mostly_unused()
            });
        match known {
            Some(id) if !outdated => id,
            _ => {
                let id = self.ids.replace(key);
                self.drop_retired(effects);
                id
            }
        }
    }

    /// Drops the retired tables that are not in use.
    pub(crate) fn drop_retired(&mut self, effects: &mut Effects) {
        let retired = self.ids.retired();
        let unused: Vec<TableId> = retired.filter(|id| self.is_unused(*id)).collect();
        for id in unused {
            if self.drop_table(id, effects) {
                self.ids.forget(id);
            }
        }
    }

    /// Drops unused tables, least recently used first, until `bytes` bytes of their metadata are
    /// freed; the most recently used table stays.
    pub(crate) fn drop_idle_tables(&mut self, bytes: u64, effects: &mut Effects) {
        self.drop_retired(effects);
        let mut by_use: Vec<(u64, TableId)> = Vec::new();
        by_use.extend(self.tables.iter().map(|(id, table)| (table.used, *id)));
        by_use.sort_unstable();
        by_use.pop();
        let mut gone = effects.dropped_tables.iter().map(bytes_known).sum::<u64>();
        for (_, id) in by_use {
            if gone >= bytes {
                return;
            }
            let known = self.tables.get(&id).map_or(0, bytes_known);
            if self.is_unused(id) && self.drop_table(id, effects) {
                self.ids.forget(id);
                gone += known;
            }
        }
    }

    fn is_unused(&self, id: TableId) -> bool {
        let table = self.tables.get(&id);
        let viewed = table.is_some_and(|table| Arc::strong_count(&table.users) > 1);
        !viewed && !self.loads.reads(id)
    }

    /// Drops the table. False if the core still has a load or a page request of it; a later call
    /// can drop it.
    fn drop_table(&mut self, id: TableId, effects: &mut Effects) -> bool {
        let registered = self
            .tables
            .get(&id)
            .is_some_and(|table| table.core.registered);
        if registered {
            let dropped = Event::TableDropped { table: id };
            if self.handle(dropped, effects).is_err() {
                return false;
            }
        }
        effects.dropped_tables.extend(self.tables.remove(&id));
        true
    }
}

/// The metadata bytes of a table and of the files of its chunks. A file counts in full even if it
/// has other owners.
fn bytes_known(table: &TableState) -> u64 {
    let files = table
        .core
        .chunks
        .chunk_by(|a, b| Arc::ptr_eq(&a.file, &b.file));
    let files: u64 = files.map(|chunks| chunks[0].file.bytes_known()).sum();
    table.known.bytes() + files
}
