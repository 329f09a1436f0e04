//! How do the rows of one partition of a cooperative scan become a stream?
//!
//! Cancel safety: dropping the stream drops the current chunk and the stream's share of the scan;
//! the last share ends the scan.
//! Not here: chunk after chunk, batch after batch (`by_chunk.rs`).
//! Bounds: one batch of output in addition to the state of `by_chunk.rs`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::future::BoxFuture;

use super::batches::{Batches, stream_of};
use super::by_chunk::{ByChunk, News};
use crate::read::scan::execution::{Execution, Run, Running};
use crate::tasks::give_way;

/// The stream of one partition.
pub(crate) fn open(
    execution: Arc<Execution>,
    partition: usize,
    batch_rows: usize,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    open_runs(execution, None, partition, batch_rows, metrics)
}

/// The stream of one partition, over `runs` if they are given, otherwise over the plan's.
pub(crate) fn open_runs(
    execution: Arc<Execution>,
    runs: Option<Vec<Arc<Run>>>,
    partition: usize,
    batch_rows: usize,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&execution.plan.schema);
    let fetch = execution.plan.limit;
    let output = LimitedBatchCoalescer::new(Arc::clone(&schema), batch_rows, fetch);
    let state = Partition {
        baseline: BaselineMetrics::new(metrics, partition),
        rows: ByChunk::new(execution, runs, partition, batch_rows, metrics),
        output: Some(output),
        is_finished: false,
    };
    stream_of(schema, state)
}

struct Partition {
    rows: ByChunk,
    baseline: BaselineMetrics,
    /// Rows on their way out; `None` once all of them were returned.
    output: Option<LimitedBatchCoalescer>,
    /// Whether all rows are in the output, or no more can come.
    is_finished: bool,
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
    /// The next batch of output.
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut has_worked = false;
        loop {
            let Some(output) = &mut self.output else {
                return Ok(None);
            };
            if let Some(batch) = output.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.is_finished {
                self.output = None;
                continue;
            }
            // The last step returned no batch that DataFusion could count.
            if std::mem::replace(&mut has_worked, true) {
                give_way().await;
            }
            self.step().await?;
        }
    }

    /// Takes one step. After an error the partition is finished.
    async fn step(&mut self) -> Result<()> {
        self.is_finished = true;
        match self.rows.next(self.baseline.elapsed_compute()).await? {
            Some(News::Rows(batches)) => {
                if self.push(batches)? {
                    self.is_finished = false;
                } else {
                    self.rows.end();
                }
            }
            Some(News::Begun | News::Ended(_) | News::RuledOut(_)) => self.is_finished = false,
            None => {}
        }
        if self.is_finished
            && let Some(output) = &mut self.output
        {
            output.finish()?;
        }
        Ok(())
    }

    /// Adds rows to the output; false if a limit is reached and no more are wanted.
    fn push(&mut self, batches: Vec<RecordBatch>) -> Result<bool> {
        let Some(running) = self.rows.running().map(Arc::clone) else {
            return Ok(true);
        };
        for batch in batches {
            if !self.push_batch(&running, batch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn push_batch(&mut self, running: &Running, batch: RecordBatch) -> Result<bool> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(true);
        }
        let granted = running.take_rows(rows);
        let Some(output) = &mut self.output else {
            return Ok(false);
        };
        if granted == 0 {
            return Ok(false);
        }
        let _timer = self.baseline.elapsed_compute().timer();
        let batch = if granted < rows {
            batch.slice(0, granted)
        } else {
            batch
        };
        let status = output.push_batch(batch)?;
        Ok(granted == rows && matches!(status, PushBatchStatus::Continue))
    }
}
