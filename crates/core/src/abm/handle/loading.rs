//! Loads start, complete and fail.
//!
//! Not here: which load is chosen (`policy/`), what is evicted for it (`eviction.rs`).
//! ABM-I3: a load starts only if it fits. ABM-I7: a failed load fails the scans that need it, and
//! nothing else.

use crate::abm::Abm;
use crate::state::LoadChoice;
use crate::table::LastLoad;
use crate::{Action, ChunkId, ColumnId, ColumnSet, DeviceId, ScanId, TableId};

/// The columns of a load that have not arrived.
#[derive(Debug)]
pub(crate) struct OutstandingLoad {
    columns: ColumnSet,
    pub(crate) device: DeviceId,
}

impl Abm {
    pub(crate) fn start_loads(&mut self) {
        while self
            .state
            .devices
            .iter()
            .any(|&device| self.state.device_free(device))
        {
            let choice = self.rules.next_load(&self.state);
            let Some(mut choice) = choice else { return };
            self.cut_to_budget(&mut choice);
            if self.evict_for(&choice) {
                self.start_load(choice);
            } else if !self.evict_grown(&choice) {
                return;
            }
        }
    }

    /// The columns that several scans want together may exceed the budget; the columns that the
    /// chosen scan misses may fit.
    fn cut_to_budget(&self, choice: &mut LoadChoice) {
        if self
            .state
            .load_bytes(choice.table, choice.chunk, &choice.columns)
            <= self.state.budget
        {
            return;
        }
        let (scan, table) = (self.state.scan(choice.scan), self.state.table(choice.table));
        if let Some(part) = table.part_of(scan, choice.chunk) {
            let part = &scan.parts[part];
            let coming = &table.group(choice.chunk).coming;
            choice.columns = part.columns.difference(coming);
        }
    }

    fn start_load(&mut self, choice: LoadChoice) {
        let LoadChoice {
            table: id,
            chunk,
            columns,
            scan,
        } = choice;
        let seq = self.state.next_seq();
        let table = self.state.table(id);
        let device = table.device(chunk);
        let extents = table.absent_extents(chunk, &columns);
        let bytes = self.state.load_bytes(id, chunk, &columns);
        let mut ordered: Vec<ColumnId> = columns.iter().collect();
        ordered.sort_by_key(|&column| (table.own_bytes(chunk, column), column));
        self.rules.load_begins(self.state.table_mut(id), chunk);
        self.state.change_coming(id, chunk, |table| {
            table.start_load(chunk, &columns, &extents, LastLoad { scan, seq });
        });
        self.state.used += bytes;
        self.state.scan_mut(scan).last_load_seq = seq;
        *self.state.outstanding.entry(device).or_default() += 1;
        self.loads
            .entry((id, chunk))
            .or_default()
            .push(OutstandingLoad { columns, device });
        self.actions.push_back(Action::Load {
            table: id,
            chunk,
            columns: ordered,
            extents,
            bytes,
            scan,
        });
        self.drop_page_requests(id, chunk);
    }

    pub(crate) fn complete_load(&mut self, id: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let seq = self.state.next_seq();
        self.remove_from_loads(id, chunk, columns);
        // The coming columns stay the same: loading becomes resident.
        self.state.table_mut(id).complete_load(chunk, columns, seq);
        let table = self.state.table(id);
        let resident = &table.group(chunk).state.resident;
        let ready: Vec<ScanId> = table
            .interest(chunk)
            // Only waiting scans are served here. A scan that asks later is served then, and most
            // scans that need a chunk are working on another one.
            .iter_and(&table.waiting)
            .map(|slot| table.slot(slot))
            .filter(|slot| slot.columns.is_subset(resident))
            .map(|slot| slot.scan)
            .collect();
        self.serve.extend(ready);
        self.serve_pages(id, chunk);
    }

    pub(crate) fn fail_load(&mut self, id: TableId, chunk: ChunkId, columns: &ColumnSet) {
        self.remove_from_loads(id, chunk, columns);
        let mut freed = 0;
        self.state
            .change_coming(id, chunk, |table| freed = table.fail_load(chunk, columns));
        self.state.used -= freed;
        let table = self.state.table(id);
        let mut failed: Vec<ScanId> = table
            .interest(chunk)
            .iter()
            .map(|slot| table.slot(slot))
            .filter(|slot| slot.columns.intersects(columns))
            .map(|slot| slot.scan)
            .collect();
        failed.sort_unstable();
        for scan in failed {
            self.fail_scan(scan, chunk);
        }
        self.fail_pages(id, chunk, columns);
    }

    /// ABM-I7: a failed load fails the scans that need it, and nothing else.
    fn fail_scan(&mut self, id: ScanId, chunk: ChunkId) {
        let scan = self.state.scan(id);
        let needed = self.state.table(scan.table).needed(scan);
        self.withdraw_chunks(id, &needed);
        let scan = self.state.scan_mut(id);
        scan.waiting = 0;
        let joined = std::mem::take(&mut scan.joined);
        self.leave_jobs(id, joined);
        self.active(id);
        self.actions.push_back(Action::Fail { scan: id, chunk });
    }

    /// Removes arrived or failed columns from their outstanding loads.
    fn remove_from_loads(&mut self, table: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let Some(loads) = self.loads.get_mut(&(table, chunk)) else {
            return;
        };
        for load in loads.iter_mut() {
            load.columns = load.columns.difference(columns);
            if load.columns.is_empty() {
                *self.state.outstanding.entry(load.device).or_default() -= 1;
            }
        }
        loads.retain(|load| !load.columns.is_empty());
        if loads.is_empty() {
            self.loads.remove(&(table, chunk));
        }
    }
}
