//! Where do batches wait until the client takes them?
//!
//! Idea: in memory while the client keeps fetching; on disk once it has been idle for
//! `IDLE_AFTER`, or only for `SHORT_PATIENCE` when operators have taken most of the memory. Every
//! batch has a keeper, a task that moves it to disk when the time has come, and back when the
//! client asks for it. The client's side only waits, so it can be cancelled at any point.
//! Not here: the tasks that compute the batches (`pump.rs`); whose client counts as silent
//! (`silent.rs`).
//! Bounds: whenever something changes, each keeper searches all waiting batches, two per
//! partition.
//!
//! S6: batches that wait for an idle client are on disk. A batch that cannot be written stays in
//! memory if there is room; otherwise the query fails.
//! S7: batches are taken in the order in which they were put, each once.
//! S9: batches in memory are charged to the pool until the client's side is done with them. They
//! are charged without a request, so when memory is short a client that does not read holds no
//! such batch.

use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SpillFile;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::StreamExt;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::silent::{SILENT_AFTER, Silence, why};
use super::task::{ended, stopped};
use crate::error::{Error, engine_error};
use crate::memory::QueryMemory;

/// Computed batches that were not taken yet, in order.
pub(super) struct Queue {
    schema: SchemaRef,
    environment: Arc<RuntimeEnv>,
    state: Mutex<State>,
    /// Notified whenever `state` changes: pumps, keepers and the client's side then check it.
    changed: Notify,
    silence: Silence,
}

struct State {
    waiting: VecDeque<Waiting>,
    next_number: u64,
    /// The number of pumps that may still put a batch.
    computing: usize,
    /// Whether the client's side waits for a batch.
    asked: bool,
    /// When the client's side last took, asked for, or put back a batch.
    idle_since: Instant,
    /// Whether the client's side waits for its turn to take a large batch.
    in_line: bool,
    /// Whether the query was ended, so that nothing more is computed.
    ended: bool,
}

struct Waiting {
    number: u64,
    place: Place,
}

/// Where a batch waits.
enum Place {
    Memory {
        batch: Result<RecordBatch>,
        /// The memory of the batch; a failure has none.
        held: Option<MemoryReservation>,
        /// Whether the batch stays in memory, because it cannot go to disk.
        stays: bool,
    },
    Disk,
}

impl Place {
    /// Whether it is in memory, and how much of it a batch takes.
    fn takes_more_than(&self, bytes: usize) -> bool {
        match self {
            Self::Memory { held, .. } => held.as_ref().is_some_and(|held| held.size() > bytes),
            Self::Disk => false,
        }
    }

    fn failed(why: DataFusionError) -> Self {
        Self::Memory {
            batch: Err(why),
            held: None,
            stays: true,
        }
    }
}

pub(super) enum Taken {
    /// The batch, and its memory, which is held as long as the batch exists.
    Batch(Result<RecordBatch>, Option<MemoryReservation>),
    End,
    NotYet,
}

/// The next step of a batch's keeper.
enum Step {
    /// Nothing: the batch was taken.
    Done,
    /// Wait for a change, or until this time.
    Wait(Option<Instant>),
    /// Write the batch to disk: the client is idle.
    Write(RecordBatch),
    /// Read the batch from disk: the client asks for it.
    Read,
    /// Drop the place in memory: the batch is in a file already.
    Left(Place),
}

impl State {
    fn number(&mut self, place: Place) -> Waiting {
        self.next_number += 1;
        Waiting {
            number: self.next_number,
            place,
        }
    }

    /// Whether the client's side cannot do anything: it waits for a batch, or for its turn.
    fn makes_wait(&self) -> bool {
        let first = self.waiting.front().map(|first| &first.place);
        self.asked && (self.in_line || !matches!(first, Some(Place::Memory { .. })))
    }

    /// When the client counts as silent if it does not come back until then.
    fn silent_at(&self) -> Option<Instant> {
        let at = self.idle_since + SILENT_AFTER;
        (!self.makes_wait() && at > Instant::now()).then_some(at)
    }

    /// The place of a waiting batch, and whether it is the first one and is asked for.
    fn place(&mut self, number: u64) -> Option<(&mut Place, bool)> {
        let at = self.waiting.iter().position(|one| one.number == number)?;
        let asked = at == 0 && self.asked;
        Some((&mut self.waiting[at].place, asked))
    }

    /// `written` says whether the batch is in a file already. `patience` is how long a large batch
    /// may wait in memory for an idle client.
    fn step(&mut self, number: u64, written: bool, patience: Duration) -> Step {
        let idle_since = self.idle_since;
        let asked_at_all = self.asked;
        let Some((place, asked)) = self.place(number) else {
            return Step::Done;
        };
        let is_large = place.takes_more_than(LARGE_BYTES);
        let due = idle_since + if is_large { patience } else { IDLE_AFTER };
        let idle = !asked_at_all && due <= Instant::now();
        match place {
            Place::Disk if asked => Step::Read,
            Place::Disk
            | Place::Memory { batch: Err(_), .. }
            | Place::Memory { stays: true, .. } => Step::Wait(None),
            Place::Memory { batch: Ok(_), .. } if idle && written => {
                Step::Left(mem::replace(place, Place::Disk))
            }
            Place::Memory {
                batch: Ok(batch), ..
            } if idle => Step::Write(batch.clone()),
            Place::Memory { .. } if asked_at_all => Step::Wait(None),
            Place::Memory { .. } => Step::Wait(Some(due)),
        }
    }
}

impl Queue {
    /// A queue for the batches of `pumps` pumps.
    pub(super) fn new(schema: SchemaRef, environment: Arc<RuntimeEnv>, pumps: usize) -> Self {
        Self {
            schema,
            environment,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                next_number: 0,
                computing: pumps,
                asked: false,
                idle_since: Instant::now(),
                in_line: false,
                ended: false,
            }),
            changed: Notify::new(),
            silence: Silence::default(),
        }
    }

    /// Resolves at the next change after the future was enabled.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the client's side has been idle at the time `now`.
    pub(super) fn idle(&self, now: Instant) -> Duration {
        let state = self.lock();
        let since = if state.makes_wait() {
            now
        } else {
            state.idle_since
        };
        now.saturating_duration_since(since)
    }

    /// The memory of the query, if that is an engine's.
    fn memory(&self) -> Option<&QueryMemory> {
        self.environment.memory_pool.downcast_ref()
    }

    /// From now on the query is ended if it keeps others from memory while its client does not
    /// read.
    pub(super) fn may_be_ended(self: &Arc<Self>) {
        let Some(memory) = self.memory() else {
            return;
        };
        let ended = Arc::downgrade(self);
        memory.on_end(move || {
            if let Some(queue) = ended.upgrade() {
                let idle = queue.idle(Instant::now());
                log::warn!("a query is ended for its memory; its client came {idle:?} ago");
                queue.end(|| why(idle));
            }
        });
    }

    /// Tells the core whether the client comes back.
    fn tell_silence(&self) {
        if let Some(memory) = self.memory() {
            let is_silent = || self.idle(Instant::now()) >= SILENT_AFTER;
            self.silence.tell(memory, is_silent);
        }
    }

    /// Ends the query: nothing more is computed, all waiting batches are dropped, and the client
    /// gets the failure.
    pub(super) fn end(&self, why: impl FnOnce() -> DataFusionError) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        state.ended = true;
        let last = state.number(Place::failed(why()));
        let gone = mem::replace(&mut state.waiting, VecDeque::from([last]));
        drop(state);
        drop(gone);
        self.changed.notify_waiters();
    }

    /// Whether [`Self::end`] was called.
    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// A batch in memory, entered in the pool (S9).
    fn entered(&self, batch: Result<RecordBatch>) -> Place {
        let batch = match batch {
            Ok(batch) => batch,
            Err(why) => return Place::failed(why),
        };
        let held = self.reservation();
        // The batch exists already, so the pool cannot refuse it: others get less.
        held.grow(bytes_of(&batch));
        Place::Memory {
            batch: Ok(batch),
            held: Some(held),
            stays: false,
        }
    }

    /// How long a large batch stays in memory for an idle client.
    pub(super) fn patience(&self) -> Duration {
        let pool = &self.environment.memory_pool;
        match pool.memory_limit() {
            MemoryLimit::Finite(limit) if pool.reserved() > limit - limit / SHORT_PART => {
                SHORT_PATIENCE
            }
            _ => IDLE_AFTER,
        }
    }

    fn reservation(&self) -> MemoryReservation {
        // Not as a consumer that can spill: those have an assured part of the memory, and this
        // would reduce it.
        MemoryConsumer::new(WHAT).register(&self.environment.memory_pool)
    }

    /// Puts a batch behind the others. Returns its number for its keeper; `None` if the query was
    /// ended.
    pub(super) fn put(&self, batch: Result<RecordBatch>) -> Option<u64> {
        let place = self.entered(batch);
        let mut state = self.lock();
        if state.ended {
            // The batch is dropped outside of the lock: freeing its memory wakes other tasks.
            drop(state);
            return None;
        }
        if state.asked && state.waiting.is_empty() {
            // The client's side may take it from now on.
            state.idle_since = Instant::now();
        }
        let last = state.number(place);
        let number = last.number;
        state.waiting.push_back(last);
        drop(state);
        self.changed.notify_waiters();
        Some(number)
    }

    /// Puts the rest of a batch in front of the others. Returns its number for its keeper.
    pub(super) fn put_aside(&self, rest: RecordBatch) -> u64 {
        let place = self.entered(Ok(rest));
        let mut state = self.lock();
        let first = state.number(place);
        let number = first.number;
        state.waiting.push_front(first);
        state.idle_since = Instant::now();
        drop(state);
        self.tell_silence();
        self.changed.notify_waiters();
        number
    }

    /// A pump has ended, and puts no more batches.
    pub(super) fn end_pump(&self) {
        self.lock().computing -= 1;
        self.changed.notify_waiters();
    }

    /// Whether the next batch is in memory and takes more of it than [`LARGE_BYTES`]. If so, the
    /// client's side counts as active from now on.
    pub(super) fn next_is_large(&self) -> bool {
        let mut state = self.lock();
        let first = state.waiting.front().map(|first| &first.place);
        let is_large = first.is_some_and(|place| place.takes_more_than(LARGE_BYTES));
        if is_large {
            state.idle_since = Instant::now();
            state.asked = true;
            state.in_line = true;
        }
        drop(state);
        if is_large {
            self.tell_silence();
        }
        is_large
    }

    /// The next batch, for the client.
    pub(super) fn take(&self) -> Taken {
        let mut state = self.lock();
        state.idle_since = Instant::now();
        state.in_line = false;
        let taken = match state.waiting.front().map(|first| &first.place) {
            Some(Place::Memory { .. }) => state.waiting.pop_front(),
            Some(Place::Disk) => None,
            None if state.computing == 0 => return Taken::End,
            None => None,
        };
        let asked = taken.is_none();
        // Notifying would also wake the side that asks, so only a change is notified.
        let changed = !asked || !state.asked;
        state.asked = asked;
        drop(state);
        self.tell_silence();
        if changed {
            self.changed.notify_waiters();
        }
        match taken.map(|first| first.place) {
            Some(Place::Memory { batch, held, .. }) => Taken::Batch(batch, held),
            Some(Place::Disk) | None => Taken::NotYet,
        }
    }

    /// The keeper of a batch: moves it to disk and back, and ends when the batch has been taken.
    pub(super) async fn keep(&self, number: u64) {
        let _kept = Kept {
            queue: self,
            number,
        };
        let mut file: Option<Arc<dyn SpillFile>> = None;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            self.tell_silence();
            let patience = self.patience();
            let (step, silent_at) = {
                let mut state = self.lock();
                let step = state.step(number, file.is_some(), patience);
                (step, state.silent_at())
            };
            match step {
                Step::Done => return,
                Step::Wait(due) => match due.into_iter().chain(silent_at).min() {
                    None => changed.await,
                    // The time has come, or something changed: the next step decides.
                    Some(due) => drop(timeout_at(due, changed).await),
                },
                Step::Write(batch) => match self.write(&batch).await {
                    Ok(written) => file = Some(written),
                    Err(failure) => self.hold(number, &batch, failure),
                },
                Step::Read => {
                    let read = match &file {
                        Some(file) => self.read(file).await,
                        None => Err(lost()),
                    };
                    let read = self.entered(read);
                    let mut state = self.lock();
                    state.idle_since = Instant::now();
                    if let Some((place, _)) = state.place(number) {
                        *place = read;
                    }
                    drop(state);
                    self.changed.notify_waiters();
                }
                Step::Left(place) => drop(place),
            }
        }
    }

    fn files(&self) -> SpillManager {
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        SpillManager::new(
            Arc::clone(&self.environment),
            metrics,
            Arc::clone(&self.schema),
        )
    }

    async fn write(&self, batch: &RecordBatch) -> Result<Arc<dyn SpillFile>> {
        let (files, batch) = (self.files(), batch.clone());
        let write = move || files.spill_record_batch_and_finish(&[batch], WHAT);
        let written = spawn_blocking(write).await.map_err(ended)??;
        written.ok_or_else(lost)
    }

    async fn read(&self, file: &Arc<dyn SpillFile>) -> Result<RecordBatch> {
        let file = Arc::clone(file);
        let mut batches = self.files().read_spill_as_stream_unbuffered(file, None)?;
        batches.next().await.ok_or_else(lost)?
    }

    /// Keeps a batch that cannot be written in memory, if there is room for it.
    fn hold(&self, number: u64, batch: &RecordBatch, failure: DataFusionError) {
        let entered = match self.lock().place(number) {
            Some((Place::Memory { held, .. }, _)) => held.take(),
            _ => None,
        };
        let held = entered.unwrap_or_else(|| self.reservation());
        held.free();
        let kept = match held.try_grow(bytes_of(batch)) {
            Ok(()) => Place::Memory {
                batch: Ok(batch.clone()),
                held: Some(held),
                stays: true,
            },
            Err(_) => Place::failed(failure),
        };
        if let Some((place, _)) = self.lock().place(number) {
            *place = kept;
        }
    }
}

/// The bytes of a batch, which may be a slice of larger arrays. Whoever made the arrays has
/// counted them, and they are freed once no slice is left.
fn bytes_of(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    let bytes = columns.map(|column| {
        let whole = column.get_array_memory_size();
        column
            .to_data()
            .get_slice_memory_size()
            .map_or(whole, |part| part.min(whole))
    });
    bytes.sum()
}

/// A batch whose keeper is running.
struct Kept<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Drop for Kept<'_> {
    /// If the keeper of a batch on disk was aborted, no task will read its file: the batch fails.
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if let Some((place, _)) = state.place(self.number)
            && matches!(place, Place::Disk)
        {
            *place = Place::failed(stopped());
        }
        drop(state);
        self.queue.changed.notify_waiters();
    }
}

fn lost() -> DataFusionError {
    engine_error(Error::RowsLost)
}

/// The name under which files and memory of waiting batches are charged.
const WHAT: &str = "rows that wait for their client";

/// Memory is short when less than this part of it is left (a divisor).
const SHORT_PART: usize = 4;

/// How long a large batch waits in memory when memory is short: longer than a reading client takes
/// for a batch, or for a full socket.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);

/// A batch of more bytes is large: its consumer takes it when it is its turn, if it takes turns.
pub const LARGE_BYTES: usize = 64 << 10;

/// Equal to the time that a scan's consumer may be silent before its chunk lapses.
pub const IDLE_AFTER: Duration = Duration::from_millis(500);

#[cfg(test)]
impl Queue {
    pub(super) fn on_disk(&self) -> usize {
        let state = self.lock();
        let places = state.waiting.iter().map(|one| &one.place);
        places.filter(|place| matches!(place, Place::Disk)).count()
    }

    /// Whether the core was told that the client does not come back.
    pub(super) fn is_silent(&self) -> bool {
        self.silence.was_told()
    }

    /// Whether a batch waits.
    pub(super) fn waits(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// How many batches stay in memory because they cannot go to disk.
    pub(super) fn stay(&self) -> usize {
        let state = self.lock();
        let places = state.waiting.iter().map(|one| &one.place);
        let stay = |place: &&Place| {
            matches!(
                place,
                Place::Memory {
                    stays: true,
                    batch: Ok(_),
                    ..
                }
            )
        };
        places.filter(stay).count()
    }

    /// Whether no more batches will be put.
    pub(super) fn is_complete(&self) -> bool {
        self.lock().computing == 0
    }

    pub(super) fn has_failed(&self) -> bool {
        let state = self.lock();
        let mut places = state.waiting.iter().map(|one| &one.place);
        places.any(|place| matches!(place, Place::Memory { batch: Err(_), .. }))
    }
}
