//! Threads that only decode.
//!
//! Decoding is long and CPU-bound: on an I/O thread it would leave the device idle; on a thread
//! that runs queries it would delay other queries for longer than a batch takes.
//! Pages and rows that a query waits for are decoded before chunk batches, which are read ahead:
//! queued behind the batches of several scans, a few rows would spend most of their time waiting.
//! For the same reason a thread takes each job with usual slices, and asks for long ones only when
//! it reaches read-ahead batches (`decoded.rs`): a thread with long slices, when woken, waits
//! until the others with long slices have used theirs up, 100 ms each.
//! A job that panics does not end its thread; the caller that waits for [`DecodePool::run`] gets
//! the error.
//! Bounds: a fixed number of threads; the queue holds at most one job per segment in decode, and
//! the requested pages; while chunk jobs wait, one of every [`PAGES_FIRST`] + 1 jobs is a chunk's.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};

use crate::panics::{caught, panicked};
use crate::threads::{Slice, set_slice};
use crate::{Result, StorageError};

type Job = Box<dyn FnOnce() + Send>;

/// At most this many page jobs overtake a waiting chunk job: enough for a point query, too few for
/// an index scan that reads page after page to starve the chunk's readers.
const PAGES_FIRST: usize = 4;

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    filled: Condvar,
}

#[derive(Default)]
struct Jobs {
    pages: VecDeque<Job>,
    chunks: VecDeque<Job>,
    /// Page jobs that have overtaken waiting chunk jobs since a chunk job last began.
    gone_first: usize,
    closed: bool,
}

impl Jobs {
    fn next(&mut self) -> Option<Job> {
        if self.chunks.is_empty() {
            self.gone_first = 0;
            return self.pages.pop_front();
        }
        if self.gone_first < PAGES_FIRST
            && let Some(job) = self.pages.pop_front()
        {
            self.gone_first += 1;
            return Some(job);
        }
        self.gone_first = 0;
        self.chunks.pop_front()
    }
}

/// A fixed set of decode threads.
pub(crate) struct DecodePool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl DecodePool {
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let threads = (0..threads.max(1))
            .map(|n| {
                let queue = Arc::clone(&queue);
                std::thread::Builder::new()
                    .name(format!("coscan-decode-{n}"))
                    .spawn(move || work(&queue))
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { queue, threads })
    }

    /// Queues the decode of batches.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.jobs.lock().chunks.push_back(Box::new(job));
        self.queue.filled.notify_one();
    }

    /// Queues work that a query waits for, ahead of chunk batches; the future resolves to its
    /// result. If the future is dropped before a thread takes the job, the work never runs.
    /// `place` names the work in the error of a panic.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        place: impl FnOnce() -> String + Send + 'static,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (job, answered) = answering(place, work);
        self.queue.jobs.lock().pages.push_back(Box::new(job));
        self.queue.filled.notify_one();
        answered
    }
}

/// A job, and the future of its result.
fn answering<T: Send + 'static>(
    place: impl FnOnce() -> String + Send + 'static,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> (
    impl FnOnce() + Send + 'static,
    BoxFuture<'static, Result<T>>,
) {
    let (answer, answered) = oneshot::channel();
    let job = move || {
        if !answer.is_canceled() {
            drop(answer.send(caught(place, work)));
        }
    };
    let answered = async { answered.await.map_err(|_| StorageError::ShutDown)? };
    (job, answered.boxed())
}

impl Drop for DecodePool {
    fn drop(&mut self) {
        self.queue.jobs.lock().closed = true;
        self.queue.filled.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner may be a job on one of these threads; a thread cannot join itself.
            if thread.thread().id() != me {
                drop(thread.join());
            }
        }
    }
}

fn work(queue: &Queue) {
    loop {
        set_slice(Slice::Usual);
        let job = {
            let mut jobs = queue.jobs.lock();
            loop {
                if let Some(job) = jobs.next() {
                    break job;
                }
                if jobs.closed {
                    return;
                }
                queue.filled.wait(&mut jobs);
            }
        };
        // Jobs catch their own panics; a panic that still escapes must not end the thread.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            panicked("a decode thread".to_owned(), &*panic);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn page_jobs_do_not_starve_chunk_jobs() {
        let mut jobs = Jobs::default();
        let order = Arc::new(Mutex::new(String::new()));
        let write = |letter| -> Job {
            let order = Arc::clone(&order);
            Box::new(move || order.lock().push(letter))
        };
        jobs.chunks.extend([write('c'), write('c')]);
        jobs.pages.extend((0..7).map(|_| write('p')));
        while let Some(job) = jobs.next() {
            job();
        }
        assert_eq!(*order.lock(), "ppppcpppc");
    }
}
