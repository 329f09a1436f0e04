//! What one partition of a run has produced, and what of it is retained.
//!
//! Not here: who reads it (`packet.rs`), when something goes (`retain.rs`).
//! OPS-I2: `batches` are exactly those from `first` to the front.

use std::collections::VecDeque;

use super::PacketId;

/// The output of one partition.
#[derive(Clone, Debug)]
pub(super) struct List {
    /// The number of the first batch that is retained.
    pub(super) first: u64,
    pub(super) batches: VecDeque<Batch>,
    pub(super) producer: Producer,
    /// Whether what does not fit in memory goes to disk; then nobody is held here.
    pub(super) materialised: bool,
}

/// A batch that is retained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) bytes: u64,
    pub(super) on_disk: bool,
}

/// Where the stream is that a list is filled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Producer {
    /// To be polled.
    Ready,
    /// OPS-I3: somebody polls it. `woken`: it said meanwhile that it has more.
    Polled { by: PacketId, woken: bool },
    /// It had nothing and will say when it has.
    Pending,
    /// It has given everything.
    Ended,
}

impl List {
    pub(super) fn new() -> Self {
        Self {
            first: 0,
            batches: VecDeque::new(),
            producer: Producer::Ready,
            materialised: false,
        }
    }

    /// The number of the next batch that will be produced.
    pub(super) fn front(&self) -> u64 {
        self.first + self.batches.len() as u64
    }

    /// Drops batches before `first`, and says how many bytes of memory that were.
    pub(super) fn drop_before(&mut self, first: u64) -> u64 {
        let mut freed = 0;
        while self.first < first {
            let Some(batch) = self.batches.pop_front() else {
                break;
            };
            self.first += 1;
            if !batch.on_disk {
                freed += batch.bytes;
            }
        }
        freed
    }

    /// Bytes that it retains in memory.
    pub(super) fn memory(&self) -> u64 {
        let in_memory = self.batches.iter().filter(|batch| !batch.on_disk);
        in_memory.map(|batch| batch.bytes).sum()
    }
}
