//! Which pages are in an LRU memory of fixed size?
//!
//! Idea: slots in a doubly linked list from the most to the least recently used, and a map from
//! pages to slots. Places can be *promised* to pages under way; the resident pages have the rest of
//! the places, at least one.
//! Bounds: O(1) per operation; `capacity` slots.
//! LRU-L1: the list and the map hold the same pages, at most `capacity` without the promised
//! places.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// A page in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) page: u32,
    /// The number of changes to the page when this copy was made.
    pub(crate) version: u32,
    /// Whether the copy is not on disk.
    pub(crate) dirty: bool,
}

#[derive(Debug)]
struct Slot {
    copy: Copy,
    /// The slot with the next more recent use.
    newer: u32,
    older: u32,
}

/// A memory of pages with LRU replacement.
#[derive(Debug)]
pub(crate) struct Lru {
    capacity: usize,
    promised: usize,
    at: IndexMap<u32, u32, FxBuildHasher>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

/// No slot.
const NONE: u32 = u32::MAX;

impl Lru {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity.max(1) as usize,
            promised: 0,
            at: IndexMap::with_hasher(FxBuildHasher),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// The copy of a page; does not count as a use.
    pub(crate) fn peek(&self, page: u32) -> Option<Copy> {
        let slot = *self.at.get(&page)?;
        Some(self.slots[slot as usize].copy)
    }

    /// The copy of a page, which becomes the most recently used.
    pub(crate) fn touch(&mut self, page: u32) -> Option<Copy> {
        let slot = *self.at.get(&page)?;
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
        Some(self.slots[slot as usize].copy)
    }

    /// Inserts a copy, in place of an older copy of the page. Returns the evicted copy, if any.
    pub(crate) fn insert(&mut self, copy: Copy) -> Option<Copy> {
        if self.touch(copy.page).is_some() {
            self.slots[self.newest as usize].copy = copy;
            return None;
        }
        let gone = (self.at.len() >= self.room()).then(|| self.remove_oldest());
        let slot = Slot {
            copy,
            newer: NONE,
            older: NONE,
        };
        let at = if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            at
        } else {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("LRU-L1: capacity is a u32")
        };
        self.link(at);
        self.at.insert(copy.page, at);
        gone
    }

    /// Promises this many more places to pages under way.
    pub(crate) fn promise(&mut self, pages: usize) {
        self.promised += pages;
        while self.at.len() > self.room() {
            self.remove_oldest();
        }
    }

    /// Ends the promise of this many places; their pages are inserted next.
    pub(crate) fn redeem(&mut self, pages: usize) {
        self.promised -= pages;
    }

    /// The number of places for resident pages.
    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.promised).max(1)
    }

    fn remove_oldest(&mut self) -> Copy {
        let oldest = self.slots[self.oldest as usize].copy;
        self.remove(oldest.page);
        oldest
    }

    /// Removes a page.
    pub(crate) fn remove(&mut self, page: u32) -> Option<Copy> {
        let slot = self.at.swap_remove(&page)?;
        self.unlink(slot);
        self.free.push(slot);
        Some(self.slots[slot as usize].copy)
    }

    /// Checks LRU-L1.
    pub(crate) fn check(&self) {
        let mut listed = 0;
        let mut slot = self.newest;
        while slot != NONE {
            let page = self.slots[slot as usize].copy.page;
            assert_eq!(
                self.at.get(&page),
                Some(&slot),
                "LRU-L1: a listed page is mapped"
            );
            listed += 1;
            slot = self.slots[slot as usize].older;
        }
        assert_eq!(listed, self.at.len(), "LRU-L1: a mapped page is listed");
        assert!(listed <= self.room(), "LRU-L1: at most what there is");
    }

    fn link(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        self.slots[slot as usize].older = older;
        self.slots[slot as usize].newer = NONE;
        match older {
            NONE => self.oldest = slot,
            older => self.slots[older as usize].newer = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn clean(page: u32) -> Copy {
        Copy {
            page,
            version: 0,
            dirty: false,
        }
    }

    #[test]
    fn it_is_what_a_list_in_order_of_use_is() {
        let mut random = Random::new(3);
        let (mut lru, mut list) = (Lru::new(7), Vec::new());
        let mut promised: usize = 0;
        for _ in 0..20_000 {
            let page = u32::try_from(random.below(20)).unwrap();
            let known = list.iter().position(|&other| other == page);
            let room = 7_usize.saturating_sub(promised).max(1);
            match random.below(7) {
                0 => {
                    assert_eq!(lru.remove(page).is_some(), known.is_some());
                    list.retain(|&other| other != page);
                }
                1 => {
                    assert_eq!(lru.touch(page).is_some(), known.is_some());
                    if let Some(at) = known {
                        list.remove(at);
                        list.push(page);
                    }
                }
                2 if promised < 12 => {
                    let pages = usize::try_from(page % 4).unwrap();
                    promised += pages;
                    lru.promise(pages);
                    let room = 7_usize.saturating_sub(promised).max(1);
                    list.drain(..list.len().saturating_sub(room));
                }
                3 => lru.redeem(std::mem::take(&mut promised)),
                _ => {
                    let gone = lru.insert(clean(page)).map(|copy| copy.page);
                    list.retain(|&other| other != page);
                    list.push(page);
                    let expected = (list.len() > room).then(|| list.remove(0));
                    assert_eq!(gone, expected);
                }
            }
            lru.check();
        }
    }
}
