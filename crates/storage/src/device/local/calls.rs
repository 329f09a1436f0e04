//! Kernel calls that may never return: `open`, `stat`, `fstat`, `close` on a mount whose server is
//! unreachable.
//!
//! Idea: the caller waits here, at most for the time-out, for an answer from one of the mount's own
//! threads. A thread that hangs in the kernel cannot be interrupted; it is abandoned, and the
//! mount's other threads continue. When all of them hang, only this mount hangs: no thread that
//! serves queries, other devices or timers ever makes such a call, except in a form that the kernel
//! answers from its memory or refuses (`from_memory.rs`).
//! Rejected: the runtime's blocking threads. All devices share them, and dropping a runtime waits
//! for them without bound.
//! Not here: reads (`sys`), which have their own threads or ring.
//! Bounds: at most [`THREADS_MAX`] threads per mount, which end after [`IDLE`] without a call, or
//! when the mount's last user has gone; at most [`WAITING_MAX`] calls wait.
//! K1: every call gets an answer or times out, even if it panics. K2: dropping the future of a
//! call waits for nothing.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tokio::task::coop::consume_budget;

use super::from_memory::FromMemory;
use crate::panics;

/// Enough to hide the latency of a network file system while a folder of files is opened.
const THREADS_MAX: usize = 8;
/// The most calls that wait. More would only time out: a mount that answers handles thousands
/// within the time-out.
const WAITING_MAX: usize = 4096;
/// How long a thread waits for the next call.
const IDLE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::device) enum Unanswered {
    /// The kernel's error.
    Io(io::Error),
    /// The kernel did not answer within this time.
    Hangs(Duration),
}

impl From<io::Error> for Unanswered {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The threads that make the calls of one mount.
#[derive(Debug)]
pub(in crate::device) struct Calls {
    shared: Arc<Shared>,
    wait: Duration,
    from_memory: Arc<FromMemory>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    calls: VecDeque<Box<dyn Call>>,
    threads: usize,
    idle: usize,
    /// Whether there will be no more calls.
    over: bool,
}

/// A call for one of the threads.
trait Call: Send + std::fmt::Debug {
    /// Whether the caller still waits for the answer.
    fn is_wanted(&self) -> bool;
    /// Whether the call cannot be refused: open files are few, and must be closed.
    fn must_be_made(&self) -> bool {
        false
    }
    fn make(self: Box<Self>);
}

impl Calls {
    /// A call times out after `wait`.
    pub(in crate::device) fn new(wait: Duration) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::default(),
            wait,
            from_memory: Arc::default(),
        })
    }

    /// Makes a call that may hang, and waits for its answer. Cancel safe: a dropped call that has
    /// not begun is not made.
    pub(in crate::device) async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Unanswered> {
        let (answer, answered) = oneshot::channel();
        self.shared.add(Box::new(Awaited { call, answer }))?;
        match tokio::time::timeout(self.wait, answered).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) => Err(io::Error::other("the call was not made").into()),
            Err(_) => Err(Unanswered::Hangs(self.wait)),
        }
    }

    /// What the kernel answers from its memory about files of this mount.
    pub(super) fn at_once(&self) -> &FromMemory {
        &self.from_memory
    }

    /// The metadata of the file at this path: at once if the kernel has them in memory, otherwise
    /// by a call on one of the threads. Cancel safe.
    pub(in crate::device) async fn metadata(&self, path: PathBuf) -> Result<Metadata, Unanswered> {
        if let Some(metadata) = self.from_memory.metadata(&path) {
            // A loop over files gives way as it does where it waits.
            consume_budget().await;
            return Ok(metadata);
        }
        let from_memory = Arc::clone(&self.from_memory);
        self.ask(move || {
            let metadata = fs::metadata(&path)?;
            if from_memory.is_local(metadata.dev()).is_none() {
                from_memory.learn(&path);
            }
            Ok(metadata)
        })
        .await
    }

    /// Closes a file. The caller does not wait.
    pub(super) fn close(&self, file: File) {
        // If no thread can be started, dropping the refused call closes the file on this thread;
        // there is no better way.
        let _closed = self.shared.add(Box::new(Closing { file }));
    }

    /// Like a mount that hangs, of which the kernel has nothing in memory, until the returned
    /// senders are dropped.
    #[cfg(test)]
    pub(in crate::device) fn hang(&self) -> Vec<std::sync::mpsc::Sender<()>> {
        let hung = self.hang_threads();
        self.from_memory.forget();
        hung
    }

    /// Makes every thread hang in a call until the returned senders are dropped.
    #[cfg(test)]
    pub(in crate::device) fn hang_threads(&self) -> Vec<std::sync::mpsc::Sender<()>> {
        let hung = (0..THREADS_MAX).map(|_| {
            let (release, hang) = std::sync::mpsc::channel::<()>();
            self.shared.add(Box::new(Hanging { hang })).unwrap();
            release
        });
        let hung = hung.collect();
        while !self.shared.queue.lock().calls.is_empty() {
            thread::yield_now();
        }
        hung
    }
}

/// Threads with nothing to do end now, not after [`IDLE`]: a program may open engines one after
/// the other. Calls that still wait, which close files, are made first.
impl Drop for Calls {
    fn drop(&mut self) {
        self.shared.queue.lock().over = true;
        self.shared.arrived.notify_all();
    }
}

impl Shared {
    fn add(self: &Arc<Self>, call: Box<dyn Call>) -> io::Result<()> {
        let mut queue = self.queue.lock();
        if queue.calls.len() >= WAITING_MAX {
            // All threads hang, and most callers have gone.
            queue.calls.retain(|call| call.is_wanted());
            if queue.calls.len() >= WAITING_MAX && !call.must_be_made() {
                let text = "its file system does not answer, and too many calls wait for it";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
            }
        }
        queue.calls.push_back(call);
        if queue.idle >= queue.calls.len() || queue.threads >= THREADS_MAX {
            drop(queue);
            self.arrived.notify_one();
            return Ok(());
        }
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name("coscan-calls".to_owned())
            .spawn(move || shared.work());
        match started {
            Ok(_) => queue.threads += 1,
            // The existing threads will make the call.
            Err(_) if queue.threads > 0 => {}
            Err(error) => {
                queue.calls.pop_back();
                return Err(error);
            }
        }
        Ok(())
    }

    fn work(&self) {
        while let Some(call) = self.next() {
            if call.is_wanted()
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| call.make()))
            {
                // Dropping the call answers its caller (K1).
                panics::panicked("a call into a file system".to_owned(), &*panic);
            }
        }
    }

    fn next(&self) -> Option<Box<dyn Call>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(call) = queue.calls.pop_front() {
                return Some(call);
            }
            let timed_out = if queue.over {
                true
            } else {
                queue.idle += 1;
                let waited = self.arrived.wait_for(&mut queue, IDLE);
                queue.idle -= 1;
                waited.timed_out()
            };
            if timed_out && queue.calls.is_empty() {
                queue.threads -= 1;
                return None;
            }
        }
    }
}

/// A call whose answer a caller waits for.
struct Awaited<C, T> {
    call: C,
    answer: oneshot::Sender<io::Result<T>>,
}

impl<C, T> std::fmt::Debug for Awaited<C, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Awaited")
    }
}

impl<C: FnOnce() -> io::Result<T> + Send, T: Send> Call for Awaited<C, T> {
    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    fn make(self: Box<Self>) {
        // The caller may have gone.
        let _unheard = self.answer.send((self.call)());
    }
}

/// A file to close: on some file systems the kernel contacts the server first.
#[derive(Debug)]
struct Closing {
    file: File,
}

impl Call for Closing {
    fn is_wanted(&self) -> bool {
        true
    }

    fn must_be_made(&self) -> bool {
        true
    }

    fn make(self: Box<Self>) {
        drop(self.file);
    }
}

#[cfg(test)]
#[derive(Debug)]
struct Hanging {
    hang: std::sync::mpsc::Receiver<()>,
}

#[cfg(test)]
impl Call for Hanging {
    fn is_wanted(&self) -> bool {
        true
    }

    fn make(self: Box<Self>) {
        let _released = self.hang.recv();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_the_kernel_has_in_memory_needs_no_thread() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let path = file.path().to_owned();
        if !FromMemory::works_for(&path) {
            return;
        }
        let calls = Calls::new(Duration::from_millis(50));
        calls.metadata(path.clone()).await.unwrap();
        let hung = calls.hang_threads();
        // A mount anywhere may make the kernel refuse a question now and then.
        let metadata = (0..100).find_map(|_| calls.metadata(path.clone()).now_or_never());
        assert!(metadata.unwrap().unwrap().is_file());
        calls.from_memory.forget();
        let metadata = calls.metadata(path).await;
        assert!(matches!(metadata, Err(Unanswered::Hangs(_))));
        drop(hung);
    }

    #[tokio::test]
    async fn threads_end_with_their_mount() {
        let calls = Calls::new(Duration::from_secs(20));
        let shared = Arc::clone(&calls.shared);
        // One thread works and another is idle when the mount's last user goes.
        let (release, hang) = std::sync::mpsc::channel::<()>();
        calls.shared.add(Box::new(Hanging { hang })).unwrap();
        assert_eq!(calls.ask(|| Ok(1)).await.unwrap(), 1);
        assert_eq!(shared.queue.lock().threads, 2);
        drop(calls);
        drop(release);
        let begun = std::time::Instant::now();
        while shared.queue.lock().threads > 0 {
            assert!(begun.elapsed() < IDLE / 2, "an idle thread stays");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[tokio::test]
    async fn a_call_that_hangs_times_out_and_delays_no_other_mount() {
        let calls = Calls::new(Duration::from_millis(50));
        let other = Calls::new(Duration::from_secs(20));
        let hung = calls.hang();
        assert!(matches!(
            calls.ask(|| Ok(1)).await,
            Err(Unanswered::Hangs(_))
        ));
        assert_eq!(other.ask(|| Ok(2)).await.unwrap(), 2);
        // Calls whose callers have gone do not accumulate, and calls beyond the bound are refused.
        for _ in 0..WAITING_MAX + 10 {
            drop(futures::poll!(Box::pin(calls.ask(|| Ok(3)))));
        }
        assert!(calls.shared.queue.lock().calls.len() <= WAITING_MAX);
        drop(hung);
        let calls = Calls::new(Duration::from_secs(20));
        assert!(
            calls
                .ask(|| -> io::Result<()> { panic!("no") })
                .await
                .is_err()
        );
        assert_eq!(
            calls.ask(|| Ok(4)).await.unwrap(),
            4,
            "its thread survives the panic"
        );
    }
}
