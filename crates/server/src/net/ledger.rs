//! How much memory may a client make its connection hold?
//!
//! Messages, statements and plans are as long as the client likes. The server reserves the memory
//! for each here before it builds it, so that a server with a budget stays within it, and no
//! connection holds more than its share.
//! Not here: rows in transit (S2), and the memory of operators, which reserve it themselves.
//!
//! L1: a connection holds at most `most` bytes; all connections and the engine together hold at
//! most the pool's limit, and each connection its first `assured` bytes beyond that.
//! L2: the first `assured` bytes of a connection are never refused, so that a client can connect,
//! end its transaction and send an ordinary query whatever queries hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use crate::failure::{Failure, OUT_OF_MEMORY};

/// The most that a connection may hold, as a divisor of the memory.
const SHARE: usize = 2;
/// The most that a connection may hold if the memory has no limit.
const UNLIMITED_BYTES: usize = 4 << 30;
/// What a connection may hold in any case, as a divisor of the memory, and the most bytes: an
/// idle connection and a query of TPC-H, whose real memory is a part of what is estimated for it.
const ASSURED_SHARE: usize = 256;
const ASSURED_MAX: usize = 512 << 10;

/// The account of one connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Ledger {
    pool: Arc<dyn MemoryPool>,
    held: Arc<AtomicUsize>,
    most: usize,
    assured: usize,
}

/// A reservation. Dropping this frees the memory.
pub(crate) struct Held {
    /// Returns the memory to the pool when dropped.
    _reservation: MemoryReservation,
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Ledger {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        let (most, assured) = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => (limit / SHARE, limit / ASSURED_SHARE),
            _ => (UNLIMITED_BYTES, ASSURED_MAX),
        };
        Self {
            pool: Arc::clone(pool),
            held: Arc::default(),
            most,
            assured: assured.min(ASSURED_MAX),
        }
    }

    /// Reserves `bytes` for something that is about to be built.
    pub(crate) fn hold(&self, what: &'static str, bytes: usize) -> Result<Held, Failure> {
        // A connection handles one message at a time, so no other reservation comes before the
        // addition below.
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
        if held <= self.assured {
            reservation.grow(bytes);
        } else {
            reservation.try_grow(bytes)?;
        }
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

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn a_connection_is_bounded_by_its_share_and_all_by_the_pool() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let (one, other) = (Ledger::new(&pool), Ledger::new(&pool));
        let held = one.hold("a", 400).unwrap();
        assert!(one.hold("a", 200).is_err(), "L1: its share");
        let more = other.hold("b", 500).unwrap();
        assert!(one.hold("a", 101).is_err(), "L1: the pool");
        drop(more);
        let last = one.hold("a", 100).unwrap();
        drop((held, last));
        assert_eq!(pool.reserved(), 0);
        assert_eq!(one.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_first_bytes_of_a_connection_are_never_refused() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(ASSURED_SHARE * 10));
        let queries = MemoryConsumer::new("queries").register(&pool);
        queries.try_grow(ASSURED_SHARE * 10).unwrap();
        let connection = Ledger::new(&pool);
        let held = connection.hold("a connection", 8).unwrap();
        assert!(connection.hold("a statement", 3).is_err(), "L1");
        let rollback = connection.hold("a statement", 2).unwrap();
        drop((held, rollback));
        assert_eq!(pool.reserved(), ASSURED_SHARE * 10);
    }
}
