//! The rows of a clustered join's other table with keys in an interval.
//!
//! The chunks that may have such rows are read when they are asked for: a scan of exactly these,
//! by which the buffer manager knows that they are wanted and shares what others read. A chunk of
//! this table may serve several chunks of the driving one, so a few stay as they are, decoded.
//! Cancel safety: a reader that is dropped while a chunk comes takes it along; the next reader that
//! needs the chunk reads it.
//! Bounds: [`KEPT_BEYOND_PARTITIONS`] chunks more than there are partitions, and while rows are
//! looked for those that they are in; a chunk that nobody can need any more goes at once.
//! JOIN-I2: a row is found by who asks for its key, however often its chunk is read.
//! JOIN-I3: keys of a chunk are within its bounds, or it is said which are not.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::{Count, Time};
use tokio::sync::Mutex;

use super::super::wanted::out_of_order;
use super::key::{Key, meets, within};
use super::recognise::JoinPlan;
use crate::read::scan::{ByChunk, Execution, News, Run, Running};

/// See the file's header.
pub(super) struct OtherSide {
    plan: Arc<JoinPlan>,
    execution: Arc<Execution>,
    running: Arc<Running>,
    chunks: Vec<OtherChunk>,
    /// Held while chunks are read: what one reads another may need.
    decoded: Mutex<Decoded>,
    kept_max: usize,
}

/// A chunk of the other table.
pub(super) struct OtherChunk {
    pub(super) chunk: usize,
    pub(super) low: Key,
    pub(super) high: Key,
}

/// Who asks.
pub(super) struct Asks<'a> {
    pub(super) partition: usize,
    pub(super) batch_rows: usize,
    pub(super) memory: &'a Arc<dyn MemoryPool>,
    /// Chunks that were read for it.
    pub(super) chunks_read: &'a Count,
    pub(super) computing: &'a Time,
}

/// What is decoded, by position in [`OtherSide::chunks`].
struct Decoded {
    rows: HashMap<usize, DecodedChunk>,
    /// The chunks, the one that was used last at the end.
    used: VecDeque<usize>,
    /// For each chunk, how many chunks of the driving table may need it yet.
    needed: Vec<usize>,
}

struct DecodedChunk {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl OtherSide {
    /// Nothing was read; `reaches`: the keys that each chunk of the driving table may ask for.
    pub(super) fn new(
        plan: Arc<JoinPlan>,
        execution: Arc<Execution>,
        running: Arc<Running>,
        chunks: Vec<OtherChunk>,
        reaches: impl Iterator<Item = (Bound<Key>, Bound<Key>)>,
    ) -> Self {
        let mut needed = vec![0; chunks.len()];
        for (from, to) in reaches {
            for (chunk, needed) in chunks.iter().zip(&mut needed) {
                *needed += usize::from(chunk.meets(&from, &to));
            }
        }
        let decoded = Decoded {
            rows: HashMap::new(),
            used: VecDeque::new(),
            needed,
        };
        Self {
            kept_max: plan.driver.scan.partitions.len() + KEPT_BEYOND_PARTITIONS,
            plan,
            execution,
            running,
            chunks,
            decoded: Mutex::new(decoded),
        }
    }

    /// The rows with keys in an interval.
    ///
    /// # Errors
    /// If a chunk cannot be read, has keys beyond its bounds, or there is no memory for it.
    pub(super) async fn rows(
        &self,
        from: &Bound<Key>,
        to: &Bound<Key>,
        asks: &Asks<'_>,
    ) -> Result<Vec<RecordBatch>> {
        let met = self.chunks.iter().enumerate();
        let met = met.filter(|(_, chunk)| chunk.meets(from, to));
        let met: Vec<usize> = met.map(|(at, _)| at).collect();
        if met.is_empty() {
            return Ok(Vec::new());
        }
        let mut decoded = self.decoded.lock().await;
        let missing = met.iter().filter(|at| !decoded.rows.contains_key(*at));
        let missing: Vec<usize> = missing.copied().collect();
        if !missing.is_empty() {
            decoded.make_way(self.kept_max.saturating_sub(missing.len()), &met);
            self.read(&missing, &met, &mut decoded, asks).await?;
        }
        let _timer = asks.computing.timer();
        let mut found = Vec::new();
        for at in met {
            decoded.is_used(at);
            let Some(chunk) = decoded.rows.get(&at) else {
                return internal_err!("JOIN-I2: a chunk was asked for and did not come");
            };
            for batch in &chunk.batches {
                let keys = batch.column(self.plan.other.at);
                found.extend(within(batch, keys, from, to)?);
            }
        }
        decoded.make_way(self.kept_max, &[]);
        Ok(found)
    }

    /// A chunk of the driving table that may have asked for these keys is done.
    pub(super) async fn release(&self, from: &Bound<Key>, to: &Bound<Key>) {
        let mut decoded = self.decoded.lock().await;
        for (at, chunk) in self.chunks.iter().enumerate() {
            if chunk.meets(from, to) {
                decoded.needed[at] = decoded.needed[at].saturating_sub(1);
                if decoded.needed[at] == 0 {
                    decoded.forget(at);
                }
            }
        }
    }

    /// Reads chunks that are not decoded, of those that are needed now.
    async fn read(
        &self,
        missing: &[usize],
        needed: &[usize],
        decoded: &mut Decoded,
        asks: &Asks<'_>,
    ) -> Result<()> {
        let chunks: Vec<usize> = missing.iter().map(|at| self.chunks[*at].chunk).collect();
        for chunk in &chunks {
            // Somebody may have read it before, or was dropped while it came.
            self.running.claims.give_back(*chunk);
        }
        let run = Run::new(&chunks, &self.running.pipelines, 1, false);
        let mut rows = ByChunk::new(
            Arc::clone(&self.execution),
            Some(vec![Arc::new(run)]),
            asks.partition,
            asks.batch_rows,
            &self.execution.metrics,
        );
        let position = |chunk: usize| {
            let of = |at: &&usize| self.chunks[**at].chunk == chunk;
            missing.iter().find(of).copied()
        };
        let consumer = || MemoryConsumer::new("ClusteredJoinOther").register(asks.memory);
        let mut memory = consumer();
        let mut batches: Vec<RecordBatch> = Vec::new();
        while let Some(news) = rows.next(asks.computing).await? {
            match news {
                News::Begun => {
                    batches.clear();
                    memory = consumer();
                }
                News::Rows(new) => {
                    for batch in new.into_iter().filter(|batch| batch.num_rows() > 0) {
                        let bytes = batch.get_array_memory_size();
                        if memory.try_grow(bytes).is_err() {
                            decoded.make_way(0, needed);
                            memory.try_grow(bytes)?;
                        }
                        batches.push(batch);
                    }
                }
                News::Ended(chunk) => {
                    let Some(at) = position(chunk) else {
                        return internal_err!("JOIN-I2: chunk {chunk} was not asked for");
                    };
                    self.check_bounds(at, &batches)?;
                    asks.chunks_read.add(1);
                    let came = DecodedChunk {
                        batches: std::mem::take(&mut batches),
                        _memory: std::mem::replace(&mut memory, consumer()),
                    };
                    decoded.rows.insert(at, came);
                    decoded.used.push_back(at);
                }
                News::RuledOut(chunks) => {
                    for at in chunks.into_iter().filter_map(position) {
                        let none = DecodedChunk {
                            batches: Vec::new(),
                            _memory: consumer(),
                        };
                        decoded.rows.insert(at, none);
                        decoded.used.push_back(at);
                    }
                }
            }
        }
        Ok(())
    }

    fn check_bounds(&self, at: usize, batches: &[RecordBatch]) -> Result<()> {
        let chunk = &self.chunks[at];
        let side = &self.plan.other;
        for batch in batches {
            if !Key::are_between(batch.column(side.at), &chunk.low, &chunk.high)? {
                let error = out_of_order(&self.running, chunk.chunk, &side.column, false);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl OtherChunk {
    /// Whether it may have keys in an interval.
    fn meets(&self, from: &Bound<Key>, to: &Bound<Key>) -> bool {
        meets(&self.low, &self.high, from, to)
    }
}

impl Decoded {
    fn is_used(&mut self, at: usize) {
        self.used.retain(|used| *used != at);
        self.used.push_back(at);
    }

    fn forget(&mut self, at: usize) {
        self.used.retain(|used| *used != at);
        self.rows.remove(&at);
    }

    /// Forgets what was not used for longest, down to so many, but for those that are needed.
    fn make_way(&mut self, down_to: usize, needed: &[usize]) {
        let mut at = 0;
        while self.rows.len() > down_to && at < self.used.len() {
            let oldest = self.used[at];
            if needed.contains(&oldest) {
                at += 1;
            } else {
                self.forget(oldest);
            }
        }
    }
}

/// A partition needs a chunk of the other table, or two at their border, for several chunks of the
/// driving table one after the other.
const KEPT_BEYOND_PARTITIONS: usize = 1;
