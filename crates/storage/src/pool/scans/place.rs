//! What does a consumer hold while it works on a chunk, and when does the pool take it back?
//!
//! Idea: a consumer that goes silent (an idle cursor, a client that does not read, an input that a
//! merge does not need yet) keeps its chunk, but not the memory: its place *lapses*. The core
//! unpins the frames, the gate gets its pass back, and the decoded arrays are dropped. A consumer
//! that comes back gets a new place for the remaining batches (`lease.rs`), and continues where it
//! stopped.
//! Not here: how a consumer gets the new place (`lease.rs`), what a lapse means to the core
//! (`docs/design/abm.md`).
//! Bounds: a place lapses after `lapse_after` of silence, doubled each time that its consumer
//! comes back too late; after `WANTED_AFTER` while another consumer waits at the gate. The time in
//! which a consumer waits for decode is not silence.
//! P1: a place ends in one of three ways: a lapse and then a release; a release alone; the end of
//! a job that gives the chunk back (`job.rs`). P2: a consumer uses its place under the place's
//! lock, so a place never lapses in the middle of a step.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;
use coscan_core::{ChunkId, Event, LoadOrigin};
use parking_lot::Mutex;

use super::scan::Scan;
use crate::pool::Inner;
use crate::pool::decode::{ArrayKey, Reader};
use crate::pool::limits::{COLUMN_BYTES, DOUBLINGS_MAX, Lapses, PATIENCE, Pass, Watch, Watched};
use crate::pool::state::{Effects, Handed, State};
use crate::{Result, StorageError};

/// A chunk that was handed to one consumer.
pub(crate) struct Place {
    pub(crate) scan: Arc<Scan>,
    pub(crate) chunk: ChunkId,
    /// Its position in the scan's table.
    pub(crate) index: usize,
    pub(crate) origin: LoadOrigin,
    /// False for a chunk that is handed out without bytes: the core does not know of the hand-out.
    pub(crate) known: bool,
    stay: Mutex<Stay>,
}

struct Stay {
    /// Whether the place has not lapsed.
    here: bool,
    /// `None` until the consumer has passed the gate, and after a lapse.
    work: Option<Work>,
    /// When the consumer last used the place.
    used: Instant,
    /// How many times in a row the consumer came back too late.
    tries: u32,
    /// A job has given the chunk back to the scan: this consumer does not own it.
    given_back: bool,
}

/// What a consumer works with.
pub(crate) struct Work {
    /// Its readers of decoded segments.
    pub(crate) readers: Vec<Reader>,
    pub(crate) by_column: BTreeMap<ArrayKey, usize>,
    /// How many columns are being picked for it.
    pub(crate) picking: Arc<AtomicUsize>,
    /// Permission to decode.
    _pass: Pass,
}

/// How a consumer's step with the arrays of a batch ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// The place has lapsed.
    Lapsed,
}

impl Work {
    /// Whether the consumer waits for the decode pool.
    fn waits(&self) -> bool {
        self.picking.load(Ordering::Relaxed) > 0 || self.readers.iter().any(Reader::waits)
    }
}

impl Place {
    pub(crate) fn new(scan: &Arc<Scan>, handed: &Handed, tries: u32) -> Arc<Self> {
        let place = Self {
            index: scan.position(handed.chunk),
            scan: Arc::clone(scan),
            chunk: handed.chunk,
            origin: handed.origin,
            known: handed.known,
            stay: Mutex::new(Stay {
                here: !handed.lapsed,
                work: None,
                used: Instant::now(),
                tries,
                given_back: false,
            }),
        };
        Arc::new(place)
    }

    /// Waits for permission to decode. A place that lapses meanwhile does not get it. Cancel safe.
    pub(crate) async fn enter(&self) {
        if !self.stay.lock().here {
            return;
        }
        let inner = self.scan.inner();
        let key = (inner.number, self.scan.table().table, self.chunk);
        let bytes = self.scan.columns_of(self.chunk).len() as u64 * COLUMN_BYTES;
        let entering = inner.shared.gate.enter(key, bytes);
        tokio::pin!(entering);
        let pass = std::future::poll_fn(|cx| {
            self.stay.lock().used = Instant::now();
            entering.as_mut().poll(cx)
        });
        let pass = pass.await;
        let mut stay = self.stay.lock();
        if stay.here {
            stay.used = Instant::now();
            stay.work = Some(Work {
                readers: Vec::new(),
                by_column: BTreeMap::new(),
                picking: Arc::default(),
                _pass: pass,
            });
        }
    }

    /// Runs a step of the consumer's work; `None` if the place has lapsed.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Work) -> T) -> Option<T> {
        let mut stay = self.stay.lock();
        stay.used = Instant::now();
        stay.work.as_mut().map(step)
    }

    /// Whether the place has not lapsed and has passed the gate.
    pub(crate) fn is_here(&self) -> bool {
        self.step(|_| ()).is_some()
    }

    /// The consumer got its data before the place lapsed: resets the count of late returns.
    pub(crate) fn in_time(&self) {
        self.stay.lock().tries = 0;
    }

    /// Fills `arrays` with batch `at`; `readers` are indexes into [`Work::readers`].
    pub(crate) fn poll_arrays(
        &self,
        cx: &Context<'_>,
        readers: &[Option<usize>],
        at: usize,
        arrays: &mut [Option<ArrayRef>],
    ) -> Poll<Result<Step>> {
        let polled = self.step(|work| {
            let mut pending = false;
            for (array, reader) in arrays.iter_mut().zip(readers) {
                let reader = reader.and_then(|reader| work.readers.get(reader));
                let Some(reader) = reader.filter(|_| array.is_none()) else {
                    continue;
                };
                match reader.poll_batch(at, cx.waker()) {
                    Poll::Pending => pending = true,
                    Poll::Ready(Ok(Some(batch))) => *array = Some(batch),
                    Poll::Ready(Ok(None)) => {
                        let message = "a segment has fewer batches than its chunk".to_owned();
                        return Poll::Ready(Err(StorageError::Internal(message)));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            if pending {
                Poll::Pending
            } else {
                Poll::Ready(Ok(Step::Done))
            }
        });
        polled.unwrap_or(Poll::Ready(Ok(Step::Lapsed)))
    }

    /// Gives the chunk back to the scan; `tell` sends the core the event that fits.
    pub(crate) fn give_back(&self, tell: impl FnOnce(&mut State, &mut Effects)) {
        let work = {
            let mut stay = self.stay.lock();
            stay.here = false;
            stay.given_back = true;
            stay.work.take()
        };
        self.let_go(work, tell);
    }

    /// The consumer is done with the chunk.
    fn end(&self) {
        let (work, given_back) = {
            let mut stay = self.stay.lock();
            stay.here = false;
            (stay.work.take(), stay.given_back)
        };
        let (scan, chunk) = (self.scan.id(), self.chunk);
        self.let_go(work, |state, effects| {
            if self.known && !given_back && state.scans.contains(scan) {
                Inner::log(state.handle(Event::ChunkReleased { scan, chunk }, effects));
            }
        });
    }

    fn let_go(&self, work: Option<Work>, tell: impl FnOnce(&mut State, &mut Effects)) {
        let worked = work.is_some();
        drop(work);
        let inner = self.scan.inner();
        inner.with_state(|state, effects| {
            let table = self.scan.table().table;
            if worked {
                state.settle_arrays(table, self.chunk, &inner.shared.memory, effects);
            }
            tell(state, effects);
            // Keeps segments that others read; keeps the other ones only while memory allows.
            if worked
                && let Some(table) = state.tables.get_mut(&table)
                && let Some(list) = table.decoded.get_mut(&self.chunk)
            {
                let (kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(list)
                    .into_iter()
                    .partition(|(_, segment)| segment.stays());
                *list = kept;
                if list.is_empty() {
                    table.decoded.remove(&self.chunk);
                }
                effects
                    .dropped
                    .extend(dropped.into_iter().map(|(_, segment)| segment));
            }
        });
    }
}

impl Lapses for Place {
    fn lapse_if_silent(&self, now: Instant, wanted_after: Option<Duration>) {
        let work = {
            let mut stay = self.stay.lock();
            if !stay.here {
                return;
            }
            let usual = self.scan.inner().config.lapse_after;
            let base = wanted_after.map_or(usual, |wanted| wanted.min(usual));
            let mut patience = base * (1 << stay.tries.min(DOUBLINGS_MAX));
            match &stay.work {
                Some(work) if work.waits() => stay.used = now,
                Some(_) => {}
                // A consumer at the gate is woken only when another chunk closes, or when the
                // gate's patience ends.
                None => patience += PATIENCE,
            }
            if now.saturating_duration_since(stay.used) < patience {
                return;
            }
            stay.here = false;
            stay.work.take()
        };
        let (scan, chunk) = (self.scan.id(), self.chunk);
        self.let_go(work, |state, effects| {
            if self.known {
                state.lapse(scan, chunk, effects);
            }
        });
    }
}

/// A place with its consumer's claim to it. Dropping it releases the chunk.
pub(crate) struct Kept {
    place: Arc<Place>,
    watch: Option<Watch>,
    /// Another consumer owns the chunk.
    handed_on: bool,
}

impl Kept {
    pub(crate) fn new(place: Arc<Place>) -> Self {
        let it: Weak<dyn Lapses> = Arc::downgrade(&place) as Weak<dyn Lapses>;
        let watch = Watched::enter(&place.scan.inner().shared.watched, it);
        Self {
            place,
            watch: Some(watch),
            handed_on: false,
        }
    }

    pub(crate) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// The consumer does not want the chunk: returns the answer for the next consumer.
    pub(crate) fn hand_on(mut self) -> Handed {
        let mut stay = self.place.stay.lock();
        let lapsed = !stay.here;
        // From here on the old place must not lapse.
        stay.here = false;
        let work = stay.work.take();
        drop(stay);
        drop(work);
        let handed = Handed {
            lapsed,
            ..Handed::new(self.place.chunk, self.place.origin, self.place.known)
        };
        self.handed_on = true;
        handed
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.watch = None;
        if !self.handed_on {
            self.place.end();
        }
    }
}
