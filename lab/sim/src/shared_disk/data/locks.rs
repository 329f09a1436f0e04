//! Which owners hold a relation or a page, and which wait?
//!
//! Idea: hierarchical locks. A scan locks the relation in S; an owner that locks pages first locks
//! the relation in an intention mode. The table is one structure, although every resource belongs
//! to the node with the global lock authority over it (primary copy locking): the driver models the
//! messages between nodes (`world.rs`), and the table only says which owners wait and which get
//! their lock.
//! Not here: deadlocks. Locks are requested in one order (relation, then pages ascending), so there
//! are none (K2).
//! K1: any two holders of a resource are compatible. K2: an owner waits for at most one resource,
//! and for none that precedes one of its own in that order. K3: no owner overtakes a waiting one.
//! Source: [RahmStohr94 §3 "Concurrency and coherency control"].

use std::collections::VecDeque;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// A lockable resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Resource {
    /// The scanned relation with its index.
    Relation,
    Page(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    IntentShared,
    IntentExclusive,
    Shared,
    Exclusive,
}

impl Mode {
    fn with(self, other: Self) -> bool {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (IntentShared, _) | (_, IntentShared) => true,
            (IntentExclusive, IntentExclusive) | (Shared, Shared) => true,
            (IntentExclusive, Shared) | (Shared, IntentExclusive) => false,
        }
    }
}

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<(u32, Mode)>,
    waiting: VecDeque<(u32, Mode)>,
}

/// The lock tables of all nodes. Owners are jobs.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    table: IndexMap<Resource, Lock, FxBuildHasher>,
}

impl Locks {
    /// Requests a lock. True if the owner has it now; otherwise it waits until a release names it.
    pub(crate) fn ask(&mut self, owner: u32, resource: Resource, mode: Mode) -> bool {
        let lock = self.table.entry(resource).or_default();
        let free = lock.waiting.is_empty() && lock.holders.iter().all(|&(_, held)| held.with(mode));
        if free {
            lock.holders.push((owner, mode));
        } else {
            lock.waiting.push_back((owner, mode));
        }
        free
    }

    /// Releases a lock. Returns the waiting owners that have it now.
    pub(crate) fn release(&mut self, owner: u32, resource: Resource) -> Vec<u32> {
        let mut granted = Vec::new();
        let Some(lock) = self.table.get_mut(&resource) else {
            return granted;
        };
        lock.holders.retain(|&(holder, _)| holder != owner);
        while let Some(&(next, mode)) = lock.waiting.front() {
            if !lock.holders.iter().all(|&(_, held)| held.with(mode)) {
                break;
            }
            lock.waiting.pop_front();
            lock.holders.push((next, mode));
            granted.push(next);
        }
        if lock.holders.is_empty() {
            self.table.swap_remove(&resource);
        }
        granted
    }

    /// The number of waiting owners.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.table.values().map(|lock| lock.waiting.len()).sum()
    }

    /// Checks K1 and K3, and that every waiting owner has a holder to wait for.
    pub(crate) fn check(&self) {
        for (resource, lock) in &self.table {
            assert!(
                !lock.holders.is_empty(),
                "K3: {resource:?} has waiting owners but no holder"
            );
            for (at, &(_, mode)) in lock.holders.iter().enumerate() {
                let others = lock.holders[..at].iter();
                assert!(
                    others.clone().all(|&(_, held)| held.with(mode)),
                    "K1: {resource:?}"
                );
            }
            if let Some(&(_, mode)) = lock.waiting.front() {
                let free = lock.holders.iter().all(|&(_, held)| held.with(mode));
                assert!(!free, "K3: the first of {resource:?} could go on");
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)] // Test values are small.
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn scans_share_and_writers_wait_in_turn() {
        let mut locks = Locks::default();
        assert!(locks.ask(1, Resource::Relation, Mode::Shared));
        assert!(locks.ask(2, Resource::Relation, Mode::Shared));
        assert!(!locks.ask(3, Resource::Relation, Mode::IntentExclusive));
        assert!(
            !locks.ask(4, Resource::Relation, Mode::Shared),
            "K3: not past 3"
        );
        locks.check();
        assert_eq!(locks.release(1, Resource::Relation), [0; 0]);
        assert_eq!(locks.release(2, Resource::Relation), [3]);
        assert_eq!(locks.release(3, Resource::Relation), [4]);
        locks.check();
    }

    #[test]
    fn owners_that_ask_in_one_order_all_go_on() {
        let mut random = Random::new(9);
        let mut locks = Locks::default();
        // (locks still to be requested, locks requested, whether the last of these is awaited).
        let mut owners: Vec<(Vec<u32>, Vec<u32>, bool)> = (0..50)
            .map(|_| {
                let mut pages: Vec<u32> = (0..4).map(|_| random.below(12) as u32).collect();
                pages.sort_unstable();
                pages.dedup();
                pages.reverse();
                (pages, Vec::new(), false)
            })
            .collect();
        let mut ended = 0;
        for _ in 0..10_000 {
            let at = random.below(50) as usize;
            if owners[at].2 {
                continue;
            }
            if let Some(page) = owners[at].0.pop() {
                owners[at].1.push(page);
                let owner = at as u32;
                owners[at].2 = !locks.ask(owner, Resource::Page(page), Mode::Exclusive);
            } else {
                ended += usize::from(!owners[at].1.is_empty());
                for page in std::mem::take(&mut owners[at].1) {
                    for granted in locks.release(at as u32, Resource::Page(page)) {
                        owners[granted as usize].2 = false;
                    }
                }
            }
            locks.check();
        }
        assert_eq!((ended, locks.waiting()), (50, 0), "K2");
    }
}
