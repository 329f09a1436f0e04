//! How does one partition of an index scan return its rows, if their order is free?
//!
//! First come the rows of the files that the index covers (`reader.rs`), then those of the other
//! files.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::StreamExt;
use futures::future::BoxFuture;

use super::ordered;
use super::reader::{Found, Reader};
use crate::probe::execution::SmoothExecution;
use crate::read::scan::{self, Batches, stream_of};

/// The stream of one partition.
pub(crate) fn open(
    execution: Arc<SmoothExecution>,
    partition: usize,
    context: &Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    let baseline = BaselineMetrics::new(metrics, partition);
    let schema = Arc::clone(&execution.plan.covered.schema);
    let computing = baseline.elapsed_compute().clone();
    let reader = Reader::new(Arc::clone(&execution), Arc::clone(context), computing);
    if let Some(order) = execution.plan.ordered_by {
        return ordered::open(execution, reader, order, context, metrics, baseline);
    }
    let batch_rows = context.session_config().batch_size();
    let state = Partition {
        baseline,
        plan_metrics: metrics.clone(),
        output: Some(LimitedBatchCoalescer::new(
            Arc::clone(&schema),
            batch_rows,
            None,
        )),
        execution,
        number: partition,
        batch_rows,
        at: At::Covered(Box::new(reader)),
    };
    stream_of(schema, state)
}

struct Partition {
    execution: Arc<SmoothExecution>,
    number: usize,
    batch_rows: usize,
    baseline: BaselineMetrics,
    plan_metrics: ExecutionPlanMetricsSet,
    /// Rows on their way out; `None` once all of them were returned.
    output: Option<LimitedBatchCoalescer>,
    at: At,
}

/// The state of the partition.
enum At {
    Covered(Box<Reader>),
    /// In the files that the index does not cover.
    Rest(SendableRecordBatchStream),
    Finished,
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
        loop {
            let Some(output) = &mut self.output else {
                return Ok(None);
            };
            if let Some(batch) = output.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.execution.rows_left.none() {
                self.at = At::Finished;
            }
            if matches!(self.at, At::Finished) {
                output.finish()?;
                let last = output.next_completed_batch();
                self.output = None;
                return Ok(last);
            }
            self.step().await?;
        }
    }

    /// Takes one step. After an error the partition is finished.
    async fn step(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.at, At::Finished) {
            At::Covered(mut reader) => match reader.next().await? {
                Found::Rows(batches) => {
                    for batch in batches {
                        self.push(batch)?;
                    }
                    self.at = At::Covered(reader);
                }
                Found::Bound => self.at = At::Covered(reader),
                Found::End => {
                    if let Some(rest) = &self.execution.rest {
                        let (rest, metrics) = (Arc::clone(rest), &self.plan_metrics);
                        self.at = At::Rest(scan::open(rest, self.number, self.batch_rows, metrics));
                    }
                }
            },
            At::Rest(mut rows) => {
                if let Some(batch) = rows.next().await {
                    self.push(batch?)?;
                    self.at = At::Rest(rows);
                }
            }
            At::Finished => {}
        }
        Ok(())
    }

    /// Adds rows to the output, as many as the limit still allows.
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let Some(batch) = self.execution.rows_left.of(batch) else {
            return Ok(());
        };
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        let _timer = self.baseline.elapsed_compute().timer();
        // The output has no limit of its own, so it always accepts more rows.
        let _: PushBatchStatus = output.push_batch(batch)?;
        Ok(())
    }
}
