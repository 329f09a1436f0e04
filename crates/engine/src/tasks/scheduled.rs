//! A future that runs when it is its query's turn.
//!
//! It runs for at most [`BATCHES_MAX`] batches: Tokio lets a task go on for 128 calls that could
//! have waited, and others would wait for as many batches.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use coscan_core::tasks::TaskId;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use super::QueryTasks;

/// Batches that a task may work on before the next one has its turn.
const BATCHES_MAX: usize = 8;
/// What Tokio gives a task each time.
const TOKIO_BUDGET: usize = 128;

/// A future that runs when it is its query's turn.
#[must_use = "futures do nothing unless polled"]
pub struct Scheduled<T> {
    query: Arc<QueryTasks>,
    task: TaskId,
    future: BoxFuture<'static, T>,
    woken: Arc<Woken>,
    waker: Waker,
}

/// Notices that a task is woken while it runs.
#[derive(Default)]
struct Woken {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<T> Scheduled<T> {
    pub(super) fn new(query: Arc<QueryTasks>, future: BoxFuture<'static, T>) -> Self {
        let woken = Arc::<Woken>::default();
        Self {
            task: TaskId(query.queue.number()),
            query,
            future,
            waker: Waker::from(Arc::clone(&woken)),
            woken,
        }
    }
}

impl<T> Future for Scheduled<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        this.woken.task.register(cx.waker());
        if !this.query.queue.enter(this.query.id, this.task, cx.waker()) {
            return Poll::Pending;
        }
        let turn = TurnTaken {
            query: &this.query,
            task: this.task,
            woken: &this.woken,
            begun: Instant::now(),
            ended: false,
        };
        this.woken.is_woken.store(false, Ordering::Release);
        for _ in BATCHES_MAX..TOKIO_BUDGET {
            if let (true, Poll::Ready(spent)) = (has_budget_remaining(), poll_proceed(cx)) {
                spent.made_progress();
            }
        }
        let future = this.future.as_mut();
        let mut inner = Context::from_waker(&this.waker);
        let polled = this.query.scope(|| future.poll(&mut inner));
        turn.end(polled.is_ready());
        polled
    }
}

impl<T> Drop for Scheduled<T> {
    fn drop(&mut self) {
        self.query.queue.give_up(self.task);
    }
}

/// A turn; it ends when this is dropped, by a panic too.
struct TurnTaken<'a> {
    query: &'a QueryTasks,
    task: TaskId,
    woken: &'a Woken,
    begun: Instant,
    ended: bool,
}

impl TurnTaken<'_> {
    fn end(mut self, ended: bool) {
        self.ended = ended;
    }
}

impl Drop for TurnTaken<'_> {
    fn drop(&mut self) {
        let again =
            !self.ended && !std::thread::panicking() && self.woken.is_woken.load(Ordering::Acquire);
        let ran = self.begun.elapsed();
        self.query.queue.leave(self.query.id, self.task, ran, again);
    }
}
