//! When are the tables of replaced files dropped?
//!
//! A table of the core grows and never shrinks, so a replaced file's old chunks stay in it. When they are half of it, the table is *retired*:
//! queries from then on get a new table, with the files as they are now, and the old one is dropped with all that is in memory of
//! it when the last scan on it has ended. So what is kept of old versions never exceeds what is kept of current ones, and a folder
//! of many files of which one changes now and then does not lose its buffer each time.
//! Not here: files that were deleted; they cannot be told from files that a query does not read. Footers (`files.rs`).
//! V1: a view or scan of a table keeps the table. V2: a retired table gets no new views.

use std::sync::Arc;

use coscan_core::{Event, TableId};

use super::TableFile;
use super::state::{Effects, State};
use super::tables::TableKey;

impl State {
    /// The table for queries over these files that begin now; it need not exist yet.
    pub(crate) fn current_table(
        &mut self,
        key: TableKey,
        files: &[Arc<TableFile>],
        effects: &mut Effects,
    ) -> TableId {
        self.drop_retired(effects);
        let known = self.by_key.get(&key).copied();
        let outdated = known
            .and_then(|id| self.tables.get(&id))
            .is_some_and(|table| table.core.would_be_outdated(files));
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

    /// Drops the retired tables that nobody uses any more.
    pub(crate) fn drop_retired(&mut self, effects: &mut Effects) {
        if self.retired.is_empty() {
            return;
        }
        let unused = |id: &TableId| {
            let table = self.tables.get(id);
            let viewed = table.is_some_and(|table| Arc::strong_count(&table.users) > 1);
            !viewed && self.loads.values().all(|load| load.table != *id)
        };
        let unused: Vec<TableId> = self.retired.iter().copied().filter(unused).collect();
        for id in unused {
            let known = self.tables.get(&id);
            if known.is_some_and(|table| !table.core.registered) {
                self.retired.remove(&id);
                effects.dropped_tables.extend(self.tables.remove(&id));
                continue;
            }
            // Refused, and tried again later, if the core still has a load or a page request of it.
            if self
                .handle(Event::TableDropped { table: id }, effects)
                .is_ok()
            {
                self.retired.remove(&id);
                effects.dropped_tables.extend(self.tables.remove(&id));
            }
        }
    }
}
