//! Runs DataFusion's work in tasks on separate threads, so that connections stay responsive.
//!
//! An operator may compute for long between two yields. If the connection's task polled it, cancel
//! requests and timeouts would go unnoticed; on the connections' threads, two such queries would
//! leave no thread to accept a third client. The price is one channel hop per batch.
//!
//! Not here: the streams of a query (`mod.rs`).
//!
//! S3: dropping a [`guarded`] future or a [`Task`] aborts the task.
//! S4: a panic in a task comes back as an error.

use std::any::Any;
use std::io;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::available_parallelism;

use datafusion::error::{DataFusionError, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

use crate::error::{Error, engine_error};
use crate::statement::THREAD_STACK_BYTES;
use crate::tasks::{LongThreads, TaskQueue, install};

/// The threads that run a server's queries: the embedder's or the server's own.
pub struct QueryRuntime {
    /// Where tasks are spawned.
    pub handle: Handle,
    /// Chooses which query's tasks run next on these threads.
    pub tasks: Arc<TaskQueue>,
    own: Option<Runtime>,
    /// The threads on which long queries continue.
    _long: LongThreads,
}

impl QueryRuntime {
    /// Uses the given runtime, or starts two threads per core: a query may compute for long before
    /// it counts as long, and must still leave a thread to others. Long queries continue on
    /// threads of their own, one per core at a time.
    ///
    /// # Errors
    /// The host starts no threads.
    pub fn new(given: Option<Handle>) -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let (handle, own) = match given {
            Some(handle) => (handle, None),
            None => {
                let own = Builder::new_multi_thread()
                    .worker_threads(2 * cores)
                    .enable_all()
                    .thread_name("coscan-query")
                    .thread_stack_size(THREAD_STACK_BYTES)
                    .build()?;
                (own.handle().clone(), Some(own))
            }
        };
        install();
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
///
/// # Errors
/// The work's; a panic; the shutdown of the runtime.
pub async fn guarded<T, E>(
    runtime: &Handle,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<DataFusionError> + Send + 'static,
{
    Task::spawn(runtime, work).await?
}

/// A task that is aborted when its handle is dropped.
pub(super) struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    pub(super) fn spawn(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

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
#[must_use]
pub fn ended(error: JoinError) -> DataFusionError {
    match error.try_into_panic() {
        Ok(payload) => panicked(payload.as_ref()),
        // Only the runtime's own shutdown aborts a task whose handle is still held.
        Err(_) => stopped(),
    }
}

pub(super) fn stopped() -> DataFusionError {
    engine_error(Error::Stopped)
}

/// S4: what a panic's payload says, as an internal error.
#[must_use]
pub fn panicked(payload: &(dyn Any + Send)) -> DataFusionError {
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    engine_error(Error::Panicked {
        said: said.to_owned(),
    })
}
