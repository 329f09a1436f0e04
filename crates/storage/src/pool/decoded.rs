//! The arrays of a segment: decoded once, batch by batch, for everyone who holds the chunk.
//!
//! Idea: the fastest reader pulls the decode ahead of itself; the others find the batches there. Nobody decodes on a thread
//! that runs queries or I/O.
//! Not here: how long a decoded segment lives (`lease.rs`, `state.rs`), decoding itself (`decode.rs` of the crate).
//! Bounds: at most `AHEAD` batches are decoded beyond what was asked for.
//! Source: design.md "shared decode"; batches are pulled, not pushed [Psaroudakis et al., VLDB 2013].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;

use super::decode_pool::DecodePool;
use super::memory::MemoryBudget;
use crate::{Result, SegmentDecoder, StorageError};

/// How far decode runs ahead: enough that a consumer seldom waits, little enough that the arrays are still in the CPU's cache.
const AHEAD: usize = 4;

/// Makes the decoder when the first batch is asked for.
pub(crate) type MakeDecoder = Box<dyn FnOnce() -> Result<SegmentDecoder> + Send>;

enum Decoder {
    NotMade(MakeDecoder),
    /// Boxed: it is large and moves between the job and here.
    Idle(Box<SegmentDecoder>),
    /// A job has it.
    Running,
    /// The end, or an error, was reached.
    Done,
}

struct State {
    decoder: Decoder,
    batches: Vec<ArrayRef>,
    error: Option<StorageError>,
    /// How many batches are to be decoded.
    target: usize,
    wakers: Vec<Waker>,
}

/// One decoded segment, in the making.
pub(crate) struct DecodedSegment {
    state: Mutex<State>,
    pool: Arc<DecodePool>,
    memory: Arc<MemoryBudget>,
    /// Bytes of arrays so far.
    bytes: AtomicU64,
    /// Of the whole process: arrays produced by decode, in bytes.
    produced: Arc<AtomicU64>,
}

impl DecodedSegment {
    pub(crate) fn new(
        make: MakeDecoder,
        pool: Arc<DecodePool>,
        memory: Arc<MemoryBudget>,
        produced: Arc<AtomicU64>,
    ) -> Arc<Self> {
        let state = State {
            decoder: Decoder::NotMade(make),
            batches: Vec::new(),
            error: None,
            target: 0,
            wakers: Vec::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            pool,
            memory,
            bytes: AtomicU64::new(0),
            produced,
        })
    }

    /// Batch `at`, or `None` past the end. Starts as much decode as is needed.
    pub(crate) fn poll_batch(
        self: &Arc<Self>,
        at: usize,
        waker: &Waker,
    ) -> Poll<Result<Option<ArrayRef>>> {
        let mut state = self.state.lock();
        state.target = state.target.max(at + 1 + AHEAD);
        if state.batches.len() < state.target
            && matches!(state.decoder, Decoder::NotMade(_) | Decoder::Idle(_))
        {
            let decoder = std::mem::replace(&mut state.decoder, Decoder::Running);
            let segment = Arc::clone(self);
            self.pool.submit(move || segment.decode(decoder));
        }
        if let Some(batch) = state.batches.get(at) {
            return Poll::Ready(Ok(Some(Arc::clone(batch))));
        }
        if let Some(error) = &state.error {
            return Poll::Ready(Err(error.clone()));
        }
        if matches!(state.decoder, Decoder::Done) {
            return Poll::Ready(Ok(None));
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// A job on the decode pool: up to the target, which may move meanwhile.
    fn decode(&self, decoder: Decoder) {
        let mut decoder = match decoder {
            Decoder::NotMade(make) => match make() {
                Ok(decoder) => Box::new(decoder),
                Err(error) => return self.finish(Some(error)),
            },
            Decoder::Idle(decoder) => decoder,
            Decoder::Running | Decoder::Done => return,
        };
        loop {
            match decoder.next_batch() {
                Ok(Some(array)) => {
                    let bytes = array.get_array_memory_size() as u64;
                    self.bytes.fetch_add(bytes, Ordering::Relaxed);
                    self.produced.fetch_add(bytes, Ordering::Relaxed);
                    self.memory.add_decoded(bytes);
                    let mut state = self.state.lock();
                    state.batches.push(array);
                    let wakers = std::mem::take(&mut state.wakers);
                    if state.batches.len() >= state.target {
                        state.decoder = Decoder::Idle(decoder);
                        drop(state);
                        return wakers.into_iter().for_each(Waker::wake);
                    }
                    drop(state);
                    wakers.into_iter().for_each(Waker::wake);
                }
                Ok(None) => return self.finish(None),
                Err(error) => return self.finish(Some(error)),
            }
        }
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

impl Drop for DecodedSegment {
    fn drop(&mut self) {
        self.memory
            .remove_decoded(self.bytes.load(Ordering::Relaxed));
    }
}
