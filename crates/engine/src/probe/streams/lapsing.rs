//! How does a read of pages give its memory back if it is not polled?
//!
//! An index scan starts reads ahead of its stream. If the stream stops being polled (an idle
//! cursor), the memory that its reads filled or pinned would stay taken. So a read that could
//! continue but is not polled for `lapse_after` is dropped; if it is polled later, it starts over.
//! Not here: chunks that a consumer holds, which lapse by themselves (coscan-storage, `place.rs`).
//! L1: the rows of a read are examined only when the read is complete, so starting over repeats no
//! row.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use coscan_storage::pool::{BufferPool, Lapses, Watch};
use futures::future::BoxFuture;
use parking_lot::Mutex;

/// A read that lapses if it is not polled.
pub(in crate::probe) struct Lapsing<T> {
    read: Arc<Read<T>>,
    _watch: Watch,
}

struct Read<T> {
    begin: Box<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>,
    under_way: Mutex<Option<BoxFuture<'static, T>>>,
    /// The time since which the read could go on; `None` while it waits for the device.
    ready: Mutex<Option<Instant>>,
    lapse_after: Duration,
}

impl<T: 'static> Lapsing<T> {
    /// A read that `begin` starts, as often as needed.
    pub(in crate::probe) fn new(
        pool: &BufferPool,
        begin: impl Fn() -> BoxFuture<'static, T> + Send + Sync + 'static,
    ) -> Self {
        let read = Arc::new(Read {
            begin: Box::new(begin),
            under_way: Mutex::new(None),
            ready: Mutex::new(None),
            lapse_after: pool.config().lapse_after,
        });
        let watched: Weak<dyn Lapses> = Arc::downgrade(&read) as Weak<dyn Lapses>;
        Self {
            read,
            _watch: pool.watch(watched),
        }
    }
}

impl<T: 'static> Future for Lapsing<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let read = &self.read;
        let mut under_way = read.under_way.lock();
        *read.ready.lock() = None;
        let waker = Waker::from(Arc::new(Ready {
            read: Arc::downgrade(read),
            waker: cx.waker().clone(),
        }));
        let future = under_way.get_or_insert_with(|| (read.begin)());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            *under_way = None;
        }
        polled
    }
}

impl<T> Lapses for Read<T> {
    fn lapse_if_silent(&self, now: Instant, wanted_after: Option<Duration>) {
        let patience = wanted_after.map_or(self.lapse_after, |wanted| wanted.min(self.lapse_after));
        let silent = |since: Instant| now.saturating_duration_since(since) >= patience;
        // A read that is being polled is not silent. `ready` is checked under the lock, because a
        // read that waits for the device again must not be dropped.
        let lapsed = self.under_way.try_lock().and_then(|mut read| {
            let lapses = self.ready.lock().is_some_and(silent);
            lapses.then(|| read.take())
        });
        drop(lapsed);
    }
}

/// A waker that records when a read can continue.
struct Ready<T> {
    read: Weak<Read<T>>,
    waker: Waker,
}

impl<T: 'static> Wake for Ready<T> {
    fn wake(self: Arc<Self>) {
        if let Some(read) = self.read.upgrade() {
            read.ready.lock().get_or_insert_with(Instant::now);
        }
        self.waker.wake_by_ref();
    }
}
