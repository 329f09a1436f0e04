//! A running query's batches on their way to the client.
//!
//! Idea: each partition of the result has a task that computes one batch, and the next one when
//! that batch has been taken. While the client does not fetch, nothing more is computed, so that
//! the scans below release their chunks (`docs/design/storage.md`, "Consumers that do not come
//! back"), and waiting batches go to disk. DataFusion's merge would compute two batches per
//! partition ahead, and hold them in channels as long as the client likes. A batch of few rows is
//! usually the last, so the next step is computed at once: a small result is complete as soon as
//! its rows are there, and its client does not wait for two more thread switches. Large batches
//! are sent in turns (`senders.rs`). A query that found no memory because of others runs once
//! more, unless its client already has a batch of it.
//! Not here: where batches wait (`waiting.rs`); how rows are written (`rows.rs`); which queries
//! run once more, and when (`shortage.rs`).
//!
//! S2: what waits for the client is at most one batch per partition, a batch of few rows before
//! it, and one that was put back. These batches are charged to the query's memory while they are
//! in memory, and so is the batch being sent.
//! S3: dropping a [`Running`] aborts its tasks, which drops the streams.
//! S4: a panic in a task comes back as a [`Failure`].
//! S6: batches that wait for an idle client are on disk.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use coscan::QueryMemory;
use coscan::tasks::QueryTasks;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Handle;

use crate::cancel::stopping;
use crate::failure::Failure;
use crate::parse::Cost;
use crate::query::Task;
use crate::senders::{Senders, Turn};
use crate::shortage::{NextRun, Promise, Rerun};
use crate::stalled::Stalled;
use crate::waiting::{Queue, Taken};

/// After a batch of at most this many rows the next one is computed at once.
const FEW_ROWS: usize = 256;

/// The output of a plan: one stream per partition.
pub(crate) struct Streams {
    pub(crate) schema: SchemaRef,
    pub(crate) partitions: Vec<SendableRecordBatchStream>,
    /// Provides memory and disk space for waiting batches.
    pub(crate) environment: Arc<RuntimeEnv>,
}

/// A query whose partitions are computed by tasks.
pub(crate) struct Running {
    pub(crate) schema: SchemaRef,
    queue: Arc<Queue>,
    runtime: Handle,
    tasks: Vec<Task<()>>,
    /// How to run the query once more; `None` once its client has a batch.
    rerun: Option<Rerun<Streams>>,
    /// The streams of the next run, while they are being made.
    next_run: Option<Task<NextRun<Streams>>>,
    /// The memory of the batch taken last.
    taken: Option<MemoryReservation>,
    senders: Senders,
    /// The turn in which that batch is sent.
    turn: Option<Turn>,
}

impl Running {
    /// Starts the tasks. `cost` is held until the streams are dropped.
    pub(crate) fn start(
        runtime: &Handle,
        tasks: &Arc<QueryTasks>,
        streams: Streams,
        senders: Senders,
        cost: Option<&Arc<Cost>>,
    ) -> Self {
        let schema = Arc::clone(&streams.schema);
        let (queue, tasks) = pump(runtime, tasks, streams, cost, None);
        Self {
            schema,
            queue,
            runtime: runtime.clone(),
            tasks,
            rerun: None,
            next_run: None,
            taken: None,
            senders,
            turn: None,
        }
    }

    /// Lets `stalled` end the query when it keeps memory from others while its client does not
    /// read.
    pub(crate) fn may_be_ended_by(&self, stalled: &Stalled, memory: &Arc<QueryMemory>) {
        stalled.enter(&self.queue, memory);
    }

    /// Lets the query run once more if others keep it from memory.
    pub(crate) fn may_rerun(&mut self, rerun: Rerun<Streams>) {
        self.rerun = Some(rerun);
    }

    /// The next batch, or `None` after the last. A large batch comes only in this query's turn to
    /// send. Releases the memory of the previous batch. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.taken = None;
        self.turn = None;
        loop {
            self.begin_next_run().await?;
            let failure = {
                let mut changed = pin!(self.queue.changed());
                changed.as_mut().enable();
                if self.turn.is_none() && self.queue.next_is_large() {
                    self.turn = Some(self.senders.turn().await);
                }
                match self.queue.take() {
                    Taken::Batch(Err(why), _) => why,
                    Taken::Batch(Ok(batch), held) => {
                        self.rerun = None;
                        self.taken = held;
                        return Ok(Some(batch));
                    }
                    Taken::End => return Ok(None),
                    Taken::NotYet => {
                        changed.await;
                        continue;
                    }
                }
            };
            self.rerun_after(failure)?;
        }
    }

    /// S10: ends the failed run, and starts to make the next one.
    ///
    /// # Errors
    /// The failure, if the query must not run once more.
    fn rerun_after(&mut self, failure: Failure) -> Result<(), Failure> {
        let rerun = self.rerun.as_mut().filter(|_| !self.queue.has_ended());
        let Some(next) = rerun.and_then(|rerun| rerun.after(&failure)) else {
            return Err(failure);
        };
        self.tasks.clear();
        self.next_run = Some(Task::spawn(&self.runtime, next));
        Ok(())
    }

    /// Waits for the streams of the next run, if there is one, and starts its tasks.
    async fn begin_next_run(&mut self) -> Result<(), Failure> {
        let Some(next) = &mut self.next_run else {
            return Ok(());
        };
        let made = next.await;
        self.next_run = None;
        let (streams, memory, promise) = made??;
        if let Some(rerun) = &mut self.rerun {
            let (query, cost) = (&rerun.query, rerun.cost.as_ref());
            (self.queue, self.tasks) = pump(&self.runtime, query, streams, cost, Some(promise));
            rerun.stalled.enter(&self.queue, &memory);
            rerun.memory = memory;
        }
        Ok(())
    }

    /// How long the batch taken last may stay in memory while the client does not read.
    pub(crate) fn patience(&self) -> Duration {
        self.queue.patience()
    }

    /// Lets others send, because the client does not take what was sent, or has all it asked for.
    pub(crate) fn give_up_turn(&mut self) {
        self.turn = None;
    }

    /// Puts the rest of the batch taken last back, as the next one. From now on the client counts
    /// as idle.
    pub(crate) fn put_aside(&mut self, rest: RecordBatch) {
        self.taken = None;
        let number = self.queue.put_aside(rest);
        let queue = Arc::clone(&self.queue);
        let keep = async move { queue.keep(number).await };
        self.tasks.retain(|task| !task.has_ended());
        self.tasks.push(Task::spawn(&self.runtime, keep));
    }
}

/// Starts a task for each of the streams. `promise` is kept until each has produced a batch.
fn pump(
    runtime: &Handle,
    query: &Arc<QueryTasks>,
    streams: Streams,
    cost: Option<&Arc<Cost>>,
    promise: Option<Promise>,
) -> (Arc<Queue>, Vec<Task<()>>) {
    let pumps = streams.partitions.len();
    let queue = Arc::new(Queue::new(streams.schema, streams.environment, pumps));
    let promise = promise.map(Arc::new);
    let pumps = streams.partitions.into_iter().map(|stream| {
        let pump = Pump {
            queue: Arc::clone(&queue),
            promise: promise.clone(),
            ended: false,
        };
        let work = pump.run(stream, cost.cloned());
        Task::spawn(runtime, query.schedule(work.boxed()))
    });
    let tasks = pumps.collect();
    (queue, tasks)
}

/// Computes one partition's batches. Counts as computing until it is dropped.
struct Pump {
    queue: Arc<Queue>,
    /// The promised memory, kept until the first batch.
    promise: Option<Arc<Promise>>,
    /// Whether its stream has ended.
    ended: bool,
}

impl Pump {
    async fn run(mut self, mut stream: SendableRecordBatchStream, cost: Option<Arc<Cost>>) {
        let queue = Arc::clone(&self.queue);
        let mut kept = FuturesUnordered::new();
        while !self.ended {
            let next = pin!(AssertUnwindSafe(stream.next()).catch_unwind());
            let batch = match meanwhile(next, &mut kept).await {
                Ok(None) => break,
                Ok(Some(batch)) => batch.map_err(Failure::from),
                Err(payload) => Err(Failure::panicked(payload.as_ref())),
            };
            self.promise = None;
            self.ended = batch.is_err();
            let is_small = batch
                .as_ref()
                .is_ok_and(|batch| batch.num_rows() <= FEW_ROWS);
            match queue.put(batch) {
                Some(number) if !self.ended => kept.push(queue.keep(number)),
                Some(_) => {}
                None => self.ended = true,
            }
            let may_wait = usize::from(is_small);
            while kept.len() > may_wait && kept.next().await.is_some() {}
            self.ended |= queue.has_ended();
        }
        self.ended = true;
        drop((stream, cost, self));
        while kept.next().await.is_some() {}
    }
}

/// The output of `next`; meanwhile waiting batches are kept or moved to disk.
async fn meanwhile<T>(
    mut next: Pin<&mut impl Future<Output = T>>,
    kept: &mut FuturesUnordered<impl Future<Output = ()>>,
) -> T {
    loop {
        tokio::select! {
            biased;
            output = next.as_mut() => return output,
            Some(()) = kept.next() => {}
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        if !self.ended {
            // The query was dropped, or the runtime was shut down.
            self.queue.put(Err(stopping()));
        }
        self.queue.end_pump();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use coscan::tasks::TaskQueue;
    use datafusion::arrow::array::{AsArray, Int64Array, StringArray};
    use datafusion::arrow::compute::concat_batches;
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer};
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::Stream;
    use tokio::time::Instant;

    use super::*;
    use crate::waiting::IDLE_AFTER;

    type Batch = datafusion::error::Result<RecordBatch>;

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
        let running = Running::start(&handle, &tasks, streams, Senders::new(2), None);
        (running, environment)
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
    async fn waiting_batches_go_to_disk_and_come_back_in_order() {
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
            eventually("S2: two batches of few rows", computed).await;
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
    async fn batches_that_cannot_go_to_disk_are_reserved_or_fail() {
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
            eventually("S6: it stays in memory", || running.queue.has_failed()).await;
            assert!(running.next().await.is_err());
        }
    }

    #[tokio::test]
    async fn waiting_batches_and_the_one_being_sent_are_reserved() {
        let builder =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(1 << 20)));
        let (mut running, environment) = running(vec![partition(0, &Arc::default())], builder);
        let reserved = || environment.memory_pool.reserved();
        let first = running.next().await.unwrap().unwrap();
        // Numbers of eight bytes, and a text in two of three rows.
        let of_one = 8 * first.num_rows()..64 * first.num_rows();
        eventually("S9: the second batch", || reserved() >= 2 * of_one.start).await;
        assert!(reserved() < 2 * of_one.end, "{}", reserved());
        running.put_aside(first.slice(500, 500));
        eventually("S6: both on disk", || running.queue.on_disk() == 2).await;
        assert_eq!(reserved(), 0, "on disk it takes no memory");
        let half = running.next().await.unwrap().unwrap();
        assert_eq!(half.num_rows(), 500);
        let now = reserved();
        assert!(now >= of_one.start / 2, "S9: the batch being sent: {now}");
        assert_eq!(
            rest(&mut running).await,
            (ROWS..4 * ROWS).collect::<Vec<_>>()
        );
        assert_eq!(reserved(), 0);
    }

    /// More than [`FLUSH_BYTES`].
    fn large_batch() -> RecordBatch {
        let batches: Vec<RecordBatch> = (0..16).map(|at| batch(at * ROWS)).collect();
        concat_batches(&schema(), &batches).unwrap()
    }

    #[tokio::test]
    async fn large_batches_are_taken_in_turns() {
        let large = || futures::stream::iter([Ok(large_batch()), Ok(batch(0))]);
        let (mut first, _) = running(vec![large()], RuntimeEnvBuilder::new());
        let (mut second, _) = running(vec![large()], RuntimeEnvBuilder::new());
        let (mut small, _) = running(
            vec![partition(0, &Arc::default())],
            RuntimeEnvBuilder::new(),
        );
        let senders = Senders::new(1);
        for running in [&mut first, &mut second, &mut small] {
            running.senders = senders.clone();
            eventually("a batch", || running.queue.waits()).await;
        }
        assert!(first.next().await.unwrap().is_some());
        assert!(second.next().now_or_never().is_none(), "one at a time");
        assert!(small.next().await.unwrap().is_some(), "needs no turn");
        // A query that waits for its turn does not count as one whose client is idle.
        tokio::time::sleep(IDLE_AFTER + Duration::from_millis(100)).await;
        assert_eq!(second.queue.on_disk(), 0);
        first.give_up_turn();
        assert!(second.next().await.unwrap().is_some());
        assert!(first.next().await.unwrap().is_some(), "a small one");
        drop(second);
        assert!(first.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn large_batches_wait_on_disk_when_memory_is_short() {
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
    fn a_runtime_shutdown_does_not_complete_a_result() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let pending = futures::stream::pending::<Batch>();
        let (mut running, _) = {
            let _entered = runtime.enter();
            running(vec![pending], RuntimeEnvBuilder::new())
        };
        runtime.shutdown_background();
        let next = futures::executor::block_on(running.next());
        assert!(next.is_err(), "an incomplete result");
    }
}
