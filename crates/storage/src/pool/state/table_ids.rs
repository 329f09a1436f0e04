//! Which table of the core do new queries over the same folder and columns get?
//!
//! Ids only grow, also when the core restarts (`restart/`).
//! V2 (`../tables/versions.rs`): a retired table is current for no key.
//! Not here: when a table is retired or dropped (`../tables/versions.rs`).

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::TableId;

use super::TableKey;

/// See the file's header.
#[derive(Default)]
pub(crate) struct TableIds {
    current: BTreeMap<TableKey, TableId>,
    next: u32,
    /// They are dropped when their last users have ended.
    retired: BTreeSet<TableId>,
    /// The number of requests for a table so far; it serves as a clock.
    requests: u64,
}

impl TableIds {
    /// Counts a request for a table.
    pub(crate) fn requested(&mut self) {
        self.requests += 1;
    }

    /// The time by the clock of requests.
    pub(crate) fn now(&self) -> u64 {
        self.requests
    }

    /// The table of new queries; `None` if there was none yet.
    pub(crate) fn current(&self, key: &TableKey) -> Option<TableId> {
        self.current.get(key).copied()
    }

    /// Begins a new table for the key, and retires the current one.
    pub(crate) fn replace(&mut self, key: TableKey) -> TableId {
        let id = self.next_id();
        self.next += 1;
        self.retired.extend(self.current.insert(key, id));
        id
    }

    /// The id of the next table.
    pub(super) fn next_id(&self) -> TableId {
        TableId(self.next)
    }

    /// The retired tables.
    pub(crate) fn retired(&self) -> impl Iterator<Item = TableId> {
        self.retired.iter().copied()
    }

    /// The table is dropped.
    pub(crate) fn forget(&mut self, id: TableId) {
        self.current.retain(|_, current| *current != id);
        self.retired.remove(&id);
    }

    /// All tables are dropped.
    pub(super) fn forget_all(&mut self) {
        self.current.clear();
        self.retired.clear();
    }
}
