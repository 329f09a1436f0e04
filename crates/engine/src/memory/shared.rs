//! Whose memory is it when DataFusion does not say for which query an operator asks?
//!
//! Sessions that use only an engine's memory have one pool for all their queries and for what
//! belongs to no query. Its operators count as those of one query. That query lives as long as the
//! engine, so it has no promise: a query that waits for more than is free begins once no query
//! with a promise is left. If it has to end, its present operators get nothing more, and later
//! operators belong to a new one.
//! Not here: statements of the engine's own sessions, which have memory of their own (`pool.rs`).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use coscan_storage::pool::MemoryBudget;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;

use super::QueryMemory;
use super::connections::ConnectionMemory;

/// The memory of an engine's sessions.
pub(crate) struct SharedMemory {
    budget: Arc<MemoryBudget>,
    state: Mutex<State>,
}

struct State {
    current: Arc<QueryMemory>,
    /// The query that each consumer counts for.
    of: HashMap<usize, Arc<QueryMemory>>,
}

impl SharedMemory {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            state: Mutex::new(State {
                current: without_promise(budget),
                of: HashMap::new(),
            }),
        })
    }

    fn of(&self, consumer: &MemoryConsumer) -> Arc<QueryMemory> {
        let state = self.state.lock();
        let of = state.of.get(&consumer.id());
        Arc::clone(of.unwrap_or(&state.current))
    }
}

fn without_promise(budget: &Arc<MemoryBudget>) -> Arc<QueryMemory> {
    let memory = QueryMemory::begin(budget);
    memory.needs_less(0);
    memory
}

impl QueryMemory {
    /// The memory of a query of a session, which begins at once; `None` if the session does not
    /// use an engine's memory.
    pub(crate) fn of_session(session: &RuntimeEnv) -> Option<Arc<Self>> {
        let pool = &session.memory_pool;
        if let Some(shared) = pool.downcast_ref::<SharedMemory>() {
            return Some(Self::begin(&shared.budget));
        }
        pool.downcast_ref::<Self>().map(Self::sibling)
    }
}

/// The memory of the connections of a session's engine; the session's own pool if it does not use
/// an engine's memory.
#[must_use]
pub fn connection_memory(session: &RuntimeEnv) -> Arc<dyn MemoryPool> {
    of_connections(&session.memory_pool)
}

/// The memory of the connections of a pool's engine; the pool itself if it is not an engine's.
pub(crate) fn of_connections(pool: &Arc<dyn MemoryPool>) -> Arc<dyn MemoryPool> {
    match pool.downcast_ref::<SharedMemory>() {
        Some(shared) => Arc::new(ConnectionMemory(Arc::clone(&shared.budget))),
        None => Arc::clone(pool),
    }
}

impl MemoryPool for SharedMemory {
    fn name(&self) -> &'static str {
        "coscan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let of = {
            let mut state = self.state.lock();
            if state.current.ends() {
                state.current = without_promise(&self.budget);
            }
            let of = Arc::clone(&state.current);
            state.of.insert(consumer.id(), Arc::clone(&of));
            of
        };
        of.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let of = self.state.lock().of.remove(&consumer.id());
        if let Some(of) = of {
            of.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.of(reservation.consumer())
            .grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.of(reservation.consumer()).shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.of(reservation.consumer())
            .try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.budget.reserved_bytes()).unwrap_or(usize::MAX)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.budget.limit()).unwrap_or(usize::MAX))
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMemory")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "coscan(used: {}, limit: {})",
            self.reserved(),
            self.budget.limit()
        )
    }
}
