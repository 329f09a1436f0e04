//! The arrays of a segment: decoded once, batch by batch, for all readers of the chunk.
//!
//! Idea: the fastest reader pulls the decode along, some batches ahead of itself; the others find
//! the batches ready. Decoding runs on threads of its own, never on threads that run queries or
//! I/O, but for a few rows, which their first reader decodes in less time than it takes to change
//! threads. While memory is plentiful and more readers are expected, all batches stay for them.
//! Otherwise batches that every reader has passed are dropped after a while, and a reader that
//! comes too late starts a decode of its own.
//! Not here: how long a decoded segment lives (`../scans/place.rs`,
//! `../segments/idle_arrays.rs`), decoding itself (`parquet/decode.rs`).
//! Bounds: at most `AHEAD` batches are decoded beyond the furthest request.
//! Source: design.md "shared decode"; batches are pulled, not pushed [Psaroudakis13].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use parking_lot::Mutex;

use super::array_bytes::{bytes_beyond, bytes_of};
use super::decode_pool::DecodePool;
use crate::memory::MemoryBudget;
use crate::panics::caught;
use crate::threads::{Slice, processor_time, set_slice};
use crate::{Result, SegmentDecoder, StorageError};

/// How far decode runs ahead: far enough that a consumer seldom waits, near enough that the arrays
/// are still in the CPU's cache.
const AHEAD: usize = 4;

/// The first batches of a chunk are kept until this many are decoded, even if all readers have
/// passed them: scans that get a chunk together do not start at the same instant, and a scan that
/// arrives before the first batch is dropped shares the decode (a window of opportunity, in the
/// words of [QPipe05]).
const WINDOW: usize = 16;

/// Makes the decoder when a reader requests the first batch.
pub(crate) type MakeDecoder = Box<dyn FnOnce() -> Result<SegmentDecoder> + Send>;

enum Decoder {
    NotMade(MakeDecoder),
    /// Boxed, because it is large and moves between this state and the job.
    Idle(Box<SegmentDecoder>),
    /// The running job owns it.
    Running,
    /// It has reached the end or failed.
    Done,
}

struct State {
    decoder: Decoder,
    /// Batches `first..first + batches.len()`, with their sizes: all bytes of the first one, and
    /// of each other one the bytes that it does not share with the one before it.
    batches: VecDeque<(ArrayRef, u64)>,
    first: usize,
    /// The processor time spent on decoding.
    work: Duration,
    error: Option<StorageError>,
    /// Whether more readers are expected than have joined.
    lasting: bool,
    /// How many batches decode should reach.
    target: usize,
    wakers: Vec<Waker>,
    /// Where each reader is: the batch it asked for last.
    readers: BTreeMap<u64, usize>,
    next_reader: u64,
    /// Bytes of batches that the budget counts as idle: all of them while there is no reader, else
    /// 0.
    idle: u64,
    /// The price below which the budget was dropping arrays when the last reader left.
    left: u64,
    /// Whether the core, and not the budget, counts the batches: they are the segment's bytes.
    settled: bool,
}

/// The arrays of one segment, as far as they are decoded.
pub(crate) struct DecodedSegment {
    /// How errors name the segment.
    place: String,
    state: Mutex<State>,
    /// `None` for a few rows, which their first reader decodes.
    pool: Option<Arc<DecodePool>>,
    memory: Arc<MemoryBudget>,
    /// Counts the array bytes that decode has produced in the whole process.
    produced: Arc<AtomicU64>,
}

/// Arrays without a reader.
pub(crate) struct Idle {
    /// What dropping them frees.
    pub(crate) bytes: u64,
    /// Their value: the processor time per KiB of decoding them, plus the price of the arrays
    /// dropped last when their last reader left.
    pub(crate) price: u64,
}

/// A reader's place in a segment.
pub(crate) struct Reader {
    segment: Arc<DecodedSegment>,
    id: u64,
}

impl DecodedSegment {
    /// A segment without arrays. `first` is the first batch that the decoder gives; `lasting` says
    /// whether more readers are expected after the first. Without a pool the reader that needs a
    /// batch decodes it.
    pub(crate) fn new(
        place: String,
        make: MakeDecoder,
        first: usize,
        lasting: bool,
        pool: Option<Arc<DecodePool>>,
        memory: Arc<MemoryBudget>,
        produced: Arc<AtomicU64>,
    ) -> Arc<Self> {
        let state = State {
            decoder: Decoder::NotMade(make),
            batches: VecDeque::new(),
            first,
            work: Duration::ZERO,
            error: None,
            lasting,
            target: 0,
            wakers: Vec::new(),
            readers: BTreeMap::new(),
            next_reader: 0,
            idle: 0,
            left: 0,
            settled: false,
        };
        Arc::new(Self {
            place,
            state: Mutex::new(state),
            pool,
            memory,
            produced,
        })
    }

    /// Adds a reader that begins with batch `at`. `None` if that batch is gone, or if decode has
    /// failed: a later reader starts another decode, perhaps with bytes from a new load.
    pub(crate) fn join(self: &Arc<Self>, at: usize) -> Option<Reader> {
        let mut state = self.state.lock();
        if state.first > at || state.error.is_some() {
            return None;
        }
        let id = state.next_reader;
        state.next_reader += 1;
        state.lasting |= id > 0;
        self.memory.remove_idle(std::mem::take(&mut state.idle));
        state.readers.insert(id, at);
        Some(Reader {
            segment: Arc::clone(self),
            id,
        })
    }

    /// Whether the segment should be kept: it has a reader, or its first batch is there, more
    /// readers may come, and there is room for them. A partly decoded segment holds uncounted
    /// memory, so it is kept only while there are few arrays.
    pub(crate) fn stays(&self) -> bool {
        let state = self.state.lock();
        state.settled
            || !state.readers.is_empty()
            || state.lasting
                && state.first == 0
                && (self.memory.keeps_few_arrays()
                    || state.is_whole() && self.memory.keeps_spare_arrays())
    }

    /// What dropping the arrays would free and cost. `None` while they have a reader, or if they
    /// are settled.
    pub(crate) fn idle(&self) -> Option<Idle> {
        let state = self.state.lock();
        let idle = state.readers.is_empty() && !state.settled;
        idle.then(|| Idle {
            bytes: state.idle,
            price: state.left.saturating_add(price(state.work, state.idle)),
        })
    }

    /// Whether the arrays hold strings, bytes or nested values themselves.
    pub(crate) fn is_text(&self) -> bool {
        let state = self.state.lock();
        let first = state.batches.front();
        first.is_some_and(|(array, _)| is_text(array.data_type()))
    }

    /// Makes the arrays the segment's only form in memory (`../segments/segment_form.rs`) if all
    /// of them are decoded, more readers are expected, and they take at most `bytes_max`. Returns
    /// their bytes, which the core counts from now on.
    pub(crate) fn settle(&self, bytes_max: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let bytes = state.batches.iter().map(|(_, bytes)| bytes).sum();
        if !state.is_whole() || !state.lasting || state.settled || bytes > bytes_max {
            return None;
        }
        state.settled = true;
        self.memory.remove_idle(std::mem::take(&mut state.idle));
        self.memory.settle(bytes);
        Some(bytes)
    }

    /// Whether batch `at` is decoded.
    pub(crate) fn has(&self, at: usize) -> bool {
        let state = self.state.lock();
        (state.first..state.decoded()).contains(&at)
    }

    /// Whether a new reader can begin with the first batch.
    pub(crate) fn has_first(&self) -> bool {
        let state = self.state.lock();
        state.first == 0 && state.error.is_none()
    }

    /// A job of the decode pool, or a reader's work: decodes up to the target, which may grow
    /// while it runs.
    fn decode(&self, decoder: Decoder) {
        match caught(|| self.place.clone(), || self.advance(decoder)) {
            Ok(true) => {}
            Ok(false) => self.finish(None),
            Err(error) => self.finish(Some(error)),
        }
    }

    /// Decodes up to the target; false if the decoder had nothing left.
    fn advance(&self, decoder: Decoder) -> Result<bool> {
        let mut decoder = match decoder {
            Decoder::NotMade(make) => Box::new(make()?),
            Decoder::Idle(decoder) => decoder,
            Decoder::Running | Decoder::Done => return Ok(true),
        };
        let mut begun = processor_time();
        loop {
            // A reader's thread keeps its slices.
            if self.pool.is_some() && self.is_far() {
                set_slice(Slice::Long);
            }
            let Some(array) = decoder.next_batch()? else {
                return Ok(false);
            };
            // Only this job adds batches, and the last batch is never dropped.
            let before = self.last();
            let bytes = bytes_beyond(&array, before.as_ref());
            self.produced.fetch_add(bytes, Ordering::Relaxed);
            self.memory.add_decoded(bytes);
            let now = processor_time();
            let mut state = self.state.lock();
            state.work += now.saturating_sub(std::mem::replace(&mut begun, now));
            if state.readers.is_empty() {
                state.idle += bytes;
                self.memory.add_idle(bytes);
            }
            state.batches.push_back((array, bytes));
            let wakers = std::mem::take(&mut state.wakers);
            // Stops when the last reader has left: a job must not run for a cancelled query.
            let enough = state.decoded() >= state.target || state.readers.is_empty();
            // Marked as done together with the last batch, so that its reader finds the segment
            // whole.
            let done = decoder.is_done();
            if enough || done {
                state.decoder = if done {
                    Decoder::Done
                } else {
                    Decoder::Idle(decoder)
                };
                drop(state);
                wakers.into_iter().for_each(Waker::wake);
                return Ok(true);
            }
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Whether decode is beyond the chunk's first batches. A query that reads this far is not
    /// short, so its decode yields to short ones.
    fn is_far(&self) -> bool {
        let state = self.state.lock();
        state.decoded() > AHEAD
    }

    fn last(&self) -> Option<ArrayRef> {
        let state = self.state.lock();
        state.batches.back().map(|(array, _)| Arc::clone(array))
    }

    fn finish(&self, error: Option<StorageError>) {
        let mut state = self.state.lock();
        state.decoder = Decoder::Done;
        state.error = error;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The processor time per KiB, in nanoseconds.
fn price(work: Duration, bytes: u64) -> u64 {
    let ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
    ns / (bytes >> 10).max(1)
}

fn is_text(data_type: &DataType) -> bool {
    !(data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Dictionary(..)))
}

impl State {
    /// How many batches have been decoded, including those that were dropped.
    fn decoded(&self) -> usize {
        self.first + self.batches.len()
    }

    fn is_whole(&self) -> bool {
        self.first == 0 && self.error.is_none() && matches!(self.decoder, Decoder::Done)
    }

    /// Removes the batches that every reader has passed, except the last one, once the window for
    /// new readers has closed. Returns them with the bytes that this frees.
    fn passed(&mut self) -> (Vec<ArrayRef>, u64) {
        let slowest = self.readers.values().copied().min().unwrap_or(self.first);
        let others = self.batches.len().saturating_sub(1);
        let count = slowest.saturating_sub(self.first).min(others);
        if self.decoded() < WINDOW || count == 0 {
            return (Vec::new(), 0);
        }
        self.first += count;
        let passed = self.batches.drain(..count);
        let (passed, bytes): (Vec<ArrayRef>, Vec<u64>) = passed.unzip();
        let mut freed = bytes.iter().sum();
        // Bytes that the next batch shares with them stay in memory and now count as its own.
        if let Some((array, own)) = self.batches.front_mut() {
            let shared = bytes_of(array).saturating_sub(*own).min(freed);
            *own += shared;
            freed -= shared;
        }
        (passed, freed)
    }
}

impl Reader {
    /// Whether the reader waits for decode of the batch that it asked for last.
    pub(crate) fn waits(&self) -> bool {
        let state = self.segment.state.lock();
        let at = state.readers.get(&self.id).copied().unwrap_or_default();
        at < state.target && at >= state.decoded() && !matches!(state.decoder, Decoder::Done)
    }

    /// Moves the reader to batch `at`; false if that batch was dropped because all readers had
    /// passed it.
    pub(crate) fn go_to(&self, at: usize) -> bool {
        let mut state = self.segment.state.lock();
        let is_there = state.first <= at;
        if is_there {
            state.readers.insert(self.id, at);
        }
        is_there
    }

    /// Batch `at`, or `None` past the end. Starts decode if needed. The batch must not have been
    /// dropped ([`Reader::go_to`]).
    pub(crate) fn poll_batch(&self, at: usize, waker: &Waker) -> Poll<Result<Option<ArrayRef>>> {
        let segment = &self.segment;
        let mut state = segment.state.lock();
        state.readers.insert(self.id, at);
        let (_passed, bytes) = if state.settled || state.lasting && segment.memory.keeps_arrays() {
            (Vec::new(), 0)
        } else {
            state.passed()
        };
        segment.memory.remove_decoded(bytes);
        state.target = state.target.max(at + 1 + AHEAD);
        if state.decoded() < state.target
            && matches!(state.decoder, Decoder::NotMade(_) | Decoder::Idle(_))
        {
            let decoder = std::mem::replace(&mut state.decoder, Decoder::Running);
            if let Some(pool) = &segment.pool {
                let job = Arc::clone(segment);
                pool.submit(move || job.decode(decoder));
            } else {
                drop(state);
                segment.decode(decoder);
                state = segment.state.lock();
            }
        }
        if let Some((batch, _)) = at
            .checked_sub(state.first)
            .and_then(|n| state.batches.get(n))
        {
            return Poll::Ready(Ok(Some(Arc::clone(batch))));
        }
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone()));
        }
        if at < state.first {
            // Fails, because no job would ever wake a reader that waits for it.
            let message = format!("{}: batch {at} is gone", segment.place);
            return Poll::Ready(Err(StorageError::Internal(message)));
        }
        if matches!(state.decoder, Decoder::Done) {
            return Poll::Ready(Ok(None));
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let segment = &self.segment;
        let mut state = segment.state.lock();
        let left = state.readers.remove(&self.id).is_some() && state.readers.is_empty();
        if left && !state.settled {
            state.idle = state.batches.iter().map(|(_, bytes)| bytes).sum();
            state.left = segment.memory.add_idle(state.idle);
        }
    }
}

impl Drop for DecodedSegment {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let bytes = state.batches.iter().map(|(_, bytes)| bytes).sum();
        if state.settled {
            self.memory.remove_settled(bytes);
        } else {
            self.memory.remove_idle(state.idle);
            self.memory.remove_decoded(bytes);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::super::array_bytes::tests::{PAGE_BYTES, page, texts_in};
    use super::*;

    /// Generous for a test, and still a limit.
    const SOON: Duration = Duration::from_secs(20);

    /// Three batches share a page, and the last reader stops in the middle of one.
    #[test]
    fn passed_batches_free_what_the_next_one_does_not_share() {
        let pool = Arc::new(DecodePool::new(1).unwrap());
        let memory = MemoryBudget::new(1 << 30);
        let make: MakeDecoder = Box::new(|| panic!("no batch is decoded"));
        let place = "t.parquet, column v".to_owned();
        let segment = DecodedSegment::new(
            place,
            make,
            0,
            false,
            Some(pool),
            Arc::clone(&memory),
            Arc::default(),
        );
        segment.state.lock().decoder = Decoder::Done;
        let reader = segment.join(0).unwrap();
        let pages: Vec<_> = (0..10).map(|_| page()).collect();
        for at in 0..30 {
            let array = texts_in(&pages[at / 3], 0);
            let bytes = bytes_beyond(&array, segment.last().as_ref());
            memory.add_decoded(bytes);
            segment.state.lock().batches.push_back((array, bytes));
        }
        let pages_held = || memory.decoded_bytes() / PAGE_BYTES as u64;
        assert_eq!(pages_held(), 10);
        let no_waker = Waker::noop();
        for (at, pages) in [(3, 9), (4, 9), (5, 9), (6, 8), (28, 1), (29, 1)] {
            assert!(reader.poll_batch(at, no_waker).is_ready());
            assert_eq!(pages_held(), pages, "batch {at}");
        }
        drop((reader, segment));
        assert_eq!(memory.decoded_bytes(), 0);
    }

    #[test]
    fn without_a_pool_the_first_reader_decodes() {
        let memory = MemoryBudget::new(1 << 20);
        let damaged = || StorageError::Internal("damaged".to_owned());
        let makes: [(MakeDecoder, &str); 2] = [
            (Box::new(move || Err(damaged())), "damaged"),
            (Box::new(|| panic!("a bug")), "a bug"),
        ];
        for (make, reason) in makes {
            let (place, memory) = ("t.parquet".to_owned(), Arc::clone(&memory));
            let segment = DecodedSegment::new(place, make, 0, true, None, memory, Arc::default());
            let readers = [segment.join(0).unwrap(), segment.join(0).unwrap()];
            for reader in &readers {
                match reader.poll_batch(0, Waker::noop()) {
                    Poll::Ready(Err(error)) => {
                        assert!(error.to_string().contains(reason), "{error}");
                    }
                    other => panic!("{other:?}"),
                }
                assert!(!reader.waits());
            }
        }
    }

    #[tokio::test]
    async fn a_panic_reaches_all_readers_and_costs_no_thread() {
        let pool = Arc::new(DecodePool::new(1).unwrap());
        let memory = MemoryBudget::new(1 << 20);
        for _ in 0..3 {
            let make: MakeDecoder = Box::new(|| panic!("a bug"));
            let place = "t.parquet, column v".to_owned();
            let (pool, memory) = (Some(Arc::clone(&pool)), Arc::clone(&memory));
            let segment = DecodedSegment::new(place, make, 0, true, pool, memory, Arc::default());
            let readers = [segment.join(0).unwrap(), segment.join(0).unwrap()];
            for reader in &readers {
                let read = poll_fn(|cx| reader.poll_batch(0, cx.waker()));
                let answer = tokio::time::timeout(SOON, read).await;
                match answer.expect("every reader is answered").unwrap_err() {
                    StorageError::Panicked { place, reason } => {
                        assert_eq!((&*place, &*reason), ("t.parquet, column v", "a bug"));
                    }
                    error => panic!("{error:?}"),
                }
            }
            assert!(segment.join(0).is_none() && !segment.has_first());
        }
        // Jobs of `run`, such as picked rows, and a job that does not catch its own panic.
        pool.submit(|| panic!("another bug"));
        let work = pool.run(|| "here".to_owned(), || -> Result<()> { panic!("a third") });
        let error = tokio::time::timeout(SOON, work).await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "here: internal error: a panic: a third");
        let work = pool.run(String::new, || Ok(7));
        let answer = tokio::time::timeout(SOON, work).await;
        assert_eq!(answer.expect("the thread lives").unwrap(), 7);
        assert_eq!(memory.decoded_bytes(), 0);
    }
}
