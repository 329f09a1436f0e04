//! Threads that decode, and nothing else.
//!
//! Decoding is long and CPU-bound: on the threads that drive I/O it would leave the device idle, on
//! those that run queries it would keep other queries waiting for longer than a batch.
//! A job that panics costs its thread nothing; who waits for [`DecodePool::run`] gets the error.
//! Bounds: a fixed number of threads; the queue holds at most one job per segment in decode.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex};

use crate::panics::{caught, panicked};
use crate::{Result, StorageError};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: Mutex<(VecDeque<Job>, bool)>,
    filled: Condvar,
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

    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.jobs.lock().0.push_back(Box::new(job));
        self.queue.filled.notify_one();
    }

    /// Queues work at once; the future gives what came of it. Dropped before its turn, the work is
    /// not begun. `place` names it if it panics.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        place: impl FnOnce() -> String + Send + 'static,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (answer, answered) = oneshot::channel();
        self.submit(move || {
            if !answer.is_canceled() {
                drop(answer.send(caught(place, work)));
            }
        });
        async { answered.await.map_err(|_| StorageError::ShutDown)? }.boxed()
    }
}

impl Drop for DecodePool {
    fn drop(&mut self) {
        self.queue.jobs.lock().1 = true;
        self.queue.filled.notify_all();
        let me = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner may be a job on one of these threads; a thread cannot wait for itself.
            if thread.thread().id() != me {
                drop(thread.join());
            }
        }
    }
}

fn work(queue: &Queue) {
    loop {
        let job = {
            let mut jobs = queue.jobs.lock();
            loop {
                if let Some(job) = jobs.0.pop_front() {
                    break job;
                }
                if jobs.1 {
                    return;
                }
                queue.filled.wait(&mut jobs);
            }
        };
        // Jobs answer for their own panics; whatever one lets through must not cost the thread.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
            panicked("a decode thread".to_owned(), &*panic);
        }
    }
}
