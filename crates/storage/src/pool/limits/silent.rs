//! Which consumers hold memory that the pool takes back when they go silent?
//!
//! Idea: a list holds everything that pins frames or holds a pass for a consumer. The pool's tick,
//! and consumers that wait at the gate, go through the list.
//! Not here: what counts as silence, and which memory is given back (`../scans/place.rs`; the
//! engine's reads of single pages).
//! Bounds: one entry per chunk in a consumer's hands, and per page read under way.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::pool::BufferPool;

/// Silence after which a place (`../scans/place.rs`) lapses while another consumer waits at the
/// gate.
pub(crate) const WANTED_AFTER: Duration = Duration::from_millis(100);

/// The patience with a consumer that keeps coming back too late doubles at most this many times.
pub(crate) const DOUBLINGS_MAX: u32 = 6;

/// Something that holds memory for a consumer.
pub trait Lapses: Send + Sync {
    /// Gives the memory back if the consumer has been silent for
    /// [`crate::pool::PoolConfig::lapse_after`], or for `wanted_after` if another consumer waits
    /// for memory.
    fn lapse_if_silent(&self, now: Instant, wanted_after: Option<Duration>);
}

/// The list's entries, by number.
type Entries = BTreeMap<u64, Weak<dyn Lapses>>;

/// Everything in a process that may lapse.
#[derive(Default)]
pub(crate) struct Watched {
    list: Mutex<(u64, Entries)>,
}

/// An entry of the list. Dropping it removes the entry.
pub struct Watch {
    list: Arc<Watched>,
    number: u64,
}

impl BufferPool {
    /// Lists `it` as something that may lapse, for as long as the returned entry lives.
    #[must_use]
    pub fn watch(&self, it: Weak<dyn Lapses>) -> Watch {
        Watched::enter(&self.inner.shared.watched, it)
    }
}

impl Watched {
    pub(crate) fn enter(list: &Arc<Self>, it: Weak<dyn Lapses>) -> Watch {
        let mut entries = list.list.lock();
        entries.0 += 1;
        let number = entries.0;
        entries.1.insert(number, it);
        Watch {
            list: Arc::clone(list),
            number,
        }
    }

    /// Makes every entry lapse whose consumer is silent. Call it without holding a lock.
    pub(crate) fn lapse_silent(&self, wanted_after: Option<Duration>) {
        let all: Vec<Weak<dyn Lapses>> = self.list.lock().1.values().cloned().collect();
        let now = Instant::now();
        for entry in all.iter().filter_map(Weak::upgrade) {
            entry.lapse_if_silent(now, wanted_after);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.list.list.lock().1.remove(&self.number);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({})", self.number)
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watched({})", self.list.lock().1.len())
    }
}
