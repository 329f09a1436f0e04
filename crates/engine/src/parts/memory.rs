//! Which memory have the parts of one query on a node?
//!
//! One for all of them, as a query of this process has. In its first run a query begins at once. In
//! a run after a refusal on a node (`running/rerun.rs`) its parts wait until what it would need is
//! free here, and that is kept for it until all of its parts here have rows.
//! The wait is the parts' and not their arrival's: whoever sends a part, and whoever reads its
//! rows, counts on it to arrive.
//! A part that arrives only after all others here have rows finds nothing promised any more. All
//! parts of a query are sent before the first of them runs, so that is rare, and at worst the query
//! is refused once more.
//! Not here: which query is admitted (`coscan_core::memory`); silent clients, of which a node knows
//! nothing.
//! Bounds: parts wait for at most [`WAIT_MAX`], and then run with what there is.

use std::fmt;
use std::sync::{Arc, Weak};

use coscan_pg::translate;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use tokio::time::timeout;

use crate::error::Error;
use crate::memory::{QueryMemory, WAIT_MAX};
use crate::running::wanted_memory;
use crate::short_node::ShortNode;

/// The memory of a query's parts on this node.
pub struct PartsMemory {
    session: Arc<RuntimeEnv>,
    /// With which parts arrive. Where they need not wait, they run with it.
    first: Arc<QueryMemory>,
    /// What the query waits for, in bytes; 0 if it begins at once.
    minimum: u64,
    admitted: OnceCell<Arc<QueryMemory>>,
    /// Whether the query has to end for lack of memory.
    ends: Arc<watch::Sender<bool>>,
    awaited: Mutex<Weak<RowsAwaited>>,
}

/// Parts of a query that have no rows yet. When the last of these is dropped, nothing is promised
/// to the query any more.
pub struct RowsAwaited(Arc<PartsMemory>);

impl PartsMemory {
    /// The memory of a query whose parts come to the engine of this environment; `None` if it is no
    /// engine's. `minimum`: see [`needed_on_nodes`].
    #[must_use]
    pub fn begin(session: &Arc<RuntimeEnv>, minimum: u64) -> Option<Arc<Self>> {
        let first = QueryMemory::of_session(session)?;
        let memory = Arc::new(Self {
            session: Arc::clone(session),
            first,
            minimum,
            admitted: OnceCell::new(),
            ends: Arc::new(watch::Sender::new(false)),
            awaited: Mutex::default(),
        });
        memory.hear_of_end(&memory.first);
        if memory.waits() {
            // The query must not wait for its own promise.
            memory.first.needs_less(0);
        }
        Some(memory)
    }

    /// The environment in which parts arrive.
    #[must_use]
    pub fn environment(&self) -> Arc<RuntimeEnv> {
        self.first.environment(&self.session)
    }

    /// Whether parts wait for [`PartsMemory::admitted`] before they run.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.minimum > 0
    }

    /// The environment in which parts run that had to wait. Cancel safe: another part of the query
    /// then waits in its place.
    pub async fn admitted(&self) -> Arc<RuntimeEnv> {
        let admitted = self.admitted.get_or_init(|| self.wait());
        admitted.await.environment(&self.session)
    }

    async fn wait(&self) -> Arc<QueryMemory> {
        match timeout(WAIT_MAX, self.first.again(self.minimum)).await {
            Ok(Some(admitted)) => {
                self.hear_of_end(&admitted);
                admitted
            }
            Ok(None) | Err(_) => Arc::clone(&self.first),
        }
    }

    fn hear_of_end(&self, memory: &QueryMemory) {
        let ends = Arc::clone(&self.ends);
        memory.on_end(move || {
            ends.send_replace(true);
        });
    }

    /// Waits until the query has to end for lack of memory, if need be without end; returns the
    /// error for its coordinator.
    pub async fn ended(&self) -> ShortNode {
        let mut ends = self.ends.subscribe();
        // Its sender is there as long as `self`.
        drop(ends.wait_for(|ends| *ends).await);
        ShortNode {
            needed: self.would_need().unwrap_or_default(),
            said: Error::Ended { unread: None }.to_string(),
        }
    }

    /// The error for the query's coordinator, if a part has failed with this one for want of memory
    /// that others have.
    #[must_use]
    pub fn short(&self, failure: &DataFusionError) -> Option<ShortNode> {
        let needed = self.would_need()?;
        wanted_memory(failure).then(|| ShortNode {
            needed,
            said: translate(failure, &|_| None).message().to_owned(),
        })
    }

    fn would_need(&self) -> Option<u64> {
        let admitted = self.admitted.get();
        let admitted = admitted.and_then(|memory| memory.would_need_unseen());
        admitted.max(self.first.would_need_unseen())
    }

    /// To be held by a part until it has rows.
    #[must_use]
    pub fn rows_awaited(self: &Arc<Self>) -> Arc<RowsAwaited> {
        let mut awaited = self.awaited.lock();
        if let Some(known) = awaited.upgrade() {
            return known;
        }
        let new = Arc::new(RowsAwaited(Arc::clone(self)));
        *awaited = Arc::downgrade(&new);
        new
    }
}

impl Drop for RowsAwaited {
    fn drop(&mut self) {
        if let Some(memory) = self.0.admitted.get() {
            memory.needs_less(0);
        }
    }
}

impl fmt::Debug for PartsMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartsMemory")
            .field("first", &self.first)
            .field("minimum", &self.minimum)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RowsAwaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowsAwaited")
    }
}

/// What each node should keep for the query with this context, in bytes; 0 in its first run.
#[must_use]
pub fn needed_on_nodes(context: &TaskContext) -> u64 {
    let memory = context.memory_pool().downcast_ref::<QueryMemory>();
    memory.map_or(0, QueryMemory::on_nodes)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
    use futures::poll;

    use super::*;
    use crate::{Engine, EngineConfig};

    fn engine() -> Engine {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        Engine::new(config).unwrap()
    }

    fn join(environment: &RuntimeEnv) -> MemoryReservation {
        MemoryConsumer::new("join").register(&environment.memory_pool)
    }

    #[tokio::test]
    async fn a_query_that_was_refused_here_waits_for_what_it_needs() {
        let engine = engine();
        let other = PartsMemory::begin(engine.runtime(), 0).unwrap();
        assert!(!other.waits());
        let table = join(&other.environment());
        table.try_grow(40 << 20).unwrap();
        let first = PartsMemory::begin(engine.runtime(), 0).unwrap();
        let refused = join(&first.environment()).try_grow(30 << 20).unwrap_err();
        let division = DataFusionError::Execution("Divide by zero".to_owned());
        assert_eq!(first.short(&division), None);
        let short = first.short(&refused).unwrap();
        assert!(short.needed >= 30 << 20, "{short:?}");
        assert!(short.said.contains("join needs"), "{short:?}");
        drop(first);

        let again = PartsMemory::begin(engine.runtime(), short.needed).unwrap();
        assert!(again.waits());
        let mut waits = Box::pin(again.admitted());
        assert!(poll!(&mut waits).is_pending());
        drop((table, other));
        let admitted = waits.await;
        let late = PartsMemory::begin(engine.runtime(), 0).unwrap();
        let late = join(&late.environment());
        while late.try_grow(1 << 20).is_ok() {}
        let awaited = [again.rows_awaited(), again.rows_awaited()];
        let table = join(&admitted);
        table.try_grow(10 << 20).expect("it is promised");
        late.try_grow(8 << 20).expect_err("it is promised");
        drop(awaited);
        let begun = Instant::now();
        while late.try_grow(8 << 20).is_err() {
            assert!(begun.elapsed() < WAIT_MAX, "its parts have rows");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_lower_limit_is_a_refusal() {
        let engine = engine();
        let memory = PartsMemory::begin(engine.runtime(), 0).unwrap();
        let table = join(&memory.environment());
        table.try_grow(40 << 20).unwrap();
        let mut ended = Box::pin(memory.ended());
        assert!(poll!(&mut ended).is_pending());
        engine.memory().set_limit(32 << 20);
        let short = ended.await;
        assert!(short.said.contains("coscan.memory"), "{short:?}");
        assert!(short.needed > 0, "{short:?}");
    }
}
