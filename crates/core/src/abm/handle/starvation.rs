//! Which scans go hungry, and which have fallen silent?
//!
//! Idea: availability is counted as chunks come and go, so that asking whether a scan is starved
//! costs nothing. A scan between whose consumers and it nothing has happened for `stall_after` is
//! stalled: it protects nothing.
//! Source: [CoopScans07 Figure 3, queryStarved]; we differ: loads in flight count as available.

use crate::abm::Abm;
use crate::table::Table;
use crate::table::scan::Scan;
use crate::{ChunkId, ScanId, TableId, Time};

impl Abm {
    pub(crate) fn stall_time(&self, scan: &Scan) -> Time {
        Time(
            scan.last_activity
                .0
                .saturating_add(self.config.stall_after_ns),
        )
    }

    /// A consumer of the scan did something, or was handed a chunk.
    pub(crate) fn active(&mut self, id: ScanId) {
        let now = self.now;
        let old = self.stall_time(self.scan(id));
        self.stalls.remove(&(old, id));
        let scan = self.scans.get_mut(&id).expect("it was there");
        scan.last_activity = now;
        let (waiting, stalled) = (scan.waiting > 0, scan.stalled);
        let table = self.tables.get_mut(&scan.table);
        let table = table.expect("scans name registered tables");
        for part in &scan.parts {
            if table.waiting.contains(part.slot) != waiting {
                table.waiting.set(part.slot, waiting);
            }
        }
        if !waiting {
            let due = self.stall_time(self.scan(id));
            self.stalls.insert((due, id));
        }
        if stalled {
            self.set_stalled(id, false);
        }
    }

    pub(crate) fn expire_stalls(&mut self) {
        while let Some(&(due, id)) = self.stalls.first()
            && due <= self.now
        {
            self.stalls.remove(&(due, id));
            self.set_stalled(id, true);
        }
    }

    /// A scan that is not waiting is stalled before its time.
    pub(crate) fn stall_now(&mut self, id: ScanId) {
        let due = self.stall_time(self.scan(id));
        self.stalls.remove(&(due, id));
        self.set_stalled(id, true);
    }

    fn set_stalled(&mut self, id: ScanId, on: bool) {
        let scan = self.scan_mut(id);
        scan.stalled = on;
        let (table, slots) = (scan.table, scan.slots());
        self.table_mut(table).set_stalled(&slots, on);
        self.refresh(id);
    }

    /// How many chunks that the scan needs are ready or on their way.
    pub(crate) fn coming(&self, scan: &Scan) -> usize {
        let table = self.table(scan.table);
        let parts = scan.parts.iter();
        parts.map(|part| table.slot(part.slot).coming).sum()
    }

    /// available(q), cut off where it no longer matters.
    pub(crate) fn available(&self, scan: &Scan) -> usize {
        if !scan.sequential {
            return scan.in_hands() + self.coming(scan);
        }
        let table = self.table(scan.table);
        let prefix = table
            .order(scan)
            .take(scan.lookahead + 1)
            .take_while(|&chunk| {
                let part = table.part_of(scan, chunk);
                part.is_some_and(|p| scan.parts[p].columns.is_subset(&table.group(chunk).coming))
            });
        scan.in_hands() + prefix.count()
    }

    /// Works out anew whether a scan is starved or almost starved.
    pub(crate) fn refresh(&mut self, id: ScanId) {
        let scan = self.scan(id);
        let available = self.available(scan);
        let starved = !scan.stalled && available < scan.lookahead;
        let almost = !scan.stalled && available <= scan.lookahead;
        // Chunks come and go far more often than this changes.
        if (starved, almost) == (scan.starved, scan.almost) {
            return;
        }
        let scan = self.scans.get_mut(&id).expect("it was there");
        (scan.starved, scan.almost) = (starved, almost);
        if starved {
            self.hungry.insert(id);
        } else {
            self.hungry.remove(&id);
        }
        let table = self.tables.get_mut(&scan.table);
        let table = table.expect("scans name registered tables");
        for part in &scan.parts {
            table.starved.set(part.slot, starved);
            table.almost.set(part.slot, almost);
        }
    }

    /// Makes a change to a chunk's resident or loading columns, and tells the interested scans what
    /// is coming now.
    pub(crate) fn change_coming(
        &mut self,
        id: TableId,
        chunk: ChunkId,
        change: impl FnOnce(&mut Table),
    ) {
        let table = self.table_mut(id);
        let before = table.group(chunk).coming.clone();
        change(table);
        if table.group(chunk).coming != before {
            for scan in table.recount_coming(chunk, &before) {
                self.refresh(scan);
            }
        }
    }
}
