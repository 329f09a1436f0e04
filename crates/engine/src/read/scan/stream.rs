//! One partition of a cooperative scan: chunk after chunk, batch after batch, through the pipeline.
//!
//! Cancel safety: dropping the stream drops the chunk it holds and its share of the scan; the last
//! one ends the scan.
//! Bounds: one chunk, one batch of its columns and one batch of output at a time.
//! I1: every row of every chunk handed out goes through the chunk's pipeline exactly once.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use coscan_storage::pool::{ChunkLease, Scan};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use futures::future::BoxFuture;

use super::batches::{Batches, stream_of};
use super::execution::{Execution, Run, Running};
use super::few_rows::{BatchWork, FewRows};
use super::lease_batch::LeaseBatch;
use super::metrics::PartitionMetrics;
use crate::error::external;
use crate::read::pipeline::Pipeline;

/// The stream of one partition.
pub(crate) fn open(
    execution: Arc<Execution>,
    partition: usize,
    batch_rows: usize,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    open_runs(execution, None, partition, batch_rows, metrics)
}

/// The stream of one partition over these runs rather than those the plan gives it.
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
        metrics: PartitionMetrics::new(metrics, partition),
        execution,
        number: partition,
        runs,
        batch_rows,
        output: Some(output),
        at: At::Start,
        withdrawn: 0,
    };
    stream_of(schema, state)
}

struct Partition {
    execution: Arc<Execution>,
    number: usize,
    /// What it works off, if not what the plan says.
    runs: Option<Vec<Arc<Run>>>,
    batch_rows: usize,
    baseline: BaselineMetrics,
    metrics: PartitionMetrics,
    /// Rows on their way out; `None` once everything is in it and it was finished.
    output: Option<LimitedBatchCoalescer>,
    at: At,
    /// How many of the chunks ruled out by dynamic filters were already withdrawn from the present
    /// scan.
    withdrawn: usize,
}

/// Where the partition is.
#[allow(clippy::large_enum_variant)] // One a stream, most of the time in a chunk.
enum At {
    Start,
    /// Between two chunks of run number `run`.
    Between {
        running: Arc<Running>,
        run: usize,
    },
    /// In a chunk, before batch number `batch`.
    In {
        running: Arc<Running>,
        run: usize,
        lease: ChunkLease,
        pipeline: Arc<Pipeline>,
        batch: usize,
        few: FewRows,
    },
    /// All rows are in the output.
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
            if matches!(self.at, At::Finished) {
                self.output = None;
                continue;
            }
            self.step().await?;
        }
    }

    /// One step further. On an error the partition is finished.
    async fn step(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.at, At::Finished) {
            At::Start => {
                let begun = Instant::now();
                let running = self.execution.running().await?;
                self.metrics.opening.add_duration(begun.elapsed());
                self.at = At::Between { running, run: 0 };
            }
            At::Between { running, run } => self.between(running, run).await?,
            At::In {
                running,
                run,
                lease,
                pipeline,
                batch,
                mut few,
            } => {
                let rows = self.process(&lease, &pipeline, batch, &mut few).await?;
                self.at = if !self.push(&running, rows)? {
                    self.report(&running, run);
                    At::Finished
                } else if batch < lease.batches().len() {
                    At::In {
                        running,
                        run,
                        lease,
                        pipeline,
                        batch: batch + 1,
                        few,
                    }
                } else {
                    drop(lease);
                    At::Between { running, run }
                };
            }
            At::Finished => {}
        }
        if matches!(self.at, At::Finished)
            && let Some(output) = &mut self.output
        {
            output.finish()?;
        }
        Ok(())
    }

    /// Between two chunks: the next one of this run, or the next run, or the end.
    async fn between(&mut self, running: Arc<Running>, run: usize) -> Result<()> {
        let Some(current) = self.run(&running, run) else {
            return Ok(());
        };
        if running.limit_reached() {
            self.report(&running, run);
            return Ok(());
        }
        let scan = running.scan(&current).await?;
        self.withdraw(&running, &scan);
        let Some(mut lease) = self.next_chunk(&scan).await? else {
            self.report(&running, run);
            self.withdrawn = 0;
            self.at = At::Between {
                running,
                run: run + 1,
            };
            return Ok(());
        };
        lease.set_batch_rows(self.batch_rows);
        self.metrics.chunk(lease.origin());
        if let Some(dynamic) = &running.dynamic {
            dynamic.consumed(lease.index());
        }
        let pipeline = running.pipelines[lease.index()].clone();
        self.at = match pipeline.filter(|_| running.claims.claim(lease.index())) {
            Some(pipeline) => At::In {
                few: FewRows::of(lease.batches(), self.execution.plan.limit),
                running,
                run,
                lease,
                pipeline,
                batch: 0,
            },
            None => At::Between { running, run },
        };
        Ok(())
    }

    /// Number `run` of what the partition works off.
    fn run(&self, running: &Running, run: usize) -> Option<Arc<Run>> {
        let own = self.runs.as_deref();
        let runs = own.unwrap_or_else(|| running.runs(self.number));
        runs.get(run).map(Arc::clone)
    }

    fn report(&self, running: &Running, run: usize) {
        if let Some(run) = self.run(running, run) {
            self.metrics.report(&run);
        }
    }

    /// Withdraws what dynamic filters have ruled out.
    fn withdraw(&mut self, running: &Running, scan: &Scan) {
        if let Some(dynamic) = &running.dynamic {
            let dead = dynamic.ruled_out(self.withdrawn);
            if !dead.is_empty() {
                self.withdrawn += dead.len();
                self.metrics.withdrew(dead.len());
                scan.withdraw(&dead);
            }
        }
    }

    async fn next_chunk(&self, scan: &Arc<Scan>) -> Result<Option<ChunkLease>> {
        let begun = Instant::now();
        let lease = scan.next_chunk().await;
        self.metrics.waited_for_chunk.add_duration(begun.elapsed());
        lease.map_err(external)
    }

    /// The rows that may go out after one more batch of a chunk, or after its last one, projected.
    async fn process(
        &self,
        lease: &ChunkLease,
        pipeline: &Pipeline,
        batch: usize,
        few: &mut FewRows,
    ) -> Result<Vec<RecordBatch>> {
        let work = BatchWork {
            source: LeaseBatch {
                lease,
                batch,
                waited: &self.metrics.waited_for_decode,
            },
            pipeline,
            schema: &self.execution.plan.schema,
            computing: self.baseline.elapsed_compute(),
        };
        if batch < lease.batches().len() {
            few.look_at(&work).await
        } else {
            few.settle(&work).await
        }
    }

    /// Puts rows into the output; false if a limit is reached and no more are wanted.
    fn push(&mut self, running: &Running, batches: Vec<RecordBatch>) -> Result<bool> {
        for batch in batches {
            if !self.push_batch(running, batch)? {
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

impl Drop for Partition {
    fn drop(&mut self) {
        // Cancelled or failed in the middle: what was done is shown all the same.
        if let At::Between { running, run } | At::In { running, run, .. } = &self.at {
            self.report(running, *run);
        }
    }
}
