//! How does one stream of an index scan find its rows?
//!
//! The streams of an execution take jobs from one [`Probing`](crate::probe::probing::Probing),
//! and each runs several reads at a time. When no jobs are left, they share the take-over scan,
//! if there is one.
//! Cancel safety: dropping the reader drops its reads, its chunk and its share of the scan.
//! Bounds: the core limits the reads under way (`smooth/probe/read_ahead.rs`); they lapse if the
//! stream is not polled (`lapsing.rs`). Pages from which single rows are taken are shared by the
//! streams (`../single_rows/`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use coscan_core::smooth::{Examined, JobId, PageRun, pages_bytes_max};
use coscan_storage::Piece;
use coscan_storage::pool::ChunkLease;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::Time;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;

use super::lapsing::Lapsing;
use crate::error::external;
use crate::probe::execution::{Open, SmoothExecution};
use crate::probe::fetched_rows::others;
use crate::probe::probing::Work;
use crate::probe::rows::{PieceColumns, ReadPages, pages_selected, select};
use crate::probe::single_rows::{DecodedPage, KeptPages, PickedRows};
use crate::read::pipeline::{Pipeline, Selection};
use crate::read::scan::{LeaseBatch, Positions};

/// The result of one step of a reader.
pub(crate) enum Found {
    /// Rows, in no order; possibly none.
    Rows(Vec<RecordBatch>),
    /// All rows with keys before the bound that [`Open::go_on_to`] set have been found.
    Bound,
    /// All rows have been found.
    End,
}

/// Finds the rows of one stream.
pub(crate) struct Reader {
    evaluator: Evaluator,
    context: Arc<TaskContext>,
    at: At,
}

/// Evaluates the predicate on pages and chunks that were read.
struct Evaluator {
    execution: Arc<SmoothExecution>,
    batch_rows: usize,
    computing: Time,
}

/// The state of a reader.
#[allow(clippy::large_enum_variant)] // One a stream.
enum At {
    Start,
    /// Reading the pages that the index lists.
    Probing {
        open: Arc<Open>,
        reading: FuturesUnordered<Reading>,
        more: More,
    },
    /// Between two chunks of the take-over scan.
    Scanning {
        open: Arc<Open>,
    },
    /// In a chunk of that scan, before batch number `batch`.
    InChunk {
        open: Arc<Open>,
        lease: ChunkLease,
        pipeline: Arc<Pipeline>,
        positions: Positions,
        batch: usize,
    },
    Finished,
}

/// Whether there are more reads to start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Yes,
    /// Only beyond the bound.
    Beyond,
    No,
}

/// What a job wants to read.
#[derive(Clone)]
struct Wanted {
    regions: Vec<Vec<PageRun>>,
    /// The job to report to the probe, if it wants a report.
    job: Option<JobId>,
    /// The positions of the wanted rows, ascending; `None` if all rows are wanted.
    positions: Option<Vec<u64>>,
}

/// What a job read.
#[derive(Default)]
struct Done {
    read: Vec<ReadPages>,
    /// The regions that were read, as ranges of pages.
    regions: Vec<Vec<Range<u32>>>,
    /// As in [`Wanted`].
    job: Option<JobId>,
    positions: Option<Vec<u64>>,
    /// Rows that came out of decoded pages.
    picked: Vec<PickedRows>,
}

type Reading = Lapsing<Result<Done>>;

impl Reader {
    pub(crate) fn new(
        execution: Arc<SmoothExecution>,
        context: Arc<TaskContext>,
        computing: Time,
    ) -> Self {
        Self {
            evaluator: Evaluator {
                execution,
                batch_rows: context.session_config().batch_size(),
                computing,
            },
            context,
            at: At::Start,
        }
    }

    /// The next rows. After an error the reader is at its end.
    ///
    /// # Errors
    /// Errors of reading, decoding and evaluating.
    pub(crate) async fn next(&mut self) -> Result<Found> {
        loop {
            match std::mem::replace(&mut self.at, At::Finished) {
                At::Start => {
                    self.at = At::Probing {
                        open: self.evaluator.execution.open(&self.context).await?,
                        reading: FuturesUnordered::new(),
                        more: More::Yes,
                    };
                }
                At::Probing {
                    open,
                    reading,
                    more,
                } => {
                    if let Some(found) = self.probe(open, reading, more).await? {
                        return Ok(found);
                    }
                }
                At::Scanning { open } => self.at = self.evaluator.next_chunk(open).await?,
                At::InChunk {
                    open,
                    lease,
                    pipeline,
                    positions,
                    batch,
                } => {
                    let Some(first) = positions.first_of(batch) else {
                        drop(lease);
                        self.at = At::Scanning { open };
                        continue;
                    };
                    let rows = self
                        .evaluator
                        .look_at_batch(&open, &lease, &pipeline, first, batch)
                        .await?;
                    self.at = At::InChunk {
                        open,
                        lease,
                        pipeline,
                        positions,
                        batch: batch + 1,
                    };
                    return Ok(Found::Rows(vec![rows]));
                }
                At::Finished => return Ok(Found::End),
            }
        }
    }

    /// Waits for the next pages that the index lists. `None`: the reader goes on at its next place.
    async fn probe(
        &mut self,
        open: Arc<Open>,
        mut reading: FuturesUnordered<Reading>,
        mut more: More,
    ) -> Result<Option<Found>> {
        let execution = &self.evaluator.execution;
        if more == More::Yes {
            more = begin_reads(execution, &open, &mut reading).await;
        }
        let begun = Instant::now();
        let done = reading.next().await;
        execution.metrics.waited.add_duration(begun.elapsed());
        if let Some(done) = done {
            let rows = self.evaluator.look_at(&open, &done?).await?;
            self.at = At::Probing {
                open,
                reading,
                more,
            };
            return Ok(Some(Found::Rows(rows)));
        }
        self.at = match more {
            More::No => At::Scanning { open },
            More::Yes | More::Beyond => At::Probing {
                open,
                reading,
                more: More::Yes,
            },
        };
        Ok((more == More::Beyond).then_some(Found::Bound))
    }
}

impl Evaluator {
    /// Evaluates the predicate on pages that were read, and reports to the probe what they
    /// contained.
    async fn look_at(&self, open: &Open, done: &Done) -> Result<Vec<RecordBatch>> {
        let metrics = &self.execution.metrics;
        let schema = &self.execution.plan.covered.schema;
        let mut found = Vec::new();
        let mut results: BTreeMap<u32, bool> = BTreeMap::new();
        let fetched = match done.positions {
            Some(_) => Arc::default(),
            None => open.fetched().await,
        };
        for read in &done.read {
            for (at, pages) in read.pieces.iter().enumerate() {
                let (first, rows) = (pages.position, rows_of(&pages.piece));
                let selection = match &done.positions {
                    Some(positions) => select(first, rows, positions),
                    None => others(&fetched, first, rows),
                };
                let source = PieceColumns {
                    bytes: &read.bytes,
                    piece: at,
                    waited: &metrics.waited,
                };
                let (batch, selected) = read
                    .pipeline
                    .rows(&source, rows, selection, schema, &self.computing)
                    .await?;
                let selected = pages_selected(&selected, page_rows(open, &pages.pages));
                results.extend(pages.pages.clone().zip(selected));
                found.push(batch);
            }
        }
        for picked in &done.picked {
            let (columns, rows) = (&picked.columns, picked.rows);
            let (batch, selected) = columns
                .pipeline
                .rows(columns, rows, Selection::All, schema, &self.computing)
                .await?;
            let first = picked.is_first_result(&selected);
            metrics.pages_with_results.add(usize::from(first));
            found.push(batch);
        }
        let with_results = results.values().filter(|found| **found).count();
        metrics.pages_with_results.add(with_results);
        let resources = &self.execution.plan.covered.resources;
        resources.add_pages_read(results.len() as u64);
        if let Some(job) = done.job {
            open.examined(job, &counted(&done.regions, &results)).await;
        }
        Ok(found)
    }

    /// The next chunk of the take-over scan, or the end.
    async fn next_chunk(&self, open: Arc<Open>) -> Result<At> {
        let lease = match open.take_over.get() {
            Some(take_over) => {
                let scan = open.running.scan(&take_over.run).await?;
                scan.next_chunk().await.map_err(external)?
            }
            None => None,
        };
        let Some(mut lease) = lease else {
            return Ok(At::Finished);
        };
        lease.set_batch_rows(self.batch_rows);
        let Some(pipeline) = open.running.pipelines[lease.index()].clone() else {
            return Ok(At::Scanning { open });
        };
        let first_row = open.first_rows[open.running.file_of(lease.index())];
        let positions = Positions::of(lease.info(), first_row, lease.batches());
        Ok(At::InChunk {
            open,
            lease,
            pipeline,
            positions,
            batch: 0,
        })
    }

    async fn look_at_batch(
        &self,
        open: &Open,
        lease: &ChunkLease,
        pipeline: &Pipeline,
        first: u64,
        batch: usize,
    ) -> Result<RecordBatch> {
        let rows = lease.batches().rows_of(batch);
        let schema = &self.execution.plan.covered.schema;
        let Some(take_over) = open.take_over.get() else {
            return Ok(RecordBatch::new_empty(Arc::clone(schema)));
        };
        let selection = take_over.selection(&open.map, first, rows);
        let source = LeaseBatch {
            lease,
            batch,
            waited: &self.execution.metrics.waited,
        };
        let found = pipeline
            .rows(&source, rows, selection, schema, &self.computing)
            .await?;
        Ok(found.0)
    }
}

/// Starts reads until enough are under way.
async fn begin_reads(
    execution: &Arc<SmoothExecution>,
    open: &Arc<Open>,
    reading: &mut FuturesUnordered<Reading>,
) -> More {
    let streams = execution.plan.partitions().max(1);
    let memory = execution.plan.covered.resources.memory();
    loop {
        let jobs = (open.jobs_max().await / streams).max(1);
        let others = memory.page_bytes() >= pages_bytes_max(memory.limit());
        if reading.len() >= jobs || (others && !reading.is_empty()) {
            return More::Yes;
        }
        let timer = execution.metrics.probing.timer();
        let work = open.next_work(&execution.plan, &execution.metrics).await;
        drop(timer);
        let read = match work {
            Work::Regions(regions, job) => {
                let wanted = Wanted {
                    regions,
                    job,
                    positions: None,
                };
                read_pages(execution, open, wanted)
            }
            Work::Rows(rows) => match &open.kept_pages {
                Some(kept) => fetch_rows(execution, open, kept, rows),
                None => read_pages(execution, open, Wanted::rows(open, rows)),
            },
            Work::Bound => return More::Beyond,
            Work::TakeOver(_) | Work::End => return More::No,
        };
        reading.push(read);
    }
}

impl Wanted {
    /// These rows, by page, out of pages that are read for them alone.
    fn rows(open: &Open, rows: Vec<(u32, Vec<u64>)>) -> Self {
        let runs = rows.iter().map(|(page, _)| PageRun {
            chunk: open.map.page(*page).chunk,
            pages: *page..page + 1,
        });
        let regions = vec![runs.collect()];
        let mut positions: Vec<u64> = rows.into_iter().flat_map(|(_, at)| at).collect();
        positions.sort_unstable();
        Self {
            regions,
            job: None,
            positions: Some(positions),
        }
    }
}

/// Reads the pages of a job.
fn read_pages(execution: &SmoothExecution, open: &Arc<Open>, wanted: Wanted) -> Reading {
    execution.metrics.regions.add(wanted.regions.len());
    let (reads, metrics) = (Arc::clone(open), execution.metrics.clone());
    Lapsing::new(&open.running.pool, move || {
        let (open, metrics, wanted) = (Arc::clone(&reads), metrics.clone(), wanted.clone());
        Box::pin(async move {
            let pages = |runs: &Vec<PageRun>| runs.iter().map(|run| run.pages.clone()).collect();
            let regions = wanted.regions.iter().map(pages).collect();
            let mut runs: Vec<PageRun> = wanted.regions.into_iter().flatten().collect();
            runs.sort_unstable_by_key(|run| run.pages.start);
            Ok(Done {
                read: open.read(&runs, &metrics).await?,
                regions,
                job: wanted.job,
                positions: wanted.positions,
                picked: Vec::new(),
            })
        })
    })
}

/// Takes rows, by page, out of pages that are read and decoded once while they are kept.
fn fetch_rows(
    execution: &Arc<SmoothExecution>,
    open: &Arc<Open>,
    kept: &Arc<KeptPages<DecodedPage>>,
    rows: Vec<(u32, Vec<u64>)>,
) -> Reading {
    execution.metrics.regions.add(1);
    let (theirs, reads, kept) = (Arc::clone(execution), Arc::clone(open), Arc::clone(kept));
    Lapsing::new(&open.running.pool, move || {
        let picked: Vec<_> = rows
            .iter()
            .map(|(number, positions)| {
                let (execution, open) = (Arc::clone(&theirs), Arc::clone(&reads));
                let (number, positions) = (*number, positions.clone());
                let page = kept.page(number, || {
                    Box::pin(async move {
                        let page = open.decoded_page(number, &execution.metrics).await?;
                        let read = u64::from(page.is_some());
                        execution.plan.covered.resources.add_pages_read(read);
                        Ok(page)
                    })
                });
                async move { page.await?.map(|page| page.pick(&positions)).transpose() }
            })
            .collect();
        Box::pin(async move {
            let picked = try_join_all(picked).await?;
            Ok(Done {
                picked: picked.into_iter().flatten().collect(),
                ..Done::default()
            })
        })
    })
}

/// What each region contained. Pages that statistics ruled out are counted separately: they cost
/// nothing, and say nothing about the others.
fn counted(regions: &[Vec<Range<u32>>], results: &BTreeMap<u32, bool>) -> Vec<Examined> {
    let of = |region: &Vec<Range<u32>>| {
        let mut examined = Examined::default();
        for page in region.iter().cloned().flatten() {
            match results.get(&page) {
                Some(found) => {
                    examined.pages += 1;
                    examined.with_results += u32::from(*found);
                }
                None => examined.pruned += 1,
            }
        }
        examined
    };
    regions.iter().map(of).collect()
}

fn rows_of(piece: &Piece) -> usize {
    usize::try_from(piece.rows.end - piece.rows.start).unwrap_or(usize::MAX)
}

fn page_rows<'a>(open: &'a Open, pages: &Range<u32>) -> impl Iterator<Item = u64> + 'a {
    pages.clone().map(|page| open.map.page(page).rows())
}
