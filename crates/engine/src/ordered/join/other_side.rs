//! Which rows of a clustered join's other table have keys in an interval?
//!
//! A scan of exactly the chunks that may have such rows reads them on demand. So the buffer
//! manager knows that they are wanted and shares what other scans read. A chunk of this table may
//! serve several chunks of the driving table, so a few chunks are kept decoded. Partitions read
//! different chunks at the same time; a partition that needs a chunk that another one is reading
//! waits for it.
//! Cancel safety: a reader that is dropped while a chunk comes loses the chunk; the next reader
//! that needs it reads it.
//! Bounds: [`KEPT_BEYOND_PARTITIONS`] chunks more than there are partitions, and for each running
//! search the chunks that it needs; a chunk that no chunk of the driving table can need any more
//! is dropped at once.
//! JOIN-I2: a search for a key finds every row with that key, however often the row's chunk is
//! read.
//! JOIN-I3: the keys of a chunk are within its bounds, or an error names the chunk.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::{Count, Time};
use parking_lot::Mutex;

use super::super::wanted::out_of_order;
use super::key::{Key, meets, within};
use super::recognise::JoinPlan;
use crate::read::scan::{ByChunk, Execution, News, Run, Running};

/// The other table of one execution; see the file's header.
pub(super) struct OtherSide {
    plan: Arc<JoinPlan>,
    execution: Arc<Execution>,
    running: Arc<Running>,
    chunks: Vec<OtherChunk>,
    decoded: Mutex<Decoded>,
    kept_max: usize,
}

/// A chunk of the other table.
pub(super) struct OtherChunk {
    pub(super) chunk: usize,
    pub(super) low: Key,
    pub(super) high: Key,
}

/// The partition that searches for rows.
pub(super) struct Asks<'a> {
    pub(super) partition: usize,
    pub(super) batch_rows: usize,
    pub(super) memory: &'a Arc<dyn MemoryPool>,
    /// Counts the chunks that are read for the partition.
    pub(super) chunks_read: &'a Count,
    pub(super) computing: &'a Time,
}

/// The decoded chunks, by position in [`OtherSide::chunks`].
struct Decoded {
    slots: HashMap<usize, Arc<Slot>>,
    /// The positions of the decoded chunks, the most recently used one at the end.
    used: VecDeque<usize>,
    /// For each chunk, the number of chunks of the driving table that may still need it.
    needed: Vec<usize>,
}

/// The slot of a decoded chunk. It is locked while the chunk is read, in the order of positions,
/// so two partitions never wait for each other.
type Slot = tokio::sync::Mutex<Option<Arc<DecodedChunk>>>;

struct DecodedChunk {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl OtherSide {
    /// A state in which no chunk is decoded. `reaches` are the keys that each chunk of the driving
    /// table may search for.
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
            slots: HashMap::new(),
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
    /// If a chunk cannot be read, has keys beyond its bounds, or does not fit into memory.
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
        let found = self.chunks_at(met, asks).await?;
        self.decoded.lock().make_way(self.kept_max);
        let _timer = asks.computing.timer();
        let mut rows = Vec::new();
        for batch in found.iter().flat_map(|chunk| &chunk.batches) {
            let keys = batch.column(self.plan.other.at);
            rows.extend(within(batch, keys, from, to)?);
        }
        Ok(rows)
    }

    /// The chunks at these positions, in ascending order. Those that are not decoded are read.
    async fn chunks_at(
        &self,
        positions: Vec<usize>,
        asks: &Asks<'_>,
    ) -> Result<Vec<Arc<DecodedChunk>>> {
        let slots = self.decoded.lock().slots_of(&positions);
        let mut found = Vec::with_capacity(slots.len());
        let mut missing = Vec::new();
        for (at, slot) in positions.into_iter().zip(&slots) {
            let chunk = slot.lock().await;
            match &*chunk {
                Some(chunk) => found.push(Arc::clone(chunk)),
                None => missing.push((at, chunk)),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let kept = self.kept_max.saturating_sub(missing.len());
        self.decoded.lock().make_way(kept);
        let places: Vec<usize> = missing.iter().map(|(at, _)| *at).collect();
        let mut read = self.read(&places, asks).await?;
        for (at, mut place) in missing {
            let Some(chunk) = read.remove(&at) else {
                return internal_err!("JOIN-I2: a chunk was asked for and did not come");
            };
            found.push(Arc::clone(place.insert(chunk)));
        }
        Ok(found)
    }

    /// Releases the keys that a finished chunk of the driving table may have searched for.
    pub(super) fn release(&self, from: &Bound<Key>, to: &Bound<Key>) {
        let mut decoded = self.decoded.lock();
        for (at, chunk) in self.chunks.iter().enumerate() {
            if chunk.meets(from, to) {
                decoded.needed[at] = decoded.needed[at].saturating_sub(1);
                if decoded.needed[at] == 0 {
                    decoded.forget(at);
                }
            }
        }
    }

    /// Reads the chunks at these positions.
    async fn read(
        &self,
        missing: &[usize],
        asks: &Asks<'_>,
    ) -> Result<HashMap<usize, Arc<DecodedChunk>>> {
        let mut rows = self.reader(missing, asks);
        let position = |chunk: usize| {
            let of = |at: &&usize| self.chunks[**at].chunk == chunk;
            missing.iter().find(of).copied()
        };
        let consumer = || MemoryConsumer::new("ClusteredJoinOther").register(asks.memory);
        let mut memory = consumer();
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut read = HashMap::with_capacity(missing.len());
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
                            self.decoded.lock().make_way(0);
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
                    read.insert(at, Arc::new(came));
                }
                News::RuledOut(chunks) => {
                    for at in chunks.into_iter().filter_map(position) {
                        let none = DecodedChunk {
                            batches: Vec::new(),
                            _memory: consumer(),
                        };
                        read.insert(at, Arc::new(none));
                    }
                }
            }
        }
        Ok(read)
    }

    /// A reader of the chunks at these positions.
    fn reader(&self, missing: &[usize], asks: &Asks<'_>) -> ByChunk {
        let chunks: Vec<usize> = missing.iter().map(|at| self.chunks[*at].chunk).collect();
        for chunk in &chunks {
            // The chunk may still be claimed by an earlier read, or by a reader that was dropped.
            self.running.claims.give_back(*chunk);
        }
        // Ordered, so that it takes no turns: the consumer holds a chunk of the driving table.
        let run = Run::new(&chunks, &self.running.pipelines, 1, true);
        ByChunk::new(
            Arc::clone(&self.execution),
            Some(vec![Arc::new(run)]),
            asks.partition,
            asks.batch_rows,
            &self.execution.metrics,
        )
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
    /// Whether the chunk may have keys in an interval.
    fn meets(&self, from: &Bound<Key>, to: &Bound<Key>) -> bool {
        meets(&self.low, &self.high, from, to)
    }
}

impl Decoded {
    /// The slots of chunks, which become the most recently used ones.
    fn slots_of(&mut self, chunks: &[usize]) -> Vec<Arc<Slot>> {
        self.used.retain(|used| !chunks.contains(used));
        self.used.extend(chunks);
        let slot = |at: &usize| Arc::clone(self.slots.entry(*at).or_default());
        chunks.iter().map(slot).collect()
    }

    fn forget(&mut self, at: usize) {
        self.used.retain(|used| *used != at);
        self.slots.remove(&at);
    }

    /// Drops the least recently used chunks until `down_to` are left, except those that a
    /// partition uses or reads.
    fn make_way(&mut self, down_to: usize) {
        let mut at = 0;
        while self.slots.len() > down_to && at < self.used.len() {
            let oldest = self.used[at];
            let slot = self.slots.get(&oldest);
            if slot.is_some_and(|slot| Arc::strong_count(slot) > 1) {
                at += 1;
            } else {
                self.forget(oldest);
            }
        }
    }
}

/// A partition needs a chunk of the other table, or two at their border, for several successive
/// chunks of the driving table.
const KEPT_BEYOND_PARTITIONS: usize = 1;
