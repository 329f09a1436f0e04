//! Every invariant, counted anew.

use std::collections::BTreeSet;

use crate::abm::Abm;
use crate::table::groups::Group;
use crate::table::scan::Scan;
use crate::table::{Pinner, Table};
use crate::{ChunkId, ColumnSet, Policy};

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
        self.check_turns();
        self.check_jobs();
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
        let mut needed = BTreeSet::new();
        for part in &scan.parts {
            assert_eq!(table.slot(part.slot).scan, scan.id);
            let mut coming = 0;
            let runs = table.interests().runs(part.slot, 0..u32::MAX);
            for chunk in runs.flatten().map(ChunkId) {
                assert!(needed.insert(chunk), "parts are disjoint");
                assert!(!scan.held.contains_key(&chunk), "I5");
                assert!(
                    !scan.lapsed.contains(&chunk),
                    "I5: a lapsed chunk was handed out"
                );
                coming += usize::from(part.columns.is_subset(&table.group(chunk).coming));
            }
            let counted = table.slot(part.slot).coming;
            assert_eq!(coming, counted, "available chunks are counted right");
            assert_eq!(table.waiting.contains(part.slot), scan.waiting > 0);
            assert_eq!(table.starved.contains(part.slot), scan.starved);
            assert_eq!(table.almost.contains(part.slot), scan.almost);
            assert_eq!(table.stalled.contains(part.slot), scan.stalled);
        }
        for chunk in &scan.lapsed {
            assert!(!scan.held.contains_key(chunk), "a lapsed chunk is not held");
            let pins = table.pins.get(chunk).into_iter().flat_map(|pins| &pins.by);
            let mut by_it = pins.filter(|(pinner, _)| *pinner == Pinner::Scan(scan.id));
            assert!(by_it.next().is_none(), "I8: a lapsed chunk is not pinned");
        }
        let starved = !scan.stalled && self.available(scan) < scan.lookahead;
        assert_eq!(starved, scan.starved, "starvation is known");
        assert_eq!(starved, self.hungry.contains(&scan.id));
        let almost = !scan.stalled && self.available(scan) <= scan.lookahead;
        assert_eq!(almost, scan.almost, "almost starvation is known");
        let timed = self.stalls.contains(&(self.stall_time(scan), scan.id));
        assert_eq!(
            timed,
            scan.waiting == 0 && !scan.stalled,
            "a silent scan has a deadline"
        );
    }
}

impl Table {
    /// Bytes resident or loading, counted anew, and every invariant of the table.
    pub(crate) fn check(&self) -> u64 {
        let mut members = 0;
        let mut used = 0;
        for group in self.groups.iter() {
            let state = &group.state;
            members += group.members.len();
            assert!(group.members.len() > 0, "a group has members");
            assert!(
                !state.resident.intersects(&state.loading),
                "I1: a segment is loading at most once"
            );
            group.members.check(self.interests());
            for chunk in group.members.iter() {
                used += self.check_chunk(chunk, group);
            }
        }
        assert_eq!(members, self.chunks.len(), "groups partition the chunks");
        let listed: usize = self.chunks.iter().map(|chunk| chunk.listed.len()).sum();
        assert_eq!(self.victims.len(), listed);
        if self.policy == Policy::PbmSampling {
            let victims: BTreeSet<_> = self.victims.iter().map(|&(_, c, col)| (c, col)).collect();
            assert!(self.idle_list.check().into_iter().eq(victims));
        }
        self.interests().check();
        used + self.check_extents()
    }

    fn check_chunk(&self, id: ChunkId, group: &Group) -> u64 {
        let chunk = &self.chunks[id.0 as usize];
        assert_eq!(&self.group(id).state, &group.state, "it is in its group");
        let victims = self.victim_columns(&self.idle(id), self.interest(id));
        assert_eq!(chunk.listed, victims);
        let pins = self.pins.get(&id);
        assert_eq!(group.state.pinned, pins.is_some());
        let by = pins.into_iter().flat_map(|pins| &pins.by);
        let pinned: ColumnSet = by.flat_map(|(_, columns)| columns.iter()).collect();
        assert_eq!(
            pinned,
            pins.map(|pins| pins.columns.clone()).unwrap_or_default()
        );
        assert_eq!(group.state.pinned, !pinned.is_empty());
        assert!(!victims.intersects(&pinned), "I2: victim is pinned");
        let resident = &group.state.resident;
        assert!(
            pinned.is_subset(resident),
            "I2: pinned columns are in memory"
        );
        let used: ColumnSet = chunk.last_use.iter().map(|&(column, _)| column).collect();
        assert_eq!(used, group.state.resident);
        for &(column, seq) in &chunk.last_use {
            let listed = self.victims.contains(&(seq, id, column));
            assert_eq!(listed, victims.contains(column));
        }
        group
            .coming
            .iter()
            .map(|column| self.own_bytes(id, column))
            .sum()
    }
}
