//! What is left for others to reuse, and who gives it back?
//!
//! Not here: whether there is room for it, and when it must go (`budget.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use coscan_core::memory::HolderId;
use parking_lot::Mutex;

/// A holder that can give memory back.
pub trait Reclaim: Send + Sync {
    /// Gives back at least `bytes` bytes by
    /// [`MemoryBudget::give_back`](super::MemoryBudget::give_back), or all it has. The caller holds
    /// no lock of the budget.
    fn reclaim(&self, bytes: u64);
}

/// What is retained, which says where it counts.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// What queries computed: counts with the memory of operators.
    Results,
    /// What statements were parsed to: belongs to no operator and to no connection.
    Statements,
}

/// What one holder retains.
struct Of {
    bytes: u64,
    what: Left,
    from: Weak<dyn Reclaim>,
}

/// What all holders retain. The counts are the sums of theirs.
#[derive(Default)]
pub(super) struct Retained {
    holders: Mutex<BTreeMap<HolderId, Of>>,
    results: AtomicU64,
    statements: AtomicU64,
}

impl Retained {
    /// Adds a holder that has nothing yet.
    pub(super) fn add(&self, holder: HolderId, what: Left, from: Weak<dyn Reclaim>) {
        let bytes = 0;
        let of = Of { bytes, what, from };
        self.holders.lock().insert(holder, of);
    }

    /// Counts more bytes of a holder that may have `room` in all; false if it would have more.
    pub(super) fn try_keep(&self, holder: HolderId, bytes: u64, room: u64) -> bool {
        let mut holders = self.holders.lock();
        let of = holders.get_mut(&holder);
        let Some(of) = of.filter(|of| of.bytes + bytes <= room) else {
            return false;
        };
        of.bytes += bytes;
        self.count(of.what).fetch_add(bytes, Ordering::Relaxed);
        true
    }

    /// Counts bytes of a holder as freed.
    pub(super) fn give_back(&self, holder: HolderId, bytes: u64) {
        if let Some(of) = self.holders.lock().get_mut(&holder) {
            of.bytes -= bytes;
            self.count(of.what).fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn count(&self, what: Left) -> &AtomicU64 {
        match what {
            Left::Results => &self.results,
            Left::Statements => &self.statements,
        }
    }

    /// The bytes of each holder.
    pub(super) fn by_holder(&self) -> Vec<(HolderId, u64)> {
        let holders = self.holders.lock();
        holders.iter().map(|(id, of)| (*id, of.bytes)).collect()
    }

    /// Who gives a holder's bytes back, if it is still there.
    pub(super) fn owner(&self, holder: HolderId) -> Option<Arc<dyn Reclaim>> {
        self.holders.lock().get(&holder)?.from.upgrade()
    }

    pub(super) fn result_bytes(&self) -> u64 {
        self.results.load(Ordering::Relaxed)
    }

    pub(super) fn statement_bytes(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }
}
