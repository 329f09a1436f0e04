//! Every invariant, counted anew.

use crate::abm::Abm;
use crate::scan::Scan;
use crate::table::Table;

impl Abm {
    /// Every invariant, in O(state). For tests and simulation.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let used: u64 = self.tables.values().map(Table::check).sum();
        assert_eq!(used, self.used, "I3: bytes are accounted for");
        for scan in self.scans.values() {
            self.check_scan(scan);
        }
        for (device, &loads) in &self.outstanding {
            let counted = self
                .loads
                .values()
                .flatten()
                .filter(|load| load.device == *device)
                .count();
            assert_eq!(loads, counted);
            assert!(
                loads <= self.config.loads_max,
                "a device has at most loads_max loads"
            );
        }
    }

    fn check_scan(&self, scan: &Scan) {
        let table = self.table(scan.table);
        let mut coming = 0;
        let mut needed = 0;
        for part in &scan.parts {
            assert_eq!(table.slot(part.slot).scan, scan.id);
            needed += part.needed.len();
            for chunk in part.needed.iter() {
                assert!(table.interest(chunk).contains(part.slot));
                assert!(scan.needed.contains(chunk));
                coming += usize::from(part.columns.is_subset(&table.group(chunk).coming));
            }
            assert_eq!(table.starved.contains(part.slot), scan.starved);
            assert_eq!(table.stalled.contains(part.slot), scan.stalled);
        }
        assert_eq!(needed, scan.needed.len(), "parts are disjoint");
        assert_eq!(coming, scan.coming, "available chunks are counted right");
        let starved = !scan.stalled && self.available(scan) < scan.lookahead();
        assert_eq!(starved, scan.starved, "starvation is known");
        let timed = self.stalls.contains(&(self.stall_time(scan), scan.id));
        assert_eq!(
            timed,
            scan.waiting == 0 && !scan.stalled,
            "a silent scan has a deadline"
        );
        assert!(
            scan.held.iter().all(|chunk| !scan.needed.contains(*chunk)),
            "I5"
        );
    }
}
