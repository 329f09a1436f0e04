//! What a connection makes the server hold, counted toward the memory that everything shares.
//!
//! Messages, statements and plans are as long as the client likes. Each is entered here before it
//! is made, so that a server with a budget keeps within it, and so that no connection has more than
//! a part.
//! Not here: rows on their way (S2), and what operators hold, which reserve it themselves.
//!
//! L1: what a connection holds is at most `most`, and with all others and the engine at most the
//! pool's limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use crate::failure::Failure;

/// One connection's account. Clones are the same account.
#[derive(Clone)]
pub(crate) struct Ledger {
    pool: Arc<dyn MemoryPool>,
    held: Arc<AtomicUsize>,
    most: usize,
}

/// Something that is held. It is given back when this is dropped.
pub(crate) struct Held {
    /// Gives back to the pool by itself.
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

    /// Enters something, before it is made.
    pub(crate) fn hold(&self, what: &'static str, bytes: usize) -> Result<Held, Failure> {
        // One connection handles one message at a time: nobody enters anything in between.
        let held = self.held.load(Ordering::Relaxed).saturating_add(bytes);
        if held > self.most {
            let most = self.most;
            return Err(Failure::new(
                "53200",
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

/// A connection has at most this part of the memory, as a divisor.
const SHARE: usize = 2;
/// What a connection may hold where nobody set a limit.
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
