//! What happens to a query that finds no memory because other queries have it?
//!
//! Hash tables stay in memory, so several joins that begin together may fill it before one of them
//! is done. Then a query is refused that would have run alone. As long as its client has no row of
//! it, the client cannot tell when it ran. So the engine drops what the query has done, which
//! frees memory for others, and runs it once more with what it is known to need as its minimum:
//! the core admits it when that much is free, and keeps it for the query until its first rows.
//!
//! Rejected: holding back the rows of a join's table while memory is short. Such queries keep what
//! they have, and must not wait for each other; and aggregates and windows would need the same. A
//! query that is refused for the second time knows little of what it needs. Its minimum grows with
//! each run, so that fewer and fewer queries run at once while memory is short.
//! Not here: which query is admitted, and when (`coscan_core::memory`).
//! Bounds: [`RUNS_AGAIN`] more runs, each after at most [`WAIT_MAX`].
//!
//! S10: a query that runs once more only reads, and its client has no row of it.

use std::sync::Arc;
use std::time::Duration;

use coscan_pg::translate;
use datafusion::error::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::memory::QueryMemory;

/// The SQLSTATE of a failure for want of memory.
const OUT_OF_MEMORY: &str = "53200";
/// How often a query is run again. A fourth shortage is no coincidence.
const RUNS_AGAIN: u32 = 3;
/// What a run comes back with, as a multiple of what the one before did.
const MORE: u64 = 4;
/// Enough time for queries ahead in the queue, and for ending queries whose clients do not read.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A promise to a query. Dropping this ends it: the query has its first rows.
pub(super) struct Promise(Arc<QueryMemory>);

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.needs_less(0);
    }
}

/// Starts a query once more with the given memory, and returns its streams.
pub(crate) type Start<S> =
    Arc<dyn Fn(&Arc<QueryMemory>) -> BoxFuture<'static, Result<S>> + Send + Sync>;

/// A query's next run: its streams, its memory and its promise.
pub(super) type NextRun<S> = Result<(S, Arc<QueryMemory>, Promise)>;

/// A query that may be run again.
pub(crate) struct Again<S> {
    pub(super) memory: Arc<QueryMemory>,
    start: Start<S>,
    left: u32,
    /// The minimum of the last run, in bytes.
    promised: u64,
}

impl<S: Send + 'static> Again<S> {
    pub(crate) fn new(memory: Arc<QueryMemory>, start: Start<S>) -> Self {
        Self {
            memory,
            start,
            left: RUNS_AGAIN,
            promised: 0,
        }
    }

    /// The next run after this failure; `None` if the query must not run once more. The failed
    /// streams must have been dropped when the future is polled.
    pub(super) fn after(
        &mut self,
        failure: &DataFusionError,
    ) -> Option<BoxFuture<'static, NextRun<S>>> {
        let needed = self.memory.would_need()?;
        if !is_out_of_memory(failure) || self.left == 0 {
            return None;
        }
        self.left -= 1;
        let needed = needed.max(self.promised.saturating_mul(MORE));
        self.promised = needed;
        log::info!("a query is run again when {needed} bytes are there for it");
        let (start, memory) = (Arc::clone(&self.start), Arc::clone(&self.memory));
        let next = async move {
            // The queries in the way may take long.
            let memory = match timeout(WAIT_MAX, memory.again(needed)).await {
                Ok(Some(admitted)) => admitted,
                Ok(None) | Err(_) => memory.sibling(),
            };
            let promise = Promise(Arc::clone(&memory));
            Ok((start(&memory).await?, memory, promise))
        };
        Some(next.boxed())
    }
}

/// Whether there was no memory.
fn is_out_of_memory(failure: &DataFusionError) -> bool {
    translate(failure, &|_| None).code() == OUT_OF_MEMORY
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use coscan_pg::PgError;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
    use datafusion::execution::runtime_env::RuntimeEnv;
    use futures::poll;

    use super::*;
    use crate::{Engine, EngineConfig};

    /// A query and its operator.
    fn query(session: &RuntimeEnv) -> (Again<()>, MemoryReservation) {
        let memory = QueryMemory::of_session(session).unwrap();
        let environment = memory.environment(session);
        let operator = MemoryConsumer::new("join").register(&environment.memory_pool);
        let start: Start<()> = Arc::new(|_| futures::future::ready(Ok(())).boxed());
        let again = Again::new(memory, start);
        (again, operator)
    }

    #[tokio::test]
    async fn who_was_refused_goes_on_when_there_is_what_it_needs() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let (other, table) = query(&session);
        table.try_grow(40 << 20).unwrap();
        let (mut again, operator) = query(&session);
        let division = DataFusionError::from(PgError::new("22012", "division by zero"));
        assert!(again.after(&division).is_none());
        let refused = operator.try_grow(30 << 20).unwrap_err();
        drop(operator);
        assert!(
            again.after(&division).is_none(),
            "it fails for another reason"
        );
        let mut next = again.after(&refused).unwrap();
        assert!(poll!(&mut next).is_pending());
        drop((other, table));
        let ((), memory, promise) = next.await.unwrap();
        let (_, late) = query(&session);
        while late.try_grow(1 << 20).is_ok() {}
        let pool = &memory.environment(&session).memory_pool;
        let table = MemoryConsumer::new("join").register(pool);
        table.try_grow(30 << 20).expect("it is promised");
        drop((promise, table));
        // The query may take back for a moment what the table freed.
        let begun = Instant::now();
        while late.try_grow(20 << 20).is_err() {
            assert!(begun.elapsed() < WAIT_MAX, "the promise has not ended");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn nobody_waits_in_vain() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let session = engine.session().context().runtime_env();
        let (mut again, operator) = query(&session);
        let refused = operator.try_grow(80 << 20).unwrap_err();
        assert!(again.after(&refused).is_none(), "others have nothing");
    }
}
