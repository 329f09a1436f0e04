//! Loads start, arrive and fail.
//!
//! Not here: which load is chosen (`relevance.rs`, `elevator.rs`, `in_order.rs`), what makes room
//! for it (`eviction.rs`).
//! I3: a load starts only if it fits. I7: a failed load fails the scans that need it, and nothing
//! else.

use crate::abm::{Abm, LoadChoice};
use crate::table::LastLoad;
use crate::{Action, ChunkId, ColumnId, ColumnSet, DeviceId, Policy, ScanId, TableId};

/// A load's columns that are still to come.
#[derive(Debug)]
pub(crate) struct OutstandingLoad {
    columns: ColumnSet,
    pub(crate) device: DeviceId,
}

impl Abm {
    pub(crate) fn start_loads(&mut self) {
        while self.devices.iter().any(|&device| self.device_free(device)) {
            let choice = match self.config.policy {
                Policy::Elevator => self.choose_elevator_load(),
                Policy::Relevance | Policy::Relevance2007 => self.choose_relevant_load(),
                Policy::Normal | Policy::Attach | Policy::Pbm | Policy::PbmSampling => {
                    self.choose_sequential_load()
                }
            };
            let Some(mut choice) = choice else { return };
            self.cut_to_budget(&mut choice);
            if !self.make_room(&choice) {
                return;
            }
            self.start_load(choice);
        }
    }

    /// What several scans want together may never fit; what one of them wants may.
    fn cut_to_budget(&self, choice: &mut LoadChoice) {
        if self.load_bytes(choice.table, choice.chunk, &choice.columns) <= self.budget {
            return;
        }
        let (scan, table) = (self.scan(choice.scan), self.table(choice.table));
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
        let seq = self.next_seq();
        let table = self.table(id);
        let device = table.device(chunk);
        let extents = table.absent_extents(chunk, &columns);
        let bytes = self.load_bytes(id, chunk, &columns);
        let mut ordered: Vec<ColumnId> = columns.iter().collect();
        ordered.sort_by_key(|&column| (table.own_bytes(chunk, column), column));
        if self.config.policy == Policy::Elevator {
            let next = ChunkId((chunk.0 + 1) % table.chunk_count());
            self.table_mut(id).cursor = next;
        }
        self.change_coming(id, chunk, |table| {
            table.start_load(chunk, &columns, &extents, LastLoad { scan, seq });
        });
        self.used += bytes;
        self.scan_mut(scan).last_load_seq = seq;
        *self.outstanding.entry(device).or_default() += 1;
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

    /// Bytes that a load brings.
    pub(crate) fn load_bytes(&self, id: TableId, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        let table = self.table(id);
        let own: u64 = columns.iter().map(|c| table.own_bytes(chunk, c)).sum();
        let shared = table.absent_extents(chunk, columns);
        own + shared
            .into_iter()
            .map(|e| table.extent_bytes(e))
            .sum::<u64>()
    }

    pub(crate) fn complete_load(&mut self, id: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let seq = self.next_seq();
        self.settle_load(id, chunk, columns);
        // What is coming does not change: loading becomes resident.
        self.table_mut(id).complete_load(chunk, columns, seq);
        let table = self.table(id);
        let resident = &table.group(chunk).state.resident;
        let ready: Vec<ScanId> = table
            .interest(chunk)
            // Whoever asks later is served then. Most of those who need a chunk are at work on
            // another.
            .iter_and(&table.waiting)
            .map(|slot| table.slot(slot))
            .filter(|slot| slot.columns.is_subset(resident))
            .map(|slot| slot.scan)
            .collect();
        self.serve.extend(ready);
        self.serve_pages(id, chunk);
    }

    pub(crate) fn fail_load(&mut self, id: TableId, chunk: ChunkId, columns: &ColumnSet) {
        self.settle_load(id, chunk, columns);
        let mut freed = 0;
        self.change_coming(id, chunk, |table| freed = table.fail_load(chunk, columns));
        self.used -= freed;
        let table = self.table(id);
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

    /// I7: a failed load fails the scans that need it, and nothing else.
    fn fail_scan(&mut self, id: ScanId, chunk: ChunkId) {
        let scan = self.scan(id);
        let needed = self.table(scan.table).needed(scan);
        self.withdraw_chunks(id, &needed);
        let scan = self.scan_mut(id);
        scan.waiting = 0;
        let joined = std::mem::take(&mut scan.joined);
        self.leave_jobs(id, joined);
        self.active(id);
        self.actions.push_back(Action::Fail { scan: id, chunk });
    }

    /// Takes arrived or failed columns off their outstanding loads.
    fn settle_load(&mut self, table: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let Some(loads) = self.loads.get_mut(&(table, chunk)) else {
            return;
        };
        for load in loads.iter_mut() {
            load.columns = load.columns.difference(columns);
            if load.columns.is_empty() {
                *self.outstanding.entry(load.device).or_default() -= 1;
            }
        }
        loads.retain(|load| !load.columns.is_empty());
        if loads.is_empty() {
            self.loads.remove(&(table, chunk));
        }
    }
}
