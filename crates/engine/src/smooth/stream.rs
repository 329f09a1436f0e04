//! One partition of a scan by an index, rows in any order.
//!
//! The streams of an execution take jobs from one [`Probing`](super::probing::Probing), each with several reads on their way; when
//! it has no more, they share the cooperative scan that takes over, if there is one; then the scan of the files that the
//! index does not cover.
//! Cancel safety: dropping the stream drops its reads, its chunk and its share of the scans.
//! Bounds: [`JOBS_MAX`] reads per execution, and of large regions fewer, so that about [`PAGES_MAX`] pages are on their way.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use coscan_storage::pool::ChunkLease;
use coscan_storage::{PageRun, Piece};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce::{LimitedBatchCoalescer, PushBatchStatus};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, stream};

use super::execution::{Open, SmoothExecution};
use super::probing::Job;
use super::rows::{PieceColumns, ReadPages, not_empty, pages_selected, select};
use crate::error::external;
use crate::scan::{self, LeaseBatch, Pipeline, Selection, positions_of};

/// Reads on their way, over all streams: what keeps a flash disk busy.
const JOBS_MAX: usize = 16;
/// Pages on their way, over all streams, beyond which no further read is begun.
const PAGES_MAX: usize = 512;

/// The stream of one partition.
pub(crate) fn open(
    execution: Arc<SmoothExecution>,
    partition: usize,
    context: Arc<TaskContext>,
    metrics: &ExecutionPlanMetricsSet,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&execution.plan.covered.schema);
    let batch_rows = context.session_config().batch_size();
    let state = Partition {
        baseline: BaselineMetrics::new(metrics, partition),
        plan_metrics: metrics.clone(),
        output: Some(LimitedBatchCoalescer::new(
            Arc::clone(&schema),
            batch_rows,
            None,
        )),
        execution,
        number: partition,
        batch_rows,
        context,
        at: At::Start,
    };
    let batches = stream::try_unfold(state, |mut state| async move {
        // Boxed: the compiler cannot prove the nested futures `Send` for every lifetime at once.
        let next: BoxFuture<'_, Result<Option<RecordBatch>>> = Box::pin(state.next());
        Ok(next.await?.map(|batch| {
            state.baseline.record_output(batch.num_rows());
            (batch, state)
        }))
    });
    Box::pin(cooperative(RecordBatchStreamAdapter::new(
        schema,
        batches.boxed(),
    )))
}

/// What a job brought.
struct Done {
    read: Vec<ReadPages>,
    /// The positions of the rows wanted, ascending; `None` if all are.
    positions: Option<Vec<u64>>,
}

type Reading = BoxFuture<'static, Result<Done>>;

struct Partition {
    execution: Arc<SmoothExecution>,
    number: usize,
    batch_rows: usize,
    context: Arc<TaskContext>,
    baseline: BaselineMetrics,
    plan_metrics: ExecutionPlanMetricsSet,
    /// Rows on their way out; `None` once everything is in it and it was finished.
    output: Option<LimitedBatchCoalescer>,
    at: At,
}

/// Where the partition is.
enum At {
    Start,
    /// Reading what the index names.
    Probing {
        open: Arc<Open>,
        reading: FuturesUnordered<Reading>,
        more: bool,
    },
    /// In the scan that takes over, between two chunks.
    Scanning {
        open: Arc<Open>,
    },
    /// In one of its chunks, before batch number `batch`.
    InChunk {
        open: Arc<Open>,
        lease: ChunkLease,
        pipeline: Arc<Pipeline>,
        positions: Vec<u64>,
        batch: usize,
    },
    /// In the files that the index does not cover.
    Rest(SendableRecordBatchStream),
    Finished,
}

impl Partition {
    /// The next batch of output.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
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

    /// One step further. On an error the partition is finished.
    async fn step(&mut self) -> Result<()> {
        self.at = match std::mem::replace(&mut self.at, At::Finished) {
            At::Start => At::Probing {
                open: self.execution.open(&self.context).await?,
                reading: FuturesUnordered::new(),
                more: true,
            },
            At::Probing {
                open,
                mut reading,
                more,
            } => {
                let more = more && begin_reads(&self.execution, &open, &mut reading).await;
                let begun = Instant::now();
                let done = reading.next().await;
                self.execution.metrics.waited.add_duration(begun.elapsed());
                match done {
                    Some(done) => {
                        self.look_at(&open, done?).await?;
                        At::Probing {
                            open,
                            reading,
                            more,
                        }
                    }
                    None if more => At::Probing {
                        open,
                        reading,
                        more,
                    },
                    None => At::Scanning { open },
                }
            }
            At::Scanning { open } => self.next_chunk(open).await?,
            At::InChunk {
                open,
                lease,
                pipeline,
                positions,
                batch,
            } => match positions.get(batch) {
                Some(first) => {
                    self.look_at_batch(&open, &lease, &pipeline, *first, batch)
                        .await?;
                    At::InChunk {
                        open,
                        lease,
                        pipeline,
                        positions,
                        batch: batch + 1,
                    }
                }
                None => At::Scanning { open },
            },
            At::Rest(mut rows) => match rows.next().await {
                Some(batch) => {
                    self.push(batch?)?;
                    At::Rest(rows)
                }
                None => At::Finished,
            },
            At::Finished => At::Finished,
        };
        Ok(())
    }

    /// Looks at the rows of pages that were read.
    async fn look_at(&mut self, open: &Open, done: Done) -> Result<()> {
        let mut with_results = 0;
        let mut read_pages = 0;
        let positions = &done.positions;
        let fetched = match positions {
            Some(_) => Arc::default(),
            None => open.fetched().await,
        };
        for read in &done.read {
            for (at, (piece, first, pages)) in read.pieces.iter().enumerate() {
                let rows = rows_of(piece);
                let selection = match positions {
                    Some(positions) => select(*first, rows, positions, true),
                    None => select(*first, rows, &fetched, false),
                };
                let source = PieceColumns {
                    bytes: &read.bytes,
                    piece: at,
                    waited: &self.execution.metrics.waited,
                };
                let schema = &self.execution.plan.covered.schema;
                let computing = self.baseline.elapsed_compute();
                let pipeline = &read.pipeline;
                let (batch, selected) = pipeline
                    .rows(&source, rows, selection, schema, computing)
                    .await?;
                with_results += pages_selected(&selected, page_rows(open, pages));
                read_pages += pages.end - pages.start;
                self.push(batch)?;
            }
        }
        self.execution
            .metrics
            .pages_with_results
            .add(with_results as usize);
        let engine = &self.execution.plan.covered.engine;
        engine.add_pages_read(read_pages.into());
        // Pages that statistics ruled out cost nothing, and say nothing about the others.
        if positions.is_none() && read_pages > 0 {
            open.examined(read_pages, with_results).await;
        }
        Ok(())
    }

    /// The next chunk of the scan that takes over, or what comes after it.
    async fn next_chunk(&mut self, open: Arc<Open>) -> Result<At> {
        let lease = match open.take_over.get() {
            Some(take_over) => {
                let scan = open.running.scan(&take_over.run).await?;
                scan.next_chunk().await.map_err(external)?
            }
            None => None,
        };
        let Some(mut lease) = lease else {
            return Ok(match &self.execution.rest {
                Some(rest) => {
                    let (rest, metrics) = (Arc::clone(rest), &self.plan_metrics);
                    At::Rest(scan::open(rest, self.number, self.batch_rows, metrics))
                }
                None => At::Finished,
            });
        };
        lease.set_batch_rows(self.batch_rows);
        let Some(pipeline) = open.running.pipelines[lease.index()].clone() else {
            return Ok(At::Scanning { open });
        };
        let first_row = open.first_rows[open.running.file_of(lease.index())];
        let positions = positions_of(lease.info(), first_row, lease.batches());
        Ok(At::InChunk {
            open,
            lease,
            pipeline,
            positions,
            batch: 0,
        })
    }

    async fn look_at_batch(
        &mut self,
        open: &Open,
        lease: &ChunkLease,
        pipeline: &Pipeline,
        first: u64,
        batch: usize,
    ) -> Result<()> {
        let rows = lease.batches()[batch];
        let selection = match open.take_over.get() {
            Some(take_over) => take_over.selection(&open.map, first, rows),
            None => Selection::None,
        };
        let source = LeaseBatch {
            lease,
            batch,
            waited: &self.execution.metrics.waited,
        };
        let schema = &self.execution.plan.covered.schema;
        let computing = self.baseline.elapsed_compute();
        let (batch, _) = pipeline
            .rows(&source, rows, selection, schema, computing)
            .await?;
        self.push(batch)
    }

    /// Puts rows into the output, as many as the limit leaves.
    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if !not_empty(&batch) {
            return Ok(());
        }
        let granted = self.execution.rows_left.take(batch.num_rows());
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        if granted == 0 {
            return Ok(());
        }
        let _timer = self.baseline.elapsed_compute().timer();
        let batch = if granted < batch.num_rows() {
            batch.slice(0, granted)
        } else {
            batch
        };
        // Without a limit of its own it always takes more.
        let _: PushBatchStatus = output.push_batch(batch)?;
        Ok(())
    }
}

/// Begins reads until enough are on their way; false if there is nothing more to begin.
async fn begin_reads(
    execution: &SmoothExecution,
    open: &Arc<Open>,
    reading: &mut FuturesUnordered<Reading>,
) -> bool {
    let streams = execution.plan.partitions().max(1);
    loop {
        let pages = open.region_pages().await as usize;
        let jobs = (PAGES_MAX / pages.max(1)).clamp(2 * streams, JOBS_MAX.max(2 * streams));
        if reading.len() >= jobs / streams {
            return true;
        }
        let timer = execution.metrics.probing.timer();
        let job = open.next_job(&execution.plan).await;
        drop(timer);
        let Some(job) = job else { return false };
        execution.metrics.regions.add(1);
        let (open, metrics) = (Arc::clone(open), execution.metrics.clone());
        reading.push(Box::pin(async move {
            let (runs, positions): (Vec<PageRun>, _) = match job {
                Job::Pages(runs) => (runs, None),
                Job::Rows(rows) => {
                    let runs = rows.iter().map(|(page, _)| PageRun {
                        chunk: open.map.page(*page).chunk,
                        pages: *page..page + 1,
                    });
                    let runs = runs.collect();
                    (
                        runs,
                        Some(rows.into_iter().flat_map(|(_, at)| at).collect::<Vec<_>>()),
                    )
                }
                Job::TakeOver(_) | Job::End => (Vec::new(), None),
            };
            let read = open.read(&runs, &metrics).await?;
            let positions = positions.map(|mut positions| {
                positions.sort_unstable();
                positions
            });
            Ok(Done { read, positions })
        }));
    }
}

fn rows_of(piece: &Piece) -> usize {
    usize::try_from(piece.rows.end - piece.rows.start).unwrap_or(usize::MAX)
}

fn page_rows<'a>(open: &'a Open, pages: &Range<u32>) -> impl Iterator<Item = u64> + 'a {
    pages.clone().map(|page| open.map.page(page).rows())
}
