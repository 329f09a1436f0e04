//! Runs DataFusion's work in tasks and on threads of its own, so that connections stay responsive.
//!
//! An operator may compute for long between two yields; were it polled by the connection's task, no
//! cancel request or timeout could be noticed meanwhile, and on the connections' threads two such
//! queries would leave nobody to accept a third client. The price is one channel hop per batch.
//!
//! S2: at most `BATCHES_AHEAD` batches wait for the client, the next one being computed.
//! S3: dropping a [`Running`] or a [`guarded`] future aborts its task, which drops the stream.
//! S4: a panic in the task comes back as a [`Failure`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use crate::failure::Failure;
use crate::parse::Cost;

/// Where queries run: threads of the embedder's, or of the server's own.
pub(crate) struct QueryRuntime {
    pub(crate) handle: Handle,
    own: Option<Runtime>,
}

impl QueryRuntime {
    /// One thread per core, unless there is a runtime already.
    pub(crate) fn new(given: Option<Handle>) -> io::Result<Self> {
        if let Some(handle) = given {
            return Ok(Self { handle, own: None });
        }
        let own = Builder::new_multi_thread()
            .enable_all()
            .thread_name("coscan-query")
            .build()?;
        Ok(Self {
            handle: own.handle().clone(),
            own: Some(own),
        })
    }
}

impl Drop for QueryRuntime {
    fn drop(&mut self) {
        // Not waited for: an operator may compute for long before it notices, and waiting for
        // threads is not allowed where a server is dropped.
        if let Some(own) = self.own.take() {
            own.shutdown_background();
        }
    }
}

/// A query's stream, pumped by a task.
pub(crate) struct Running {
    pub(crate) schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch, Failure>>,
    /// `None` once it has ended.
    pump: Option<Task<()>>,
}

impl Running {
    /// `cost` is let go when the stream is.
    pub(crate) fn start(
        runtime: &Handle,
        mut stream: SendableRecordBatchStream,
        cost: Option<Arc<Cost>>,
    ) -> Self {
        let schema = stream.schema();
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let pump = Task::spawn(runtime, async move {
            let _cost = cost;
            while let Some(batch) = stream.next().await {
                let failed = batch.is_err();
                if sender.send(batch.map_err(Failure::from)).await.is_err() || failed {
                    return;
                }
            }
        });
        Self {
            schema,
            batches,
            pump: Some(pump),
        }
    }

    /// The next batch, or `None` after the last. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        if let Some(batch) = self.batches.recv().await {
            return batch.map(Some);
        }
        // The pump let go of the channel: it is done, or it panicked.
        if let Some(pump) = &mut self.pump {
            let ended = pump.await;
            self.pump = None;
            ended?;
        }
        Ok(None)
    }
}

/// Runs one piece of work in a task of its own: planning, or starting a plan.
pub(crate) async fn guarded<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = datafusion::error::Result<T>> + Send + 'static,
) -> Result<T, Failure> {
    Task::spawn(runtime, work).await?.map_err(Failure::from)
}

/// A task that ends with its handle.
struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    fn spawn(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(runtime.spawn(work))
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

/// Why a task did not end by itself.
pub(crate) fn ended(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(payload) => Failure::panicked(payload.as_ref()),
        // Only the runtime's own shutdown aborts a task whose handle is still held.
        Err(_) => crate::cancel::stopping(),
    }
}

/// One waits while the client reads the one before: enough to keep both busy.
const BATCHES_AHEAD: usize = 1;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    fn running(
        stream: impl futures::Stream<Item = datafusion::error::Result<RecordBatch>> + Send + 'static,
    ) -> Running {
        let schema = Arc::new(Schema::empty());
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream));
        Running::start(&Handle::current(), stream, None)
    }

    #[tokio::test]
    async fn a_panic_in_the_stream_is_a_failure() {
        let mut running = running(futures::stream::poll_fn(|_| panic!("boom")));
        let failure = running.next().await.unwrap_err();
        assert!(failure.to_string().contains("boom"), "{failure}");
    }

    #[tokio::test]
    async fn dropping_drops_the_stream() {
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&dropped));
        let running = running(futures::stream::poll_fn(move |_| {
            let _held = &flag;
            Poll::Pending
        }));
        tokio::task::yield_now().await;
        drop(running);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(dropped.load(Ordering::SeqCst));
    }
}
