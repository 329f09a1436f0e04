//! Runs DataFusion's work in tasks on separate threads, so that connections stay responsive.
//!
//! An operator may compute for long between two yields. If the connection's task polled it, cancel
//! requests and timeouts would go unnoticed; on the connections' threads, two such queries would
//! leave no thread to accept a third client. The price is one channel hop per batch.
//!
//! Not here: the streams of a query (`running.rs`).
//!
//! S3: dropping a [`guarded`] future or a [`Task`] aborts the task.
//! S4: a panic in a task comes back as a [`Failure`].

use std::io;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::available_parallelism;

use coscan::tasks::{LongThreads, TaskQueue};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

use crate::failure::Failure;

/// The threads that run queries: the embedder's or the server's own.
pub(crate) struct QueryRuntime {
    pub(crate) handle: Handle,
    /// Chooses which query's tasks run next on these threads.
    pub(crate) tasks: Arc<TaskQueue>,
    own: Option<Runtime>,
    /// The threads on which long queries continue.
    _long: LongThreads,
}

impl QueryRuntime {
    /// Uses the given runtime, or starts two threads per core: a query may compute for long before
    /// it counts as long, and must still leave a thread to others. Long queries continue on
    /// threads of their own, one per core at a time.
    pub(crate) fn new(given: Option<Handle>) -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let (handle, own) = match given {
            Some(handle) => (handle, None),
            None => {
                let own = Builder::new_multi_thread()
                    .worker_threads(2 * cores)
                    .enable_all()
                    .thread_name("coscan-query")
                    .thread_stack_size(coscan::THREAD_STACK_BYTES)
                    .build()?;
                (own.handle().clone(), Some(own))
            }
        };
        coscan::tasks::install();
        let long = LongThreads::new(cores, &handle)?;
        Ok(Self {
            tasks: TaskQueue::new(cores, handle.metrics().num_workers(), Some(&long)),
            _long: long,
            handle,
            own,
        })
    }
}

impl Drop for QueryRuntime {
    fn drop(&mut self) {
        // Does not wait for these threads: an operator may compute for long before it notices, and
        // blocking is not allowed where a server is dropped.
        if let Some(own) = self.own.take() {
            own.shutdown_background();
        }
    }
}

/// Runs one piece of work in a task of its own: planning, or starting a plan.
pub(crate) async fn guarded<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    Task::spawn(runtime, work).await?
}

/// A task that is aborted when its handle is dropped.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(ended)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Turns the abnormal end of a task into a failure.
pub(crate) fn ended(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(payload) => Failure::panicked(payload.as_ref()),
        // Only the runtime's own shutdown aborts a task whose handle is still held.
        Err(_) => crate::cancel::stopping(),
    }
}
