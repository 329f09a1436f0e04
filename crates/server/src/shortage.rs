//! What becomes of a query that finds no memory because others have it?
//!
//! Hash tables stay in memory, so several joins that begin together may fill it before one of them
//! is done, and then one is refused that would have run alone. As long as its client has no row of
//! it, nobody can tell when it ran. So what it has done is dropped, which gives others memory, and
//! it comes back with what it is known to need: the core lets it in when that is there, and keeps
//! it for the query until its first rows.
//! Not here: who is let in, and when (`coscan_core::memory`).
//! Refused: holding rows of a join's table back while memory is short. Those who hold back keep
//! what they have, and must not wait for each other; and aggregates and windows need the same.
//! Bounds: [`RUNS_AGAIN`] runs more, each after at most [`WAIT_MAX`].
//!
//! S10: what is run again only reads, and its client has no row of it.

use std::sync::Arc;
use std::time::Duration;

use coscan::QueryMemory;
use coscan::tasks::QueryTasks;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::parse::Cost;
use crate::stalled::Stalled;

/// How often a query is run again. A third shortage is no coincidence.
const RUNS_AGAIN: u32 = 2;
/// Enough for queries to be ended whose clients do not read.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// What a query is promised. It needs it no more when this is dropped: it has its first rows.
pub(crate) struct Promise(Arc<QueryMemory>);

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.needs_less(0);
    }
}

/// Starts a query once more, with this memory, and gives its streams.
pub(crate) type Start<S> =
    Arc<dyn Fn(&Arc<QueryMemory>) -> BoxFuture<'static, Result<S, Failure>> + Send + Sync>;

/// A query's next run: its streams and its memory, with what is promised to it.
pub(crate) type NextRun<S> = Result<(S, Arc<QueryMemory>, Promise), Failure>;

/// A query that may be run again.
pub(crate) struct Again<S> {
    pub(crate) query: Arc<QueryTasks>,
    pub(crate) cost: Option<Arc<Cost>>,
    pub(crate) stalled: Arc<Stalled>,
    pub(crate) memory: Arc<QueryMemory>,
    start: Start<S>,
    left: u32,
}

impl<S: Send + 'static> Again<S> {
    pub(crate) fn new(
        query: Arc<QueryTasks>,
        cost: Option<Arc<Cost>>,
        stalled: Arc<Stalled>,
        memory: Arc<QueryMemory>,
        start: Start<S>,
    ) -> Self {
        Self {
            query,
            cost,
            stalled,
            memory,
            start,
            left: RUNS_AGAIN,
        }
    }

    /// What comes after this failure; `None` if the query is not to be run again. The streams that
    /// failed must have been dropped when it is polled.
    pub(crate) fn after(&mut self, failure: &Failure) -> Option<BoxFuture<'static, NextRun<S>>> {
        let needed = self.memory.would_need()?;
        if !failure.is_out_of_memory() || self.left == 0 {
            return None;
        }
        self.left -= 1;
        log::info!("a query is run again when {needed} bytes are there for it");
        let (start, memory) = (Arc::clone(&self.start), Arc::clone(&self.memory));
        let next = async move {
            // Whoever is in the way may take long.
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
