//! A task that computes one partition of a query's result, a batch ahead of whoever takes them.
//!
//! Not here: the query (`mod.rs`); where the batches wait (`queue.rs`).
//! S4: a panic in a stream comes back as an error.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use super::queue::Queue;
use super::task::{Task, panicked, stopped};
use super::{Guard, Streams};
use crate::memory::Promise;
use crate::tasks::QueryTasks;

/// After a batch of at most this many rows the next one is computed at once.
pub(super) const FEW_ROWS: usize = 256;

/// Starts a task for each of the streams. `promise` is kept until each has produced a batch.
/// `at_once`: a single stream first gives what it can without waiting, if the caller is a task of
/// the query in its turn and the query is short. So a small result is there when the caller's end
/// wakes the consumer, and does not wake it once more.
pub(super) fn pump(
    runtime: &Handle,
    query: Option<&Arc<QueryTasks>>,
    streams: Streams,
    guard: &Guard,
    promise: Option<Promise>,
    at_once: bool,
) -> (Arc<Queue>, Vec<Task<()>>) {
    let pumps = streams.partitions.len();
    let queue = Arc::new(Queue::new(streams.schema, streams.environment, pumps));
    queue.may_be_ended();
    let promise = promise.map(Arc::new);
    let at_once = at_once && pumps == 1 && query.is_some_and(|query| query.may_go_on_here());
    let pumps = streams.partitions.into_iter().filter_map(|stream| {
        let pump = Pump {
            queue: Arc::clone(&queue),
            promise: promise.clone(),
            ended: false,
        };
        let mut work = pump.run(stream, Arc::clone(guard)).boxed();
        // The task that continues polls it at once, so no wake-up is lost.
        if at_once && FutureExt::now_or_never(&mut work).is_some() {
            return None;
        }
        Some(match query {
            Some(query) => Task::spawn(runtime, query.schedule(work)),
            None => Task::spawn(runtime, work),
        })
    });
    let tasks = pumps.collect();
    (queue, tasks)
}

/// Computes one partition's batches. Counts as computing until it is dropped.
struct Pump {
    queue: Arc<Queue>,
    /// The promised memory, kept until the first batch.
    promise: Option<Arc<Promise>>,
    /// Whether its stream has ended.
    ended: bool,
}

impl Pump {
    async fn run(mut self, mut stream: SendableRecordBatchStream, guard: Guard) {
        let queue = Arc::clone(&self.queue);
        let mut kept = FuturesUnordered::new();
        while !self.ended {
            let next = pin!(AssertUnwindSafe(stream.next()).catch_unwind());
            let batch = match meanwhile(next, &mut kept).await {
                Ok(None) => break,
                Ok(Some(batch)) => batch,
                Err(payload) => Err(panicked(payload.as_ref())),
            };
            self.promise = None;
            self.ended = batch.is_err();
            let is_small = batch
                .as_ref()
                .is_ok_and(|batch| batch.num_rows() <= FEW_ROWS);
            match queue.put(batch) {
                Some(number) if !self.ended => kept.push(queue.keep(number)),
                Some(_) => {}
                None => self.ended = true,
            }
            let may_wait = usize::from(is_small);
            while kept.len() > may_wait && kept.next().await.is_some() {}
            self.ended |= queue.has_ended();
        }
        self.ended = true;
        drop((stream, guard, self));
        while kept.next().await.is_some() {}
    }
}

/// The output of `next`; meanwhile waiting batches are kept or moved to disk.
async fn meanwhile<T>(
    mut next: Pin<&mut impl Future<Output = T>>,
    kept: &mut FuturesUnordered<impl Future<Output = ()>>,
) -> T {
    loop {
        tokio::select! {
            biased;
            output = next.as_mut() => return output,
            Some(()) = kept.next() => {}
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if !self.ended {
            // The query was dropped, or the runtime was shut down.
            self.queue.put(Err(stopped()));
        }
        self.queue.end_pump();
    }
}
