//! What is the state of each page request that the core knows of?
//!
//! Not here: where requests come from, and what is read (`../tables/page_read.rs`).

use std::collections::BTreeMap;
use std::task::Waker;

use coscan_core::PageRequestId;

use crate::StorageError;

/// The state of an announced request.
pub(crate) enum PageSlot {
    /// The core counts the request; the pool reads the pages itself.
    Queued,
    /// A load will bring the page.
    Awaited(Option<Waker>),
    /// The page's chunk is in memory, pinned.
    Served,
    Failed(StorageError),
    /// A load will bring the page, but the request was dropped.
    Abandoned,
}

/// All page requests that the core knows of.
#[derive(Default)]
pub(crate) struct PageRequests {
    pub(crate) slots: BTreeMap<PageRequestId, PageSlot>,
    pub(crate) next: u64,
    /// Dropped requests that the core has served; they must be released.
    pub(super) unwanted: Vec<PageRequestId>,
}

impl PageRequests {
    /// The core serves the page from its chunk. Returns the request's waker.
    pub(super) fn served(&mut self, id: PageRequestId) -> Option<Waker> {
        match self.slots.insert(id, PageSlot::Served) {
            Some(PageSlot::Awaited(waker)) => waker,
            Some(PageSlot::Abandoned) => {
                self.slots.remove(&id);
                self.unwanted.push(id);
                None
            }
            _ => None,
        }
    }

    /// A load will bring the page.
    pub(super) fn awaited(&mut self, id: PageRequestId) {
        if let Some(slot @ PageSlot::Queued) = self.slots.get_mut(&id) {
            *slot = PageSlot::Awaited(None);
        }
    }

    /// The load that should have brought the page failed. Returns the request's waker.
    pub(super) fn failed(&mut self, id: PageRequestId, error: StorageError) -> Option<Waker> {
        match self.slots.insert(id, PageSlot::Failed(error)) {
            Some(PageSlot::Awaited(waker)) => waker,
            Some(PageSlot::Abandoned) | None => {
                self.slots.remove(&id);
                None
            }
            _ => None,
        }
    }

    /// The core that knew the requests is gone: fails all waiting requests with `error`. Returns
    /// their wakers.
    pub(crate) fn fail_all(&mut self, error: &StorageError) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.unwanted.clear();
        self.slots
            .retain(|_, slot| !matches!(slot, PageSlot::Abandoned));
        for slot in self.slots.values_mut() {
            if let PageSlot::Awaited(waker) = slot {
                wakers.extend(waker.take());
                *slot = PageSlot::Failed(error.clone());
            }
        }
        wakers
    }
}
