//! Who holds memory, and has to give it back if its consumer does not come?
//!
//! Idea: whatever pins frames or holds a pass for a consumer is on a list; the pool's clock and
//! those who wait at the gate go through it.
//! Not here: what silence is, and what is given back (`place.rs`; the engine's reads of single
//! pages).
//! Bounds: an entry for each chunk in a consumer's hands, and for each read of pages under way.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::BufferPool;

/// Silence after which a place (`place.rs`) lapses while somebody waits at the gate.
pub(crate) const WANTED_AFTER: Duration = Duration::from_millis(100);

/// A consumer whose tries were all in vain waits at most two to the power of this times as long as
/// the first.
pub(crate) const DOUBLINGS_MAX: u32 = 6;

/// Something that holds memory for a consumer.
pub trait Lapses: Send + Sync {
    /// Gives the memory back if the consumer has been silent for long: for
    /// [`super::PoolConfig::lapse_after`], or for `wanted_after` if somebody waits for it.
    fn lapse_if_silent(&self, now: Instant, wanted_after: Option<Duration>);
}

/// By number.
type Entries = BTreeMap<u64, Weak<dyn Lapses>>;

/// All that may lapse in a process.
#[derive(Default)]
pub(crate) struct Watched {
    list: Mutex<(u64, Entries)>,
}

/// An entry of the list. It leaves when this is dropped.
pub struct Watch {
    list: Arc<Watched>,
    number: u64,
}

impl BufferPool {
    /// Has this asked, as long as the entry lives, whether its consumer is silent.
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

    /// Lets those lapse whose consumers are silent. Not to be called under a lock.
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
