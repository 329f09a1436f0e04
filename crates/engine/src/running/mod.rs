//! A running query's batches on their way to the client.
//!
//! Idea: each partition of the result has a task that computes one batch, and the next one when
//! that batch has been taken. While the client does not come back, nothing more is computed, so
//! that the scans below let go of their chunks (`docs/design/storage.md`, "Consumers that do not
//! come back"), and the batches that wait go to disk. DataFusion's merge would compute two batches
//! a partition ahead, and hold them in channels for as long as the client likes. A batch of few
//! rows is most often the last one, so what comes after it is computed at once: the end of a small
//! result is there with its rows, and its client does not wait for two more changes of threads.
//! Large batches may be taken in turns, which the consumer gives. A query that others left no
//! memory for is run again, as long as its client has no batch of it.
//!
//! | file | question |
//! |---|---|
//! | `mod.rs` | how does a consumer get the batches of a query? |
//! | `answer.rs` | what does a client get of a statement: rows, or only a tag? |
//! | `pump.rs` | who computes them? |
//! | `queue.rs` | where do they wait? |
//! | `rerun.rs` | which queries are run again, and when? |
//! | `silent.rs` | what becomes of a query whose consumer does not come back? |
//! | `statement_threads.rs` | on which threads are statements parsed, planned and started? |
//! | `task.rs` | on which threads does it run, and what ends a task? |
//!
//! Not here: how a plan becomes streams (`session/start.rs`); how rows are written.
//!
//! S2: what waits for the client is at most one batch per partition, a batch of few rows before
//! it, and one that was put back. These batches are charged to the query's memory while they are
//! in memory, and so is the batch being sent.
//! S3: dropping a [`Running`] aborts its tasks, which drops the streams.
//! S4: a panic in a task comes back as an error.
//! S6: batches that wait for an idle client are on disk.

mod answer;
mod pump;
mod queue;
mod rerun;
mod silent;
mod statement_threads;
mod task;

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::stream::try_unfold;
use tokio::runtime::Handle;

use pump::pump;
use queue::{Queue, Taken};
use rerun::NextRun;
use task::Task;

use crate::memory::Promise;
use crate::tasks::QueryTasks;

pub use answer::{Answer, SHOW, rows_tag};
pub use queue::{IDLE_AFTER, LARGE_BYTES};
pub(crate) use rerun::{Again, Estimate, Start, wanted_memory};
pub use statement_threads::StatementThreads;
pub use task::{QueryRuntime, ended, guarded, panicked};

/// What is held until the streams of a query are dropped: the memory of its plan, for example.
pub type Guard = Arc<dyn Any + Send + Sync>;

/// The output of a plan: one stream per partition.
pub(crate) struct Streams {
    pub(crate) schema: SchemaRef,
    pub(crate) partitions: Vec<SendableRecordBatchStream>,
    /// Provides memory and disk space for waiting batches.
    pub(crate) environment: Arc<RuntimeEnv>,
}

/// A query whose partitions are computed by tasks.
pub struct Running {
    schema: SchemaRef,
    queue: Arc<Queue>,
    runtime: Handle,
    /// Whose turn its tasks run in.
    query: Option<Arc<QueryTasks>>,
    guard: Guard,
    tasks: Vec<Task<()>>,
    /// How the query is run again; `None` once its client has a batch.
    again: Option<Again<Streams>>,
    /// The streams of the next run, while they are made.
    next_run: Option<Task<Result<NextRun<Streams>>>>,
    /// The memory of the batch taken last.
    taken: Option<MemoryReservation>,
    /// What its session does when it ends.
    at_end: Option<Arc<dyn AtEnd>>,
}

/// What a session does when a query of it ends.
pub(crate) trait AtEnd: Send + Sync {
    /// Its consumer has it, and may give it up.
    fn handed_out(&self);

    /// The query has failed.
    fn failed(&self);

    /// Its consumer has all rows. Returns what is to be done before it learns that.
    fn ended(&self) -> Option<BoxFuture<'static, Result<()>>>;
}

impl Running {
    /// `guard` is held until the streams are dropped, and `promise` until they have rows.
    /// `at_once`: the caller's task may compute what a short query with one partition gives without
    /// waiting.
    pub(crate) fn start(
        runtime: Handle,
        query: Option<Arc<QueryTasks>>,
        streams: Streams,
        guard: Guard,
        promise: Option<Promise>,
        at_once: bool,
    ) -> Self {
        let schema = Arc::clone(&streams.schema);
        let (queue, tasks) = pump(&runtime, query.as_ref(), streams, &guard, promise, at_once);
        Self {
            schema,
            queue,
            runtime,
            query,
            guard,
            tasks,
            again: None,
            next_run: None,
            taken: None,
            at_end: None,
        }
    }

    /// The columns of its rows.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// From now on the query is run again if others keep it from memory.
    pub(crate) fn may_run_again(&mut self, again: Again<Streams>) {
        self.again = Some(again);
    }

    /// What is to be done when it ends.
    pub(crate) fn at_end(&mut self, at_end: Arc<dyn AtEnd>) {
        self.at_end = Some(at_end);
    }

    /// Its consumer gets it now.
    pub(crate) fn is_handed_out(&self) {
        if let Some(at_end) = &self.at_end {
            at_end.handed_out();
        }
    }

    /// The next batch, or `None` after the last. Releases the memory of the batch before. Cancel
    /// safe.
    ///
    /// # Errors
    /// The query's; [`Error::Ended`](crate::Error::Ended) if it was ended for its memory;
    /// [`Error::Stopped`](crate::Error::Stopped) if its runtime was shut down;
    /// [`Error::Panicked`](crate::Error::Panicked).
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.next_in_turn(|| std::future::ready(())).await?;
        Ok(next.map(|(batch, _)| batch))
    }

    /// As [`Running::next`], but a batch of more than [`LARGE_BYTES`] is taken only when there is a
    /// turn for it, which is handed out with the batch.
    ///
    /// # Errors
    /// As [`Running::next`].
    pub async fn next_in_turn<T, F: Future<Output = T>>(
        &mut self,
        wait_for_turn: impl Fn() -> F,
    ) -> Result<Option<(RecordBatch, Option<T>)>> {
        let mut next = self.take_in_turn(wait_for_turn).await;
        if let Some(at_end) = &self.at_end {
            if matches!(next, Ok(None))
                && let Some(work) = at_end.ended()
            {
                next = work.await.map(|()| None);
            }
            if next.is_err() {
                at_end.failed();
            }
        }
        next
    }

    async fn take_in_turn<T, F: Future<Output = T>>(
        &mut self,
        wait_for_turn: impl Fn() -> F,
    ) -> Result<Option<(RecordBatch, Option<T>)>> {
        self.taken = None;
        let mut turn = None;
        loop {
            self.begin_next_run().await?;
            let failure = {
                let mut changed = pin!(self.queue.changed());
                changed.as_mut().enable();
                if turn.is_none() && self.queue.next_is_large() {
                    turn = Some(wait_for_turn().await);
                }
                match self.queue.take() {
                    Taken::Batch(Err(why), _) => why,
                    Taken::Batch(Ok(batch), held) => {
                        self.again = None;
                        self.taken = held;
                        return Ok(Some((batch, turn)));
                    }
                    Taken::End => return Ok(None),
                    Taken::NotYet => {
                        changed.await;
                        continue;
                    }
                }
            };
            self.run_again_after(failure)?;
        }
    }

    /// S10: ends the failed run, and starts to make the next one.
    ///
    /// # Errors
    /// The failure, if the query is not to be run again.
    fn run_again_after(&mut self, failure: DataFusionError) -> Result<()> {
        let again = self.again.as_mut();
        let Some(next) = again.and_then(|again| again.after(&failure)) else {
            return Err(failure);
        };
        self.tasks.clear();
        self.next_run = Some(Task::spawn(&self.runtime, next));
        Ok(())
    }

    /// Waits for the streams of the next run, if there is one, and starts its tasks.
    async fn begin_next_run(&mut self) -> Result<()> {
        let Some(next) = &mut self.next_run else {
            return Ok(());
        };
        let made = next.await;
        self.next_run = None;
        let NextRun {
            streams,
            memory,
            promise,
            minimum,
        } = made??;
        if let Some(again) = &mut self.again {
            again.begins(memory, minimum);
            let (query, guard) = (self.query.as_ref(), &self.guard);
            let promise = Some(promise);
            (self.queue, self.tasks) = pump(&self.runtime, query, streams, guard, promise, false);
        }
        Ok(())
    }

    /// How long the batch taken last may stay in memory while the client does not read.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.queue.patience()
    }

    /// Puts the rest of the batch taken last back, as the next one. From now on the client counts
    /// as idle.
    pub fn put_aside(&mut self, rest: RecordBatch) {
        self.taken = None;
        let number = self.queue.put_aside(rest);
        let queue = Arc::clone(&self.queue);
        let keep = async move { queue.keep(number).await };
        self.tasks.retain(|task| !task.has_ended());
        self.tasks.push(Task::spawn(&self.runtime, keep));
    }

    /// Its batches as a stream. Dropping it ends the query.
    #[must_use]
    pub fn into_stream(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = try_unfold(self, async |mut running| {
            let next = running.next().await?;
            Ok(next.map(|batch| (batch, running)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::{FutureExt, Stream, StreamExt};
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::pump::FEW_ROWS;
    use super::silent::SILENT_AFTER;
    use super::*;
    use crate::tasks::TaskQueue;

    type Batch = Result<RecordBatch>;

    const ROWS: i64 = 1000;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("number", DataType::Int64, false),
            Field::new("text", DataType::Utf8, true),
        ]))
    }

    fn batch(first: i64) -> RecordBatch {
        let numbers = first..first + ROWS;
        let texts: StringArray = numbers
            .clone()
            .map(|number| (number % 3 != 0).then(|| number.to_string()))
            .collect();
        let numbers = Int64Array::from_iter_values(numbers);
        RecordBatch::try_new(schema(), vec![Arc::new(numbers), Arc::new(texts)]).unwrap()
    }

    fn running(
        partitions: Vec<impl Stream<Item = Batch> + Send + 'static>,
        environment: RuntimeEnvBuilder,
    ) -> (Running, Arc<RuntimeEnv>) {
        let environment = environment.build_arc().unwrap();
        let adapted = partitions.into_iter().map(|stream| {
            let stream: SendableRecordBatchStream =
                Box::pin(RecordBatchStreamAdapter::new(schema(), stream));
            stream
        });
        let streams = Streams {
            schema: schema(),
            partitions: adapted.collect(),
            environment: Arc::clone(&environment),
        };
        let tasks = TaskQueue::new(2, 2, None).begin();
        let handle = Handle::current();
        let running = Running::start(handle, Some(tasks), streams, Arc::new(()), None, true);
        (running, environment)
    }

    /// Whether all rows of a query are there when the task that starts it goes on.
    async fn is_answered_at_once(partitions: usize, is_long: bool, at_once: bool) -> bool {
        let few_rows = || {
            let rows = futures::stream::iter([Ok(batch(0).slice(0, 3))]);
            let rows: SendableRecordBatchStream =
                Box::pin(RecordBatchStreamAdapter::new(schema(), rows));
            rows
        };
        let streams = Streams {
            schema: schema(),
            partitions: (0..partitions).map(|_| few_rows()).collect(),
            environment: RuntimeEnvBuilder::new().build_arc().unwrap(),
        };
        let tasks = TaskQueue::new(1, 1, None).begin();
        if is_long {
            tasks.expect_step(Duration::from_secs(1));
        }
        let query = Some(Arc::clone(&tasks));
        let start = async move {
            let handle = Handle::current();
            let mut running = Running::start(handle, query, streams, Arc::new(()), None, at_once);
            let rows = running.next().now_or_never().and_then(Result::unwrap);
            let end = running.next().now_or_never();
            let has_ended = end.is_some_and(|end| end.unwrap().is_none());
            has_ended && rows.is_some_and(|rows| rows.num_rows() == 3)
        };
        tokio::spawn(tasks.schedule(start.boxed())).await.unwrap()
    }

    #[tokio::test]
    async fn the_task_that_starts_a_short_query_computes_its_few_rows() {
        assert!(is_answered_at_once(1, false, true).await);
        assert!(!is_answered_at_once(2, false, true).await, "side by side");
        assert!(!is_answered_at_once(1, true, true).await, "a long one");
        assert!(!is_answered_at_once(1, false, false).await);
    }

    /// A partition of four batches that counts how many were computed.
    fn partition(first: i64, asked: &Arc<AtomicUsize>) -> impl Stream<Item = Batch> + use<> {
        let asked = Arc::clone(asked);
        futures::stream::iter(0..4).map(move |at| {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(batch(first + at * ROWS))
        })
    }

    fn numbers(batch: &RecordBatch) -> Vec<i64> {
        for (number, text) in batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .zip(batch.column(1).as_string::<i32>())
        {
            let expected = (number % 3 != 0).then(|| number.to_string());
            assert_eq!(text, expected.as_deref());
        }
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    }

    async fn rest(running: &mut Running) -> Vec<i64> {
        let mut all = Vec::new();
        while let Some(batch) = running.next().await.unwrap() {
            all.extend(numbers(&batch));
        }
        all
    }

    async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn what_waits_goes_to_disk_and_comes_back_in_order() {
        let asked = Arc::default();
        let builder = RuntimeEnvBuilder::new();
        let (mut running, environment) = running(vec![partition(0, &asked)], builder);
        let mut all = Vec::new();
        for _ in 0..2 {
            let first = running.next().await.unwrap().unwrap();
            all.extend(numbers(&first.slice(0, 10)));
            running.put_aside(first.slice(10, first.num_rows() - 10));
            let two = || running.queue.on_disk() == 2;
            eventually("S6: in memory", two).await;
            assert!(environment.disk_manager.used_disk_space() > 0);
            assert_eq!(asked.load(Ordering::SeqCst), 2, "S2");
        }
        all.extend(rest(&mut running).await);
        assert_eq!(all, (0..4 * ROWS).collect::<Vec<_>>());
        drop(running);
        let empty = || environment.disk_manager.used_disk_space() == 0;
        eventually("files are left", empty).await;
    }

    #[tokio::test]
    async fn a_partition_is_one_batch_ahead() {
        let asked = Arc::default();
        let partitions = (0..3).map(|at| partition(at * 4 * ROWS, &asked));
        let (mut running, _) = running(partitions.collect(), RuntimeEnvBuilder::new());
        let computed = || asked.load(Ordering::SeqCst);
        let mut all = Vec::new();
        for taken in 1..=3 {
            all.extend(numbers(&running.next().await.unwrap().unwrap()));
            eventually("the next one", || computed() == 3 + taken).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(computed(), 3 + taken, "S2");
        }
        all.extend(rest(&mut running).await);
        all.sort_unstable();
        assert_eq!(all, (0..12 * ROWS).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn the_end_is_known_with_the_last_rows() {
        let asked = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&asked);
        let small = move |at: i64| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(batch(at * ROWS).slice(0, FEW_ROWS))
        };
        for count in [1, 4] {
            asked.store(0, Ordering::SeqCst);
            let partition = futures::stream::iter(0..count).map(small.clone());
            let (mut running, environment) = running(vec![partition], RuntimeEnvBuilder::new());
            let ahead = usize::try_from(count).unwrap().min(2);
            let computed = || asked.load(Ordering::SeqCst) == ahead;
            eventually("S2: two of few rows", computed).await;
            if count == 1 {
                let ended = || running.queue.is_complete();
                eventually("the end waits for the client", ended).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(computed(), "S2");
            let rows = usize::try_from(count).unwrap() * FEW_ROWS;
            assert_eq!(rest(&mut running).await.len(), rows);
            assert_eq!(environment.memory_pool.reserved(), 0, "S9");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_entered_or_fails() {
        for (bytes, fits) in [(1 << 20, true), (100, false)] {
            let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
            let builder = RuntimeEnvBuilder::new()
                .with_disk_manager_builder(disk)
                .with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes)));
            let asked = Arc::default();
            let (mut running, environment) = running(vec![partition(0, &asked)], builder);
            let pool = &environment.memory_pool;
            let first = running.next().await.unwrap().unwrap();
            running.put_aside(first.slice(1, first.num_rows() - 1));
            if fits {
                eventually("S6: not kept", || running.queue.stay() == 2).await;
                assert!(pool.reserved() > 0, "S9");
                assert_eq!(rest(&mut running).await, (1..4 * ROWS).collect::<Vec<_>>());
                assert_eq!(pool.reserved(), 0);
                continue;
            }
            eventually("S6: it stays", || running.queue.has_failed()).await;
            // What waits ahead of the batch that has failed may not have failed yet.
            let mut taken = 0;
            while let Ok(next) = running.next().await {
                taken += next.expect("S6: it ends without it").num_rows();
            }
            assert!(taken < 4 * usize::try_from(ROWS).unwrap() - 1);
        }
    }

    #[tokio::test]
    async fn what_waits_and_what_is_being_sent_is_entered() {
        let builder =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(1 << 20)));
        let (mut running, environment) = running(vec![partition(0, &Arc::default())], builder);
        let reserved = || environment.memory_pool.reserved();
        let first = running.next().await.unwrap().unwrap();
        // Numbers of eight bytes, and a text in two of three rows.
        let of_one = 8 * first.num_rows()..64 * first.num_rows();
        eventually("S9: the second one", || reserved() >= 2 * of_one.start).await;
        assert!(reserved() < 2 * of_one.end, "{}", reserved());
        running.put_aside(first.slice(500, 500));
        eventually("S6: both on disk", || running.queue.on_disk() == 2).await;
        assert_eq!(reserved(), 0, "on disk it takes no memory");
        let half = running.next().await.unwrap().unwrap();
        assert_eq!(half.num_rows(), 500);
        let now = reserved();
        assert!(now >= of_one.start / 2, "S9: what is being sent: {now}");
        assert_eq!(
            rest(&mut running).await,
            (ROWS..4 * ROWS).collect::<Vec<_>>()
        );
        assert_eq!(reserved(), 0);
    }

    /// More than [`LARGE_BYTES`].
    fn large_batch() -> RecordBatch {
        let batches: Vec<RecordBatch> = (0..16).map(|at| batch(at * ROWS)).collect();
        concat_batches(&schema(), &batches).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn large_batches_are_taken_in_turns() {
        let large = || futures::stream::iter([Ok(large_batch()), Ok(batch(0))]);
        let (mut first, _) = running(vec![large()], RuntimeEnvBuilder::new());
        let (mut second, _) = running(vec![large()], RuntimeEnvBuilder::new());
        let (mut small, _) = running(
            vec![partition(0, &Arc::default())],
            RuntimeEnvBuilder::new(),
        );
        let second_queue = Arc::clone(&second.queue);
        for running in [&first, &second, &small] {
            eventually("a batch", || running.queue.waits()).await;
        }
        let turns = Semaphore::new(1);
        let turn = || async { turns.acquire().await.unwrap() };
        let (_, held) = first.next_in_turn(turn).await.unwrap().unwrap();
        assert!(held.is_some());
        let (_, none) = small.next_in_turn(turn).await.unwrap().unwrap();
        assert!(none.is_none(), "it needs no turn");
        let mut waits = Box::pin(second.next_in_turn(turn));
        assert!(waits.as_mut().now_or_never().is_none(), "one at a time");
        // A query that waits for its turn does not count as one whose client is idle.
        tokio::time::sleep(SILENT_AFTER + Duration::from_millis(100)).await;
        assert_eq!(second_queue.on_disk(), 0);
        assert_eq!(second_queue.idle(Instant::now()), Duration::ZERO);
        drop(held);
        assert!(waits.await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn where_memory_is_short_large_batches_wait_on_disk() {
        let pool = Arc::new(GreedyMemoryPool::new(8 << 20));
        let builder = RuntimeEnvBuilder::new().with_memory_pool(pool);
        let partition = futures::stream::iter([Ok(large_batch()), Ok(large_batch())]);
        let (mut running, environment) = running(vec![partition], builder);
        let others = MemoryConsumer::new("others").register(&environment.memory_pool);
        running.next().await.unwrap().unwrap();
        eventually("S9: both", || running.queue.waits()).await;
        assert_eq!(running.patience(), IDLE_AFTER);
        others.try_grow(7 << 20).unwrap();
        assert!(running.patience() < IDLE_AFTER);
        running.put_aside(large_batch());
        let begun = Instant::now();
        eventually("both on disk", || running.queue.on_disk() == 2).await;
        assert!(begun.elapsed() < IDLE_AFTER, "{:?}", begun.elapsed());
        assert_eq!(environment.memory_pool.reserved(), 7 << 20, "S9");
        for _ in 0..2 {
            let next = running.next().await.unwrap().unwrap();
            assert_eq!(next, large_batch());
        }
        assert!(running.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_panic_in_a_stream_is_a_failure() {
        let panics = futures::stream::poll_fn(|_| -> std::task::Poll<Option<Batch>> {
            panic!("boom");
        });
        let (mut running, _) = running(vec![panics], RuntimeEnvBuilder::new());
        let failure = running.next().await.unwrap_err();
        assert!(failure.to_string().contains("boom"), "{failure}");
    }

    #[tokio::test]
    async fn dropping_drops_the_streams() {
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Flag(Arc::clone(&dropped));
        let pending = futures::stream::poll_fn(move |_| -> std::task::Poll<Option<Batch>> {
            let _held = &flag;
            std::task::Poll::Pending
        });
        let (running, _) = running(vec![pending], RuntimeEnvBuilder::new());
        tokio::task::yield_now().await;
        drop(running);
        eventually("S3", || dropped.load(Ordering::SeqCst)).await;
    }

    #[test]
    fn a_runtime_that_is_shut_down_ends_no_result() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let pending = futures::stream::pending::<Batch>();
        let (mut running, _) = {
            let _entered = runtime.enter();
            running(vec![pending], RuntimeEnvBuilder::new())
        };
        runtime.shutdown_background();
        let next = futures::executor::block_on(running.next());
        assert!(next.is_err(), "a result that is not whole");
    }
}
