//! Which owners wait for which, and is there a cycle?
//!
//! Nodes are owners (queries and runs) and full lists. An owner with a waiting packet waits for
//! others: at an empty list for the run, at a full list for the owners of the slowest packets
//! there. A run waits for the owners of its packets, because it has no thread and makes progress
//! when one of them polls it. A cycle with a full list in it may be a deadlock; it need not be
//! one, because an owner may read several packets at a time, and another packet may poll the run.
//! No packet has to wait at a materialised list. Of all sets of lists that break the cycles, the
//! cheapest is materialised; the cost of a list is what it retains. That is correct even if there
//! was no deadlock.
//!
//! An owner's cycles are searched for when it begins a wait and when its packet arrives. No other
//! event adds an edge (when the slowest packet changes, the packets that wait for it are woken),
//! so every new cycle leads through that owner, and the cheapest set is a minimum cut between the
//! owner and itself (`min_cut.rs`).
//! Bounds: a search is linear in the waits that it follows from the owner, and in the packets of
//! their runs.
//! OPS-I6: no cycle remains.
//! Source: [QPipe05 §4.3.3].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::min_cut::min_cut;
use super::packet::Wait;
use super::{Operators, Owner, PacketId, RunId};

/// A list: the partition of a run.
type ListOf = (RunId, usize);

/// A node of the waits-for graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Owner(Owner),
    /// A full list that a packet waits at.
    Full(ListOf),
}

impl<K: Ord + Clone> Operators<K> {
    /// Begins a wait of a packet.
    pub(super) fn wait(&mut self, id: PacketId, partition: usize, wait: Wait) {
        self.set_wait(id, partition, Some(wait));
        self.resolve(self.packets[&id].owner);
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

    /// Materialises lists until no full list is in a cycle with this owner.
    pub(super) fn resolve(&mut self, owner: Owner) {
        // Without a full list there is no cycle.
        if self.waits_full == 0 {
            return;
        }
        let (nodes, edges) = self.cycles_of(owner);
        let costs: Vec<Option<u64>> = nodes.iter().map(|node| self.cost(*node)).collect();
        let cut = min_cut(&costs, &edges);
        let Some(Node::Full((first, _))) = cut.first().map(|node| nodes[*node]) else {
            return;
        };
        let kind = self.run(first).kind;
        self.done(kind).deadlocks += 1;
        for node in cut {
            if let Node::Full((run, partition)) = nodes[node] {
                self.materialise(run, partition);
            }
        }
    }

    /// The full lists in a cycle with an owner.
    pub(super) fn full_in_cycles_of(&self, owner: Owner) -> Vec<ListOf> {
        let (nodes, _) = self.cycles_of(owner);
        let list = |node| match node {
            Node::Full(list) => Some(list),
            Node::Owner(_) => None,
        };
        nodes.into_iter().filter_map(list).collect()
    }

    /// What materialising the node costs; `None` if it is not a list.
    fn cost(&self, node: Node) -> Option<u64> {
        match node {
            // Plus 1, so that as few lists as possible are chosen, even if they retain nothing.
            Node::Full((run, partition)) => Some(self.run(run).lists[partition].memory() + 1),
            Node::Owner(_) => None,
        }
    }

    /// The nodes that an owner leads to and that lead back to it, the owner first, and for each the
    /// nodes that it waits for.
    fn cycles_of(&self, owner: Owner) -> (Vec<Node>, Vec<Vec<usize>>) {
        let mut nodes = vec![Node::Owner(owner)];
        let mut numbers = BTreeMap::from([(nodes[0], 0)]);
        let mut edges: Vec<Vec<usize>> = Vec::new();
        let mut back: Vec<Vec<usize>> = vec![Vec::new()];
        while let Some(node) = nodes.get(edges.len()).copied() {
            let from = edges.len();
            let mut to = Vec::new();
            for next in self.waits_of(node) {
                let number = match numbers.entry(next) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => {
                        nodes.push(next);
                        back.push(Vec::new());
                        *new.insert(nodes.len() - 1)
                    }
                };
                to.push(number);
                back[number].push(from);
            }
            edges.push(to);
        }
        let mut leads_back = vec![false; nodes.len()];
        let mut to_visit = vec![0];
        while let Some(node) = to_visit.pop() {
            if !std::mem::replace(&mut leads_back[node], true) {
                to_visit.extend(&back[node]);
            }
        }
        let kept = (0..nodes.len()).filter(|node| leads_back[*node]);
        let mut renumbered = vec![0; nodes.len()];
        kept.clone()
            .zip(0..)
            .for_each(|(node, number)| renumbered[node] = number);
        let edges = kept.clone().map(|node| {
            let to = edges[node].iter().filter(|to| leads_back[**to]);
            to.map(|to| renumbered[*to]).collect()
        });
        (
            kept.clone().map(|node| nodes[node]).collect(),
            edges.collect(),
        )
    }

    /// The nodes that a node waits for.
    fn waits_of(&self, node: Node) -> Vec<Node> {
        let owner = match node {
            Node::Full((run, partition)) => {
                let slowest = self.slowest(run, partition);
                let owners = slowest.iter().map(|id| self.packets[id].owner);
                return owners.map(Node::Owner).collect();
            }
            Node::Owner(owner) => owner,
        };
        let mut waits = Vec::new();
        for id in self.owners.get(&owner).into_iter().flatten() {
            let packet = &self.packets[id];
            let Some(run) = packet.run else { continue };
            for (partition, place) in packet.places.iter().enumerate() {
                match place.wait {
                    Some(Wait::Empty) => waits.push(Node::Owner(Owner::Run(run))),
                    Some(Wait::Full) if !self.run(run).lists[partition].materialised => {
                        waits.push(Node::Full((run, partition)));
                    }
                    Some(Wait::Full) | None => {}
                }
            }
        }
        if let Owner::Run(run) = owner
            && let Some(run) = self.runs.get(&run)
        {
            let owners = run.packets.iter().map(|id| self.packets[id].owner);
            waits.extend(owners.map(Node::Owner));
        }
        waits
    }
}
