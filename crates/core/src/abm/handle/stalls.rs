//! Which scans are stalled?
//!
//! Idea: a scan is stalled when nothing has happened between it and its consumers for
//! `stall_after`. A stalled scan protects nothing, and nothing is loaded for it (ABM-I8).
//! Not here: which scans are starved (`state.rs`).

use crate::abm::Abm;
use crate::table::scan::Scan;
use crate::{ScanId, Time};

impl Abm {
    pub(crate) fn stall_time(&self, scan: &Scan) -> Time {
        Time(scan.last_activity.0.saturating_add(self.stall_after_ns))
    }

    /// Records activity: a consumer of the scan did something, or was handed a chunk.
    pub(crate) fn active(&mut self, id: ScanId) {
        let now = self.state.now;
        let old = self.stall_time(self.state.scan(id));
        self.stalls.remove(&(old, id));
        let scan = self
            .state
            .scans
            .get_mut(&id)
            .expect("the scan is registered");
        scan.last_activity = now;
        let (waiting, stalled) = (scan.waiting > 0, scan.stalled);
        let table = self.state.tables.get_mut(&scan.table);
        let table = table.expect("scans name registered tables");
        for part in &scan.parts {
            if table.waiting.contains(part.slot) != waiting {
                table.waiting.set(part.slot, waiting);
            }
        }
        if !waiting {
            let due = self.stall_time(self.state.scan(id));
            self.stalls.insert((due, id));
        }
        if stalled {
            self.state.set_stalled(id, false);
        }
    }

    pub(crate) fn expire_stalls(&mut self) {
        while let Some(&(due, id)) = self.stalls.first()
            && due <= self.state.now
        {
            self.stalls.remove(&(due, id));
            self.state.set_stalled(id, true);
        }
    }

    /// Makes a scan stalled before its deadline. The scan must not be waiting.
    pub(crate) fn stall_now(&mut self, id: ScanId) {
        let due = self.stall_time(self.state.scan(id));
        self.stalls.remove(&(due, id));
        self.state.set_stalled(id, true);
    }
}
