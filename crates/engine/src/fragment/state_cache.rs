//! Which states are kept of chunks that were already processed?
//!
//! States are small and independent of order, so a chunk's state can replace its rows as long as
//! the file is the same. A dashboard that refreshes, or a query that another user has already
//! asked, takes the states and reads only chunks without one: new files, ends of ranges.
//! Not here: what a key contains (`evaluation/work.rs`); when the cache is read (`member.rs`).
//! Bounds: at most the bytes that the inserting session allows (`coscan.state_cache`), counted in
//! the engine's memory budget. The first victims are states that are cheap to recompute per byte,
//! and states that were not used for long [GreedyDual-Size: Cao, Irani, USITS 1997]. The whole
//! cache is reclaimed before an operator is refused memory.
//! I9: a state is found only under the version of its file, its chunk and the key of its work.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::RecordBatch;
use coscan_core::memory::HolderId;
use coscan_storage::device::FileVersion;
use coscan_storage::pool::{ChunkInfo, MemoryBudget, Reclaim};
use parking_lot::Mutex;

use super::evaluation::Key;

/// Identifies the state of one chunk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StateKey {
    store: Arc<str>,
    file: FileVersion,
    chunk_bytes: u64,
    chunk: usize,
    work: Key,
}

/// States of chunks, for all queries of an engine.
pub(crate) struct StateCache {
    memory: Arc<MemoryBudget>,
    holder: HolderId,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Arc<StateKey>, Entry>,
    /// Entries by worth, then by number: the first one is the next victim.
    order: BTreeMap<(u64, u64), Arc<StateKey>>,
    bytes: u64,
    next: u64,
    /// The largest worth of a victim so far, to which the price of an entry is added when it is
    /// inserted or used.
    floor: u64,
    counts: Counts,
}

struct Entry {
    states: RecordBatch,
    bytes: u64,
    /// The nanoseconds that it took to compute, per KiB.
    price: u64,
    place: (u64, u64),
}

/// Counts of what the cache holds and has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) states: usize,
    pub(crate) bytes: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) evicted: u64,
}

impl StateCache {
    /// An empty cache that gives its memory back when the budget reclaims it.
    pub(crate) fn new(memory: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            holder: memory.retains(Weak::clone(own) as Weak<dyn Reclaim>),
            memory: Arc::clone(memory),
            inner: Mutex::default(),
        })
    }

    /// The state that this work left of a chunk, if the cache has it.
    pub(crate) fn find(&self, chunk: &ChunkInfo, work: &Key) -> Option<RecordBatch> {
        let key = key_of(chunk, work);
        let mut inner = self.inner.lock();
        let Inner {
            entries,
            order,
            next,
            floor,
            counts,
            ..
        } = &mut *inner;
        let Some((name, _)) = entries.get_key_value(&key) else {
            counts.misses += 1;
            return None;
        };
        let name = Arc::clone(name);
        let entry = entries.get_mut(&key)?;
        counts.hits += 1;
        order.remove(&entry.place);
        *next += 1;
        entry.place = (floor.saturating_add(entry.price), *next);
        order.insert(entry.place, name);
        Some(entry.states.clone())
    }

    /// Keeps the state that a work left of a chunk, with the time that it took to compute. The
    /// cache may hold `bytes_max`.
    pub(crate) fn insert(
        &self,
        chunk: &ChunkInfo,
        work: &Key,
        states: &RecordBatch,
        took: Duration,
        bytes_max: u64,
    ) {
        let key = Arc::new(key_of(chunk, work));
        let bytes = (states.get_array_memory_size() + work.bytes() + ENTRY_BYTES) as u64;
        if bytes > bytes_max / ENTRIES_MIN {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.entries.contains_key(&key) {
            return;
        }
        let mut freed = 0;
        while inner.bytes + bytes > bytes_max {
            match inner.evict_one() {
                Some(bytes) => freed += bytes,
                None => break,
            }
        }
        // The lock is not held here, because the budget may ask this cache to give memory back.
        drop(inner);
        self.memory.give_back(self.holder, freed);
        if !self.memory.try_keep(self.holder, bytes) {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.entries.contains_key(&key) {
            drop(inner);
            return self.memory.give_back(self.holder, bytes);
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let price = nanoseconds / (bytes / 1024).max(1);
        inner.next += 1;
        let place = (inner.floor.saturating_add(price), inner.next);
        inner.order.insert(place, Arc::clone(&key));
        inner.bytes += bytes;
        let states = states.clone();
        inner.entries.insert(
            key,
            Entry {
                states,
                bytes,
                price,
                place,
            },
        );
    }

    /// Counts of what the cache holds and has done.
    pub(crate) fn counts(&self) -> Counts {
        let inner = self.inner.lock();
        Counts {
            states: inner.entries.len(),
            bytes: inner.bytes,
            ..inner.counts
        }
    }
}

/// Bytes of an entry in addition to its arrays and its key: maps, file name.
const ENTRY_BYTES: usize = 512;
/// The cache has room for at least this many states; a larger state is not kept.
const ENTRIES_MIN: u64 = 16;

impl Inner {
    /// Drops the entry of least worth and returns its bytes.
    fn evict_one(&mut self) -> Option<u64> {
        let ((worth, _), key) = self.order.pop_first()?;
        self.floor = self.floor.max(worth);
        let entry = self.entries.remove(&key)?;
        self.bytes -= entry.bytes;
        self.counts.evicted += 1;
        Some(entry.bytes)
    }
}

impl Reclaim for StateCache {
    fn reclaim(&self, bytes: u64) {
        let mut freed = 0;
        let mut inner = self.inner.lock();
        while freed < bytes {
            match inner.evict_one() {
                Some(bytes) => freed += bytes,
                None => break,
            }
        }
        drop(inner);
        self.memory.give_back(self.holder, freed);
    }
}

impl Drop for StateCache {
    fn drop(&mut self) {
        self.memory
            .give_back(self.holder, self.inner.get_mut().bytes);
    }
}

fn key_of(chunk: &ChunkInfo, work: &Key) -> StateKey {
    StateKey {
        store: chunk.file.store().into(),
        file: chunk.file.version().clone(),
        chunk_bytes: chunk.file.chunk_bytes(),
        chunk: chunk.file_chunk,
        work: work.clone(),
    }
}
