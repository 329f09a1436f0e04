//! Threads that decode, and nothing else.
//!
//! Decoding is long and CPU-bound: on the threads that drive I/O it would leave the device idle, on those that run queries it would
//! keep other queries waiting for longer than a batch.
//! Bounds: a fixed number of threads; the queue holds at most one job per segment in decode.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

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
            .collect::<Result<_, _>>()?;
        Ok(Self { queue, threads })
    }

    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.jobs.lock().0.push_back(Box::new(job));
        self.queue.filled.notify_one();
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
        job();
    }
}
