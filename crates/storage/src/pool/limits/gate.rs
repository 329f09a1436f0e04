//! How many chunks are being decoded at once?
//!
//! A chunk in decode takes memory that no frame accounts for: decompressed pages, dictionaries and
//! a window of arrays, for each column. For 64 connections of two streams each that would be more
//! than all frames together, and no faster on a few cores. So a consumer passes a gate before it
//! works on a chunk. A second consumer of an open chunk costs almost nothing, because decode is
//! shared: consumers of the same chunk pass together. The estimate is too low if the readers of a
//! chunk are far apart, because all arrays between them are kept; so the gate also stays closed
//! while the arrays in use exceed the capacity by themselves. A waiting consumer may take the
//! passes of consumers that have gone silent (`../scans/place.rs`), so a consumer that stops
//! reading does not hold up others (I8).
//! Bounds: the open chunks' estimates stay within the capacity, but one chunk may always be open.
//! The gate lets a consumer in after `PATIENCE` without a chunk closing, so slow readers delay it
//! no longer than that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coscan_core::{ChunkId, TableId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::silent::{WANTED_AFTER, Watched};
use crate::memory::MemoryBudget;

/// The part of the memory limit that chunks in decode may take, as a divisor.
const IN_DECODE: u64 = 4;

/// What one column of a chunk in decode takes: a decompressed page and a dictionary of up to 1 MiB
/// each, half a megabyte of arrays.
pub(crate) const COLUMN_BYTES: u64 = 2 << 20;

/// The longest that a consumer waits while no chunk closes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A chunk in one of the process's pools.
pub(crate) type GateKey = (usize, TableId, ChunkId);

#[derive(Debug, Default)]
struct Open {
    /// By chunk: the number of leases, and the largest of their estimates.
    chunks: BTreeMap<GateKey, (usize, u64)>,
    bytes: u64,
}

/// Limits the memory of chunks in decode.
#[derive(Debug)]
pub(crate) struct Gate {
    memory: Arc<MemoryBudget>,
    watched: Arc<Watched>,
    open: Mutex<Open>,
    closed: Notify,
}

/// Permission to decode a chunk; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    key: GateKey,
}

impl Gate {
    pub(crate) fn new(memory: Arc<MemoryBudget>, watched: Arc<Watched>) -> Arc<Self> {
        Arc::new(Self {
            memory,
            watched,
            open: Mutex::default(),
            closed: Notify::new(),
        })
    }

    /// Waits until the consumer may work on the chunk. Cancel safe.
    pub(crate) async fn enter(self: &Arc<Self>, key: GateKey, bytes: u64) -> Pass {
        if !self.try_enter(key, bytes, false) {
            self.wait(key, bytes).await;
        }
        Pass {
            gate: Arc::clone(self),
            key,
        }
    }

    async fn wait(&self, key: GateKey, bytes: u64) {
        let patience = tokio::time::sleep(PATIENCE);
        tokio::pin!(patience);
        loop {
            let closed = self.closed.notified();
            tokio::pin!(closed);
            // Registered before `try_enter`, so that a chunk that closes in between is not missed.
            closed.as_mut().enable();
            if self.try_enter(key, bytes, false) {
                return;
            }
            tokio::select! {
                () = closed => patience.as_mut().reset(Instant::now() + PATIENCE),
                // Takes the passes of silent consumers first.
                () = tokio::time::sleep(WANTED_AFTER) => self.watched.lapse_silent(Some(WANTED_AFTER)),
                () = &mut patience => {
                    self.try_enter(key, bytes, true);
                    return;
                }
            }
        }
    }

    /// How many chunks are open.
    pub(crate) fn open_chunks(&self) -> usize {
        self.open.lock().chunks.len()
    }

    fn try_enter(&self, key: GateKey, bytes: u64, force: bool) -> bool {
        let mut open = self.open.lock();
        let (leases, held) = open.chunks.get(&key).copied().unwrap_or_default();
        let more = bytes.saturating_sub(held);
        // A raised limit takes effect for the next caller, and for waiting callers when a chunk
        // closes or their patience ends.
        let capacity = self.memory.limit() / IN_DECODE;
        let full = open.bytes + more > capacity || self.memory.read_array_bytes() > capacity;
        if leases == 0 && !force && open.bytes > 0 && full {
            return false;
        }
        open.bytes += more;
        open.chunks.insert(key, (leases + 1, held + more));
        true
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut open = self.gate.open.lock();
        if let Some((leases, bytes)) = open.chunks.get_mut(&self.key) {
            *leases -= 1;
            if *leases == 0 {
                let bytes = *bytes;
                open.bytes -= bytes;
                open.chunks.remove(&self.key);
                drop(open);
                self.gate.closed.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(chunk: u32) -> GateKey {
        (0, TableId(0), ChunkId(chunk))
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_chunk_is_shared_and_a_new_one_waits() {
        let gate = Gate::new(MemoryBudget::new(10 * IN_DECODE), Arc::default());
        let first = gate.enter(key(0), 8).await;
        let again = gate.enter(key(0), 8).await;
        let begun = tokio::time::Instant::now();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter(key(1), 8).await }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(!waiting.is_finished());
        drop((first, again));
        let second = waiting.await.unwrap();
        assert!(begun.elapsed() < PATIENCE);
        // No lease is dropped: the next consumer is still let in, but later.
        let begun = tokio::time::Instant::now();
        drop(gate.enter(key(2), 8).await);
        assert!(begun.elapsed() >= PATIENCE);
        drop(second);
        assert_eq!(gate.open.lock().bytes, 0);
    }
}
