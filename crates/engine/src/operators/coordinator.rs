//! All runs of an engine: their plans, their retained output, and the packets that wait for it.
//!
//! Idea: the core decides; this file holds what it decides about. One lock guards both. Under the
//! lock only the core is called: streams are polled, batches and plans dropped, wakers woken,
//! memory asked for and released without it. So the lock may be taken wherever a waker is woken or
//! a stream dropped.
//! Not here: what a packet does next (`reader.rs`).
//! Bounds: a run retains at most a 32nd of the memory budget and `RUN_BYTES_MAX`, all runs an
//! eighth; `WINDOWS_MAX` runs can be joined at a time. Of the runs that no packet reads, at most
//! `KEPT_MAX` are kept, with keys of at most `KEPT_KEY_BYTES_MAX`, and in all at most the bytes of
//! `coscan.state_cache`. What a run takes besides batches (`OperatorKey::bytes`, `RUN_BYTES`) is
//! reserved while it is there.
//! OPS-I3: the packet that polls has the stream; while the stream is out of its place the core lets
//! no other packet poll.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use arrow::array::RecordBatch;
use coscan_core::memory::HolderId;
use coscan_core::operators::{
    Action, Arrived, Config, Keep, MicroEngine, OperatorKind, Operators, PacketId, Pull, Request,
    Role, RunId,
};
use coscan_storage::pool::{MemoryBudget, Reclaim};
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::{Mutex, MutexGuard};

use super::kept::{Buffers, Kept, Spilled, compacted};
use super::key::OperatorKey;
use super::trace::{OperatorTrace, Record, Recorded};

/// What a run retains at most: results of aggregates, tops of sorts and small joins fit. For larger
/// output a window closes before what it keeps from other use costs more than it may save.
const RUN_BYTES_MAX: u64 = 8 << 20;
/// The part of the memory budget that a run may retain, as a divisor.
const RUN_PART: u64 = 32;
/// The part of the memory budget that all runs may retain, as a divisor.
const PART: u64 = 8;
/// Runs that can be joined at a time: enough for all queries that a server runs at once, with a few
/// operators each.
const WINDOWS_MAX: usize = 4096;
/// Runs that are kept: the results of some hundred dashboards.
const KEPT_MAX: usize = 1024;
/// Runs with longer keys are not kept: a key may hold a list of thousands of literals.
pub(super) const KEPT_KEY_BYTES_MAX: u64 = 16 << 10;
/// About the bytes that a run takes besides its key and its batches.
pub(super) const RUN_BYTES: u64 = 1 << 10;
/// The part of the memory budget that kept runs may take when memory is short, as a divisor: enough
/// for the results of a thousand aggregates, too little to be missed.
const KEPT_PART_MIN: u64 = 256;

/// All runs of an engine.
pub(crate) struct Coordinator {
    memory: Arc<MemoryBudget>,
    holder: HolderId,
    inner: Mutex<Inner>,
    queries: AtomicU64,
    /// The texts of the sessions' options in keys. Most sessions have the same options.
    options: Mutex<Vec<Weak<str>>>,
    own: Weak<Self>,
}

struct Inner {
    core: Operators<OperatorKey>,
    runs: BTreeMap<RunId, Run>,
    /// `None` unless the engine was configured to record.
    record: Option<Record>,
}

/// One execution of an operator.
struct Run {
    /// `None` once the run is kept.
    work: Option<Work>,
    /// Keeps alive the stores that are named in the run's key by their address. The host's runtime
    /// itself is not kept, because every query of a server has one.
    _stores: Arc<dyn ObjectStoreRegistry>,
    /// Bytes that are reserved for what the run takes besides its batches.
    overhead_bytes: u64,
    /// The query of the host.
    query: u64,
    /// How many packets joined the run.
    satellites: u64,
    recorded: Option<Recorded>,
    failure: Option<Arc<DataFusionError>>,
    lists: Vec<List>,
}

impl Run {
    /// A run that has produced nothing.
    fn of_host(work: Work, query: u64, partitions: usize) -> Self {
        let stores = Arc::clone(&work.context.runtime_env().object_store_registry);
        let lists = std::iter::repeat_with(List::default);
        Self {
            work: Some(work),
            _stores: stores,
            overhead_bytes: 0,
            query,
            satellites: 0,
            recorded: None,
            failure: None,
            lists: lists.take(partitions).collect(),
        }
    }

    /// How many batches each partition has produced.
    fn fronts(&self) -> Vec<u64> {
        let fronts = self.lists.iter();
        let fronts = fronts.map(|list| list.first + list.batches.len() as u64);
        fronts.collect()
    }
}

/// What a run executes: the host's plan, and the context of its query.
#[derive(Clone)]
struct Work {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
}

/// What one partition has produced, and which packets wait for more.
#[derive(Default)]
struct List {
    /// `None`: the stream has not begun, is over, or is with the packet that polls it.
    stream: Option<SendableRecordBatchStream>,
    /// The number of the first retained batch.
    first: u64,
    batches: VecDeque<Kept>,
    /// The buffers of the last batch.
    buffers: Buffers,
    waiting: Vec<(PacketId, Waker)>,
    /// The waker of the stream: it tells that the stream has more.
    waker: Option<Waker>,
}

/// A packet that was accepted.
pub(super) struct Joined {
    pub(super) arrived: Arrived,
    /// The query of the host.
    pub(super) host: u64,
    /// How many batches each partition had already.
    pub(super) fronts: Vec<u64>,
}

/// What a packet must do next in one partition.
pub(super) enum Next {
    /// The batch of this number.
    Take(u64, Kept),
    Poll(Producer),
    Wait,
    Full,
    End,
    /// With the context of the host, in which the run has failed.
    Failed(DataFusionError, Option<Arc<TaskContext>>),
    Rerun,
}

/// The plan of a run, to be polled in one partition.
pub(super) struct Producer {
    stream: Option<SendableRecordBatchStream>,
    work: Work,
    buffers: Buffers,
    /// Whether a batch may be retained for other packets.
    is_wanted: bool,
    waker: Waker,
}

/// The result of polling a run's plan.
pub(super) enum Polled {
    Batch(RecordBatch),
    Pending,
    /// The next pull says what has happened: the end, or a failure.
    Look,
}

/// The waker of a run's stream: it tells the coordinator that the stream has more.
struct Ready {
    coordinator: Weak<Coordinator>,
    run: RunId,
    partition: usize,
}

/// What must be done without the lock.
#[derive(Default)]
#[must_use]
struct After {
    wakers: Vec<Waker>,
    batches: Vec<Kept>,
    streams: Vec<SendableRecordBatchStream>,
    runs: Vec<Run>,
    work: Vec<Work>,
    /// Bytes to be released: they were granted, and are not retained.
    freed: u64,
}

impl Coordinator {
    /// A coordinator without runs. Retained output is counted in `memory`, and given back when
    /// memory is short. `records`: for [`Self::trace`].
    pub(crate) fn new(memory: &Arc<MemoryBudget>, records: bool) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            holder: memory.retains(Weak::clone(own) as Weak<dyn Reclaim>),
            memory: Arc::clone(memory),
            inner: Mutex::new(Inner {
                core: Operators::new(bounds(memory)),
                runs: BTreeMap::new(),
                record: records.then(Record::default),
            }),
            queries: AtomicU64::new(0),
            options: Mutex::default(),
            own: Weak::clone(own),
        })
    }

    /// A number for a query.
    pub(crate) fn next_query(&self) -> u64 {
        self.queries.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The options of a session as one text, which all keys with the same options share.
    pub(crate) fn intern(&self, options: String) -> Arc<str> {
        let mut known = self.options.lock();
        known.retain(|text| text.strong_count() > 0);
        let same = known.iter().filter_map(Weak::upgrade);
        let same = same.into_iter().find(|text| **text == *options);
        same.unwrap_or_else(|| {
            let text = options.into();
            known.push(Arc::downgrade(&text));
            text
        })
    }

    /// What the micro-engines do, and have done.
    pub(crate) fn micro_engines(&self) -> BTreeMap<OperatorKind, MicroEngine> {
        self.inner.lock().core.micro_engines()
    }

    /// The runs so far, if they are recorded.
    pub(crate) fn trace(&self) -> Vec<OperatorTrace> {
        let inner = self.inner.lock();
        inner.record.as_ref().map_or_else(Vec::new, Record::runs)
    }

    /// A packet arrives; `closed` are the partitions that it does not want. `None`: it must run by
    /// itself.
    pub(super) fn arrive(
        &self,
        key: OperatorKey,
        request: Request,
        query: u64,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        closed: &[usize],
    ) -> Option<Joined> {
        let bounds = bounds(&self.memory);
        let overhead = request.overhead_bytes;
        let granted = self.memory.try_keep(self.holder, overhead);
        let mut after = After {
            freed: if granted { overhead } else { 0 },
            ..After::default()
        };
        let mut inner = self.inner.lock();
        inner.core.configure(bounds);
        let Some(arrived) = inner.core.arrive(key, request) else {
            self.finish(inner, after);
            return None;
        };
        match arrived.role {
            Role::Host => {
                let work = Work {
                    plan: Arc::clone(plan),
                    context: Arc::clone(context),
                };
                let mut run = Run::of_host(work, query, request.partitions);
                run.overhead_bytes = std::mem::take(&mut after.freed);
                let record = inner.record.as_mut();
                run.recorded = record.map(|record| record.begin(request.kind, context));
                inner.runs.insert(arrived.run, run);
                if !granted {
                    inner.core.leave(arrived.packet);
                    self.finish(inner, after);
                    return None;
                }
            }
            Role::Satellite | Role::Late => {
                let run = inner.run(arrived.run);
                run.satellites += 1;
                let recorded = run.recorded;
                if let (Some(record), Some(recorded)) = (inner.record.as_mut(), recorded) {
                    record.join(recorded, context);
                }
            }
        }
        for partition in closed {
            inner.core.close(arrived.packet, *partition);
        }
        let run = inner.run(arrived.run);
        let (host, fronts) = (run.query, run.fronts());
        self.finish(inner, after);
        Some(Joined {
            arrived,
            host,
            fronts,
        })
    }

    /// What a packet must do next in a partition. If it must wait, `waker` is woken when that may
    /// have changed.
    pub(super) fn pull(&self, of: &Arrived, partition: usize, waker: &Waker) -> Next {
        let mut inner = self.inner.lock();
        let pull = inner.core.pull(of.packet, partition);
        let mut after = After::default();
        let next = match pull {
            Pull::Take(number) => {
                let list = inner.list(of.run, partition);
                let at = usize::try_from(number - list.first).ok();
                let kept = at.and_then(|at| list.batches.get(at));
                let kept = kept.expect("OPS-I2: it is retained").clone();
                Next::Take(number, kept)
            }
            Pull::Poll => {
                inner.act(&mut after);
                let is_wanted = inner.core.is_wanted(of.run, partition);
                let run = inner.run(of.run);
                let work = run.work.clone().expect("OPS-I7: it has not ended");
                let list = &mut run.lists[partition];
                // The packet that polls is woken like those that wait.
                list.waits(of.packet, waker);
                let own = &self.own;
                let ready = list.waker.get_or_insert_with(|| {
                    Waker::from(Arc::new(Ready {
                        coordinator: Weak::clone(own),
                        run: of.run,
                        partition,
                    }))
                });
                Next::Poll(Producer {
                    waker: ready.clone(),
                    stream: list.stream.take(),
                    buffers: std::mem::take(&mut list.buffers),
                    is_wanted,
                    work,
                })
            }
            Pull::Wait | Pull::Full => {
                // Pending actions are taken first, so that they do not wake the packet that now
                // begins to wait.
                inner.act(&mut after);
                inner.list(of.run, partition).waits(of.packet, waker);
                if pull == Pull::Full {
                    Next::Full
                } else {
                    Next::Wait
                }
            }
            Pull::End => Next::End,
            Pull::Failed => {
                let run = inner.run(of.run);
                let failure = run.failure.as_ref();
                let failure = failure.expect("a failed run has said why");
                let host = run.work.as_ref().map(|work| Arc::clone(&work.context));
                Next::Failed(DataFusionError::Shared(Arc::clone(failure)), host)
            }
            Pull::Rerun => Next::Rerun,
        };
        self.finish(inner, after);
        next
    }

    /// Polls a run's plan for a packet that was told to poll.
    pub(super) fn produce(&self, of: &Arrived, partition: usize, producer: Producer) -> Polled {
        let Producer {
            stream,
            work: Work { plan, context },
            buffers,
            is_wanted,
            waker,
        } = producer;
        let mut stream = match stream.map_or_else(|| begin(&plan, partition, &context), Ok) {
            Ok(stream) => stream,
            Err(error) => return self.failed(of, partition, error, None),
        };
        let polled = loop {
            match poll(&mut stream, &waker) {
                // No packet misses a batch without rows.
                Poll::Ready(Some(Ok(batch))) if batch.num_rows() == 0 => {}
                polled => break polled,
            }
        };
        match polled {
            Poll::Ready(Some(Ok(batch))) => {
                let from = Source {
                    stream,
                    context,
                    before: buffers,
                    is_wanted,
                };
                self.produced(of, partition, batch, from)
            }
            Poll::Ready(Some(Err(error))) => self.failed(of, partition, error, Some(stream)),
            Poll::Ready(None) => {
                let mut inner = self.inner.lock();
                inner.core.ended(of.run, partition);
                let mut after = After::default();
                after.streams.push(stream);
                self.finish(inner, after);
                Polled::Look
            }
            Poll::Pending => {
                let mut inner = self.inner.lock();
                let list = inner.list(of.run, partition);
                list.stream = Some(stream);
                list.buffers = buffers;
                inner.core.pending(of.run, partition);
                self.finish(inner, After::default());
                Polled::Pending
            }
        }
    }

    fn produced(&self, of: &Arrived, partition: usize, batch: RecordBatch, from: Source) -> Polled {
        let mut after = After::default();
        // A query that is alone must not pay for measuring batches that no other packet takes.
        let mut small = None;
        let (mut buffers, mut bytes) = (Buffers::default(), 0);
        if from.is_wanted {
            let batch = match compacted(&batch) {
                Ok(small) => small,
                Err(error) => return self.failed(of, partition, error, Some(from.stream)),
            };
            buffers = Buffers::of(&batch);
            bytes = buffers.bytes_beyond(&from.before);
            if self.memory.try_keep(self.holder, bytes) {
                after.freed = bytes;
                small = Some(batch);
            }
        }
        let mut inner = self.inner.lock();
        let keep = inner.core.place(of.run, partition, bytes, small.is_some());
        inner.act(&mut after);
        let mut kept = None;
        match keep {
            Keep::Drop => {}
            Keep::Memory => {
                let batch = small
                    .take()
                    .expect("nothing goes there that was not granted");
                kept = Some(Kept::Memory { batch, bytes });
                // The remaining bytes are those of released batches.
                after.freed -= bytes;
            }
            Keep::Disk => {
                drop(inner);
                match Spilled::write(&batch, &from.context) {
                    Ok(spilled) => kept = Some(Kept::Disk(spilled)),
                    Err(error) => {
                        after.carry_out(&self.memory, self.holder);
                        return self.failed(of, partition, error, Some(from.stream));
                    }
                }
                inner = self.inner.lock();
            }
        }
        let counts = inner.core.produced(of.run, partition, bytes, keep);
        let list = inner.list(of.run, partition);
        list.stream = Some(from.stream);
        list.buffers = buffers;
        list.waiting.retain(|(packet, _)| *packet != of.packet);
        match kept {
            Some(kept) if counts => list.batches.push_back(kept),
            Some(kept) => after.drop_kept(kept),
            None => list.first += u64::from(counts),
        }
        self.finish(inner, after);
        if counts {
            Polled::Batch(batch)
        } else {
            Polled::Look
        }
    }

    fn failed(
        &self,
        of: &Arrived,
        partition: usize,
        error: DataFusionError,
        stream: Option<SendableRecordBatchStream>,
    ) -> Polled {
        let mut after = After::default();
        after.streams.extend(stream);
        let mut inner = self.inner.lock();
        let run = inner.run(of.run);
        run.failure.get_or_insert_with(|| Arc::new(error));
        // The streams of a failed run are of no use.
        let streams = run.lists.iter_mut().map(|list| list.stream.take());
        after.streams.extend(streams.flatten());
        inner.core.failed(of.run, partition);
        self.finish(inner, after);
        Polled::Look
    }

    /// Tells the core that a packet has waited long enough for slower packets.
    pub(super) fn impatient(&self, of: &Arrived, partition: usize) {
        let mut inner = self.inner.lock();
        inner.core.impatient(of.packet, partition);
        self.finish(inner, After::default());
    }

    /// Closes a partition for a packet, which takes nothing more of it.
    pub(super) fn close(&self, of: &Arrived, partition: usize) {
        let mut inner = self.inner.lock();
        if let Some(run) = inner.runs.get_mut(&of.run) {
            let waiting = &mut run.lists[partition].waiting;
            waiting.retain(|(packet, _)| *packet != of.packet);
        }
        inner.core.close(of.packet, partition);
        self.finish(inner, After::default());
    }

    /// Ends a packet: its query is done with it.
    pub(super) fn leave(&self, of: &Arrived) {
        let mut inner = self.inner.lock();
        inner.core.leave(of.packet);
        self.finish(inner, After::default());
    }

    /// How many packets joined a run that is under way.
    pub(super) fn satellites(&self, of: &Arrived) -> u64 {
        let inner = self.inner.lock();
        inner.runs.get(&of.run).map_or(0, |run| run.satellites)
    }

    /// The plan of a run; `None` if the run is kept without it.
    pub(super) fn plan(&self, of: &Arrived) -> Option<Arc<dyn ExecutionPlan>> {
        let inner = self.inner.lock();
        let work = inner.runs.get(&of.run)?.work.as_ref()?;
        Some(Arc::clone(&work.plan))
    }

    fn ready(&self, run: RunId, partition: usize) {
        let mut inner = self.inner.lock();
        inner.core.ready(run, partition);
        self.finish(inner, After::default());
    }

    /// Takes the core's actions, releases the lock, and carries the actions out.
    fn finish(&self, mut inner: MutexGuard<'_, Inner>, mut after: After) {
        inner.act(&mut after);
        drop(inner);
        after.carry_out(&self.memory, self.holder);
    }
}

/// Where a batch came from.
struct Source {
    stream: SendableRecordBatchStream,
    context: Arc<TaskContext>,
    /// The buffers of the batch before it.
    before: Buffers,
    is_wanted: bool,
}

impl Inner {
    fn run(&mut self, run: RunId) -> &mut Run {
        self.runs.get_mut(&run).expect("OPS-I7: it is there")
    }

    fn list(&mut self, run: RunId, partition: usize) -> &mut List {
        &mut self.run(run).lists[partition]
    }

    fn record_end(&mut self, run: Option<Recorded>) {
        if let (Some(record), Some(run)) = (self.record.as_mut(), run) {
            record.end(run);
        }
    }

    /// Takes the core's pending actions.
    fn act(&mut self, after: &mut After) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Release {
                    run,
                    partition,
                    before,
                } => {
                    let list = self.list(run, partition);
                    while list.first < before {
                        let kept = list.batches.pop_front().expect("OPS-I2: it is retained");
                        list.first += 1;
                        after.drop_kept(kept);
                    }
                }
                Action::Wake { run, partition } => {
                    let waiting = self.list(run, partition).waiting.drain(..);
                    after.wakers.extend(waiting.map(|(_, waker)| waker));
                }
                Action::Keep { run } => {
                    let run = self.run(run);
                    let recorded = run.recorded;
                    after.work.extend(run.work.take());
                    self.record_end(recorded);
                }
                Action::Stop { run } => {
                    let run = self.runs.remove(&run).expect("OPS-I7: a run stops once");
                    self.record_end(run.recorded);
                    after.runs.push(run);
                }
            }
        }
    }
}

impl List {
    fn waits(&mut self, packet: PacketId, waker: &Waker) {
        match self.waiting.iter_mut().find(|(of, _)| *of == packet) {
            Some((_, known)) => known.clone_from(waker),
            None => self.waiting.push((packet, waker.clone())),
        }
    }
}

impl After {
    fn drop_kept(&mut self, kept: Kept) {
        if let Kept::Memory { bytes, .. } = &kept {
            self.freed += bytes;
        }
        self.batches.push(kept);
    }

    fn carry_out(mut self, memory: &MemoryBudget, holder: HolderId) {
        for run in &mut self.runs {
            self.freed += run.overhead_bytes;
            for list in &mut run.lists {
                for kept in list.batches.drain(..) {
                    if let Kept::Memory { bytes, .. } = &kept {
                        self.freed += bytes;
                    }
                    self.batches.push(kept);
                }
            }
        }
        self.batches.clear();
        if self.freed > 0 {
            memory.give_back(holder, self.freed);
        }
        self.wakers.drain(..).for_each(Waker::wake);
        // Plans and streams are dropped last: the runs below them end with them.
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(coordinator) = self.coordinator.upgrade() {
            coordinator.ready(self.run, self.partition);
        }
    }
}

impl Reclaim for Coordinator {
    fn reclaim(&self, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.core.shrink(bytes);
        self.finish(inner, After::default());
    }
}

fn bounds(memory: &MemoryBudget) -> Config {
    let limit = memory.limit();
    Config {
        run_bytes_max: (limit / RUN_PART).min(RUN_BYTES_MAX),
        bytes_max: limit / PART,
        windows_max: WINDOWS_MAX,
        kept_max: KEPT_MAX,
        kept_bytes_min: limit / KEPT_PART_MIN,
    }
}

fn begin(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let begin = || plan.execute(partition, Arc::clone(context));
    catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// A panic of a plan is a failure of its run: it may have hit any packet that reads the run.
fn poll(
    stream: &mut SendableRecordBatchStream,
    waker: &Waker,
) -> Poll<Option<Result<RecordBatch>>> {
    let poll = || stream.as_mut().poll_next(&mut Context::from_waker(waker));
    let polled = catch_unwind(AssertUnwindSafe(poll));
    polled.unwrap_or_else(|panic| Poll::Ready(Some(Err(panicked(&*panic)))))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no message");
    exec_datafusion_err!("a shared operator panicked: {text}")
}
