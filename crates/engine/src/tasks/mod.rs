//! Runs the tasks of a query when it is the query's turn.
//!
//! Idea: Tokio runs tasks in the order in which they were woken, so a short query waits, at each
//! of its batches, while tasks of all long queries run. Here a task asks the core before it runs
//! ([`coscan_core::tasks`]). If it is not the query's turn, the task waits until another task
//! leaves its place and wakes it. Tasks that a DataFusion operator starts belong to the query
//! whose task started them: [`install`] makes DataFusion wrap every task of the process.
//!
//! | file | question |
//! |---|---|
//! | `mod.rs` | which queries and waiting tasks does a runtime have? |
//! | `expected.rs` | how long will a plan take? |
//! | `long.rs` | on which threads do long queries run? |
//! | `measured.rs` | how long did queries with the same plan take? |
//! | `neighbours.rs` | do other programs compute beside this one? |
//! | `pieces.rs` | how large a piece of a batch does a join get at a time? |
//! | `scheduled.rs` | how does a future run in turn? |
//! | `yielding.rs` | how does a stream give way? |
//! | `yielding_exec.rs` | how does a plan node give way? |
//!
//! Not here: which task is next (the core); decode threads, which have their own queue.
//! Cancel safety: a task that is dropped gives its place to the next.

mod expected;
mod long;
mod measured;
mod neighbours;
mod pieces;
mod scheduled;
mod yielding;
mod yielding_exec;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use coscan_core::tasks::{Config, QueryId, TaskId, Tasks, Turn};
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use long::{LongHandles, Share};
use measured::Measured;

pub use long::LongThreads;
pub(crate) use long::Threads;
pub use measured::Fingerprint;
pub use scheduled::Scheduled;
pub(crate) use yielding::{give_way, spend, yielding};
pub(crate) use yielding_exec::{GivesWay, YieldingExec};

/// The time at which each level ends: 5 ms, then ten times as much for each next level, so that
/// similar queries share a level. The length of queries that arrive at once is unknown, so in a
/// burst a short query waits for the first level of all earlier queries; hence only 5 ms.
const LEVEL_ENDS_NS: [u64; 5] = [
    5_000_000,
    50_000_000,
    500_000_000,
    5_000_000_000,
    50_000_000_000,
];
/// The levels of short queries, up to 50 ms. Short queries have more workers than there are cores.
const SHORT_LEVELS: usize = 2;
/// A level gets this many times the share of the next one.
const RATIO: u64 = 4;
/// An expected time counts at most as the start of the level of half a second. That puts the query
/// behind all short ones and no further, because estimates of joins may be wrong by any factor.
const EXPECTED_MAX_NS: u64 = 500_000_000;
/// Short queries are protected for this long after the last of them ended: the time in which a
/// client that has an answer sends its next query.
const PROTECTED_AFTER: Duration = Duration::from_millis(20);
/// Long queries take an equal share for this long after other programs were found to have what
/// they left.
const FAIR_FOR: Duration = Duration::from_secs(3);

thread_local! {
    /// The query whose task this thread runs.
    static CURRENT: RefCell<Option<Arc<QueryTasks>>> = const { RefCell::new(None) };
}

/// The tasks of a runtime's queries: those that run, and those that wait for their turn.
#[derive(Debug)]
pub struct TaskQueue {
    inner: Mutex<Inner>,
    numbers: AtomicU64,
    measured: Mutex<Measured>,
    /// The runtimes for long queries, if there are separate threads for them.
    long: Option<LongHandles>,
    /// Processors.
    cores: u32,
    /// The processor time of all turns of short queries, in nanoseconds.
    short_ns: AtomicU64,
}

/// The result of asking to run a task.
enum Entered {
    Runs,
    /// The task is woken at its turn.
    Waits,
    /// The task must continue on this runtime.
    BelongsTo(Handle),
}

#[derive(Debug)]
struct Inner {
    core: Tasks,
    /// The wakers of waiting tasks.
    wakers: HashMap<TaskId, Waker>,
    /// The youngest query that was short, and when a short query last had a running or waiting
    /// task.
    served_short: Option<(QueryId, Instant)>,
    /// Until when other programs are taken to compute.
    others_until: Option<Instant>,
}

impl Inner {
    fn see_short(&mut self) {
        if let Some(last) = self.core.short().next_back() {
            let youngest = self.served_short.map_or(last, |(id, _)| id.max(last));
            self.served_short = Some((youngest, Instant::now()));
        }
    }

    /// Whether there are short queries to protect from this query: others that are served, or
    /// have just ended and began after it. The query was short itself, and older ones may be those
    /// that its client sent before it; these are not in its way.
    fn protects_short_from(&mut self, query: QueryId) -> bool {
        self.see_short();
        let ended = self.served_short;
        self.core.short().any(|id| id != query)
            || ended.is_some_and(|(youngest, at)| youngest > query && is_recent(at))
    }

    /// Whether there are short queries to protect from work that belongs to no query.
    fn protects_short(&mut self) -> bool {
        self.see_short();
        self.served_short.is_some_and(|(_, at)| is_recent(at))
    }

    /// The share of the threads of long work, of a query or of none: little while there are short
    /// queries to protect, unless other programs would have the rest.
    fn share_of_long(&mut self, query: Option<QueryId>) -> Share {
        let others = self
            .others_until
            .is_some_and(|until| Instant::now() < until);
        let protects = match query {
            Some(query) => self.protects_short_from(query),
            None => self.protects_short(),
        };
        if protects && !others {
            Share::Little
        } else {
            Share::Fair
        }
    }
}

fn is_recent(at: Instant) -> bool {
    at.elapsed() < PROTECTED_AFTER
}

/// A query, as the owner of its tasks.
#[derive(Debug)]
pub struct QueryTasks {
    queue: Arc<TaskQueue>,
    id: QueryId,
    /// The fingerprint of its plan, once the query has announced it.
    plan: OnceLock<Fingerprint>,
}

impl TaskQueue {
    /// A queue without queries. `workers` tasks run at a time, at most `cores` of them tasks of
    /// long queries. If `long` is given, long queries continue on its threads.
    #[must_use]
    pub fn new(cores: usize, workers: usize, long: Option<&LongThreads>) -> Arc<Self> {
        let core = Tasks::new(Config {
            cores,
            workers,
            short_levels: SHORT_LEVELS,
            level_ends: LEVEL_ENDS_NS.to_vec(),
            ratio: RATIO,
            expected_max_ns: EXPECTED_MAX_NS,
        });
        let inner = Inner {
            core,
            wakers: HashMap::new(),
            served_short: None,
            others_until: None,
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            numbers: AtomicU64::new(0),
            measured: Mutex::default(),
            long: long.map(LongThreads::handles),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            short_ns: AtomicU64::new(0),
        })
    }

    /// A query that has used no time yet.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Arc<QueryTasks> {
        let id = QueryId(self.number());
        self.inner.lock().core.begin(id);
        Arc::new(QueryTasks {
            queue: Arc::clone(self),
            id,
            plan: OnceLock::new(),
        })
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether and where a task may run now. If it must wait, `waker` is woken at its turn.
    fn enter(&self, query: QueryId, task: TaskId, waker: &Waker) -> Entered {
        let gives_way = long::share_of_this_thread() == Some(Share::Little);
        let others = gives_way && neighbours::others_compute(self.cores, self.time_of_short());
        let mut inner = self.inner.lock();
        if others {
            inner.others_until = Some(Instant::now() + FAIR_FOR);
        }
        if let Some(long) = &self.long
            && inner.core.is_long(query)
        {
            let share = inner.share_of_long(Some(query));
            if long::share_of_this_thread() != Some(share) {
                return Entered::BelongsTo(long.of(share).clone());
            }
        }
        let (before, entered) = match inner.core.enter(query, task) {
            Turn::Run => (inner.wakers.remove(&task), Entered::Runs),
            Turn::Wait => (inner.wakers.insert(task, waker.clone()), Entered::Waits),
        };
        drop(inner);
        // Dropping a waker may drop a task, which takes the lock.
        drop(before);
        entered
    }

    /// Whether long work of a query, or of none, must give way to short queries.
    #[must_use]
    pub fn gives_way(&self, query: Option<&QueryTasks>) -> bool {
        let query = query.map(|query| query.id);
        self.inner.lock().share_of_long(query) == Share::Little
    }

    /// The number of tasks that run or wait for their turn.
    #[must_use]
    pub fn ready(&self) -> u32 {
        u32::try_from(self.inner.lock().core.ready()).unwrap_or(u32::MAX)
    }

    /// The number of processors that run tasks.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.cores
    }

    fn time_of_short(&self) -> Duration {
        Duration::from_nanos(self.short_ns.load(Ordering::Relaxed))
    }

    /// Ends a task's turn. `again`: the task wants another one.
    fn leave(&self, query: QueryId, task: TaskId, ran: Duration, again: bool) {
        let ran = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        let mut inner = self.inner.lock();
        inner.see_short();
        if !inner.core.is_long(query) {
            self.short_ns.fetch_add(ran, Ordering::Relaxed);
        }
        let next = inner.core.leave(query, task, ran, again);
        let waker = next.and_then(|next| inner.wakers.remove(&next));
        drop(inner);
        // A task without a waker is about to be polled anyway.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Removes a task that was dropped.
    fn give_up(&self, task: TaskId) {
        let mut inner = self.inner.lock();
        let next = inner.core.give_up(task);
        let own = inner.wakers.remove(&task);
        let waker = next.and_then(|next| inner.wakers.remove(&next));
        drop(inner);
        drop(own);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl QueryTasks {
    /// Wraps a future, and the tasks that it starts, so that they run in the query's turn.
    pub fn schedule<T: Send + 'static>(
        self: &Arc<Self>,
        future: BoxFuture<'static, T>,
    ) -> Scheduled<T> {
        Scheduled::new(Arc::clone(self), future)
    }

    /// Announces the plan that the query will run. Its expected time decides which queries go
    /// first: the time of the last query with this fingerprint, or an estimate from statistics.
    pub fn expect(&self, plan: &dyn ExecutionPlan, fingerprint: Option<Fingerprint>) {
        let measured = fingerprint.and_then(|plan| {
            let plan = *self.plan.get_or_init(|| plan);
            self.queue.measured.lock().get(plan)
        });
        let ns = measured.unwrap_or_else(|| expected::expected_ns(plan));
        self.queue.inner.lock().core.expect(self.id, ns);
    }

    /// Announces that the query's next step takes about this long and does not give way meanwhile.
    /// If that is longer than the first level, the step runs like one of a long query, so that the
    /// workers for short queries stay free.
    pub fn expect_step(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if ns >= LEVEL_ENDS_NS[0] {
            let ns = ns.max(LEVEL_ENDS_NS[SHORT_LEVELS - 1]);
            self.queue.inner.lock().core.expect(self.id, ns);
        }
    }

    /// Whether the calling thread runs a task of this query, and the query is short: then work of
    /// the query may be done here.
    pub(crate) fn may_go_on_here(&self) -> bool {
        let is_here = CURRENT.with_borrow(|current| {
            let current = current.as_ref().map(Arc::as_ptr);
            current.is_some_and(|current| std::ptr::eq(current, self))
        });
        is_here && !self.queue.inner.lock().core.is_long(self.id)
    }

    /// Calls `f`. Tasks that `f` starts belong to the query.
    pub fn scope<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        let _restored = Restored(CURRENT.replace(Some(Arc::clone(self))));
        f()
    }
}

impl Drop for QueryTasks {
    fn drop(&mut self) {
        let used_ns = self.queue.inner.lock().core.end(self.id);
        if let Some(plan) = self.plan.get() {
            self.queue.measured.lock().set(*plan, used_ns);
        }
    }
}

/// Restores this thread's current query when dropped.
struct Restored(Option<Arc<QueryTasks>>);

impl Drop for Restored {
    fn drop(&mut self) {
        let inner = CURRENT.replace(self.0.take());
        // Dropped outside the cell, because this may be the last reference to the query.
        drop(inner);
    }
}

/// The query that this thread works for, if there is one.
pub(crate) fn current() -> Option<Arc<QueryTasks>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Wraps the future to run in the turn of the query that this thread works for, if there is one.
pub(crate) fn in_turn<T: Send + 'static>(future: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
    match current() {
        Some(query) => query.schedule(future).boxed(),
        None => future,
    }
}

/// Makes all tasks that DataFusion starts in this process belong to the query whose task starts
/// them. If another tracer of tasks is already set, only a query's own futures run in turn.
pub fn install() {
    struct Tracer;

    type Output = Box<dyn std::any::Any + Send>;

    impl JoinSetTracer for Tracer {
        fn trace_future(&self, future: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
            in_turn(future)
        }

        fn trace_block(
            &self,
            work: Box<dyn FnOnce() -> Output + Send>,
        ) -> Box<dyn FnOnce() -> Output + Send> {
            work
        }
    }

    if set_join_set_tracer(&Tracer).is_err() {
        log::debug!("tasks are already traced");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::datatypes::Schema;
    use coscan_storage::threads::processor_time;
    use datafusion::logical_expr::LogicalPlanBuilder;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    #[test]
    fn a_long_step_runs_like_one_of_a_long_query() {
        let queue = TaskQueue::new(1, 1, None);
        let empty = EmptyExec::new(Arc::new(Schema::empty()));
        let query = queue.begin();
        let is_long = || queue.inner.lock().core.is_long(query.id);
        for (micros, long) in [(900, false), (6_000, true)] {
            query.expect_step(Duration::from_micros(micros));
            assert_eq!(is_long(), long, "{micros} µs");
        }
        query.expect(&empty, None);
        assert!(!is_long(), "the step is over");
    }

    #[test]
    fn long_queries_give_way_to_short_ones_of_others_only() {
        let queue = TaskQueue::new(1, 2, None);
        let [before, long, after] = [0; 3].map(|_| queue.begin());
        let waker = Waker::noop();
        // However long this thread is interrupted.
        let later = Instant::now() + Duration::from_secs(3_600);
        // A task of the query runs and ends, and the long query asks during and after it.
        let gives_way = |query: &QueryTasks| {
            let task = TaskId(queue.number());
            assert!(matches!(queue.enter(query.id, task, waker), Entered::Runs));
            let during = queue.inner.lock().protects_short_from(long.id);
            queue.leave(query.id, task, Duration::ZERO, false);
            let mut inner = queue.inner.lock();
            let (_, at) = inner.served_short.as_mut().unwrap();
            *at = later;
            (during, inner.protects_short_from(long.id))
        };
        assert_eq!(gives_way(&long), (false, false), "its own beginning");
        assert_eq!(gives_way(&before), (true, false), "what it follows");
        assert_eq!(gives_way(&after), (true, true));
        assert!(queue.gives_way(None) && !queue.gives_way(Some(after.as_ref())));
        queue.inner.lock().others_until = Some(later);
        assert!(!queue.gives_way(None), "other programs would have the rest");
        let mut inner = queue.inner.lock();
        let (_, at) = inner.served_short.as_mut().unwrap();
        *at = Instant::now().checked_sub(2 * PROTECTED_AFTER).unwrap();
        assert!(!inner.protects_short(), "long ago");
    }

    #[tokio::test]
    async fn a_plan_is_expected_to_take_as_long_as_last_time() {
        let queue = TaskQueue::new(1, 1, None);
        let empty = EmptyExec::new(Arc::new(Schema::empty()));
        let plans = [false, true].map(|has_row| LogicalPlanBuilder::empty(has_row).build());
        let [quick, slow] = plans.map(|plan| Fingerprint::of(&plan.unwrap()));
        let is_long = |query: &QueryTasks| queue.inner.lock().core.is_long(query.id);
        for (plan, millis) in [(slow, 60), (quick, 0), (slow, 0)] {
            let query = queue.begin();
            query.expect(&empty, Some(plan));
            assert_eq!(is_long(&query), (plan, millis) == (slow, 0));
            let work = async move {
                let begun = processor_time();
                while processor_time().saturating_sub(begun) < Duration::from_millis(millis) {
                    std::hint::spin_loop();
                }
            };
            query.schedule(work.boxed()).await;
        }
        let query = queue.begin();
        query.expect(&empty, Some(slow));
        assert!(!is_long(&query), "the last one counts");
    }
}
