//! A future that runs in its query's turns.
//!
//! A turn takes about [`TURN`]. Tokio lets a task continue for 128 calls that could have waited;
//! these take 5 ms in one task and seconds in another. So this future limits the calls of a turn,
//! judged by how long its last turn took. Tokio wakes a task that has used up its budget only when
//! a worker finds nothing else to do, or every 61 tasks; here such a task is ready at once, and
//! the core decides when it continues.
//!
//! When its query becomes long, the task moves to the threads for long queries
//! ([`super::LongThreads`]), if there are any, and moves between them as short queries come and
//! go. The future that was spawned first then only waits for the outcome. Each move spawns a Tokio
//! task, which takes over the work and later passes it to the next.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread;
use std::time::Duration;

use coscan_core::tasks::TaskId;
use coscan_storage::threads::processor_time;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::task::coop::{has_budget_remaining, poll_proceed};

use super::yielding::spend;
use super::{Entered, QueryTasks};

/// The intended time of a turn. Each turn costs some 10 µs, because another worker is woken.
const TURN: Duration = Duration::from_millis(1);
/// The calls in a task's first turn. Most calls are batches, which take 0.05 to 1 ms.
const FIRST_CALLS: usize = 8;
/// The deepest stack of cooperative streams to expect.
const CALLS_OF_STREAMS: usize = 32;
/// The budget that Tokio gives a task for each poll.
const CALLS_MAX: usize = 128;
/// An upper bound of that budget, for tasks that have none: outside of a task there is no limit.
const TOKIO_BUDGET_MAX: usize = 256;

/// The next turn's number.
static TURNS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The turn in which this thread's task runs.
    static THIS_TURN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The number of the current turn; `None` outside of all turns.
pub(super) fn turn() -> Option<u64> {
    THIS_TURN.get()
}

/// A future that runs in its query's turns.
#[must_use = "futures do nothing unless polled"]
pub struct Scheduled<T>(Work<T>);

enum Work<T> {
    Here(Turns<T>),
    Elsewhere(Elsewhere<T>),
    /// Only while the work changes threads.
    None,
}

/// The work, on whichever thread it runs.
struct Turns<T> {
    query: Arc<QueryTasks>,
    task: TaskId,
    future: BoxFuture<'static, T>,
    woken: Arc<Woken>,
    waker: Waker,
    /// The calls that take about a turn.
    calls: usize,
}

/// The result of a poll.
enum Step<T> {
    Ended(T),
    /// The task got no turn here and must continue on this runtime.
    BelongsTo(Handle),
}

/// Waits for work that continues on threads for long queries.
struct Elsewhere<T> {
    outcome: oneshot::Receiver<thread::Result<T>>,
    moves: Arc<Mutex<Moves>>,
}

/// The task that currently has the work.
#[derive(Default)]
struct Moves {
    task: Option<AbortHandle>,
    is_given_up: bool,
}

/// The work in one runtime; `None` once it has ended or moved on.
struct There<T>(Option<Moved<T>>);

/// Work that has changed threads.
struct Moved<T> {
    turns: Turns<T>,
    outcome: oneshot::Sender<thread::Result<T>>,
    moves: Arc<Mutex<Moves>>,
}

/// Notices when a task is woken while it runs.
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

impl<T: Send + 'static> Scheduled<T> {
    pub(super) fn new(query: Arc<QueryTasks>, future: BoxFuture<'static, T>) -> Self {
        let woken = Arc::<Woken>::default();
        Self(Work::Here(Turns {
            task: TaskId(query.queue.number()),
            query,
            future,
            waker: Waker::from(Arc::clone(&woken)),
            woken,
            calls: FIRST_CALLS,
        }))
    }
}

impl<T: Send + 'static> Future for Scheduled<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let work = &mut self.0;
        if let Work::Here(turns) = work {
            match ready!(turns.poll(cx)) {
                Step::Ended(outcome) => return Poll::Ready(outcome),
                Step::BelongsTo(runtime) => {
                    if let Work::Here(turns) = std::mem::replace(work, Work::None) {
                        *work = Work::Elsewhere(Elsewhere::begin(turns, &runtime));
                    }
                }
            }
        }
        match work {
            Work::Elsewhere(there) => there.poll(cx),
            _ => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> Turns<T> {
    /// Runs for one turn, if it is the query's turn.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step<T>> {
        self.woken.task.register(cx.waker());
        match self.query.queue.enter(self.query.id, self.task, cx.waker()) {
            Entered::Runs => {}
            Entered::Waits => return Poll::Pending,
            Entered::BelongsTo(runtime) => return Poll::Ready(Step::BelongsTo(runtime)),
        }
        let turn = TurnTaken {
            query: &self.query,
            task: self.task,
            woken: &self.woken,
            begun: processor_time(),
            ended: false,
            outer: THIS_TURN.replace(Some(TURNS.fetch_add(1, Ordering::Relaxed))),
        };
        self.woken.is_woken.store(false, Ordering::Release);
        leave_budget(cx, self.calls);
        let future = self.future.as_mut();
        let mut inner = Context::from_waker(&self.waker);
        let polled = self.query.scope(|| future.poll(&mut inner));
        if polled.is_pending() {
            if !has_budget_remaining() {
                self.woken.wake_by_ref();
                self.calls = calls_of_a_turn(self.calls, turn.used());
            } else if self.calls < CALLS_OF_STREAMS && (0..self.calls).all(|_| spend(cx)) {
                // No call was spent. Either the task waits, or it has too few calls for
                // DataFusion's cooperative streams: each of them takes one and gives it back if
                // the one below gets none.
                self.calls *= 2;
            }
        }
        turn.end(polled.is_ready());
        polled.map(Step::Ended)
    }
}

impl<T> Drop for Turns<T> {
    fn drop(&mut self) {
        self.query.queue.give_up(self.task);
    }
}

impl<T: Send + 'static> Elsewhere<T> {
    fn begin(turns: Turns<T>, runtime: &Handle) -> Self {
        let (sender, outcome) = oneshot::channel();
        let moves = Arc::<Mutex<Moves>>::default();
        let task = Moved {
            turns,
            outcome: sender,
            moves: Arc::clone(&moves),
        };
        task.go_on(runtime);
        Self { outcome, moves }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.outcome).poll(cx)) {
            Ok(Ok(ended)) => Poll::Ready(ended),
            Ok(Err(panic)) => resume_unwind(panic),
            // The runtime is shutting down, and so is the task that waits for this.
            Err(_) => Poll::Pending,
        }
    }
}

impl<T> Drop for Elsewhere<T> {
    fn drop(&mut self) {
        let mut moves = self.moves.lock();
        moves.is_given_up = true;
        let task = moves.task.take();
        drop(moves);
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl<T: Send + 'static> Moved<T> {
    /// Moves to a thread of `runtime`, unless the waiting future was dropped.
    fn go_on(self, runtime: &Handle) {
        let moves = Arc::clone(&self.moves);
        let mut moves = moves.lock();
        if moves.is_given_up {
            drop(moves);
        } else {
            let there = runtime.spawn(There(Some(self)));
            moves.task = Some(there.abort_handle());
        }
    }
}

impl<T: Send + 'static> Future for There<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut moved) = self.0.take() else {
            return Poll::Ready(());
        };
        let ended = match catch_unwind(AssertUnwindSafe(|| moved.turns.poll(cx))) {
            Ok(Poll::Pending) => {
                self.0 = Some(moved);
                return Poll::Pending;
            }
            Ok(Poll::Ready(Step::BelongsTo(runtime))) => {
                moved.go_on(&runtime);
                return Poll::Ready(());
            }
            Ok(Poll::Ready(Step::Ended(outcome))) => Ok(outcome),
            Err(panic) => Err(panic),
        };
        // The receiver may have been dropped; then the outcome is dropped, too.
        drop(moved.outcome.send(ended));
        Poll::Ready(())
    }
}

/// The calls of the next turn, if this many took this long.
fn calls_of_a_turn(calls: usize, took: Duration) -> usize {
    if took < TURN / 2 {
        (2 * calls).min(CALLS_MAX)
    } else if took > 2 * TURN {
        (calls / 2).max(1)
    } else {
        calls
    }
}

/// Leaves at most this many calls of the budget that Tokio has given the task.
fn leave_budget(cx: &mut Context<'_>, calls: usize) {
    let Poll::Ready(first) = poll_proceed(cx) else {
        return;
    };
    let mut budget = 1;
    while budget < TOKIO_BUDGET_MAX && spend(cx) {
        budget += 1;
    }
    // Dropping an unspent unit restores the budget from before that unit was taken.
    drop(first);
    for _ in calls..budget {
        spend(cx);
    }
}

/// A turn. It ends when this is dropped, also by a panic.
struct TurnTaken<'a> {
    query: &'a QueryTasks,
    task: TaskId,
    woken: &'a Woken,
    /// The thread's processor time.
    begun: Duration,
    ended: bool,
    /// The turn of another query in which this one runs, if there is one.
    outer: Option<u64>,
}

impl TurnTaken<'_> {
    /// The processor time used so far. By the wall clock, tasks on busy cores would seem to work
    /// for longer than they do.
    fn used(&self) -> Duration {
        processor_time().saturating_sub(self.begun)
    }

    fn end(mut self, ended: bool) {
        self.ended = ended;
    }
}

impl Drop for TurnTaken<'_> {
    fn drop(&mut self) {
        THIS_TURN.set(self.outer);
        let again =
            !self.ended && !std::thread::panicking() && self.woken.is_woken.load(Ordering::Acquire);
        let ran = self.used();
        self.query.queue.leave(self.query.id, self.task, ran, again);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicI32, AtomicUsize};
    use std::time::{Duration, Instant};

    use arrow::datatypes::Schema;
    use coscan_storage::threads::niceness;
    use datafusion::execution::SendableRecordBatchStream;
    use datafusion::physical_plan::coop::CooperativeStream;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{FutureExt, StreamExt};
    use tokio::task::JoinHandle;
    use tokio::task::coop::consume_budget;

    use super::*;
    use crate::tasks::long::share_of_this_thread;
    use crate::tasks::{LongThreads, TaskQueue};

    /// Lets other tasks run, then continues.
    async fn yields() {
        let mut has = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Works `times` times, `each` long.
    fn work(times: usize, each: Duration, done: &Arc<AtomicUsize>) -> BoxFuture<'static, ()> {
        let done = Arc::clone(done);
        async move {
            for _ in 0..times {
                let begun = Instant::now();
                while begun.elapsed() < each {
                    std::hint::spin_loop();
                }
                done.fetch_add(1, Ordering::SeqCst);
                yields().await;
            }
        }
        .boxed()
    }

    fn spawn(query: &Arc<QueryTasks>, work: BoxFuture<'static, ()>) -> JoinHandle<()> {
        tokio::spawn(query.schedule(work))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn a_short_query_runs_before_long_ones() {
        let queue = TaskQueue::new(1, 1, None);
        let (long, short) = (Arc::<AtomicUsize>::default(), Arc::default());
        let each = Duration::from_millis(2);
        let queries: Vec<_> = (0..10).map(|_| queue.begin()).collect();
        let tasks = queries.iter().flat_map(|query| [query; 5]);
        let tasks: Vec<_> = tasks
            .map(|query| spawn(query, work(10_000, each, &long)))
            .collect();
        // By then the first queries are long.
        while long.load(Ordering::SeqCst) < 500 {
            tokio::time::sleep(each).await;
        }
        // From its arrival in the queue to its last turn, in which no other task runs: the thread
        // of this test may be late.
        let (counted, work) = (Arc::clone(&long), work(10, each, &short));
        let work = async move {
            work.await;
            counted.load(Ordering::SeqCst)
        };
        let mut arrives = queue.begin().schedule(work.boxed());
        let _ = futures::poll!(&mut arrives);
        let before = long.load(Ordering::SeqCst);
        let meanwhile = tokio::spawn(arrives).await.unwrap() - before;
        // One long task runs already, and long tasks get one turn in five.
        assert!(meanwhile < 10, "{meanwhile}");
        tasks.iter().for_each(JoinHandle::abort);
    }

    #[test]
    fn turns_become_as_long_as_they_are_meant_to_be() {
        for micros in [1, 50, 400, 5_000] {
            let mut calls = FIRST_CALLS;
            for _ in 0..10 {
                let took = Duration::from_micros(micros) * u32::try_from(calls).unwrap();
                calls = calls_of_a_turn(calls, took);
            }
            let expected = match micros {
                1 => CALLS_MAX,
                50 => 16,
                400 => 4,
                _ => 1,
            };
            assert_eq!(calls, expected, "of {micros} µs");
        }
    }

    #[tokio::test]
    async fn a_call_for_each_of_many_cooperative_streams_is_found() {
        let queue = TaskQueue::new(1, 1, None);
        let schema = Arc::new(Schema::empty());
        let batch = arrow::array::RecordBatch::new_empty(Arc::clone(&schema));
        let batches = futures::stream::iter((0..50).map(move |_| Ok(batch.clone())));
        let one = RecordBatchStreamAdapter::new(Arc::clone(&schema), batches);
        let mut deep: SendableRecordBatchStream = Box::pin(one);
        for _ in 0..20 {
            let below = RecordBatchStreamAdapter::new(Arc::clone(&schema), deep);
            deep = Box::pin(CooperativeStream::new(below));
        }
        let work = async move {
            while deep.next().await.is_some() {
                // Longer than two turns, so that later turns have few calls.
                let begun = processor_time();
                while processor_time().saturating_sub(begun) < 3 * TURN {
                    std::hint::spin_loop();
                }
            }
        };
        let task = tokio::spawn(queue.begin().schedule(work.boxed()));
        let ended = tokio::time::timeout(Duration::from_secs(60), task).await;
        ended.unwrap().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_continues_for_a_turn() {
        const BATCHES: usize = 80;
        for (each, expected) in [(TURN / 100, 2..=9), (2 * TURN, 60..=BATCHES)] {
            let queue = TaskQueue::new(1, 1, None);
            let (batches, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (own, counted) = (Arc::clone(&batches), Arc::clone(&turns));
            let mut work = async move {
                for _ in 0..BATCHES {
                    consume_budget().await;
                    let begun = processor_time();
                    while processor_time().saturating_sub(begun) < each {
                        std::hint::spin_loop();
                    }
                    own.fetch_add(1, Ordering::SeqCst);
                }
            }
            .boxed();
            let work = poll_fn(move |cx| {
                counted.fetch_add(1, Ordering::SeqCst);
                work.poll_unpin(cx)
            });
            spawn(&queue.begin(), work.boxed()).await.unwrap();
            assert_eq!(batches.load(Ordering::SeqCst), BATCHES);
            let turns = turns.load(Ordering::SeqCst);
            assert!(expected.contains(&turns), "of {each:?}: {turns}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn a_task_that_is_dropped_or_panics_frees_its_worker() {
        let long = LongThreads::new(2, &Handle::current()).unwrap();
        for long in [None, Some(&long)] {
            come_and_go(&TaskQueue::new(2, 3, long)).await;
        }
    }

    async fn come_and_go(queue: &Arc<TaskQueue>) {
        let done = Arc::default();
        let each = Duration::from_micros(20);
        let mut tasks = Vec::new();
        for n in 0..400 {
            let query = queue.begin();
            if n % 2 == 0 {
                query.expect_step(Duration::from_secs(1));
            }
            let work = work(30, each, &done);
            let work = async move {
                work.await;
                assert!(n % 3 != 0, "as it is to");
            };
            tasks.push((n, spawn(&query, work.boxed())));
            if n % 7 == 0 {
                yields().await;
                let (_, task) = &tasks[n / 2];
                task.abort();
            }
        }
        for (n, task) in tasks {
            let ended = task.await;
            let aborted = ended
                .as_ref()
                .is_err_and(tokio::task::JoinError::is_cancelled);
            assert!(aborted || ended.is_err() == (n % 3 == 0), "{n}");
        }
        // Both workers are free.
        let last = queue.begin();
        let both = [
            spawn(&last, work(1, each, &done)),
            spawn(&last, work(1, each, &done)),
        ];
        for task in both {
            task.await.unwrap();
        }
        // The threads on which moved tasks run drop them.
        let begun = Instant::now();
        while !queue.inner.lock().wakers.is_empty() && begun.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(each).await;
        }
        let inner = queue.inner.lock();
        inner.core.check();
        assert!(inner.wakers.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_query_gives_way_as_long_as_there_are_short_ones() {
        let long = LongThreads::new(1, &Handle::current()).unwrap();
        let queue = TaskQueue::new(1, 2, Some(&long));
        let query = queue.begin();
        query.expect_step(Duration::from_secs(1));
        let usual = niceness();
        let (seen, ends) = (
            Arc::new(AtomicI32::new(-1)),
            Arc::new(AtomicBool::new(false)),
        );
        let (of_long, stops) = (Arc::clone(&seen), Arc::clone(&ends));
        let endless = async move {
            while !stops.load(Ordering::SeqCst) {
                of_long.store(niceness(), Ordering::SeqCst);
                yields().await;
            }
            "ended"
        };
        let endless = tokio::spawn(query.schedule(endless.boxed()));
        // Until then, short queries arrive, or they do not.
        let becomes = async |expected: i32, short_ones: bool| {
            let begun = Instant::now();
            while seen.load(Ordering::SeqCst) != expected {
                assert!(begun.elapsed() < Duration::from_secs(60), "{expected}");
                if short_ones {
                    let of_short = Arc::clone(&queue);
                    let short = async move {
                        yields().await;
                        assert!(of_short.inner.lock().protects_short());
                    };
                    queue.begin().schedule(short.boxed()).await;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        for _ in 0..3 {
            becomes(usual, false).await;
            becomes((usual + 12).min(19), true).await;
        }
        becomes(usual, false).await;
        ends.store(true, Ordering::SeqCst);
        assert_eq!(endless.await.unwrap(), "ended");
        assert!(!queue.inner.lock().protects_short());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_long_query_continues_on_threads_for_long_queries() {
        let long = LongThreads::new(1, &Handle::current()).unwrap();
        let queue = TaskQueue::new(1, 2, Some(&long));
        let query = queue.begin();
        let (first, becomes_long) = (Arc::clone(&query), Arc::clone(&query));
        let moved = || async {
            yields().await;
            share_of_this_thread().is_some()
        };
        let work = async move {
            let before = moved().await;
            becomes_long.expect_step(Duration::from_secs(1));
            let after = moved().await;
            // Tasks that it starts are on the same threads.
            let started = tokio::spawn(async { share_of_this_thread().is_some() }).await;
            // It stays there.
            let empty = EmptyExec::new(Arc::new(Schema::empty()));
            becomes_long.expect(&empty, None);
            (before, after, started.unwrap(), moved().await)
        };
        let moved = tokio::spawn(first.schedule(work.boxed())).await.unwrap();
        assert_eq!(moved, (false, true, true, true));
        let panics = async {
            yields().await;
            panic!("as it is to");
        };
        query.expect_step(Duration::from_secs(1));
        let panicked = tokio::spawn(query.schedule::<()>(panics.boxed())).await;
        let payload = panicked.unwrap_err().into_panic();
        assert_eq!(payload.downcast_ref(), Some(&"as it is to"));
    }
}
