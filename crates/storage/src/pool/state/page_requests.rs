//! Where is each page request that the core knows of?
//!
//! Not here: who asks, and what is read (`../page_read.rs`).

use std::collections::BTreeMap;
use std::task::Waker;

use coscan_core::PageRequestId;

use crate::StorageError;

/// Where an announced request is.
pub(crate) enum PageSlot {
    /// The core counts it; the driver reads.
    Queued,
    /// A load brings it.
    Awaited(Option<Waker>),
    /// Its chunk is in memory, pinned.
    Served,
    Failed(StorageError),
    /// A load brings it, but nobody wants it any more.
    Abandoned,
}

/// All of them.
#[derive(Default)]
pub(crate) struct PageRequests {
    pub(crate) slots: BTreeMap<PageRequestId, PageSlot>,
    pub(crate) next: u64,
    /// Those that the core serves though nobody wants them any more: to be taken back.
    pub(super) unwanted: Vec<PageRequestId>,
}

impl PageRequests {
    /// The core serves a page from its chunk. Gives who waits for it.
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

    /// A load brings the page.
    pub(super) fn awaited(&mut self, id: PageRequestId) {
        if let Some(slot @ PageSlot::Queued) = self.slots.get_mut(&id) {
            *slot = PageSlot::Awaited(None);
        }
    }

    /// The load that was to bring it failed. Gives who waits for it.
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

    /// The core that knew them is gone: who waits is told why. Gives who waits.
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
