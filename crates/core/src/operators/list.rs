//! The output of one partition of a run, and which batches of it are retained.
//!
//! Not here: the readers (`packet.rs`), when batches are dropped (`retain.rs`).
//! OPS-I2: `batches` are exactly the batches from `first` to the front.

use std::collections::VecDeque;

use super::PacketId;

/// The output of one partition.
#[derive(Clone, Debug)]
pub(super) struct List {
    /// The number of the first batch that is retained.
    pub(super) first: u64,
    pub(super) batches: VecDeque<Batch>,
    pub(super) producer: Producer,
    /// Whether batches that do not fit in memory go to disk; then no packet has to wait at this
    /// list.
    pub(super) materialised: bool,
}

/// A batch that is retained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) bytes: u64,
    pub(super) on_disk: bool,
}

/// The state of the stream that fills a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Producer {
    /// The stream can be polled.
    Ready,
    /// OPS-I3: a packet polls the stream. `woken`: the stream has announced meanwhile that it has
    /// more.
    Polled { by: PacketId, woken: bool },
    /// The stream had no batch, and will announce the next one.
    Pending,
    /// The stream has ended.
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

    /// The number of the next batch to be produced.
    pub(super) fn front(&self) -> u64 {
        self.first + self.batches.len() as u64
    }

    /// Drops batches before `first`; returns the bytes of memory that this frees.
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

    /// Bytes that the list retains in memory.
    pub(super) fn memory(&self) -> u64 {
        let in_memory = self.batches.iter().filter(|batch| !batch.on_disk);
        in_memory.map(|batch| batch.bytes).sum()
    }
}
