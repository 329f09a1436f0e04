//! Which owners wait for which, and is there a cycle?
//!
//! Nodes are owners: queries and runs. An owner with a waiting packet waits for others: at a full
//! list for the owners of the slowest packets there, at an empty list for the run. A run waits for
//! the owners of its packets, because it has no thread and makes progress when one of them polls
//! it. A cycle with a full list in it may be a deadlock; it need not be one, because an owner may
//! read several packets at a time, and another packet may poll the run. No packet has to wait at a
//! materialised list. Of all sets of lists that break the cycles, the cheapest is materialised; the
//! cost is what its lists retain. That is correct even where there was no deadlock.
//! Cycles are searched for when a wait begins and when a packet arrives. No other event adds an
//! edge: when the slowest packet changes, the packets that wait for it are woken.
//! Bounds: with more than `CANDIDATES_MAX` candidates all are materialised, because weighing n
//! lists takes 2^n walks.
//! OPS-I6: no cycle remains.
//! Source: [QPipe05 §4.3.3].

use std::collections::BTreeSet;

use super::packet::{Packet, Wait};
use super::{Operators, Owner, PacketId, RunId};

/// The most lists that are weighed against each other.
const CANDIDATES_MAX: usize = 8;

/// A list: the partition of a run.
type ListOf = (RunId, usize);

impl<K: Ord + Clone> Operators<K> {
    /// Begins a wait of a packet.
    pub(super) fn wait(&mut self, id: PacketId, partition: usize, wait: Wait) {
        self.set_wait(id, partition, Some(wait));
        self.resolve();
    }

    pub(super) fn set_wait(&mut self, id: PacketId, partition: usize, wait: Option<Wait>) {
        let place = self.place_mut(id, partition);
        let was = std::mem::replace(&mut place.wait, wait);
        self.waits_full += u64::from(wait == Some(Wait::Full));
        self.waits_full -= u64::from(was == Some(Wait::Full));
    }

    /// The packets that are the farthest behind in a list.
    pub(super) fn slowest(&self, id: RunId, partition: usize) -> Vec<PacketId> {
        let run = self.run(id);
        let front = run.lists[partition].front();
        let readers = run.packets.iter().filter_map(|id| {
            let place = &self.packets[id].places[partition];
            (!place.closed && place.next < front).then_some((place.next, *id))
        });
        let readers: Vec<(u64, PacketId)> = readers.collect();
        let least = readers.iter().map(|(next, _)| *next).min();
        let slow = readers.iter().filter(|(next, _)| Some(*next) == least);
        slow.map(|(_, id)| *id).collect()
    }

    /// Materialises lists until no owner is in a cycle.
    pub(super) fn resolve(&mut self) {
        // Without a full list there is no cycle.
        if self.waits_full == 0 {
            return;
        }
        let candidates = self.in_circles(&BTreeSet::new());
        let Some((first, _)) = candidates.first().copied() else {
            return;
        };
        let kind = self.run(first).kind;
        self.done(kind).deadlocks += 1;
        let cost = |list: &ListOf| self.run(list.0).lists[list.1].memory();
        let mut sets: Vec<(u64, BTreeSet<ListOf>)> = Vec::new();
        if candidates.len() <= CANDIDATES_MAX {
            for mask in 1_u32..1 << candidates.len() {
                let picked = (0..).zip(&candidates);
                let picked = picked.filter(|(bit, _)| mask >> bit & 1 == 1);
                let set: BTreeSet<ListOf> = picked.map(|(_, list)| *list).collect();
                sets.push((set.iter().map(cost).sum(), set));
            }
            sets.sort();
        }
        let breaks = |(_, set): &(u64, BTreeSet<ListOf>)| self.in_circles(set).is_empty();
        let least = sets.into_iter().find(breaks);
        for (run, partition) in least.map_or(candidates, |(_, set)| set) {
            self.materialise(run, partition);
        }
    }

    /// The full lists in cycles, where the lists in `materialised` count as not full.
    pub(super) fn in_circles(&self, materialised: &BTreeSet<ListOf>) -> BTreeSet<ListOf> {
        let mut found = BTreeSet::new();
        for packet in self.packets.values() {
            for (to, list) in self.waits_of(packet, materialised) {
                if let Some(list) = list
                    && !found.contains(&list)
                    && self.leads(to, packet.owner, materialised)
                {
                    found.insert(list);
                }
            }
        }
        found
    }

    /// Whether `from` is `to`, or waits for it directly or indirectly.
    fn leads(&self, from: Owner, to: Owner, materialised: &BTreeSet<ListOf>) -> bool {
        let mut seen = BTreeSet::from([from]);
        let mut to_visit = vec![from];
        while let Some(owner) = to_visit.pop() {
            if owner == to {
                return true;
            }
            let mut next: Vec<Owner> = Vec::new();
            for id in self.owners.get(&owner).into_iter().flatten() {
                let waits = self.waits_of(&self.packets[id], materialised);
                next.extend(waits.into_iter().map(|(to, _)| to));
            }
            if let Owner::Run(run) = owner
                && let Some(run) = self.runs.get(&run)
            {
                next.extend(run.packets.iter().map(|id| self.packets[id].owner));
            }
            to_visit.extend(next.into_iter().filter(|owner| seen.insert(*owner)));
        }
        false
    }

    /// The owners that a packet waits for, each with the list if the list is full.
    fn waits_of(
        &self,
        packet: &Packet,
        materialised: &BTreeSet<ListOf>,
    ) -> Vec<(Owner, Option<ListOf>)> {
        let mut waits = Vec::new();
        let Some(run) = packet.run else { return waits };
        for (partition, place) in packet.places.iter().enumerate() {
            let list = (run, partition);
            match place.wait {
                Some(Wait::Empty) => waits.push((Owner::Run(run), None)),
                Some(Wait::Full) => {
                    let off = self.run(run).lists[partition].materialised;
                    if !off && !materialised.contains(&list) {
                        let slow = self.slowest(run, partition);
                        let slow = slow.iter().map(|id| self.packets[id].owner);
                        waits.extend(slow.map(|owner| (owner, Some(list))));
                    }
                }
                None => {}
            }
        }
        waits
    }
}
