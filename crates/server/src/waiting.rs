//! Where do batches wait that the client has not taken?
//!
//! Idea: in memory while the client comes back, on disk when it has not for `IDLE_AFTER`. Every
//! batch has a keeper, a task that moves it: to disk when the time has come, back when it is asked
//! for. The client's side only waits, so that it may be cancelled at any point.
//! Not here: who computes them (`running.rs`).
//! Bounds: a keeper looks at all that waits, a batch a partition, whenever something changes.
//!
//! S6: what waits for an idle client is on disk; where that fails it stays if the memory is there,
//! else the query fails.
//! S7: batches are taken in the order in which they were put, each once.
//! S9: what is in memory is entered in the pool, until the client's side is done with it.

use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SpillFile;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use futures::StreamExt;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::cancel::stopping;
use crate::failure::Failure;
use crate::query::ended;

/// Batches that were computed and not taken, in order.
pub(crate) struct Queue {
    schema: SchemaRef,
    environment: Arc<RuntimeEnv>,
    state: Mutex<State>,
    /// Something in `state` changed: pumps, keepers and the client's side look again.
    changed: Notify,
}

struct State {
    waiting: VecDeque<Waiting>,
    next_number: u64,
    /// Pumps that may still put something.
    computing: usize,
    /// Whether the client's side waits for a batch.
    asked: bool,
    /// When the client's side was heard of last.
    idle_since: Instant,
    /// Whether nothing more is computed.
    ended: bool,
}

struct Waiting {
    number: u64,
    place: Place,
}

/// Where a batch waits.
enum Place {
    Memory {
        batch: Result<RecordBatch, Failure>,
        /// What it takes; a failure takes nothing.
        held: Option<MemoryReservation>,
        /// Whether it has no place on disk.
        stays: bool,
    },
    Disk,
}

impl Place {
    fn failed(why: Failure) -> Self {
        Self::Memory {
            batch: Err(why),
            held: None,
            stays: true,
        }
    }
}

pub(crate) enum Taken {
    /// With what it takes, for as long as it is there.
    Batch(Result<RecordBatch, Failure>, Option<MemoryReservation>),
    End,
    NotYet,
}

/// What the keeper of a batch does next.
enum Step {
    /// It was taken.
    Done,
    /// It stays where it is until something changes, or until then.
    Wait(Option<Instant>),
    /// The client has gone for long.
    Write(RecordBatch),
    /// The client wants it.
    Read,
    /// There is a file with it already, and what it took in memory is let go.
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

    /// The place of a batch that was not taken, and whether it is the next and asked for.
    fn place(&mut self, number: u64) -> Option<(&mut Place, bool)> {
        let at = self.waiting.iter().position(|one| one.number == number)?;
        let asked = at == 0 && self.asked;
        Some((&mut self.waiting[at].place, asked))
    }

    /// `written`: whether there is a file with the batch already.
    fn step(&mut self, number: u64, written: bool) -> Step {
        let due = self.idle_since + IDLE_AFTER;
        let idle = !self.asked && due <= Instant::now();
        let asked_at_all = self.asked;
        let Some((place, asked)) = self.place(number) else {
            return Step::Done;
        };
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
    /// For the batches of so many pumps.
    pub(crate) fn new(schema: SchemaRef, environment: Arc<RuntimeEnv>, pumps: usize) -> Self {
        Self {
            schema,
            environment,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                next_number: 0,
                computing: pumps,
                asked: false,
                idle_since: Instant::now(),
                ended: false,
            }),
            changed: Notify::new(),
        }
    }

    /// Until something changes, from when it is enabled.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the client's side has not been heard of, by that clock.
    pub(crate) fn idle(&self, now: Instant) -> Duration {
        let state = self.lock();
        let since = if state.asked { now } else { state.idle_since };
        now.saturating_duration_since(since)
    }

    /// Nothing more is computed, and nothing of what waits is given: the client is told why.
    pub(crate) fn end(&self, why: impl FnOnce() -> Failure) {
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
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// A batch in memory, entered (S9).
    fn entered(&self, batch: Result<RecordBatch, Failure>) -> Place {
        let batch = match batch {
            Ok(batch) => batch,
            Err(why) => return Place::failed(why),
        };
        let held = self.reservation();
        // It is there already: others have to make do with less.
        held.grow(bytes_of(&batch));
        Place::Memory {
            batch: Ok(batch),
            held: Some(held),
            stays: false,
        }
    }

    fn reservation(&self) -> MemoryReservation {
        // No spiller: it would take a part of the memory that operators that spill are sure of.
        MemoryConsumer::new(WHAT).register(&self.environment.memory_pool)
    }

    /// Puts a batch behind the others. Its number is for its keeper; `None` if nothing more is to
    /// be computed.
    pub(crate) fn put(&self, batch: Result<RecordBatch, Failure>) -> Option<u64> {
        let place = self.entered(batch);
        let mut state = self.lock();
        if state.ended {
            // Not within the lock: memory that is let go wakes others.
            drop(state);
            return None;
        }
        let last = state.number(place);
        let number = last.number;
        state.waiting.push_back(last);
        drop(state);
        self.changed.notify_waiters();
        Some(number)
    }

    /// Puts a batch before the others.
    pub(crate) fn put_aside(&self, rest: RecordBatch) -> u64 {
        let place = self.entered(Ok(rest));
        let mut state = self.lock();
        let first = state.number(place);
        let number = first.number;
        state.waiting.push_front(first);
        state.idle_since = Instant::now();
        drop(state);
        self.changed.notify_waiters();
        number
    }

    /// One pump puts nothing more.
    pub(crate) fn end_pump(&self) {
        self.lock().computing -= 1;
        self.changed.notify_waiters();
    }

    /// The next batch, for the client.
    pub(crate) fn take(&self) -> Taken {
        let mut state = self.lock();
        state.idle_since = Instant::now();
        let taken = match state.waiting.front().map(|first| &first.place) {
            Some(Place::Memory { .. }) => state.waiting.pop_front(),
            Some(Place::Disk) => None,
            None if state.computing == 0 => return Taken::End,
            None => None,
        };
        let asked = taken.is_none();
        // Whoever asks is woken by this, too: only a change may be told.
        let changed = !asked || !state.asked;
        state.asked = asked;
        drop(state);
        if changed {
            self.changed.notify_waiters();
        }
        match taken.map(|first| first.place) {
            Some(Place::Memory { batch, held, .. }) => Taken::Batch(batch, held),
            Some(Place::Disk) | None => Taken::NotYet,
        }
    }

    /// Ends when the batch has been taken; moves it to disk and back meanwhile.
    pub(crate) async fn keep(&self, number: u64) {
        let _kept = Kept {
            queue: self,
            number,
        };
        let mut file: Option<Arc<dyn SpillFile>> = None;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let step = self.lock().step(number, file.is_some());
            match step {
                Step::Done => return,
                Step::Wait(None) => changed.await,
                // Late or changed: the next step tells.
                Step::Wait(Some(due)) => drop(timeout_at(due, changed).await),
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
                    if let Some((place, _)) = self.lock().place(number) {
                        *place = read;
                    }
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

    async fn write(&self, batch: &RecordBatch) -> Result<Arc<dyn SpillFile>, Failure> {
        let (files, batch) = (self.files(), batch.clone());
        let write = move || files.spill_record_batch_and_finish(&[batch], WHAT);
        let written = spawn_blocking(write).await.map_err(ended)??;
        written.ok_or_else(lost)
    }

    async fn read(&self, file: &Arc<dyn SpillFile>) -> Result<RecordBatch, Failure> {
        let file = Arc::clone(file);
        let mut batches = self.files().read_spill_as_stream_unbuffered(file, None)?;
        batches
            .next()
            .await
            .ok_or_else(lost)?
            .map_err(Failure::from)
    }

    /// What cannot be written stays, if the memory is there.
    fn hold(&self, number: u64, batch: &RecordBatch, failure: Failure) {
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

/// What a batch takes that may be a part of larger arrays: those are counted by whoever made them,
/// and go when their other parts do.
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

/// A batch that has a keeper.
struct Kept<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Drop for Kept<'_> {
    /// Nobody reads a file whose keeper was aborted.
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        if let Some((place, _)) = state.place(self.number)
            && matches!(place, Place::Disk)
        {
            *place = Place::failed(stopping());
        }
        drop(state);
        self.queue.changed.notify_waiters();
    }
}

fn lost() -> Failure {
    Failure::new(
        "XX000",
        "internal error: rows that were put aside are not on disk",
    )
}

/// What the files and the memory of batches that wait are called.
const WHAT: &str = "rows that wait for their client";

/// As long as a consumer of a scan may be silent before its chunk lapses.
pub(crate) const IDLE_AFTER: Duration = Duration::from_millis(500);

#[cfg(test)]
impl Queue {
    pub(crate) fn on_disk(&self) -> usize {
        let state = self.lock();
        let places = state.waiting.iter().map(|one| &one.place);
        places.filter(|place| matches!(place, Place::Disk)).count()
    }

    /// How many stay in memory, for they have no place on disk.
    pub(crate) fn stay(&self) -> usize {
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

    pub(crate) fn has_failed(&self) -> bool {
        let state = self.lock();
        let mut places = state.waiting.iter().map(|one| &one.place);
        places.any(|place| matches!(place, Place::Memory { batch: Err(_), .. }))
    }
}
