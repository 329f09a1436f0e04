//! When are the tables of replaced files dropped?
//!
//! A core table grows and never shrinks, so a replaced file's old chunks stay in it. When they are
//! half of it, the table is *retired*: queries from then on get a new table with the current files,
//! and the old one is dropped, with everything of it in memory, when its last scan has ended. So
//! old versions never take more than current ones, and a folder of many files of which one changes
//! now and then does not lose its buffer each time. Deleted files cannot be told from files that a
//! query does not read, so they stay as long as there is room for what is known of files and tables
//! (`MemoryBudget::metadata_bytes_max`). Beyond that, tables that nobody uses are dropped, least
//! recently used first. A table of which half was not asked for lately is then retired like a table
//! of replaced files: otherwise a folder whose files always get new names would keep the deleted
//! ones, because its table is always in use.
//! Not here: footers (`files.rs`).
//! V1: a view or scan of a table keeps the table. V2: a retired table gets no new views.

use std::sync::Arc;

use coscan_core::{Event, TableId};

use super::TableFile;
use super::state::{Effects, State, TableKey, TableState};

impl State {
    /// The table for queries over these files that begin now; it may not exist yet.
    pub(crate) fn current_table(
        &mut self,
        key: TableKey,
        files: &[Arc<TableFile>],
        crowded: bool,
        effects: &mut Effects,
    ) -> TableId {
        self.uses += 1;
        self.drop_retired(effects);
        let known = self.by_key.get(&key).copied();
        let outdated = known
            .and_then(|id| self.tables.get(&id))
            .is_some_and(|table| {
                table.core.would_be_outdated(files) || crowded && table.core.is_mostly_unused()
            });
        match known {
            Some(id) if !outdated => id,
            _ => {
                self.retired.extend(known);
                let id = TableId(self.next_table);
                self.next_table += 1;
                self.by_key.insert(key, id);
                self.drop_retired(effects);
                id
            }
        }
    }

    /// Drops the retired tables that nobody uses.
    pub(crate) fn drop_retired(&mut self, effects: &mut Effects) {
        if self.retired.is_empty() {
            return;
        }
        let unused = self.retired.iter().copied();
        let unused: Vec<TableId> = unused.filter(|id| self.is_unused(*id)).collect();
        for id in unused {
            if self.drop_table(id, effects) {
                self.retired.remove(&id);
            }
        }
    }

    /// Drops tables that nobody uses, least recently used first, until `bytes` bytes of what is
    /// known of them are gone; the most recently used table stays.
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
                self.by_key.retain(|_, current| *current != id);
                self.retired.remove(&id);
                gone += known;
            }
        }
    }

    fn is_unused(&self, id: TableId) -> bool {
        let table = self.tables.get(&id);
        let viewed = table.is_some_and(|table| Arc::strong_count(&table.users) > 1);
        !viewed && self.loads.values().all(|load| load.table != id)
    }

    /// Drops the table. False if the core still has a load or a page request of it: try again
    /// later.
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

/// The bytes of what is known of a table and of the files of its chunks. A file that others know
/// too is counted in full.
fn bytes_known(table: &TableState) -> u64 {
    let files = table
        .core
        .chunks
        .chunk_by(|a, b| Arc::ptr_eq(&a.file, &b.file));
    let files: u64 = files.map(|chunks| chunks[0].file.bytes_known()).sum();
    table.known.bytes() + files
}
