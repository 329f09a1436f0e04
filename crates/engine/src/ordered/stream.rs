//! How does one partition of an ordered aggregation process its chunks?
//!
//! It takes whichever chunk the buffer manager hands out. If the order is only inferred, the
//! groups of a chunk are held until its end. If its rows turn out not to be in order, these groups
//! are dropped, and the chunk is given back, requested a second time and grouped by hash. If the
//! order is declared, groups are passed on at once, and a false declaration is an error. Cancel
//! safety: a stream that is dropped takes the rows of its current chunk with it, as the stream of
//! any scan in shared delivery does; other streams do not pass on groups with a part in that
//! chunk.
//! Bounds: those of `chunk_groups.rs`, and the groups of one chunk if its order is inferred.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use futures::StreamExt;
use futures::future::BoxFuture;

use coscan_core::group_borders::Edges;

use super::chunk_groups::{ChunkGroups, Pushed};
use super::runs::Runs;
use super::shared_state::{InSequence, Standing, Together};
use crate::read::scan::{Batches, ByChunk, News, Run, stream_of};
use crate::tasks::give_way;

/// The stream of one partition.
pub(super) fn open(
    together: Arc<Together>,
    partition: usize,
    context: Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&together.plan.grouping.schema);
    let batch_rows = context.session_config().batch_size();
    let state = Partition {
        together,
        partition,
        context,
        batch_rows,
        baseline: BaselineMetrics::new(metrics, partition),
        counts: Counts::new(metrics, partition),
        out: VecDeque::new(),
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
    /// Groups on their way out.
    out: VecDeque<RecordBatch>,
    at: At,
}

enum At {
    Start,
    /// The aggregation runs in order.
    Working(Box<Working>),
    /// The original plan runs.
    Otherwise(SendableRecordBatchStream),
    Finished,
}

struct Working {
    standing: Arc<InSequence>,
    rows: ByChunk,
    /// The reader of a chunk that is read a second time.
    again: Option<ByChunk>,
    groups: ChunkGroups,
    /// Rows of the current chunk that wait for more rows.
    few: Vec<RecordBatch>,
    /// Groups of the current chunk that count only if the chunk ends in order.
    held: Vec<RecordBatch>,
    memory: MemoryReservation,
}

/// The counts that EXPLAIN ANALYZE shows.
struct Counts {
    chunks_in_order: Count,
    chunks_by_hash: Count,
    groups_at_once: Count,
    border_parts: Count,
    border_groups: Count,
    not_in_order: Count,
}

impl Counts {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            chunks_in_order: count("chunks_in_order"),
            chunks_by_hash: count("chunks_by_hash"),
            groups_at_once: count("groups_at_once"),
            border_parts: count("border_parts"),
            border_groups: count("border_groups"),
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
            if let Some(groups) = self.out.pop_front() {
                return Ok(Some(groups));
            }
            // After an error the partition is finished.
            match std::mem::replace(&mut self.at, At::Finished) {
                At::Start => self.at = self.start().await?,
                At::Working(mut working) => {
                    let computing = self.baseline.elapsed_compute().clone();
                    let news = match &mut working.again {
                        Some(again) => again.next(&computing).await?,
                        None => working.rows.next(&computing).await?,
                    };
                    let timer = computing.timer();
                    let goes_on = self.hear(&mut working, news)?;
                    drop(timer);
                    if goes_on {
                        if self.out.is_empty() {
                            give_way().await;
                        }
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
        let grouping = &self.together.plan.grouping;
        let key = grouping.schema.field(grouping.key).data_type();
        let runs = Runs::new(key, standing.options)?;
        let name = format!("OrderedAggregate[{}]", self.partition);
        Ok(At::Working(Box::new(Working {
            rows: self.by_chunk(None),
            again: None,
            groups: ChunkGroups::new(grouping, runs, self.batch_rows)?,
            few: Vec::new(),
            held: Vec::new(),
            memory: MemoryConsumer::new(name).register(self.context.memory_pool()),
            standing,
        })))
    }

    fn by_chunk(&self, runs: Option<Vec<Arc<Run>>>) -> ByChunk {
        let scan = Arc::clone(&self.together.scan);
        let metrics = &self.together.scan.metrics;
        ByChunk::new(scan, runs, self.partition, self.batch_rows, metrics)
    }

    /// Handles an event; false if it was the last one.
    fn hear(&mut self, working: &mut Working, news: Option<News>) -> Result<bool> {
        match news {
            Some(News::Begun) => {
                working.few.clear();
                working.held.clear();
                working
                    .groups
                    .begin(working.standing.chunks_are_in_order())?;
            }
            Some(News::Rows(batches)) => {
                for batch in batches {
                    working.few.push(batch);
                    let rows: usize = working.few.iter().map(RecordBatch::num_rows).sum();
                    if rows >= self.batch_rows / 2 && !self.push(working)? {
                        let reader = working.again.as_mut().unwrap_or(&mut working.rows);
                        if let Some(chunk) = reader.give_back() {
                            self.read_again(working, chunk)?;
                        }
                        break;
                    }
                }
            }
            Some(News::Ended(chunk)) => {
                if self.push(working)? {
                    self.chunk_ended(working, chunk)?;
                } else {
                    working.standing.running.claims.give_back(chunk);
                    self.read_again(working, chunk)?;
                }
            }
            Some(News::RuledOut(chunks)) => {
                for chunk in chunks {
                    self.came(working, chunk, Edges::Empty)?;
                }
            }
            None if working.again.is_some() => working.again = None,
            None => {
                self.together.stream_ended(&working.standing)?;
                return Ok(false);
            }
        }
        let bytes = working.groups.bytes() + bytes_of(&working.held) + bytes_of(&self.out);
        working.memory.try_resize(bytes)?;
        Ok(true)
    }

    /// Groups the waiting rows; false if the chunk is not in order.
    fn push(&mut self, working: &mut Working) -> Result<bool> {
        let few = std::mem::take(&mut working.few);
        let rows = match few.as_slice() {
            [] => return Ok(true),
            [one] => one.clone(),
            several => concat_batches(&several[0].schema(), several)?,
        };
        match working.groups.push(&rows)? {
            Pushed::InOrder => {
                let ready = working.groups.take_ready();
                if self.together.plan.declared.is_some() {
                    self.pass_on(ready);
                } else {
                    working.held.extend(ready);
                }
                Ok(true)
            }
            Pushed::OutOfOrder => Ok(false),
        }
    }

    /// Reads a chunk a second time: it is not in order and was given back.
    fn read_again(&mut self, working: &mut Working, chunk: usize) -> Result<()> {
        working.few.clear();
        working.held.clear();
        working.standing.found_out_of_order(chunk)?;
        let pipelines = &working.standing.running.pipelines;
        let run = Run::new(&[chunk], pipelines, 1, false);
        working.again = Some(self.by_chunk(Some(vec![Arc::new(run)])));
        Ok(())
    }

    fn chunk_ended(&mut self, working: &mut Working, chunk: usize) -> Result<()> {
        if working.groups.is_in_order() {
            self.counts.chunks_in_order.add(1);
        } else {
            self.counts.chunks_by_hash.add(1);
            // The groups are copied out of the hash table, and those between the borders are
            // merged.
            let copies = working.groups.bytes().saturating_mul(2);
            working.memory.try_grow(copies)?;
        }
        let edges = working.groups.end()?;
        let held = std::mem::take(&mut working.held);
        self.pass_on(held);
        self.pass_on(working.groups.take_ready());
        self.came(working, chunk, edges)
    }

    fn came(
        &mut self,
        working: &mut Working,
        chunk: usize,
        edges: Edges<arrow::row::OwnedRow, super::chunk_groups::Part>,
    ) -> Result<()> {
        self.counts.border_parts.add(match &edges {
            Edges::Empty => 0,
            Edges::One(_, part) => part.groups(),
            Edges::Two { first, last } => first.1.groups() + last.1.groups(),
        });
        let complete = working.standing.came(chunk, edges, &working.memory)?;
        for groups in working.groups.whole(&complete)? {
            self.counts.border_groups.add(groups.num_rows());
            self.out.push_back(groups);
        }
        Ok(())
    }

    fn pass_on(&mut self, ready: Vec<RecordBatch>) {
        for groups in ready {
            self.counts.groups_at_once.add(groups.num_rows());
            self.out.push_back(groups);
        }
    }
}

fn bytes_of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> usize {
    let batches = batches.into_iter();
    batches.map(RecordBatch::get_array_memory_size).sum()
}
