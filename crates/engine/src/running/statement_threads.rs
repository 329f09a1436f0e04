//! On which threads are statements parsed, planned and started?
//!
//! A statement is planned and started among the running queries, when it is its turn. But a long
//! text takes seconds to parse, and a large statement seconds to plan. Neither yields, so both run
//! on threads of their own. While short queries run, the host's scheduler gives these threads less
//! time than those of connections and of running queries.
//!
//! Not here: the threads on which queries run (`task.rs`).
//! Bounds: one long text or large statement per two cores is processed at a time, the others wait.
//! A statement whose caller gives up keeps its permit until its current step is done.

use std::io;
use std::num::NonZero;
use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use coscan_storage::threads::{Slice, give_way, set_slice};
use datafusion::error::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{Either, select};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};

use super::task::{QueryRuntime, ended, guarded, stopped};
use crate::statement::StatementSize;
use crate::tasks::QueryTasks;

/// A thread at this niceness gets a sixth of a processor beside a busy thread of connections or
/// short queries, and three quarters beside a thread of long queries, so that large statements do
/// not wait minutes for each other.
const NICENESS: i32 = 7;

/// The threads of a server's statements, and those of its queries.
pub struct StatementThreads {
    /// Runs short steps. It also drives timers and I/O of long steps while these wait.
    queries: QueryRuntime,
    /// Its blocking threads do long work while no short query runs; `None` only while this is
    /// dropped.
    fair: Option<Runtime>,
    /// Its blocking threads do long work while short queries run; `None` only while this is
    /// dropped.
    giving_way: Option<Runtime>,
    places: Arc<Semaphore>,
}

impl StatementThreads {
    /// Starts the threads for long work beside those of `queries`.
    ///
    /// # Errors
    /// The host starts no threads.
    pub fn new(queries: QueryRuntime) -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // The other half of the cores stays free for short statements.
        let large_max = (cores / 2).max(1);
        let threads = |begin: fn()| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(large_max)
                .thread_name("coscan-aside")
                .on_thread_start(begin)
                .build()
        };
        Ok(Self {
            queries,
            fair: Some(threads(|| set_slice(Slice::Long))?),
            giving_way: Some(threads(|| give_way(NICENESS))?),
            places: Arc::new(Semaphore::new(large_max)),
        })
    }

    /// Where queries run.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.queries.handle
    }

    /// A new query.
    #[must_use]
    pub fn begin(&self) -> Arc<QueryTasks> {
        self.queries.tasks.begin()
    }

    /// Runs long work that never waits. If the future is dropped, the result is discarded.
    ///
    /// # Errors
    /// The work's; a panic; the shutdown of the threads.
    pub async fn run_long<T, E>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DataFusionError> + Send + 'static,
    {
        self.wait(None, async move { work() }).await
    }

    /// Runs a step of planning or starting a statement of this size. If the future is dropped, the
    /// work stops at its next wait.
    ///
    /// # Errors
    /// The work's; a panic; the shutdown of the threads.
    pub async fn step<T, E>(
        &self,
        tasks: &Arc<QueryTasks>,
        size: StatementSize,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DataFusionError> + Send + 'static,
    {
        if size.plans_long() {
            return self.wait(Some(tasks.as_ref()), work).await;
        }
        tasks.expect_step(size.planning_time());
        guarded(&self.queries.handle, tasks.schedule(work.boxed())).await
    }

    /// Runs long work, of this query if it is one's, that may wait. If the future is dropped, the
    /// work stops at its next wait.
    async fn wait<T, E>(
        &self,
        query: Option<&QueryTasks>,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DataFusionError> + Send + 'static,
    {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Err(stopped().into());
        };
        let (_alive, gone) = oneshot::channel::<()>();
        let threads = if self.queries.tasks.gives_way(query) {
            &self.giving_way
        } else {
            &self.fair
        };
        let Some(threads) = threads else {
            return Err(stopped().into());
        };
        let queries = self.queries.handle.clone();
        let done = threads.spawn_blocking(move || {
            let _place = place;
            queries.block_on(async {
                match select(pin!(work), gone).await {
                    Either::Left((outcome, _)) => outcome,
                    // The caller has gone: this value is never received.
                    Either::Right(_) => Err(stopped().into()),
                }
            })
        });
        done.await.map_err(ended)?
    }
}

impl Drop for StatementThreads {
    fn drop(&mut self) {
        // Does not wait for the threads to end, as for the threads of queries.
        let threads = [self.fair.take(), self.giving_way.take()];
        for threads in threads.into_iter().flatten() {
            threads.shutdown_background();
        }
    }
}
