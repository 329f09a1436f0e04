//! When are all hash tables of a query complete?
//!
//! A query that waits for its minimum is promised the tables of its joins by estimate, and would
//! keep the promise until its first rows, though most estimates are too high: a join that probes a
//! table of a few KiB with ten million rows runs for seconds. A join reads the rows that it probes
//! with only when its table is complete. So once each stream of each join has returned something,
//! or has been dropped, no table grows any more. Then the query needs what it has, and batches.
//!
//! Plans have a node above each join already (`plan/yielding_joins.rs`). The streams of these nodes
//! are counted before the plan starts, and each tells once that it has come so far (`telling.rs`).
//! Not here: the estimate (`session/minimum.rs`).
//! Bounds: one event for a stream. Where a stream is not opened, because another query runs the
//! operator above it, the count does not get to zero, and the promise lasts until the first rows.
//! None are counted where a stream may be opened twice, which would be told twice.
//! The same holds for a query that came back after a refusal: it needs more than its estimate.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The streams of joins that a query waits for.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Those that have returned nothing yet; 0 if none are counted.
    streams: AtomicUsize,
    /// What the plan needs beside its tables, in bytes.
    batches: AtomicU64,
}

impl Tables {
    pub(super) fn await_streams(&self, streams: usize, batches: u64) {
        self.batches.store(batches, Ordering::Relaxed);
        self.streams.store(streams, Ordering::Release);
    }

    /// A stream has come so far. If it is the last one: what the plan needs beside its tables.
    pub(super) fn one_is_there(&self) -> Option<u64> {
        let less = |left: usize| left.checked_sub(1);
        let before = self
            .streams
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        (before == Ok(1)).then(|| self.batches.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_stream_ends_the_wait() {
        let tables = Tables::default();
        assert_eq!(tables.one_is_there(), None, "none are counted");
        tables.await_streams(2, 7);
        assert_eq!(tables.one_is_there(), None);
        assert_eq!(tables.one_is_there(), Some(7));
        assert_eq!(tables.one_is_there(), None, "once");
    }
}
