//! Does every invariant of the buffer manager hold?
//!
//! Idea: each kept count, set and flag is recomputed from what it summarises and compared with it.
//! Not here: the checks of tables, jobs and turns, which are beside their state.
//! Bounds: O(state); for tests and simulation.

use std::collections::BTreeSet;

use crate::ChunkId;
use crate::abm::Abm;
use crate::table::per_device::PerDevice;
use crate::table::scan::Scan;
use crate::table::{Pinner, Table};

impl Abm {
    /// Checks every invariant, in O(state). For tests and simulation.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let used: u64 = self.state.tables.values().map(Table::check).sum();
        assert_eq!(used, self.state.used, "ABM-I3: bytes are accounted for");
        for scan in self.state.scans.values() {
            self.check_scan(scan);
        }
        self.check_turns();
        self.check_jobs();
        for (device, &loads) in &self.state.outstanding {
            let counted = self
                .loads
                .values()
                .flatten()
                .filter(|load| load.device == *device)
                .count();
            assert_eq!(loads, counted);
            assert!(
                loads <= self.state.loads_max,
                "a device has at most loads_max loads"
            );
        }
    }

    fn check_scan(&self, scan: &Scan) {
        let table = self.state.table(scan.table);
        let mut needed = BTreeSet::new();
        for part in &scan.parts {
            assert_eq!(table.slot(part.slot).scan, scan.id);
            let (mut needs, mut coming) = (PerDevice::default(), PerDevice::default());
            let runs = table.interests().runs(part.slot, 0..u32::MAX);
            for chunk in runs.flatten().map(ChunkId) {
                assert!(needed.insert(chunk), "parts are disjoint");
                assert!(!scan.held.contains_key(&chunk), "ABM-I5");
                assert!(
                    !scan.lapsed.contains(&chunk),
                    "ABM-I5: a lapsed chunk was handed out"
                );
                let place = table.place(chunk);
                let comes = part.columns.is_subset(&table.group(chunk).coming);
                needs.add(place, 1);
                coming.add(place, usize::from(comes));
            }
            let counted = table.slot(part.slot);
            for place in 0..table.devices.len() {
                let at = |counts: &PerDevice| counts.at(place);
                assert_eq!(at(&needs), at(&counted.needed), "ABM-I11: needed chunks");
                assert_eq!(
                    at(&coming),
                    at(&counted.coming),
                    "ABM-I11: available chunks"
                );
                let starved = self.state.starved_of(scan, place);
                let noted = table.starved_of(place).contains(part.slot);
                assert_eq!(
                    starved, noted,
                    "ABM-I11: starvation is known device by device"
                );
            }
            assert_eq!(table.waiting.contains(part.slot), scan.waiting > 0);
            assert_eq!(table.starved.contains(part.slot), scan.starved);
            assert_eq!(table.almost.contains(part.slot), scan.almost);
            assert_eq!(table.stalled.contains(part.slot), scan.stalled);
        }
        check_lapsed(table, scan);
        let starved = self.state.is_short(scan, scan.lookahead);
        assert_eq!(starved, scan.starved, "starvation is known");
        assert_eq!(starved, self.state.hungry.contains(&scan.id));
        let almost = self.state.is_short(scan, scan.lookahead + 1);
        assert_eq!(almost, scan.almost, "almost starvation is known");
        let timed = self.stalls.contains(&(self.stall_time(scan), scan.id));
        assert_eq!(
            timed,
            scan.waiting == 0 && !scan.stalled,
            "a silent scan has a deadline"
        );
    }
}

fn check_lapsed(table: &Table, scan: &Scan) {
    for chunk in &scan.lapsed {
        assert!(!scan.held.contains_key(chunk), "a lapsed chunk is not held");
        let pins = table.pins.get(chunk).into_iter().flat_map(|pins| &pins.by);
        let mut by_it = pins.filter(|(pinner, _)| *pinner == Pinner::Scan(scan.id));
        assert!(
            by_it.next().is_none(),
            "ABM-I8: a lapsed chunk is not pinned"
        );
    }
}
