//! How does one partition of a cooperative scan process its chunks?
//!
//! Cancel safety: dropping [`ByChunk`] drops the current chunk and the partition's share of the
//! scan; the last share ends the scan.
//! Not here: what happens to the rows (`stream.rs`, `ordered/`).
//! Bounds: one chunk, and one batch of its columns at a time.
//! I1: every row of every chunk handed out passes through the chunk's pipeline exactly once,
//! unless the chunk is given back, or statistics rule out the row's batch.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use coscan_storage::pool::{ChunkLease, Scan};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Time};

use super::few_rows::{BatchWork, FewRows};
use super::lease_batch::LeaseBatch;
use crate::error::external;
use crate::read::pipeline::Pipeline;
use crate::read::prune::WantedBatches;
use crate::read::scan::execution::{Execution, Run, Running};
use crate::read::scan::metrics::PartitionMetrics;

/// The rows of one partition, chunk by chunk.
pub(crate) struct ByChunk {
    execution: Arc<Execution>,
    partition: usize,
    /// The runs to process, if not the plan's.
    runs: Option<Vec<Arc<Run>>>,
    batch_rows: usize,
    metrics: PartitionMetrics,
    at: At,
    /// The number of chunks ruled out by dynamic filters that were already withdrawn from the scan
    /// of the current run.
    withdrawn: usize,
}

/// An event in a partition.
pub(crate) enum News {
    /// A chunk was taken: the rows that follow are from it.
    Begun,
    /// Rows, in the order of the chunk.
    Rows(Vec<RecordBatch>),
    /// All rows of the current chunk have been returned.
    Ended(usize),
    /// Chunks that dynamic filters have ruled out, claimed here so that no other worker takes
    /// them.
    RuledOut(Vec<usize>),
}

/// The partition's progress in its runs.
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
        wanted: WantedBatches,
        batch: usize,
        few: FewRows,
    },
    /// All rows have been returned, or there was an error.
    Finished,
}

impl ByChunk {
    /// The rows of a partition, from `runs` if there are any, otherwise from the plan's runs.
    pub(crate) fn new(
        execution: Arc<Execution>,
        runs: Option<Vec<Arc<Run>>>,
        partition: usize,
        batch_rows: usize,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        Self {
            execution,
            partition,
            runs,
            batch_rows,
            metrics: PartitionMetrics::new(metrics, partition),
            at: At::Start,
            withdrawn: 0,
        }
    }

    /// The next event; `None` when all rows have been returned, or after an error. `computing`
    /// times the work on columns.
    ///
    /// # Errors
    /// As [`Execution::running`]; if a chunk cannot be read, decoded or evaluated.
    pub(crate) async fn next(&mut self, computing: &Time) -> Result<Option<News>> {
        loop {
            // An error leaves the partition finished.
            match std::mem::replace(&mut self.at, At::Finished) {
                At::Start => {
                    let begun = Instant::now();
                    let running = self.execution.running().await?;
                    self.metrics.opening.add_duration(begun.elapsed());
                    self.at = At::Between { running, run: 0 };
                }
                At::Between { running, run } => {
                    if let Some(news) = self.between(running, run).await? {
                        return Ok(Some(news));
                    }
                }
                At::In {
                    running,
                    run,
                    lease,
                    pipeline,
                    wanted,
                    batch,
                    mut few,
                } => {
                    if batch > lease.batches().len() {
                        let chunk = lease.index();
                        self.at = At::Between { running, run };
                        return Ok(Some(News::Ended(chunk)));
                    }
                    let rows = self
                        .process((&lease, batch), &pipeline, &mut few, computing)
                        .await?;
                    self.at = At::In {
                        running,
                        run,
                        lease,
                        pipeline,
                        batch: wanted.after(batch),
                        wanted,
                        few,
                    };
                    return Ok(Some(News::Rows(rows)));
                }
                At::Finished => return Ok(None),
            }
        }
    }

    /// The open execution; `None` if it is not open yet, or if all rows have been returned.
    pub(crate) fn running(&self) -> Option<&Arc<Running>> {
        match &self.at {
            At::Between { running, .. } | At::In { running, .. } => Some(running),
            At::Start | At::Finished => None,
        }
    }

    /// The current chunk.
    pub(crate) fn in_hand(&self) -> Option<usize> {
        match &self.at {
            At::In { lease, .. } => Some(lease.index()),
            At::Start | At::Between { .. } | At::Finished => None,
        }
    }

    /// Finishes the partition: no more rows are wanted.
    pub(crate) fn end(&mut self) {
        self.shown();
        self.at = At::Finished;
    }

    /// Gives the current chunk back, as if it had not been processed, and returns its number;
    /// `None` if there is no current chunk.
    pub(crate) fn give_back(&mut self) -> Option<usize> {
        match std::mem::replace(&mut self.at, At::Finished) {
            At::In {
                running,
                run,
                lease,
                ..
            } => {
                let chunk = lease.index();
                drop(lease);
                running.claims.give_back(chunk);
                self.at = At::Between { running, run };
                Some(chunk)
            }
            at => {
                self.at = at;
                None
            }
        }
    }

    /// Takes the next chunk of this run, or moves on to the next run, or finishes the partition.
    async fn between(&mut self, running: Arc<Running>, run: usize) -> Result<Option<News>> {
        let Some(current) = self.run(&running, run) else {
            return Ok(None);
        };
        if running.limit_reached() {
            self.report(&running, run);
            return Ok(None);
        }
        let scan = running.scan(&current).await?;
        let ruled_out = self.withdraw(&running, &scan);
        if !ruled_out.is_empty() {
            self.at = At::Between { running, run };
            return Ok(Some(News::RuledOut(ruled_out)));
        }
        let Some(mut lease) = self.next_chunk(&scan).await? else {
            self.report(&running, run);
            self.withdrawn = 0;
            self.at = At::Between {
                running,
                run: run + 1,
            };
            return Ok(None);
        };
        lease.set_batch_rows(self.batch_rows);
        self.metrics.chunk(lease.origin());
        let chunk = lease.index();
        if let Some(dynamic) = &running.dynamic {
            dynamic.consumed(chunk);
        }
        let pipeline = running.pipelines[chunk].clone();
        let Some(pipeline) = pipeline.filter(|_| running.claims.claim(chunk)) else {
            self.at = At::Between { running, run };
            return Ok(None);
        };
        let wanted = running.wanted_batches(chunk, lease.batches());
        if let Some(batches) = wanted.some() {
            self.metrics
                .ruled_out(lease.batches().len() - batches.len());
            lease.want_only(batches);
        }
        self.at = At::In {
            few: FewRows::of(lease.batches(), self.execution.plan.limit),
            running,
            run,
            lease,
            pipeline,
            batch: wanted.first(),
            wanted,
        };
        Ok(Some(News::Begun))
    }

    /// The partition's run number `run`.
    fn run(&self, running: &Running, run: usize) -> Option<Arc<Run>> {
        let own = self.runs.as_deref();
        let runs = own.unwrap_or_else(|| running.runs(self.partition));
        runs.get(run).map(Arc::clone)
    }

    fn report(&self, running: &Running, run: usize) {
        if let Some(run) = self.run(running, run) {
            self.metrics.report(&run);
        }
    }

    /// Withdraws the chunks that dynamic filters have ruled out. Claims and returns those of them
    /// that no worker has claimed.
    fn withdraw(&mut self, running: &Running, scan: &Scan) -> Vec<usize> {
        let Some(dynamic) = &running.dynamic else {
            return Vec::new();
        };
        let mut dead = dynamic.ruled_out(self.withdrawn);
        if !dead.is_empty() {
            self.withdrawn += dead.len();
            self.metrics.withdrew(dead.len());
            scan.withdraw(&dead);
            dead.retain(|chunk| running.claims.claim(*chunk));
        }
        dead
    }

    async fn next_chunk(&self, scan: &Arc<Scan>) -> Result<Option<ChunkLease>> {
        let begun = Instant::now();
        let lease = scan.next_chunk().await;
        self.metrics.waited_for_chunk.add_duration(begun.elapsed());
        lease.map_err(external)
    }

    /// The projected rows that can be returned after one more batch of a chunk, or after its last
    /// batch.
    async fn process(
        &self,
        (lease, batch): (&ChunkLease, usize),
        pipeline: &Pipeline,
        few: &mut FewRows,
        computing: &Time,
    ) -> Result<Vec<RecordBatch>> {
        let work = BatchWork {
            source: LeaseBatch {
                lease,
                batch,
                waited: &self.metrics.waited_for_decode,
            },
            pipeline,
            schema: &self.execution.plan.schema,
            computing,
        };
        if batch < lease.batches().len() {
            few.look_at(&work).await
        } else {
            few.settle(&work).await
        }
    }

    /// Reports the work so far to the metrics.
    fn shown(&self) {
        if let At::Between { running, run } | At::In { running, run, .. } = &self.at {
            self.report(running, *run);
        }
    }
}

impl Drop for ByChunk {
    fn drop(&mut self) {
        // If the partition is cancelled or fails, the work so far is reported nevertheless.
        self.shown();
    }
}
