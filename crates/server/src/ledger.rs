//! The memory that a connection makes the server hold, counted toward what everything shares.
//!
//! Messages, statements and plans are as long as the client likes. Each is entered here before it
//! is built, so that a server with a budget keeps within it, and so that no connection holds more
//! than its share.
//! Not here: rows in transit (S2), and the memory of operators, which reserve it themselves.
//!
//! L1: a connection holds at most `most` bytes; all connections and the engine together hold at
//! most the pool's limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use crate::failure::{Failure, OUT_OF_MEMORY};

/// One connection's account. Clones share the account.
#[derive(Clone)]
pub(crate) struct Ledger {
    pool: Arc<dyn MemoryPool>,
    held: Arc<AtomicUsize>,
    most: usize,
}

/// Memory that is held. Dropping this gives it back.
pub(crate) struct Held {
    /// Gives the memory back to the pool when it is dropped.
    _reservation: MemoryReservation,
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Ledger {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let most = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / SHARE,
            _ => UNLIMITED_BYTES,
        };
        Self {
            pool: Arc::clone(pool),
            held: Arc::default(),
            most,
        }
    }

    /// Enters `bytes` for something that is about to be built.
    pub(crate) fn hold(&self, what: &'static str, bytes: usize) -> Result<Held, Failure> {
        // A connection handles one message at a time, so no other entry comes before the addition
        // below.
        let held = self.held.load(Ordering::Relaxed).saturating_add(bytes);
        if held > self.most {
            let most = self.most;
            return Err(Failure::new(
                OUT_OF_MEMORY,
                format!(
                    "{what} needs {bytes} bytes, and a connection may hold {most}: \
                     use shorter statements, close prepared ones, or give the server more memory"
                ),
            ));
        }
        let reservation = MemoryConsumer::new(what).register(&self.pool);
        reservation.try_grow(bytes)?;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Ok(Held {
            _reservation: reservation,
            held: Arc::clone(&self.held),
            bytes,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A connection holds at most this part of the memory, as a divisor.
const SHARE: usize = 2;
/// What a connection may hold if the memory has no limit.
const UNLIMITED_BYTES: usize = 4 << 30;

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn a_connection_has_a_part_and_all_have_the_whole() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let (one, other) = (Ledger::new(&pool), Ledger::new(&pool));
        let held = one.hold("a", 400).unwrap();
        assert!(one.hold("a", 200).is_err(), "L1: its part");
        let more = other.hold("b", 500).unwrap();
        assert!(one.hold("a", 101).is_err(), "L1: the whole");
        drop(more);
        let last = one.hold("a", 100).unwrap();
        drop((held, last));
        assert_eq!(pool.reserved(), 0);
        assert_eq!(one.held.load(Ordering::Relaxed), 0);
    }
}
