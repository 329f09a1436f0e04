//! How does one partition of a clustered join process the chunks of the driving table?
//!
//! It takes whichever chunk the buffer manager hands out. Rows with a key that neighbouring chunks
//! may have are kept for the stream that gets the last of these chunks. Then the partition fetches
//! the rows of the other table with the complete keys, and `DataFusion`'s hash join joins both.
//! The partition holds no chunk in the meantime.
//! Cancel safety: a stream that is dropped takes its current rows with it; the execution returns
//! no more rows with their keys.
//! Bounds: the rows of one chunk, the rows of the other table with the same keys, and a hash table
//! of one of the two.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use futures::StreamExt;
use futures::future::BoxFuture;

use super::key::Key;
use super::other_side::Asks;
use super::shared_state::{InSequence, Kept, Standing, Together};
use crate::read::scan::{Batches, ByChunk, News, stream_of};
use crate::tasks::give_way;

/// The stream of one partition.
pub(super) fn open(
    together: Arc<Together>,
    partition: usize,
    context: Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    let schema = together.plan.original.schema();
    let state = Partition {
        batch_rows: context.session_config().batch_size(),
        together,
        partition,
        context,
        baseline: BaselineMetrics::new(metrics, partition),
        counts: Counts::new(metrics, partition),
        at: At::Start,
    };
    stream_of(schema, state)
}

struct Partition {
    together: Arc<Together>,
    partition: usize,
    context: Arc<TaskContext>,
    batch_rows: usize,
    baseline: BaselineMetrics,
    counts: Counts,
    at: At,
}

enum At {
    Start,
    /// The join runs chunk by chunk.
    Working(Box<Working>),
    /// The original plan runs.
    Otherwise(SendableRecordBatchStream),
    Finished,
}

struct Working {
    standing: Arc<InSequence>,
    chunks: ByChunk,
    taken: Taken,
    /// Positions of chunks that dynamic filters ruled out.
    ruled_out: VecDeque<usize>,
    joining: Option<Joining>,
    memory: MemoryReservation,
}

/// The rows of a chunk of the driving table.
#[derive(Default)]
struct Taken {
    /// Rows with keys that no other chunk can have.
    own: Vec<RecordBatch>,
    /// Rows with the chunk's first key and with its last key, if neighbouring chunks may have it,
    /// too.
    low: Vec<RecordBatch>,
    high: Vec<RecordBatch>,
}

/// A join whose rows are being returned.
struct Joining {
    rows: SendableRecordBatchStream,
    /// The position of the chunk that is joined.
    place: usize,
}

/// The counts that EXPLAIN ANALYZE shows.
struct Counts {
    chunks_joined: Count,
    chunks_without_rows: Count,
    other_chunks_read: Count,
    border_rows: Count,
    not_in_order: Count,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            chunks_joined: count("chunks_joined"),
            chunks_without_rows: count("chunks_without_rows"),
            other_chunks_read: count("other_chunks_read"),
            border_rows: count("border_rows"),
            not_in_order: count("not_in_order"),
        }
    }
}

impl Batches for Partition {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>> {
        Box::pin(self.next_batch())
    }

    fn baseline(&self) -> &BaselineMetrics {
        &self.baseline
    }
}

impl Partition {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            // After an error the partition is finished.
            match std::mem::replace(&mut self.at, At::Finished) {
                At::Start => self.at = self.start().await?,
                At::Working(mut working) => {
                    if let Some(joining) = &mut working.joining {
                        let place = joining.place;
                        let computing = self.baseline.elapsed_compute().clone();
                        let batch = {
                            let _timer = computing.timer();
                            joining.rows.next().await.transpose()?
                        };
                        if batch.is_none() {
                            working.joining = None;
                            working.release(place);
                        }
                        self.at = At::Working(working);
                        if batch.is_some() {
                            return Ok(batch);
                        }
                    } else if self.work(&mut working).await? {
                        give_way().await;
                        self.at = At::Working(working);
                    }
                }
                At::Otherwise(mut rows) => {
                    let Some(batch) = rows.next().await.transpose()? else {
                        return Ok(None);
                    };
                    self.at = At::Otherwise(rows);
                    return Ok(Some(batch));
                }
                At::Finished => return Ok(None),
            }
        }
    }

    async fn start(&mut self) -> Result<At> {
        let standing = match self.together.standing().await? {
            Standing::InSequence(standing) => standing,
            Standing::InNone => {
                self.counts.not_in_order.add(1);
                let original = &self.together.plan.original;
                let partitions = original
                    .properties()
                    .output_partitioning()
                    .partition_count();
                if self.partition >= partitions {
                    return Ok(At::Finished);
                }
                let rows = original.execute(self.partition, Arc::clone(&self.context))?;
                return Ok(At::Otherwise(rows));
            }
        };
        let driver = &self.together.driver;
        let chunks = ByChunk::new(
            Arc::clone(driver),
            Some(vec![Arc::clone(&standing.run)]),
            self.partition,
            self.batch_rows,
            &driver.metrics,
        );
        let name = format!("ClusteredJoin[{}]", self.partition);
        Ok(At::Working(Box::new(Working {
            standing,
            chunks,
            taken: Taken::default(),
            ruled_out: VecDeque::new(),
            joining: None,
            memory: MemoryConsumer::new(name).register(self.context.memory_pool()),
        })))
    }

    /// Does the next step; false if there is none. Chunks without rows are processed in between:
    /// those that need not be read before the first chunk, those that were ruled out as soon as
    /// that is known.
    async fn work(&mut self, working: &mut Working) -> Result<bool> {
        let without_rows = working.ruled_out.pop_front();
        let without_rows = without_rows.or_else(|| working.standing.take_unread());
        if let Some(place) = without_rows {
            self.counts.chunks_without_rows.add(1);
            self.join(working, place).await?;
            return Ok(true);
        }
        let computing = self.baseline.elapsed_compute().clone();
        match working.chunks.next(&computing).await? {
            Some(News::Begun) => working.taken = Taken::default(),
            Some(News::Rows(batches)) => {
                let _timer = computing.timer();
                let Some(chunk) = working.chunks.in_hand() else {
                    return internal_err!("JOIN-I1: rows of no chunk");
                };
                let place = working.standing.place_of(chunk)?;
                for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
                    working.memory.try_grow(batch.get_array_memory_size())?;
                    self.take(working, place, batch)?;
                }
            }
            Some(News::Ended(chunk)) => {
                let place = working.standing.place_of(chunk)?;
                self.join(working, place).await?;
            }
            Some(News::RuledOut(chunks)) => {
                for chunk in chunks {
                    let place = working.standing.place_of(chunk)?;
                    working.ruled_out.push_back(place);
                }
            }
            None => {
                self.together.stream_ended(&working.standing)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes in rows of the chunk at position `place`.
    fn take(&self, working: &mut Working, place: usize, rows: RecordBatch) -> Result<()> {
        let standing = &working.standing;
        let (low, high) = standing.bounds_of(place);
        let at = self.together.plan.driver.at;
        let keys = Arc::clone(rows.column(at));
        if !Key::are_between(&keys, low, high)? {
            return Err(standing.out_of_bounds(place));
        }
        let (at_low, at_high) = standing.borders_of(place);
        let mut rest = Some(rows);
        if at_low && let Some(rows) = rest.take() {
            let (having, others) = low.part(rows, &keys)?;
            working.taken.low.extend(having);
            rest = others;
        }
        if at_high && let Some(rows) = rest.take() {
            let keys = Arc::clone(rows.column(at));
            let (having, others) = high.part(rows, &keys)?;
            working.taken.high.extend(having);
            rest = others;
        }
        working.taken.own.extend(rest);
        Ok(())
    }

    /// Ends the chunk at position `place`: joins the rows of the keys that are now complete.
    async fn join(&mut self, working: &mut Working, place: usize) -> Result<()> {
        let Taken { own, low, high } = std::mem::take(&mut working.taken);
        let keep = |rows: RecordBatch| {
            let memory = working.memory.new_empty();
            memory.try_grow(rows.get_array_memory_size())?;
            self.counts.border_rows.add(rows.num_rows());
            Ok::<_, DataFusionError>(Kept {
                rows,
                _memory: memory,
            })
        };
        let low = low.into_iter().map(&keep).collect::<Result<_>>()?;
        let high = high.into_iter().map(&keep).collect::<Result<_>>()?;
        let standing = Arc::clone(&working.standing);
        let plan = Arc::clone(&self.together.plan);
        if let Some(complete) = standing.came(place, low, high)? {
            let mut rows = own;
            rows.extend(complete.parts.into_iter().map(|kept| kept.rows));
            let mut others = Vec::new();
            if !rows.is_empty() || plan.other.is_preserved {
                let asks = Asks {
                    partition: self.partition,
                    batch_rows: self.batch_rows,
                    memory: self.context.memory_pool(),
                    chunks_read: &self.counts.other_chunks_read,
                    computing: self.baseline.elapsed_compute(),
                };
                others = standing
                    .other
                    .rows(&complete.from, &complete.to, &asks)
                    .await?;
            }
            let gives = match (rows.is_empty(), others.is_empty()) {
                (true, true) => false,
                (true, false) => plan.other.is_preserved,
                (false, true) => plan.driver.is_preserved,
                (false, false) => true,
            };
            if gives {
                let bytes = |rows: &[RecordBatch]| -> usize {
                    rows.iter().map(RecordBatch::get_array_memory_size).sum()
                };
                working.memory.try_resize(bytes(&rows) + bytes(&others))?;
                self.counts.chunks_joined.add(1);
                let join = plan.of_rows(rows, others)?;
                let rows = join.execute(0, Arc::clone(&self.context))?;
                working.joining = Some(Joining { rows, place });
                return Ok(());
            }
        }
        working.release(place);
        Ok(())
    }
}

impl Working {
    /// Releases the memory and the keys of the finished chunk at position `place`.
    fn release(&mut self, place: usize) {
        self.memory.free();
        let (from, to) = self.standing.reach_of(place);
        self.standing.other.release(&from, &to);
    }
}
