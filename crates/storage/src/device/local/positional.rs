//! Reads by `preadv` on a few threads, where `io_uring` is not available.
//!
//! Container runtimes often forbid `io_uring`. One blocking read per thread keeps as many requests
//! outstanding as there are threads, like an `io_uring` with a smaller queue; it costs a context
//! switch per piece.
//! Not here: the bytes to read and their destination (`sys::Transfer`).
//! Bounds: a fixed number of threads; the queue holds at most the reads that the device admits.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::sys::{Failure, Transfer};

/// A pool of reading threads. Dropping it ends the threads once the queue is empty.
#[derive(Debug)]
pub(in crate::device) struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    transfers: VecDeque<Transfer>,
    closed: bool,
}

impl Pool {
    /// Starts `threads` threads.
    pub(in crate::device) fn start(name: &str, threads: u16) -> io::Result<Self> {
        let pool = Self {
            shared: Arc::default(),
        };
        for index in 0..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || shared.work())?;
        }
        Ok(pool)
    }

    /// Queues transfers, in order.
    pub(super) fn submit(&self, transfers: Vec<Transfer>) {
        self.shared.queue.lock().transfers.extend(transfers);
        self.shared.arrived.notify_all();
    }

    /// Ends the threads; transfers queued afterwards stay queued, as on a disk that hangs.
    #[cfg(test)]
    pub(in crate::device) fn hang(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.arrived.notify_all();
        while Arc::strong_count(&self.shared) > 1 {
            thread::yield_now();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(transfer) = self.next() {
            if transfer.is_wanted() {
                transfer.run();
            } else {
                transfer.fail(Failure::Unwanted);
            }
        }
    }

    fn next(&self) -> Option<Transfer> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(transfer) = queue.transfers.pop_front() {
                return Some(transfer);
            }
            if queue.closed {
                return None;
            }
            self.arrived.wait(&mut queue);
        }
    }
}
