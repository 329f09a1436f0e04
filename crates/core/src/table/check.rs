//! Does every invariant of a table hold?
//!
//! Idea: groups, counts and sets are recomputed from the chunks and compared with them.
//! Bounds: O(table); for tests and simulation.

use std::collections::BTreeSet;

use crate::table::Table;
use crate::table::groups::Group;
use crate::{ChunkId, ColumnSet};

impl Table {
    /// Checks every invariant of the table; returns the recomputed bytes resident or loading.
    pub(crate) fn check(&self) -> u64 {
        let mut members = 0;
        let mut used = 0;
        for group in self.groups.iter() {
            let state = &group.state;
            members += group.members.len();
            assert!(group.members.len() > 0, "a group has members");
            assert!(
                !state.resident.intersects(&state.loading),
                "ABM-I1: a segment is loading at most once"
            );
            group.members.check(self.interests());
            for chunk in group.members.iter() {
                used += self.check_chunk(chunk, group);
            }
        }
        assert_eq!(members, self.chunks.len(), "groups partition the chunks");
        let listed: usize = self.chunks.iter().map(|chunk| chunk.listed.len()).sum();
        assert_eq!(self.victims.len(), listed);
        if self.upkeep.idle_counts {
            let victims: BTreeSet<_> = self.victims.iter().map(|&(_, c, col)| (c, col)).collect();
            let counted = (0..self.idle_count()).filter_map(|place| self.idle_segment(place));
            assert!(counted.eq(victims), "each idle segment has its place");
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
        assert!(!victims.intersects(&pinned), "ABM-I2: victim is pinned");
        let resident = &group.state.resident;
        assert!(
            pinned.is_subset(resident),
            "ABM-I2: pinned columns are in memory"
        );
        let known: ColumnSet = chunk.residences.iter().map(|s| s.column).collect();
        assert_eq!(known, group.state.resident);
        for segment in &chunk.residences {
            let key = (segment.last_use, id, segment.column);
            let listed = self.victims.contains(&key);
            assert_eq!(listed, victims.contains(segment.column));
        }
        group
            .coming
            .iter()
            .map(|column| self.held_bytes(id, column))
            .sum()
    }
}
