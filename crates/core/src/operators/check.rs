//! Does every invariant of the shared operators hold?
//!
//! Idea: the counts and indexes of [`Operators`](super::Operators) are recomputed from its runs
//! and packets and compared with them.
//! Bounds: O(packets² × partitions); for tests and simulation.

use std::collections::BTreeSet;

use super::list::Producer;
use super::packet::Wait;
use super::{Operators, Window};

impl<K: Ord + Clone> Operators<K> {
    /// Checks every invariant, in O(packets² × partitions). For tests and simulation.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let memory: u64 = self.runs.values().map(|run| run.memory).sum();
        assert_eq!(memory, self.memory, "OPS-I5: bytes of all runs");
        self.check_runs();
        self.check_kept();
        self.check_packets();
        for (key, run) in &self.open {
            let run = &self.runs[run];
            assert!(
                run.window_open && run.key == *key,
                "OPS-I4: it can be joined"
            );
        }
    }

    fn check_runs(&self) {
        for (id, run) in &self.runs {
            assert_eq!(
                run.packets.is_empty(),
                run.kept.is_some(),
                "OPS-I7: a run has a packet, or is kept"
            );
            let memory: u64 = run.lists.iter().map(super::list::List::memory).sum();
            assert_eq!(memory, run.memory, "OPS-I5: bytes of a run");
            let registered = self.open.get(&run.key) == Some(id);
            assert_eq!(registered, run.window_open, "OPS-I4: open runs are found");
            if run.window_open {
                assert!(!run.failed, "OPS-I4: it has not failed");
                let whole = run.lists.iter().all(|list| list.first == 0);
                assert!(whole, "OPS-I4: it retains everything");
                let spike = run.kind.window() == Window::Spike;
                let begun = run.lists.iter().any(|list| list.front() > 0);
                assert!(
                    !(spike && begun),
                    "OPS-I4: a spike ends with the first batch"
                );
            }
            if run.window_open && run.packets.len() == 1 {
                assert!(
                    run.memory <= self.config.run_bytes_max,
                    "OPS-I5: retained for a window alone"
                );
            }
            for (partition, list) in run.lists.iter().enumerate() {
                let places = run.packets.iter();
                let places = places.map(|packet| &self.packets[packet].places[partition]);
                let nexts = places.filter(|place| !place.closed).map(|place| place.next);
                let least = nexts.clone().min().unwrap_or(list.front());
                if !run.failed {
                    assert!(least >= list.first, "OPS-I2: what is needed is retained");
                    let kept = if run.window_open { 0 } else { least };
                    assert!(list.first >= kept, "OPS-I2: what is retained is needed");
                }
                assert!(
                    nexts.into_iter().all(|next| next <= list.front()),
                    "OPS-I1: no packet is beyond the front"
                );
                if let Producer::Polled { by, .. } = list.producer {
                    assert!(
                        run.packets.contains(&by),
                        "OPS-I3: one of its packets polls"
                    );
                }
            }
        }
    }

    fn check_kept(&self) {
        let kept = self.runs.iter().filter(|(_, run)| run.kept.is_some());
        let (mut count, mut memory, mut overhead) = (0, 0, 0);
        for (id, run) in kept {
            let worth = run.kept.expect("filtered");
            assert!(
                self.kept.contains(worth, *id),
                "OPS-I7: kept runs are found"
            );
            let ended = run
                .lists
                .iter()
                .all(|list| list.producer == Producer::Ended);
            assert!(run.window_open && ended, "OPS-I7: it has ended, whole");
            let on_disk = run.lists.iter().flat_map(|list| &list.batches);
            assert!(on_disk.into_iter().all(|batch| !batch.on_disk), "OPS-I7");
            count += 1;
            memory += run.memory;
            overhead += run.overhead_bytes;
        }
        assert_eq!(count, self.kept.len(), "OPS-I7: kept runs are counted");
        assert_eq!(memory, self.kept.memory, "OPS-I5: bytes of kept runs");
        assert_eq!(memory + overhead, self.kept.bytes, "OPS-I5: with overhead");
    }

    fn check_packets(&self) {
        let mut full = 0;
        for (id, packet) in &self.packets {
            assert!(
                self.owners[&packet.owner].contains(id),
                "owners are indexed"
            );
            if let Some(run) = packet.run {
                assert!(self.runs[&run].packets.contains(id), "OPS-I1: of one run");
            } else {
                assert!(packet.is_untouched(), "OPS-I8: it has taken nothing");
            }
            let waits = packet.places.iter().filter(|p| p.wait == Some(Wait::Full));
            full += waits.count() as u64;
        }
        assert_eq!(full, self.waits_full, "full lists are counted");
        let owned: usize = self.owners.values().map(BTreeSet::len).sum();
        assert_eq!(owned, self.packets.len(), "owners are indexed");
        for owner in self.owners.keys() {
            let cycles = self.full_in_cycles_of(*owner);
            assert!(cycles.is_empty(), "OPS-I6: in cycles: {cycles:?}");
        }
    }
}
