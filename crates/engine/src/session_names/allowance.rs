//! How much memory may the tables and names hold that sessions create?
//!
//! Every byte is reserved in the engine's memory pool, so a table in memory evicts chunks and
//! makes operators spill as an operator's memory does. What restricted sessions create stays while
//! they are idle, so there is a second bound: all of it together holds at most a part of the
//! budget, and the rest serves queries.
//! O1: the pool and the allowance have granted all memory that is held, and get it back when its
//! owner is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_pg::PgError;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// The part of the budget, as a divisor, that restricted sessions may hold: idle data should take
/// much less memory than running queries.
const SHARE: usize = 4;
/// How much of a growth becomes the account's at a time.
const STEP_BYTES: usize = 1 << 20;

/// The memory that all restricted sessions of a server hold together.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    held: AtomicUsize,
}

impl Allowance {
    /// Takes `bytes` if they fit into `limit`. The error is the number of bytes already held.
    fn take(&self, bytes: usize, limit: usize) -> Result<(), usize> {
        let taken = |held: usize| held.checked_add(bytes).filter(|all| *all <= limit);
        let update = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        update.map(drop)
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory of one table, or of one session's names.
#[derive(Debug)]
pub(crate) struct Held {
    reservation: MemoryReservation,
    pool: Arc<dyn MemoryPool>,
    /// `None`: only the pool limits it.
    allowance: Option<Arc<Allowance>>,
}

impl Held {
    /// An account that holds nothing yet. Messages call it `what`.
    pub(crate) fn new(
        what: String,
        pool: &Arc<dyn MemoryPool>,
        allowance: Option<Arc<Allowance>>,
    ) -> Self {
        Self {
            reservation: MemoryConsumer::new(what).register(pool),
            pool: Arc::clone(pool),
            allowance,
        }
    }

    /// Takes more memory.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the pool has no more, 53200 if the allowance has no more.
    pub(crate) fn try_grow(&self, bytes: usize) -> Result<()> {
        self.grow_in(&self.reservation, bytes)
    }

    /// Takes more memory with the reservation, which will be this account's.
    fn grow_in(&self, reservation: &MemoryReservation, bytes: usize) -> Result<()> {
        let Some(allowance) = &self.allowance else {
            return reservation.try_grow(bytes);
        };
        let limit = match self.pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / SHARE,
            _ => usize::MAX,
        };
        allowance.take(bytes, limit).map_err(|held| {
            let (name, has) = (self.reservation.consumer().name(), self.bytes());
            let told = format!(
                "{name} needs {bytes} more bytes, and has {has}; what sessions make in memory may hold {limit} bytes together, a quarter of coscan.memory, and holds {held}"
            );
            DataFusionError::from(PgError::new("53200", told))
        })?;
        let grown = reservation.try_grow(bytes);
        grown.inspect_err(|_| allowance.give_back(bytes))
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
        if let Some(allowance) = &self.allowance {
            allowance.give_back(bytes);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.reservation.size()
    }

    /// Starts a growth. Memory that it gets is given back unless the growth is kept.
    pub(crate) fn growth(self: &Arc<Self>) -> Growth {
        self.growth_in(&self.pool)
    }

    /// As [`Held::growth`], by a query: until it is kept, its memory is the query's, in `pool`.
    pub(crate) fn growth_in(self: &Arc<Self>, pool: &Arc<dyn MemoryPool>) -> Growth {
        let name = self.reservation.consumer().name();
        Growth {
            held: Arc::clone(self),
            taken: MemoryConsumer::new(name).register(pool),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(allowance) = &self.allowance {
            allowance.give_back(self.reservation.size());
        }
    }
}

/// The memory that a running statement has got. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct Growth {
    held: Arc<Held>,
    taken: MemoryReservation,
}

impl Growth {
    /// # Errors
    /// As [`Held::try_grow`].
    pub(crate) fn add(&mut self, bytes: usize) -> Result<()> {
        self.held.grow_in(&self.taken, bytes)
    }

    /// Makes the memory the account's.
    pub(crate) fn keep(self) {
        // Another query may take what is between the two accounts, so little is at any time.
        while self.taken.size() > 0 {
            let step = self.taken.size().min(STEP_BYTES);
            self.taken.shrink(step);
            self.held.reservation.grow(step);
        }
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        if let Some(allowance) = &self.held.allowance {
            allowance.give_back(self.taken.size());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn all_sessions_together_hold_a_part_and_give_it_back() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4_000));
        let allowance = Arc::<Allowance>::default();
        let held = |name: &str| Held::new(name.to_owned(), &pool, Some(Arc::clone(&allowance)));
        let (one, other) = (held("one"), Arc::new(held("other")));
        one.try_grow(600).unwrap();
        let refused = other.try_grow(500).unwrap_err().to_string();
        assert!(refused.contains("other needs 500") && refused.contains("holds 600"));
        let mut growth = other.growth();
        growth.add(300).unwrap();
        assert!(growth.add(200).is_err());
        drop(growth);
        assert_eq!((other.bytes(), pool.reserved()), (0, 600));
        let mut growth = other.growth();
        growth.add(400).unwrap();
        growth.keep();
        drop(one);
        assert_eq!((other.bytes(), pool.reserved()), (400, 400));
        drop(other);
        assert_eq!(pool.reserved(), 0);
        assert_eq!(allowance.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_that_the_pool_refuses_is_not_held() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4_000));
        let allowance = Arc::<Allowance>::default();
        let other = Held::new("other".to_owned(), &pool, None);
        other.try_grow(3_900).unwrap();
        let one = Held::new("one".to_owned(), &pool, Some(Arc::clone(&allowance)));
        assert!(one.try_grow(200).is_err());
        assert_eq!(allowance.held.load(Ordering::Relaxed), 0);
    }
}
